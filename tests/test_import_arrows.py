"""Imports point one way: dashboard -> experiments -> model_runner -> scheduler -> the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = {"scheduler", "model_runner", "experiments", "dashboard"}

ALLOWED = {
    "scheduler": set(),
    "model_runner": {
        "scheduler", "torch", "msgspec", "zmq", "safetensors", "tokenizers", "gguf", "jinja2", "numpy", "starlette",
        "uvicorn", "prometheus_client",
    },
    "experiments": {"model_runner", "scheduler", "numpy", "pandas", "msgspec", "pyarrow", "joblib", "ray", "babel"},
    "dashboard": {
        "experiments", "model_runner", "scheduler", "streamlit", "altair", "pandas", "pyarrow", "numpy", "babel",
        "starlette", "segno", "msgspec",
    },
}  # fmt: skip
"""Package -> what it may import beside itself and the standard library."""

HEAVY = {"torch", "gguf", "safetensors", "tokenizers"}
"""Third parties of the runner that a page must never load: it talks to the runner through its client."""


def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, dotted module) of every import in a file, wherever it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found.append((node.lineno, node.module or ""))
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def files_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_no_import_points_the_wrong_way(package: str) -> None:
    wrong = []
    for path in files_of(package):
        for line, module in imports_of(path):
            top = module.partition(".")[0]
            if top == package or top in ALLOWED[package] or (top in sys.stdlib_module_names and top not in OURS):
                continue
            wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_the_scheduler_package_is_here_and_imports_the_standard_library_only() -> None:
    assert len(files_of("scheduler")) > 15


def test_a_wrong_arrow_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def late():\n    import torch\n    from dashboard.live import page\n", encoding="utf-8")
    assert [module for _, module in imports_of(path)] == ["torch", "dashboard.live", "dashboard.live.page"]


def reachable(start: str) -> dict[str, str]:
    """Modules of ours that importing ``start`` loads at once -> who imports them; late imports do not count."""
    seen = {start: ""}
    queue = [start]
    while queue:
        module = queue.pop()
        for path in (ROOT / f"{module.replace('.', '/')}.py", ROOT / module.replace(".", "/") / "__init__.py"):
            if not path.is_file():
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
                for name in names:
                    if name not in seen:
                        seen[name] = module
                        queue.append(name)
    return seen


@pytest.mark.skipif(not (ROOT / "model_runner" / "client.py").is_file(), reason="no client yet")
def test_the_pages_client_loads_nothing_heavy() -> None:
    seen = reachable("model_runner.client")
    heavy = {name: seen[name] for name in seen if name.partition(".")[0] in HEAVY}
    assert not heavy, f"model_runner.client loads {heavy}"
