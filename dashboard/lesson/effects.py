"""For every control a scene in which moving it visibly matters, and the effect that is expected there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from dashboard.lesson.scene import Direction, Scene, Side
from dashboard.lesson.scenes import BY_NAME


@dataclass(frozen=True, slots=True)
class Effect:
    """Move ``field`` from ``before`` to ``after`` on one side of a scene: ``fact`` becomes less or more.

    also: fields of the side that differ from the scene's, for both values.
    """

    field: str
    scene: str
    side: Literal["a", "b"]
    before: Any
    after: Any
    fact: str
    expected: Direction
    also: tuple[tuple[str, Any], ...] = ()

    def sides(self) -> tuple[Scene, Side, Side]:
        """The scene, its side with ``before`` and with ``after``."""
        scene = BY_NAME[self.scene]
        side = scene.a if self.side == "a" else scene.b
        assert side is not None
        base: Mapping[str, Any] = {**side.policy, **dict(self.also)}
        return scene, _with(side, base, self.field, self.before), _with(side, base, self.field, self.after)


def _with(side: Side, base: Mapping[str, Any], field: str, value: Any) -> Side:
    if field == "kv_block_limit":  # scenes state it in tokens, whatever the engine's blocks
        return Side(side.name, base, value)
    return Side(side.name, {**base, field: value}, side.kv_tokens, side.kv_sequences)


EFFECTS: Final = (
    Effect("batching", "static", "a", "static", "continuous", "steps", "less"),
    Effect("max_num_seqs", "static", "b", 4, 8, "steps", "less"),
    Effect("max_num_batched_tokens", "starve", "b", 32, 128, "ttft_long_steps", "less"),
    Effect("enable_chunked_prefill", "starve", "b", True, False, "gap_tokens", "more"),
    Effect("long_prefill_token_threshold", "chunks", "a", 16, 128, "ttft_long_steps", "less"),
    Effect("prefill_mix", "starve", "b", "decode_first", "prefill_first", "gap_steps", "more"),
    Effect("admission_order", "static", "b", "fcfs", "shortest_job", "wait", "less"),
    Effect("admission_rule", "admission", "a", "next_chunk", "worst_case", "preemptions", "less"),
    Effect("head_of_line", "conflict", "a", "strict", "skip", "wait", "less", (("admission_rule", "worst_case"),)),
    Effect("kv_watermark", "admission", "a", 0.0, 0.3, "preemptions", "less"),
    Effect("admission_paused", "rebuild", "b", False, True, "ended", "less"),
    Effect("preemption_victim", "conflict", "a", "newest", "least_computed", "recompute", "less"),
    Effect("preemption_mode", "preemption", "a", "recompute", "swap", "recompute", "less"),
    Effect("preemption_requeue", "conflict", "a", "front", "back", "resume", "more"),
    Effect("allocation", "allocation", "a", "reserve_max", "paged", "max_running", "more"),
    Effect("kv_block_limit", "admission", "a", None, 256, "preemptions", "more"),
    Effect("enable_prefix_caching", "allocation", "b", False, True, "prefill", "less"),
)
"""One for each control; a test runs both values on the real scheduler."""
