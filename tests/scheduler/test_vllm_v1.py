"""Preset ``vllm-v1`` decides exactly what vLLM's V1 scheduler decides."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from scheduler.__main__ import main
from tests.scheduler.reference_vllm import run
from tests.scheduler.workloads import random_workload, sharing_workload, tied_workload

TRACES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "vllm"
MOST_STEPS = 4_000
"""No workload drawn here takes so many steps unless it never ends."""
NAMES = {"running": "running_after", "waiting": "waiting_after"}


def replay(tmp_path: Path, workload: Path, *flags: str) -> list[dict]:
    out = tmp_path / "steps.jsonl"
    assert main(["replay", str(workload), "--policy", "vllm-v1", "--out", str(out), *flags]) == 0
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


@pytest.mark.skipif(not TRACES.is_dir(), reason="vLLM's traces are not here")
@pytest.mark.parametrize("name", ["w2_tight_preempt", "x7_priority_tight"])
def test_replay_gives_vllms_own_trace_step_by_step(name: str, tmp_path: Path) -> None:
    steps = replay(tmp_path, TRACES / f"{name}_workload.json", "--max-model-len", "2048")
    trace = json.loads((TRACES / f"{name}_trace.json").read_text(encoding="utf-8"))["steps"]
    assert len(steps) == len(trace)
    for ours, theirs in zip(steps, trace, strict=True):
        assert list(ours["num_scheduled_tokens"]) == theirs["order"]
        assert ours == {field: theirs[NAMES.get(field, field)] for field in ours}


@pytest.mark.parametrize("block_of_seeds", range(3))
def test_replay_gives_the_reference_rules_schedule_with_prefix_caching(block_of_seeds: int, tmp_path: Path) -> None:
    hits = evictions = 0
    for seed in range(block_of_seeds * 60, (block_of_seeds + 1) * 60):
        workload = sharing_workload(seed)
        path = tmp_path / "workload.json"
        path.write_text(json.dumps(workload), encoding="utf-8")
        expected = run(workload["config"], workload["requests"], max_steps=MOST_STEPS)
        if len(expected) < MOST_STEPS:
            assert replay(tmp_path, path) == expected, f"seed {seed}"
            hits += expected[-1]["prefix_cache_hits"]
            evictions += sum(len(step["preempted"]) for step in expected)
    assert hits > 1_000
    assert evictions > 100


@pytest.mark.parametrize("block_of_seeds", range(8))
def test_replay_gives_the_reference_rules_schedule_on_random_workloads(block_of_seeds: int, tmp_path: Path) -> None:
    evictions = endless = 0
    for seed in range(block_of_seeds * 60, (block_of_seeds + 1) * 60):
        workload = random_workload(seed)
        path = tmp_path / "workload.json"
        path.write_text(json.dumps(workload), encoding="utf-8")
        expected = run(workload["config"], workload["requests"], max_steps=MOST_STEPS)
        steps = replay(tmp_path, path)
        if len(expected) == MOST_STEPS:
            # vLLM evicts two requests of equal priority and arrival in turn for ever; here they end.
            assert sum(len(step["finished"]) for step in steps) == len(workload["requests"])
            endless += 1
            continue
        assert steps == expected, f"seed {seed}"
        assert [list(s["num_scheduled_tokens"]) for s in steps] == [list(s["num_scheduled_tokens"]) for s in expected]
        evictions += sum(len(step["preempted"]) for step in steps)
    assert evictions > 100, "the workloads must be tight enough to tell right from wrong"
    assert endless <= 3, "nearly all workloads must be compared step by step"


def test_equals_evicted_in_turn_while_others_get_on_are_evicted_as_by_the_reference_rules(tmp_path: Path) -> None:
    most_in_turn = endless = 0
    for seed in range(60):
        workload = tied_workload(seed)
        path = tmp_path / "workload.json"
        path.write_text(json.dumps(workload), encoding="utf-8")
        expected = run(workload["config"], workload["requests"], max_steps=MOST_STEPS)
        steps = replay(tmp_path, path)
        assert sum(len(step["finished"]) for step in steps) == len(workload["requests"]), f"seed {seed} does not end"
        if len(expected) == MOST_STEPS:
            endless += 1
            continue
        assert steps == expected, f"seed {seed}"
        evicted = Counter(name for step in expected for name in step["preempted"])
        most_in_turn = max(most_in_turn, max(evicted.values(), default=0))
    assert most_in_turn > 20, "a rule that gives up early must be told from vLLM's"
    assert 0 < endless < 30, "both kinds must be drawn"
