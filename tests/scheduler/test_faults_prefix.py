# ruff: noqa: N802  faults keep the spelling of their numbers
"""Faults F19, F20 and F51 of the catalogue where prefixes are shared. Blocks have four tokens."""

from __future__ import annotations

from scheduler import Request, SamplingParams
from tests.scheduler.helpers import bench, request


def test_F19_tokens_are_counted_after_the_prefix_was_found() -> None:
    """A and B begin with the same two blocks: of B's 11 tokens 11 - 2 x 4 are left."""
    made = bench([request("A", 9, 2)], num_blocks=16, enable_prefix_caching=True)
    made.drain()
    shared = (*range(8), 77, 78, 79)
    made.add(Request("B", shared, SamplingParams(max_tokens=2)))
    made.step()
    assert made.plan(-1) == {"B": 3}
    assert made.steps[-1].positions_start == {"B": 8}
    assert made.snapshots[-1].running[0].num_cached_tokens == 8


def test_F20_of_a_prompt_that_is_cached_whole_the_last_token_is_computed() -> None:
    """Eight tokens are two whole blocks. The second is computed again, since a token must come out of it."""
    made = bench([request("A", 8, 3)], num_blocks=16, enable_prefix_caching=True)
    made.drain()
    made.add(request("B", 8, 3))
    made.step()
    assert made.plan(-1) == {"B": 4}
    assert made.steps[-1].sampling_ids == ("B",)
    made.drain()
    assert made.scheduler.totals.output_tokens == 6


def test_F51_blocks_found_again_after_an_eviction_are_no_recomputed_work() -> None:
    """What is found is not computed, so computed tokens are what the steps planned, each counted once."""
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7, enable_prefix_caching=True)
    made.drain()
    totals = made.scheduler.totals
    planned = sum(sum(step.num_scheduled_tokens.values()) for step in made.steps)
    assert totals.prefill_tokens + totals.decode_tokens + totals.recompute_tokens == planned
    assert totals.output_tokens == 18
