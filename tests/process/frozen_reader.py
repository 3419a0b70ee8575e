"""A reader in a process of its own, to be frozen: ``python frozen_reader.py COMMANDS SNAPSHOTS`` prints a line when it
hears the engine, then reads until it is ended."""

from __future__ import annotations

import sys

from model_runner.link import ReaderLink


def main() -> None:
    link = ReaderLink(*sys.argv[1:])
    heard = 0
    while True:
        link.sub.poll(100)
        found = link.snapshots()
        if found and not heard:
            print("hears", flush=True)
        heard += len(found)


if __name__ == "__main__":
    main()
