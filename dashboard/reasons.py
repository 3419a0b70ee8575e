"""Causes of waiting in words: for a legend, and as a sentence for a gap between two tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.i18n import N_, Translate
from dashboard.views.preemptions import duration
from scheduler.blame_parts import Part

CAUSE_WORDS: Final = {
    "queue_step": N_("arrived during an iteration"),
    "queue_behind": N_("behind others in the queue"),
    "queue_slot": N_("no place in the batch"),
    "memory": N_("no KV block"),
    "paused": N_("admission paused"),
    "own_prefill": N_("own prefill"),
    "own_decode": N_("own decode"),
    "own_recompute": N_("own recompute"),
    "others_prefill": N_("prefill of others"),
    "others_decode": N_("decodes of others"),
    "others_recompute": N_("recompute of others"),
    "padding": N_("padding of the static batch"),
    "swap": N_("copying swapped blocks"),
    "overhead": N_("scheduling, inputs, sampling, publishing"),
    "preempted": N_("evicted, not back yet"),
    "batch_end": N_("done, but its static batch is not"),
    "idle": N_("the engine computed nothing"),
    "away": N_("no engine (restart)"),
    "unseen": N_("nobody watched"),
}
"""Every cause of ``scheduler.blame_parts.CAUSES``."""

STAGE_WORDS: Final = {
    "waiting": N_("waiting"),
    "prefill": N_("prefill"),
    "decode": N_("decode"),
    "recompute": N_("recompute"),
    "preempted": N_("evicted, not back yet"),
    "memory": N_("no KV block"),
    "none": N_("no tokens in this iteration"),
    "padding": N_("padding"),
    "batch_end": N_("done, but its static batch is not"),
    "away": N_("no engine (restart)"),
    "unseen": N_("nobody watched"),
    "idle": N_("the engine computed nothing"),
    "overhead": N_("scheduling, inputs, sampling, publishing"),
}
"""In the order of ``dashboard.life_tables.STAGES``."""

SENTENCES: Final = {
    "queue_step": N_("{s} until an iteration under way had ended"),
    "queue_behind": N_("{s} behind {who} in the queue"),
    "queue_slot": N_("{s} without a place in the batch"),
    "memory": N_("{s} without KV blocks"),
    "memory who": N_("{s} without KV blocks ({who} is in the way)"),
    "paused": N_("{s} because admission was paused"),
    "own_prefill": N_("{s} own prefill of {tokens} tokens"),
    "own_decode": N_("{s} own decode"),
    "own_recompute": N_("{s} own recompute of {tokens} tokens"),
    "others_prefill": N_("{s} prefill of {who} ({tokens} tokens)"),
    "others_recompute": N_("{s} recompute of {who} ({tokens} tokens)"),
    "others_decode": N_("{s} decodes of {n} others"),
    "others_decode 1": N_("{s} decodes of 1 other"),
    "padding": N_("{s} padding of the static batch"),
    "swap": N_("{s} copying blocks of {who}"),
    "overhead": N_("{s} scheduling, inputs, sampling, publishing"),
    "preempted": N_("{s} evicted"),
    "batch_end": N_("{s} until its static batch had ended"),
    "idle": N_("{s} in which the engine computed nothing"),
    "away": N_("{s} without an engine"),
    "unseen": N_("{s} nobody watched"),
}
TOLD: Final = 3
"""Causes of a gap that are told one by one."""


@dataclass(frozen=True, slots=True)
class Blamed:
    """All parts with one cause and one culprit. length in nanoseconds; num_requests: at most in a step."""

    cause: str
    request_id: str
    length: int
    tokens: int
    num_requests: int


def blamed(parts: Sequence[Part]) -> list[Blamed]:
    """What the parts were spent on, most first."""
    sums: dict[tuple[str, str], tuple[int, int, int]] = {}
    for part in parts:
        length, tokens, most = sums.get((part.cause, part.request_id), (0, 0, 0))
        counted = length + part.length, tokens + part.tokens, max(most, part.num_requests)
        sums[part.cause, part.request_id] = counted
    found = [Blamed(cause, who, *numbers) for (cause, who), numbers in sums.items()]
    return sorted(found, key=lambda each: -each.length)


def _one(each: Blamed, t: Translate) -> str:
    key = "memory who" if each.cause == "memory" and each.request_id else each.cause
    if each.cause == "others_decode" and each.num_requests == 1:
        key = "others_decode 1"
    return t(
        SENTENCES[key],
        s=duration(each.length / 1e9),
        who=each.request_id or t("others"),
        tokens=f"{each.tokens:,}",
        n=each.num_requests,
    )


def gap_words(parts: Sequence[Part], t: Translate) -> str:
    """Who was in the way, the longest first, and how much is left over; not escaped."""
    found = blamed(parts)
    told = [_one(each, t) for each in found[:TOLD]]
    rest = sum(each.length for each in found[TOLD:])
    if rest:
        told.append(t("{s} other", s=duration(rest / 1e9)))
    return " · ".join(told)
