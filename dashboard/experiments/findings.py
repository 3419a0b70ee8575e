"""What the runs of a folder say: computed once for each folder and number of runs, for all viewers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dashboard.experiments.entry import Entry
from dashboard.i18n import LANGUAGES
from experiments.analysis.attribution import Factorial, attribute
from experiments.analysis.comparison import Comparison, compare
from experiments.analysis.goodput_plane import Gaming, Race, default_limits, gaming, race
from experiments.analysis.ledger import Line, before_and_after, disagreements
from experiments.analysis.microscope import Microscope, microscope
from experiments.analysis.rosetta import Rosetta, rosetta
from experiments.analysis.samples import Slo
from experiments.cards.card import Card
from experiments.cards.encode import CardError
from experiments.cards.from_folder import card_of_runs
from experiments.cards.plain import PlainCard, plain_card
from experiments.record import Run
from experiments.runs.folder import Manifest, load_runs
from experiments.runs.report import by_label, slo_of
from experiments.runs.spec import SpecError

T = TypeVar("T")

KEPT: Final = 8
"""Folders whose findings are kept made."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Parts are None where the kind has none, or the runs are not enough for it: ``problems`` then says why.

    arms: label -> runs made. before, after: labels of what comparison, ledger and plane compare. notes: from the runs
    themselves, in English: what a reader must know before believing any of it. plain_cards: by language.
    """

    arms: Mapping[str, int] = field(default_factory=dict)
    before: str = ""
    after: str = ""
    slo: Slo | None = None
    comparison: Comparison | None = None
    factorial: Factorial | None = None
    microscope: Microscope | None = None
    ledger: tuple[Line, ...] = ()
    plane: Race | None = None
    gaming: Mapping[str, tuple[Gaming, ...]] = field(default_factory=dict)
    rosetta: Rosetta | None = None
    card: Card | None = None
    plain_cards: Mapping[str, PlainCard] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class FindingsBook:
    """Makes findings in a thread of its own, so that no page waits and no two make the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="findings")
        self._made: OrderedDict[tuple[str, int], Future[Findings]] = OrderedDict()

    def get(self, entry: Entry) -> Findings | None:
        """None while they are being made. Raises whatever making them did."""
        if entry.manifest is None:
            return Findings()
        with self._lock:
            future = self._made.get(entry.version)
            if future is None:
                future = self._made[entry.version] = self._pool.submit(make, entry, entry.manifest)
            self._made.move_to_end(entry.version)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        return future.result() if future.done() else None

    def is_made(self, entry: Entry) -> bool:
        """Whether ``get`` would answer at once."""
        with self._lock:
            future = self._made.get(entry.version)
        return future is not None and future.done()


def make(entry: Entry, manifest: Manifest) -> Findings:
    """Everything that the runs of a folder allow. Raises SpecError for a file that cannot be read."""
    return findings_of(manifest, load_runs(entry.path) if (entry.path / "runs").is_dir() else (), entry.name)


def findings_of(manifest: Manifest, runs: Sequence[Run], name: str) -> Findings:
    """``make`` from runs in memory."""
    if not runs:
        return Findings()
    spec, arms, slo = manifest.spec, by_label(runs, manifest), slo_of(manifest.spec.slo)
    made = _Making()
    before, after = _ends(spec.kind, list(arms))
    a, b = arms.get(before, []), arms.get(after, [])
    factorial = made(lambda: attribute(runs, slo)) if spec.kind == "factorial" else None
    scope = None
    if spec.chunk is not None:
        long_prompt_len = spec.chunk.long_prompt_len
        scope = made(lambda: microscope(runs, long_prompt_len))
    comparison = factorial.before_after if factorial else None
    if comparison is None and a and b:
        comparison = made(lambda: compare(a, b, slo))
    card = made(lambda: card_of_runs(manifest, runs, name)) if spec.kind != "single" else None
    return Findings(
        {label: len(arm) for label, arm in arms.items()},
        before,
        after,
        slo,
        comparison,
        factorial,
        scope,
        before_and_after(a, b) if a and b else (),
        made(lambda: race(a, b, *default_limits([*a, *b]))) if a and b else None,
        {label: gaming(arms[label][0], slo) for label in (before, after) if slo and arms.get(label)},
        made(lambda: rosetta(arms[after][-1])) if b else None,
        card,
        {language: plain_card(card, language) for language in LANGUAGES} if card else {},
        tuple(f"{run.label}, repeat {run.repeat + 1}: {text}" for run in runs for text in _told(run)),
        tuple(made.problems),
    )


def _ends(kind: str, labels: Sequence[str]) -> tuple[str, str]:
    """What is compared with what: "0000" with "1111" in a factorial, else the first arm with the last."""
    if kind == "factorial":
        return "0000", "1111"
    return (labels[0], labels[-1]) if len(labels) > 1 else (labels[0] if labels else "", "")


def _told(run: Run) -> tuple[str, ...]:
    return (*((f"stopped early: {run.stopped}",) if run.stopped else ()), *disagreements(run))


class _Making:
    """Calls what makes a part, and notes why one cannot be made."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def __call__(self, part: Callable[[], T]) -> T | None:
        try:
            return part()
        except (ValueError, CardError, SpecError) as error:
            self.problems.append(str(error))
            return None
