"""A folder of results: begun anew while it holds no run, and no half-written file left in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.runs.arms import order_of_runs
from experiments.runs.folder import ExperimentFolder, Manifest, write_whole
from experiments.runs.spec import parse_spec

TEXT = """
kind = "ab"
seed = {seed}
[a]
[b]
[trace.generate]
num_requests = 2
arrivals = "burst:size=0"
prompt = "fixed:tokens=4"
output = "fixed:tokens=2"
"""
PLANNED = order_of_runs(("a", "b"), 1)


def test_a_folder_without_a_run_takes_a_spec_that_was_put_right(tmp_path: Path):
    """The engine refused the first one; the other has another workload, so nothing of the first may stay."""
    folder = ExperimentFolder(tmp_path)
    with folder.working():
        folder.begin(Manifest(parse_spec(TEXT.format(seed=9)), "0", PLANNED))
        (tmp_path / "trace.json").write_text("of the first")
        right = Manifest(parse_spec(TEXT.format(seed=3)), "1", PLANNED)
        assert folder.begin(right) == folder.manifest() == right
        assert not (tmp_path / "trace.json").exists()
        settled = folder.settle(right, {"threads": 1})
        assert folder.begin(right) == settled, "the same spec goes on with what was settled"


def test_a_file_that_cannot_be_written_leaves_nothing_beside_it(tmp_path: Path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "taken", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
