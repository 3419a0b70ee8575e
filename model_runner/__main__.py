"""``python -m model_runner bench|prepare|serve|worker``: see each command's ``--help``."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "bench": ("model_runner.bench", "run a workload without a page and write what was measured"),
    "serve": ("model_runner.serve", "the runner and its HTTP API, without a page"),
    "prepare": ("model_runner.prepare", "convert the default model once, so that every start is quick"),
    "worker": ("model_runner.worker", "the engine process of a dashboard"),
}
"""Subcommand -> (module whose main(argv) answers it, what it does). Modules are imported only when asked for."""


def main(argv: list[str]) -> int:
    """Dispatch to a subcommand; 2 = there is no such command."""
    if argv and argv[0] in COMMANDS:
        module, _ = COMMANDS[argv[0]]
        return int(importlib.import_module(module).main(argv[1:]) or 0)
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {help_text}" for name, (_, help_text) in COMMANDS.items()]
    print("usage: python -m model_runner COMMAND ...\n\n" + "\n".join(lines), file=sys.stderr)
    return 0 if argv[:1] in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
