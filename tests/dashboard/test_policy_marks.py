"""Rules across the charts: none is lost, and their words do not cover each other."""

from __future__ import annotations

from itertools import pairwise

from dashboard.arrow import decode
from dashboard.history import StepFacts
from dashboard.policy_marks import COLUMNS_PER_CHAR, marks_table, merged_changes
from model_runner.views import Mark


def facts(steps: int) -> list[StepFacts]:
    return [
        StepFacts("run", i, i, 0.1 * i, (), (), {}, 128, 8, 1, 0, 1, 9, 9, 1, 0) for i in range(steps)
    ]  # fmt: skip


def changes(*steps: int) -> list[Mark]:
    return [Mark("policy", "run", s, 0.0, i + 2, f"max_num_seqs {i} -> {i + 1}") for i, s in enumerate(steps)]


def test_changes_in_quick_succession_are_told_as_one():
    assert merged_changes(["a 1 -> 2; b x -> y", "a 2 -> 5", "b y -> x"]) == "a 1 → 5"
    assert merged_changes(["paused False -> True", "a 1 -> 2"]) == "a 1 → 2; paused on"
    assert merged_changes(["kv_block_limit 72 -> None"]) == "kv_block_limit 72 → all"


def test_every_change_has_its_rule_and_neighbours_share_their_words():
    table = decode(marks_table(changes(10, 12, 15, 60), facts(100), 0, 120))
    assert table["x"] == [10, 12, 15, 60]
    assert [t for t in table["t"] if t] == ["v4 max_num_seqs 0 → 3", "v5 max_num_seqs 3 → 4"]


def test_words_never_cover_each_other():
    table = decode(marks_table(changes(*range(5, 115, 13)), facts(120), 0, 120))
    spans: dict[int, list[tuple[float, float]]] = {}
    for x, text, row, left in zip(table["x"], table["t"], table["l"], table["h"], strict=True):
        if text:
            width = len(text) * COLUMNS_PER_CHAR
            spans.setdefault(row, []).append((x - width, x) if left else (x, x + width))
    for row in spans.values():
        row.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(row))
    assert table["t"][-1], "the newest change is always told"
