"""A file made at a click is still there when a slow browser asks for it: Streamlit's own manager, with ticks."""

from __future__ import annotations

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager, MediaFileMetadata
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from dashboard.kept_files import KEPT_S, keep_files


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch):
    for name in ("mark_for_delete", "is_marked_for_delete"):
        monkeypatch.setattr(MediaFileMetadata, name, getattr(MediaFileMetadata, name))  # put back after the test
    clock = Clock()
    keep_files(clock)
    return clock


def test_a_file_outlives_the_ticks_of_all_pages_for_a_minute_and_is_then_let_go(clock):
    manager = MediaFileManager(MemoryMediaFileStorage("/media"))
    made = manager.add_deferred(lambda: b"a,b\n", "text/csv", "0.1", "table.csv")
    name = manager.execute_deferred(made).rpartition("/")[2].partition(".")[0]
    for _ in range(20):
        clock.at += (KEPT_S - 1) / 20
        manager.remove_orphaned_files()
        assert manager.read_file(name).content == b"a,b\n"
    clock.at += KEPT_S
    manager.remove_orphaned_files()
    assert manager.read_file(name) is None
