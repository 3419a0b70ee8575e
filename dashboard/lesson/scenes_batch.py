"""Scenes on the batch and on admission: when it is rebuilt, and who is let in."""

from __future__ import annotations

from typing import Final

from dashboard.i18n import N_
from dashboard.lesson.scene import Asked, Scene, Side

FEWER: Final = (N_("B needs fewer"), N_("the same"), N_("B needs more"))
"""Choices in the order of DIRECTIONS."""

OUTPUTS: Final = (40, 3, 25, 5, 60, 4, 18, 6, 33, 2, 50, 8)
SLOTS: Final = {"max_num_seqs": 4, "max_num_batched_tokens": 256, "admission_rule": "worst_case"}

STATIC: Final = Scene(
    name="static",
    section=N_("iteration-level scheduling"),
    title=N_("Static against continuous: stragglers and padding"),
    look=(
        N_("Twelve requests with answers of 2 to 60 tokens share four slots."),
        N_("Look at the lanes: the grey outlines are rows that compute only padding, because somebody else in their "
           "batch is not done."),
    ),
    question=N_("How many iterations does continuous batching (B) need for the same twelve requests?"),
    choices=FEWER,
    not_shown=N_("It does not show that continuous batching is always faster: with answers of equal length nobody "
                 "waits for a straggler (scene 10)."),
    a=Side(N_("static batch"), {**SLOTS, "batching": "static"}),
    b=Side(N_("continuous"), SLOTS),
    burst=tuple(Asked((10, 40, 16, 24)[i % 4], output) for i, output in enumerate(OUTPUTS)),
    facts=("steps", "padding", "held", "wait", "total_ms", "tokens_per_s"),
    expected="less",
)  # fmt: skip

REBUILD: Final = Scene(
    name="rebuild",
    section=N_("iteration-level scheduling"),
    title=N_("When is the batch rebuilt?"),
    look=(
        N_("Three slots, seven requests; the batch can change only where a lane ends and another begins."),
        N_("Look at when the ring of a new request appears: only after the whole batch, or while others go on."),
    ),
    question=N_("In how many iterations does somebody join a batch that is under way, with continuous batching (B)?"),
    choices=(N_("in fewer than with the static batch"), N_("in as many"), N_("in more than with the static batch")),
    not_shown=N_("It does not show what rebuilding costs: the time to decide is not measured "
                 "here."),
    a=Side(N_("static batch"), {"batching": "static", "max_num_seqs": 3, "admission_rule": "worst_case"}),
    b=Side(N_("continuous"), {"max_num_seqs": 3, "admission_rule": "worst_case"}),
    burst=tuple(Asked(12, output) for output in (12, 4, 24, 6, 9, 15, 5)),
    facts=("joins", "steps", "wait", "longest_wait", "running"),
    expected="more",
)  # fmt: skip

TIGHT: Final = 256
"""Token slots of the scenes that run short of KV blocks."""
CROWD: Final = tuple(Asked(24, output) for output in (40, 36, 44, 40, 32, 40, 48, 40))

ADMISSION: Final = Scene(
    name="admission",
    section=N_("1. admission"),
    title=N_("Admission: too eager, too shy"),
    look=(
        N_("Eight requests want more KV blocks than there are: A lets everybody in whose first chunk fits, B only who "
           "fits to the last token."),
        N_("Look at the memory line: red strokes are evictions, the gap below 100 % is memory nobody uses."),
    ),
    question=N_("How many preemptions are there with the shy rule (B)?"),
    choices=(N_("fewer than with the eager one"), N_("as many"), N_("more than with the eager one")),
    not_shown=N_("It does not show which rule is better: that depends on how well the lengths of the answers are "
                 "known."),
    a=Side(N_("eager: the first chunk must fit"), {"admission_rule": "next_chunk"}, TIGHT),
    b=Side(N_("shy: the longest answer must fit"), {"admission_rule": "worst_case"}, TIGHT),
    burst=CROWD,
    facts=("preemptions", "running", "used", "recompute", "wait", "steps"),
    expected="less",
    charts=("lanes", "memory", "load"),
)  # fmt: skip

UNSHOWN: Final = Scene(
    name="unshown",
    section=N_("what this chapter does not support"),
    title=N_("What all of this does not show"),
    look=(
        N_("The same comparison as in scene 1, with four answers of equal length in four slots."),
        N_("Look for stragglers and padding: there are none, so there is nothing to win."),
    ),
    question=N_("How many iterations does continuous batching (B) need here?"),
    choices=FEWER,
    not_shown=N_("A description of vLLM's scheduler by its makers says nothing about speed: how it is built is no "
                 "independent measurement."),
    a=Side(N_("static batch"), {**SLOTS, "batching": "static"}),
    b=Side(N_("continuous"), SLOTS),
    burst=(Asked(16, 32),) * 4,
    facts=("steps", "padding", "held", "total_ms", "tokens_per_s"),
    expected="same",
)  # fmt: skip
