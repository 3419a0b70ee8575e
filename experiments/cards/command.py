"""``python -m experiments card FOLDER``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.cards.encode import CardError, to_json
from experiments.cards.from_folder import card_of
from experiments.cards.markdown import to_markdown
from experiments.runs.folder import write_whole
from experiments.runs.spec import SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``card``."""
    parser.add_argument("folder", type=Path, help="folder of results, from python -m experiments run")
    parser.add_argument("--language", choices=("en", "ko"), default="en", help="of the Markdown (default: en)")
    parser.add_argument("--format", choices=("md", "json"), default="md", help="md = Markdown (default)")
    parser.add_argument("--out", type=Path, help="file to write; default: standard output")


def main(options: argparse.Namespace) -> int:
    """0 = the card has a headline, 1 = conditions are missing and the card says which, 2 = the input is wrong."""
    try:
        card = card_of(options.folder)
        data = to_json(card) if options.format == "json" else to_markdown(card, options.language).encode()
        if options.out is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            write_whole(options.out, data)
    except (SpecError, CardError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = options.out or "standard output"
        print(
            f"error: --out {where}: {error.strerror or error}; name a file in a folder that is there", file=sys.stderr
        )
        return 2
    for reason in card.withheld:
        print(f"no headline: {reason.told(options.language)}", file=sys.stderr)
    return 1 if card.withheld else 0
