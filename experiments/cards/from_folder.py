"""The card of a folder of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.cards.build import build_card
from experiments.cards.card import Card
from experiments.cards.chunk import build_chunk_card
from experiments.cards.encode import CardError
from experiments.cards.factorial import build_factorial_card
from experiments.cards.facts import Facts
from experiments.record import Run
from experiments.runs.folder import Manifest, load_manifest, load_runs
from experiments.runs.report import slo_of


def card_of(folder: Path) -> Card:
    """Of the runs that are there, finished or not.

    Raises SpecError for a folder that holds no experiment or a file that cannot be read, CardError for an experiment
    that compares nothing.
    """
    return card_of_runs(load_manifest(folder), load_runs(folder), folder.name)


def card_of_runs(manifest: Manifest, runs: Sequence[Run], name: str) -> Card:
    """``name``: title where the spec has none. Raises CardError as ``card_of``."""
    spec, claim = manifest.spec, manifest.spec.claim
    facts = Facts(spec.name or name, claim.tuned, claim.tuning, claim.headline, len(manifest.runs))
    arms = _by_label(manifest, runs)
    try:
        if spec.kind == "ab":
            (a, runs_a), (b, runs_b) = arms.items()
            return build_card(runs_a, runs_b, facts, slo_of(spec.slo), labels=(a, b))
        if spec.kind == "factorial":
            return build_factorial_card(runs, facts, slo_of(spec.slo))
        if spec.chunk is not None:
            return build_chunk_card(tuple(arms.items()), spec.chunk.long_prompt_len, facts, slo_of(spec.slo))
    except ValueError as error:
        raise CardError(f"{name}: {error}") from error
    raise CardError(f"kind is {spec.kind!r}, expected 'ab', 'factorial' or 'chunk': one arm alone is no comparison")


def _by_label(manifest: Manifest, runs: Sequence[Run]) -> Mapping[str, Sequence[Run]]:
    """Runs of each planned arm, the arms in the order of the spec; () where an arm has none yet."""
    labels = dict.fromkeys(planned.label for planned in manifest.runs)
    return {label: tuple(run for run in runs if run.label == label) for label in labels}
