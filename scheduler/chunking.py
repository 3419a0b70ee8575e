"""Chunked prefill: how many tokens a request gets, and in which order the budget goes round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.plan import Draft, StepView
from scheduler.registry import Registry
from scheduler.sequence import SequenceView


@dataclass(frozen=True, slots=True)
class Phase:
    """One leg of a step's walk: over running requests, or over the queue when ``admit`` is set.

    decodes: each of the rows lacks exactly one token. only_if_idle: walked only when nothing has been planned yet, so
    that kinds of work are never mixed.
    """

    rows: Sequence[SequenceView] = ()
    admit: bool = False
    decodes: bool = False
    only_if_idle: bool = False


Mix = Callable[[Sequence[SequenceView]], tuple[Phase, ...]]
PREFILL_MIXES: Final[Registry[Mix]] = Registry("prefill_mix")


def split(running: Sequence[SequenceView]) -> tuple[Sequence[SequenceView], Sequence[SequenceView]]:
    """(prefills, decodes), each in order of admission. A decode lacks one token, the one it sampled last."""
    prefills = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens != 1]
    if not prefills:
        return prefills, running
    return prefills, [seq for seq in running if seq.num_tokens - seq.num_computed_tokens == 1]


@PREFILL_MIXES.register("running_order")
def running_order(running: Sequence[SequenceView]) -> tuple[Phase, ...]:
    """vLLM V1: order of admission; an older prefill chunk takes budget before a younger decode."""
    _, decodes = split(running)
    return (Phase(running, decodes=decodes is running), Phase(admit=True))


@PREFILL_MIXES.register("decode_first")
def decode_first(running: Sequence[SequenceView]) -> tuple[Phase, ...]:
    """Sarathi-Serve: all decodes, then the rest of the budget is prefill chunks, so that no decode stalls."""
    prefills, decodes = split(running)
    return (Phase(decodes, decodes=True), Phase(prefills), Phase(admit=True))


@PREFILL_MIXES.register("prefill_first")
def prefill_first(running: Sequence[SequenceView]) -> tuple[Phase, ...]:
    """vLLM V0, nano-vllm: a step is prefill or decode, never both, and prefill goes first; decodes stall meanwhile."""
    prefills, decodes = split(running)
    return (Phase(prefills), Phase(admit=True), Phase(decodes, decodes=True, only_if_idle=True))


def threshold_of(view: StepView) -> int:
    """Most tokens of one prefill in this step; 0 = no limit. vLLM applies it only when requests compete."""
    threshold = view.policy.long_prefill_token_threshold
    return threshold if len(view.running) + len(view.waiting) > 1 else 0


def chunk_size(view: StepView, draft: Draft, seq: SequenceView) -> int:
    """Tokens a running request computes next: the missing ones, cut by threshold, budget and model length."""
    num_tokens = seq.num_tokens - seq.num_computed_tokens
    threshold = threshold_of(view)
    if 0 < threshold < num_tokens:
        num_tokens = threshold
    return min(num_tokens, draft.budget, view.max_model_len - 1 - seq.num_computed_tokens)


def cut_reason(view: StepView, num_tokens: int) -> str:
    """Which limit made a chunk shorter than what was missing."""
    return "long_prefill_token_threshold" if num_tokens == threshold_of(view) else "token_budget"
