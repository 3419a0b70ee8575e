"""``python -m experiments COMMAND``: workloads, experiments, reports and cards without a page."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "run": ("experiments.runs.command", "run the experiment of a spec, or go on with one"),
    "report": ("experiments.runs.report", "tables of what a folder of results says"),
    "trace": ("experiments.traces.command", "read, make or scale a workload"),
    "whatif": ("experiments.virtual.command", "the same scheduler on a virtual clock"),
    "card": ("experiments.cards.command", "the claim card of a comparison"),
    "export": ("experiments.exports.command", "write runs for other tools"),
}
"""Subcommand -> (module with ``add_arguments(parser)`` and ``main(options) -> int``, what it does). Modules are
imported only when asked for, so that none waits for the libraries of another."""


def main(argv: Sequence[str]) -> int:
    """Dispatch to a subcommand; 2 = there is no such command."""
    if argv and argv[0] in COMMANDS:
        module_name, help_text = COMMANDS[argv[0]]
        module = importlib.import_module(module_name)
        parser = argparse.ArgumentParser(prog=f"python -m experiments {argv[0]}", description=help_text)
        module.add_arguments(parser)
        try:
            return int(module.main(parser.parse_args(argv[1:])))
        except BrokenPipeError:  # who reads has seen enough, as "head" has; nothing more can be said to it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
    lines = [f"  {name:<8}{help_text}" for name, (_, help_text) in COMMANDS.items()]
    print("usage: python -m experiments COMMAND ...\n\n" + "\n".join(lines), file=sys.stderr)
    return 0 if list(argv[:1]) in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
