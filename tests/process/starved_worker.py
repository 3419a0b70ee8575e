"""A real worker that gets no more memory once it has started: its address space is limited to what it has by then."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from model_runner.worker import run, start_engine

ROOM_BYTES = 2**20


def start(spec, transport, progress):
    started = start_engine(spec, transport, progress)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return started


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], start))
