"""What lies in the KV blocks: every token that a step attends to is where the block table says, come what may.

The device is played by a table that notes, for each slot of each block, which tokens its key and value were computed
from. A step makes its moves, writes its tokens and then reads all tokens of its rows, as the runner does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from scheduler import ScheduleStep, StepSnapshot
from tests.scheduler.trace_driver import Driver

SEEDS_A_BLOCK = 100

Slot = tuple[int, ...]
"""All tokens up to and including the one in the slot: equal slots hold equal keys and values."""


class Device(Driver):
    """A trace whose steps are carried out. A lost step is carried out whole, or up to its moves, or not at all."""

    def __init__(self, seed: int, pinned: Mapping[str, str]) -> None:
        super().__init__(seed, pinned)
        self.luck = random.Random(f"device {seed}")
        self.blocks: dict[tuple[int, int], Slot] = {}
        self.host: dict[tuple[int, int], Slot] = {}
        self.known: dict[str, list[int]] = {}
        self.seen: Counter[str] = Counter()

    def execute(self, step: ScheduleStep, *, lost: bool) -> None:
        for request in step.new_requests:
            self.known[request.request_id] = [*request.prompt_token_ids, *request.prior_output_token_ids]
        done = self.luck.choice(("whole", "moves", "nothing")) if lost else "whole"
        if done != "nothing":
            self._move(step)
        if done == "whole":
            self._write(step)
        if not lost:
            self._read(step)

    def keep(self, snapshot: StepSnapshot) -> None:
        super().keep(snapshot)
        for request_id, token in snapshot.new_tokens.items():
            self.known[request_id].append(token)
        self.seen["shared"] += len(snapshot.shared_block_ids)
        used = {block for table in snapshot.running.block_ids for block in table}
        self._forget_all_but(used | set(snapshot.cached_block_ids))

    def _forget_all_but(self, kept: Iterable[int]) -> None:
        """Nothing may be found again in blocks that are neither used nor cached."""
        kept = set(kept)
        self.blocks = {place: slot for place, slot in self.blocks.items() if place[0] in kept}

    def _move(self, step: ScheduleStep) -> None:
        size = self.scheduler.pool.block_size
        for move in step.swapped_out:
            for block, copy in zip(move.device_block_ids, move.host_block_ids, strict=True):
                for offset in range(size):
                    self.host[copy, offset] = self.blocks.get((block, offset), ())
            self.seen["swapped"] += 1
        for move in step.swapped_in:
            for block, copy in zip(move.device_block_ids, move.host_block_ids, strict=True):
                for offset in range(size):
                    self.blocks[block, offset] = self.host.pop((copy, offset), ())

    def _write(self, step: ScheduleStep) -> None:
        for request_id, token_ids in step.token_ids.items():
            start, known = step.positions_start[request_id], self.known[request_id]
            end = start + len(token_ids)
            assert list(token_ids) == known[start:end], f"step {step.step_id} feeds {request_id} other tokens"
            for position in range(start, end):
                self.blocks[self._place(step, request_id, position)] = tuple(known[: position + 1])

    def _read(self, step: ScheduleStep) -> None:
        for request_id, count in step.num_scheduled_tokens.items():
            known = self.known[request_id]
            for position in range(step.positions_start[request_id] + count):
                found = self.blocks.get(self._place(step, request_id, position), ())
                where = f"seed {self.trace.seed}, step {step.step_id}, {request_id}, position {position}"
                assert found == tuple(known[: position + 1]), where
                self.seen["read"] += 1

    def _place(self, step: ScheduleStep, request_id: str, position: int) -> tuple[int, int]:
        index, offset = divmod(position, self.scheduler.pool.block_size)
        return step.block_tables[request_id][index], offset


@pytest.mark.parametrize("preemption_mode", ["recompute", "swap", "never"])
def test_every_token_a_step_attends_to_is_where_its_block_table_says(preemption_mode: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS_A_BLOCK):
        where_caching_acts = {"allocation": "paged", "batching": "continuous"} if seed % 2 else {}
        device = Device(seed, {"preemption_mode": preemption_mode, **where_caching_acts})
        device.run(busy_steps=20)
        seen += device.seen
    assert seen["read"] > 10_000
    assert seen["shared"] > 50
    assert preemption_mode != "swap" or seen["swapped"] > 20
