"""Admission orders: who of those that wait is next."""

from __future__ import annotations

from typing import Any, Final

from scheduler.registry import Choice, Registry
from scheduler.sequence import SequenceView

OrderKey = tuple[Any, ...]
"""Sort key of the queue, lowest first: parts that compare with those of any other request."""


class AdmissionOrder(Choice):
    """Says in which order the queue is walked."""

    def key(self, seq: SequenceView) -> float | OrderKey:
        """Place of a request in the queue, lowest first; equals stay in the order in which they came.

        It is read when the request enters the queue, so it must not change while the request waits.
        """
        raise NotImplementedError


ORDERS: Final[Registry[AdmissionOrder]] = Registry("admission_order")


class Fcfs(AdmissionOrder):
    """First come, first served; an evicted request comes back at the front (or the back) of the line."""

    name = "fcfs"

    def key(self, seq: SequenceView) -> OrderKey:
        """(rank)."""
        return (seq.rank,)


class Priority(AdmissionOrder):
    """(priority, arrival, request_id), lower first, as vLLM. An evicted request goes back to its place by this key.

    A running request is not evicted for a more urgent one that waits for a slot (fault F43): it waits.
    """

    name = "priority"

    def key(self, seq: SequenceView) -> OrderKey:
        """(priority, time, id)."""
        return (seq.priority, seq.order_time, seq.request_id)


class ShortestPrompt(AdmissionOrder):
    """Fewest prompt tokens first; an evicted request comes back before all that never ran."""

    name = "shortest_prompt"

    def key(self, seq: SequenceView) -> OrderKey:
        """(prompt tokens, rank), or -1 for an evicted request."""
        return (-1 if seq.rank < 0 else seq.num_prompt_tokens, seq.rank)


class ShortestJob(AdmissionOrder):
    """Fewest tokens in all first, prompt + max_tokens; an evicted request comes back before all that never ran."""

    name = "shortest_job"

    def key(self, seq: SequenceView) -> OrderKey:
        """(tokens in all, rank), or -1 for an evicted request."""
        return (-1 if seq.rank < 0 else seq.max_total_tokens, seq.rank)


for _order in (Fcfs(), Priority(), ShortestPrompt(), ShortestJob()):
    ORDERS.register(_order.name)(_order)
