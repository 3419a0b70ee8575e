"""Finds every message a page or a card may show: calls of ``t`` and ``N_``, those inside f-strings included."""

from __future__ import annotations

import ast
from pathlib import Path

from experiments.analysis import microscope
from experiments.analysis.factorial import FACTORS, NOTHING_TO_OVERCOMMIT
from experiments.analysis.metrics import METRICS
from experiments.runs.conditions import MEASURED_WHERE
from scheduler import PRESET_NOTES

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "dashboard"
EXPERIMENTS = ROOT / "experiments"


def messages(package: Path = DASHBOARD) -> dict[str, str]:
    """Message id to the file that uses it. A call of ``t`` with a constant that is not a text is left out."""
    found = said_by_constants(package)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("t", "N_")
            if is_call and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                found.setdefault(node.args[0].value, path.name)
    return found


def said_by_constants(package: Path) -> dict[str, str]:
    """Messages that packages below hold as data, without knowing of translation."""
    if package == EXPERIMENTS:
        names = {factor.name: "factorial" for factor in FACTORS} | {NOTHING_TO_OVERCOMMIT: "factorial"}
        return (
            names
            | {metric.formula: "metrics" for metric in METRICS.values()}
            | {microscope.RULE: "microscope"}
            | {MEASURED_WHERE: "conditions"}
        )
    return {note.description: "presets" for note in PRESET_NOTES.values()}
