"""Where a run's time goes, by kind of work, from torch's own profiler."""

from __future__ import annotations

import time
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

_KINDS = {
    "matmul": ("mkldnn::_linear_pointwise", "aten::mm", "aten::addmm", "aten::linear"),
    "attention": (
        "aten::bmm",
        "aten::baddbmm",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention",
        "aten::exp_",
        "aten::amax",
        "aten::_embedding_bag_forward_only",
        "aten::segment_reduce",
    ),
}
"""Kind -> operators whose own time (without what they call) is counted under it."""


def time_by_part(run: Callable[[], object]) -> dict[str, float]:
    """Shares of wall time: matmul, attention, other_ops (norms, rotation, copies, indices), python (the rest).

    Wall, because that is what the profiler measures of each operator.
    """
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        started = time.perf_counter()
        run()
        total = time.perf_counter() - started
    kind_of = {operator: kind for kind, operators in _KINDS.items() for operator in operators}
    seconds = dict.fromkeys([*_KINDS, "other_ops"], 0.0)
    for event in profiler.key_averages():
        seconds[kind_of.get(event.key, "other_ops")] += event.self_cpu_time_total / 1e6
    seconds["python"] = max(0.0, total - sum(seconds.values()))
    return {kind: round(value / total, 4) for kind, value in seconds.items()}
