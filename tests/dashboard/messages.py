"""Finds every message the page may show: calls of ``t`` and ``N_``, those inside f-strings included."""

from __future__ import annotations

import ast
from pathlib import Path

from scheduler import PRESET_NOTES

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"


def messages() -> dict[str, str]:
    """Message id to the file that uses it. A call of ``t`` with a constant that is not a text is left out."""
    found = {note.description: "presets" for note in PRESET_NOTES.values()}
    for path in sorted(DASHBOARD.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("t", "N_")
            if is_call and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                found.setdefault(node.args[0].value, path.name)
    return found
