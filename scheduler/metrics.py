"""Counters that only rise, and the record of each request that ended."""

from __future__ import annotations

from typing import Any

from scheduler.request import Request
from scheduler.sequence import Sequence
from scheduler.snapshot import RequestRecord, Totals
from scheduler.validation import MAX_ID_LENGTH


class Books:
    """The scheduler's own counters. Queue lengths are not counted here: they are read from the lists themselves."""

    __slots__ = (
        "aborted",
        "decode_tokens",
        "finished",
        "idle_slot_steps",
        "output_tokens",
        "padding_tokens",
        "preemptions",
        "prefill_tokens",
        "prefix_cache_hits",
        "prefix_cache_queries",
        "recompute_tokens",
        "refused_proposals",
        "rejected",
        "steps",
        "submitted",
        "swapped_in_blocks",
        "swapped_out_blocks",
    )

    def __init__(self) -> None:
        self.steps = self.submitted = self.finished = self.aborted = self.rejected = 0
        self.swapped_out_blocks = self.swapped_in_blocks = self.prefix_cache_queries = self.prefix_cache_hits = 0
        self.preemptions = self.idle_slot_steps = self.output_tokens = self.refused_proposals = 0
        self.prefill_tokens = self.decode_tokens = self.recompute_tokens = self.padding_tokens = 0

    @property
    def useful_tokens(self) -> int:
        """Tokens computed for the first time. As requests are finite, so is this, whatever is evicted."""
        return self.prefill_tokens + self.decode_tokens

    def totals(self) -> Totals:
        """A frozen copy."""
        return Totals(
            steps=self.steps,
            submitted=self.submitted,
            finished=self.finished,
            aborted=self.aborted,
            rejected=self.rejected,
            preemptions=self.preemptions,
            prefill_tokens=self.prefill_tokens,
            decode_tokens=self.decode_tokens,
            recompute_tokens=self.recompute_tokens,
            padding_tokens=self.padding_tokens,
            idle_slot_steps=self.idle_slot_steps,
            output_tokens=self.output_tokens,
            refused_proposals=self.refused_proposals,
            swapped_out_blocks=self.swapped_out_blocks,
            swapped_in_blocks=self.swapped_in_blocks,
            prefix_cache_queries=self.prefix_cache_queries,
            prefix_cache_hits=self.prefix_cache_hits,
        )

    def count_computed(self, seq: Sequence, start: int, num_tokens: int) -> str:
        """Count tokens ``start`` .. ``start + num_tokens`` of a request by what they are; return the kind of the row.

        Recompute: computed once already. Prefill: prompt, and output of an earlier life. Decode: the rest.
        """
        end = start + num_tokens
        again = max(0, min(end, seq.high_water) - start)
        prefill = max(0, min(end, seq.context_end) - start - again)
        self.recompute_tokens += again
        self.prefill_tokens += prefill
        self.decode_tokens += num_tokens - again - prefill
        seq.recompute_tokens += again
        if again:
            return "recompute"
        return "prefill" if prefill else "decode"


def record_of(seq: Sequence, outcome: str, reason: str, now: float) -> RequestRecord:
    """The life of a request that ends now. An eviction never moves its queue time or its first token (F58, F59)."""
    return RequestRecord(
        request_id=seq.request_id,
        outcome=outcome,
        reason=reason,
        num_prompt_tokens=seq.num_prompt_tokens,
        num_output_tokens=seq.num_output_tokens,
        arrival_time=seq.arrival_time,
        first_scheduled_time=seq.first_scheduled_time,
        first_token_time=seq.first_token_time,
        last_token_time=seq.last_token_time,
        end_time=now,
        num_preemptions=seq.num_preemptions,
        preempted_s=seq.preempted_s + (now - seq.preempted_at if seq.preempted_at is not None else 0.0),
        recompute_tokens=seq.recompute_tokens,
        padding_tokens=seq.padding_tokens,
        policy_version=seq.policy_version,
        num_prior_output_tokens=len(seq.request.prior_output_token_ids),
        swapped_blocks=seq.swapped_blocks,
        num_cached_tokens=seq.total_cached_tokens,
    )


def record_of_rejected(request: Any, reason: str, now: float) -> RequestRecord:
    """The record of a request that was never taken; whatever it is, the record is well-formed."""
    request_id = getattr(request, "request_id", "") if isinstance(request, Request) else ""
    prompt = getattr(request, "prompt_token_ids", ())
    return RequestRecord(
        request_id=request_id[:MAX_ID_LENGTH] if isinstance(request_id, str) else "",
        outcome="rejected",
        reason=reason,
        num_prompt_tokens=len(prompt) if isinstance(prompt, tuple) else 0,
        num_output_tokens=0,
        arrival_time=now,
        first_scheduled_time=None,
        first_token_time=None,
        last_token_time=None,
        end_time=now,
        num_preemptions=0,
        preempted_s=0.0,
        recompute_tokens=0,
        padding_tokens=0,
        policy_version=0,
    )
