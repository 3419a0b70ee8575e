"""Whatever files register is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler import custom
from scheduler.registry import REGISTRIES


@contextmanager
def registries_restored() -> Iterator[None]:
    """The registries, and what ``scheduler.custom`` remembers, are as before when the block ends."""
    before = {field: dict(registry._entries) for field, registry in REGISTRIES.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(custom, "_loaded", [])
        patch.setattr(custom, "_faults", [])
        patch.setattr(custom, "_folders", set())
        yield
    for field, entries in before.items():
        REGISTRIES[field]._entries = entries
