"""``python -m experiments report FOLDER``: what the results of a folder say, as text or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from experiments.analysis.attribution import attribute
from experiments.analysis.comparison import compare
from experiments.analysis.ledger import before_and_after, disagreements
from experiments.analysis.metrics import measure
from experiments.analysis.microscope import microscope
from experiments.analysis.samples import Slo
from experiments.record import Run
from experiments.runs.folder import Manifest, load_manifest, load_runs
from experiments.runs.progress import read_progress
from experiments.runs.report_text import render
from experiments.runs.spec import SloTable, Spec, SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``report``."""
    parser.add_argument("folder", type=Path, help="the --out of a run")
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.add_argument("--all", action="store_true", help="every metric instead of the most asked-for")


def main(options: argparse.Namespace) -> int:
    """0 = told, 2 = there is nothing to tell, and why."""
    try:
        report = report_of(options.folder)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=1) if options.json else render(report, everything=options.all))
    return 0


def slo_of(table: SloTable) -> Slo | None:
    """The limits of a spec; None where it has none."""
    slo = Slo(table.ttft_s, table.tpot_s, table.e2e_s)
    return None if slo == Slo() else slo


def report_of(folder: Path) -> dict[str, Any]:
    """All that a report says, as JSON takes it. Raises SpecError where there is no run.

    arms: metrics of each arm, run by run. By the kind of the experiment, once enough runs are there: comparison and
    ledgers of ``ab``, attribution of ``factorial``, microscope of ``chunk``. notes: what a reader must know before
    believing any of it.
    """
    manifest, runs = load_manifest(folder), load_runs(folder)
    if not runs:
        raise SpecError(f"{folder}: no run is finished yet")
    spec = manifest.spec
    slo, arms = slo_of(spec.slo), by_label(runs, manifest)
    report: dict[str, Any] = {
        "name": spec.name or spec.kind,
        "kind": spec.kind,
        "runs": {"done": len(runs), "planned": len(manifest.runs)},
        "trace": {
            "name": runs[0].trace_name,
            "sha256": runs[0].trace_sha256,
            "requests": len(runs[0].requests),
            "origin": runs[0].trace_origin,
        },
        "conditions": runs[-1].conditions,
        "arms": {label: [_levels(run, slo) for run in arm] for label, arm in arms.items()},
        "notes": _notes(folder, manifest, runs, slo),
    }
    try:
        report |= _of_kind(spec, arms, slo)
    except ValueError as error:
        report["notes"].append(str(error))
    read_back: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(report, enc_hook=_plain))
    return read_back


def by_label(runs: Sequence[Run], manifest: Manifest) -> dict[str, list[Run]]:
    """Runs of each arm that has any, arms in the order of the spec."""
    arms: dict[str, list[Run]] = {planned.label: [] for planned in manifest.runs if planned.repeat == 0}
    for run in runs:
        arms[run.label].append(run)
    return {label: arm for label, arm in arms.items() if arm}


def _levels(run: Run, slo: Slo | None) -> dict[str, Any]:
    return {
        "repeat": run.repeat,
        "position": run.position,
        "wall_s": run.wall_s,
        "cpu_s": run.cpu_s,
        "steps": len(run.steps),
        "preemptions": run.totals.preemptions,
        "outcomes": {
            name: sum(row.outcome == name for row in run.requests) for name in ("finished", "unfinished", "rejected")
        },
        "overhead_share": run.conditions.overhead_share,
        "load": run.conditions.machine.get("load"),
        "stopped": run.stopped,
        "metrics": measure(run, slo),
    }


def _of_kind(spec: Spec, arms: Mapping[str, list[Run]], slo: Slo | None) -> dict[str, Any]:
    """What only experiments of this kind say. Raises ValueError while the runs are not enough for it."""
    every = [run for arm in arms.values() for run in arm]
    if spec.kind == "ab" and len(arms) == 2:
        a, b = arms.values()
        return {"comparison": compare(a, b, slo), "ledgers": before_and_after(a, b)}
    if spec.kind == "factorial":
        return {"attribution": attribute(every, slo)}
    if spec.chunk is not None and len(arms) > 1:
        return {"microscope": microscope(every, spec.chunk.long_prompt_len)}
    return {}


def _notes(folder: Path, manifest: Manifest, runs: Sequence[Run], slo: Slo | None) -> list[str]:
    notes = []
    progress = read_progress(folder)
    if len(runs) < len(manifest.runs):
        state = progress.state if progress else "unknown"
        notes.append(f"{len(manifest.runs) - len(runs)} runs are missing ({state}); the command that began goes on")
    if slo is None:
        notes.append("no limits in [slo], so there is no goodput")
    for name in ("versions", "machine", "dtype", "threads"):
        values = [_steady(getattr(run.conditions, name)) for run in runs]
        if any(value != values[0] for value in values):
            notes.append(f"the runs differ in {name}: they were made in several starts, on something that changed")
    for run in runs:
        where = f"{run.label}, repeat {run.repeat}"
        if run.stopped:
            notes.append(f"{where} stopped early: {run.stopped}")
        notes += [f"{where}: {text}" for text in disagreements(run)]
    return notes


def _steady(value: Any) -> Any:
    """The load is another one before every run; all else must stay."""
    return {name: each for name, each in value.items() if name != "load"} if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value)
    if hasattr(value, "tolist"):  # numpy
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} in a report")
