"""Whose improvement is it? The 2^4 arms of four scheduling decisions.

A label is four bits in the order of ``FACTORS``: "0000" has none of the four, "1111" all. Everything else is that of
one base policy, the same in every arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Final

from scheduler import SchedulerPolicy
from scheduler.policy import limit_problems, problems

NOTHING_TO_OVERCOMMIT: Final = (
    "optimistic admission needs paged allocation: a contiguous allocator takes all room a request may ever need when "
    "it is let in, so nothing can be promised twice and nobody is ever evicted"
)
"""Why an arm with the third bit and without the second is no arm of its own."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One decision that is off or on. name, off, on: in words. fields: policy fields that differ between the two."""

    key: str
    name: str
    off: str
    on: str
    fields: tuple[str, ...]


FACTORS: Final = (
    Factor(
        "iteration",
        "iteration-level batching",
        "a batch starts and ends whole",
        "the batch is made anew every iteration (Yu et al., Orca, OSDI 2022)",
        ("batching",),
    ),
    Factor(
        "paged",
        "paged allocation",
        "each request owns one run of blocks from its admission on",
        "blocks on demand, one at a time (Kwon et al., PagedAttention, SOSP 2023)",
        ("allocation",),
    ),
    Factor(
        "optimistic",
        "optimistic admission with preemption",
        "a request is let in only when all tokens it may ever have fit; nobody is evicted",
        "a request is let in when the tokens it has now fit; someone is evicted when blocks run out (vLLM V1)",
        ("admission_rule", "preemption_mode"),
    ),
    Factor(
        "chunked",
        "chunked prefill",
        "a prompt is computed whole in one step, whatever its length",
        "a step computes at most the token budget, and prompts are cut to it (Agrawal et al., Sarathi-Serve, "
        "OSDI 2024)",
        ("enable_chunked_prefill", "max_num_batched_tokens"),
    ),
)
"""The four decisions, in the order of the bits of a label."""

LABELS: Final = tuple("".join(bits) for bits in product("01", repeat=len(FACTORS)))
"""All 16, "0000" to "1111"."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One combination. policy: what it runs under, legal also where the arm is not valid.

    why_invalid: "" or why the combination does not exist as one of its own. same_as: the arm whose policy does exactly
    what this one could do, and whose figures stand for it; "" for a valid arm.
    """

    label: str
    policy: SchedulerPolicy
    why_invalid: str = ""
    same_as: str = ""

    @property
    def on(self) -> tuple[str, ...]:
        """Keys of the factors that are on."""
        return tuple(factor.key for factor, bit in zip(FACTORS, self.label, strict=True) if bit == "1")


def largest_valid(label: str) -> str:
    """The arm that stands for ``label``: the same without what has nothing to act on in it.

    Optimistic admission depends on paged allocation. So the value of a combination that has the first without the
    second is that of its largest part that exists: the restricted game of Gilles, Owen and van den Brink, "Games with
    permission structures: the conjunctive approach" (1992), whose Shapley value is used here.
    """
    return label[:2] + "0" + label[3:] if label[1] == "0" else label


def arms(
    base: SchedulerPolicy, max_model_len: int, *, allocation_off: str = "reserve_max", optimistic_rule: str = ""
) -> tuple[Arm, ...]:
    """The 16 arms around ``base``, in the order of ``LABELS``; 12 of them are valid.

    base: gives all fields that are no factor's, the token budget of the arms with chunks, and the preemption mode of
    optimistic arms ("never" becomes "recompute"). Without chunks there is no token limit besides the slots, as in Orca
    (algorithm 1): the budget is max_num_seqs x (max_model_len - 1), which no step can exceed.
    allocation_off: allocator of the arms without pages, a contiguous one. optimistic_rule: admission rule of the
    optimistic arms, by default base's, or "full_sequence" where that is "worst_case".
    Raises ValueError naming field, value and what would be right.
    """
    _refuse(base, max_model_len, allocation_off, optimistic_rule)
    rule = optimistic_rule or base.admission_rule
    on: Mapping[str, Mapping[str, Any]] = {
        "iteration": {"batching": "continuous"},
        "paged": {"allocation": "paged"},
        "optimistic": {
            "admission_rule": "full_sequence" if rule == "worst_case" else rule,
            "preemption_mode": "recompute" if base.preemption_mode == "never" else base.preemption_mode,
        },
        "chunked": {"enable_chunked_prefill": True, "max_num_batched_tokens": base.max_num_batched_tokens},
    }
    off: Mapping[str, Mapping[str, Any]] = {
        "iteration": {"batching": "static"},
        "paged": {"allocation": allocation_off},
        "optimistic": {"admission_rule": "worst_case", "preemption_mode": "never"},
        "chunked": {
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(base.max_num_batched_tokens, base.max_num_seqs * (max_model_len - 1)),
        },
    }
    made = []
    for label in LABELS:
        changes: dict[str, Any] = {}
        for factor, bit in zip(FACTORS, label, strict=True):
            changes |= (on if bit == "1" else off)[factor.key]
        policy = replace(base, **changes)
        for text in (*problems(policy), *limit_problems(policy, max_model_len)):
            raise ValueError(f"arm {label}: {text}")
        stand_in = largest_valid(label)
        made.append(Arm(label, policy) if stand_in == label else Arm(label, policy, NOTHING_TO_OVERCOMMIT, stand_in))
    return tuple(made)


def _refuse(base: SchedulerPolicy, max_model_len: int, allocation_off: str, optimistic_rule: str) -> None:
    if base.enable_prefix_caching:
        raise ValueError(
            "enable_prefix_caching is True, expected False: only some of the arms could use the cache, so it would "
            "be a fifth difference between them"
        )
    if allocation_off == "paged":
        raise ValueError("allocation_off is 'paged', expected another allocator: it is what the other arms use")
    if optimistic_rule == "worst_case":
        raise ValueError("optimistic_rule is 'worst_case', expected another rule: it is what the other arms use")
    if max_model_len < 2:
        raise ValueError(f"max_model_len is {max_model_len!r}, expected a whole number of at least 2")
    if base.max_num_batched_tokens < base.max_num_seqs:
        raise ValueError(
            f"max_num_batched_tokens is {base.max_num_batched_tokens}, expected at least max_num_seqs "
            f"({base.max_num_seqs}): with chunks a step must hold one token of each running request"
        )


def differing_fields(one: SchedulerPolicy, other: SchedulerPolicy) -> tuple[str, ...]:
    """Policy fields whose values differ, the version left out."""
    names = (item.name for item in fields(SchedulerPolicy) if item.name != "version")
    return tuple(name for name in names if getattr(one, name) != getattr(other, name))
