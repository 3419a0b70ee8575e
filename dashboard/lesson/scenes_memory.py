"""Scenes on preemption and allocation, and on decisions that work against each other."""

from __future__ import annotations

from typing import Final

from dashboard.i18n import N_
from dashboard.lesson.scene import Asked, Scene, Side
from dashboard.lesson.scenes_batch import CROWD, TIGHT

EAGER: Final = {"admission_rule": "next_chunk"}
RESERVED: Final = 3
"""Sequences of the longest length that find room in the scene on allocation; a smaller pool holds fewer of them."""

PREEMPTION: Final = Scene(
    name="preemption",
    section=N_("2. preemption"),
    title=N_("Preemption and its price: compute again, or copy"),
    look=(
        N_("The KV blocks run out while eight requests grow, so some are evicted (▽) and come back later."),
        N_("Look at the red edges: in A the victim computes its tokens again, in B its blocks come back from the "
           "host."),
    ),
    question=N_("How many tokens are computed again with swap (B)?"),
    choices=(N_("fewer than with recompute"), N_("as many"), N_("more than with recompute")),
    not_shown=N_("It does not show that swap is faster: the price of a copy depends on the link to the host, the price "
                 "of computing on the model."),
    a=Side(N_("recompute"), EAGER, TIGHT),
    b=Side(N_("swap to the host"), {**EAGER, "preemption_mode": "swap"}, TIGHT),
    burst=CROWD,
    facts=("recompute", "preemptions", "moved", "swap_ms", "resume", "total_ms"),
    expected="less",
    charts=("lanes", "budget", "memory"),
)  # fmt: skip

ALLOCATION: Final = Scene(
    name="allocation",
    section=N_("3. allocation"),
    title=N_("Reserve the maximum, or give out pages"),
    look=(
        N_("Twelve requests of 64 tokens each: A reserves one run of blocks for the longest sequence the engine takes "
           "(max_model_len), B gives a block when the last one is full."),
        N_("Look at the block map: dashed squares are reserved and hold nothing."),
    ),
    question=N_("How many of the twelve run at the same time with pages (B), at most?"),
    choices=(N_("fewer than with reservation"), N_("as many"), N_("more than with reservation")),
    not_shown=N_("It does not show the price of pages, a block table that attention has to follow; and how far A falls "
                 "behind depends on max_model_len and the pool, which are named below."),
    a=Side(N_("reserve_max"), {"allocation": "reserve_max", "max_num_seqs": 16}, kv_sequences=RESERVED),
    b=Side(N_("paged"), {"max_num_seqs": 16}, kv_sequences=RESERVED),
    burst=(Asked(52, 12, shared=32),) * 12,
    facts=("max_running", "reserved", "filled", "max_used", "wait", "steps"),
    expected="more",
    charts=("map",),
)  # fmt: skip

CONFLICT: Final = Scene(
    name="conflict",
    section=N_("why the three are kept apart"),
    title=N_("Two decisions in conflict"),
    look=(
        N_("Admission wants all slots in use, and the same KV blocks must then feed them all: A has twelve slots, B "
           "four."),
        N_("Look at the queue and at the red strokes together: what admission gains in waiting, preemption pays in "
           "work done twice."),
    ),
    question=N_("How many tokens are computed again with four slots (B)?"),
    choices=(N_("fewer than with twelve"), N_("as many"), N_("more than with twelve")),
    not_shown=N_("It does not show the right number of slots: with more memory or shorter answers it is another."),
    a=Side(N_("twelve slots"), {**EAGER, "max_num_seqs": 12}, TIGHT),
    b=Side(N_("four slots"), {**EAGER, "max_num_seqs": 4}, TIGHT),
    burst=(*CROWD[:3], Asked(120, 24), *CROWD[3:]),
    facts=("recompute", "preemptions", "wait", "running", "resume", "steps"),
    expected="less",
    charts=("memory", "load", "lanes"),
)  # fmt: skip
