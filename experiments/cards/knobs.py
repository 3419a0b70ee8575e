"""Which knobs two policies differ in, and which decisions of the scheduler those belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from experiments.cards.said import Said, say
from experiments.i18n import N_
from scheduler import SchedulerPolicy

DECISION_OF: Final[Mapping[str, str]] = {
    "batching": "batching",
    "max_num_seqs": "admission",
    "admission_order": "admission",
    "admission_rule": "admission",
    "kv_watermark": "admission",
    "head_of_line": "admission",
    "admission_paused": "admission",
    "preemption_mode": "preemption",
    "preemption_victim": "preemption",
    "preemption_requeue": "preemption",
    "allocation": "allocation",
    "kv_block_limit": "allocation",
    "enable_prefix_caching": "allocation",
    "max_num_batched_tokens": "chunking",
    "enable_chunked_prefill": "chunking",
    "long_prefill_token_threshold": "chunking",
    "prefill_mix": "chunking",
    "step_delay_ms": "pace",
    "paused": "pace",
    "single_step": "pace",
}
"""Policy field -> decision, in the order in which a card names them; ``version`` is no knob."""

DECISION_NAMES: Final = {
    "batching": N_("batching"),
    "admission": N_("admission"),
    "preemption": N_("preemption"),
    "allocation": N_("allocation"),
    "chunking": N_("chunking"),
    "pace": N_("pace"),
}


@dataclass(frozen=True, slots=True)
class Knob:
    """A policy field in which two arms differ."""

    field: str
    decision: str
    baseline: Any
    candidate: Any

    def told(self) -> Said:
        """As "allocation: reserve_max → paged"."""
        return say("{field}: {old} → {new}", field=self.field, old=shown(self.baseline), new=shown(self.candidate))


def shown(value: Any) -> str:
    """A value of a policy field as the file of a spec has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def differing(baseline: SchedulerPolicy, candidate: SchedulerPolicy) -> tuple[Knob, ...]:
    """Every field in which the policies differ, by decision."""
    pairs = ((name, getattr(baseline, name), getattr(candidate, name)) for name in DECISION_OF)
    return tuple(Knob(name, DECISION_OF[name], old, new) for name, old, new in pairs if old != new)


def decisions(knobs: tuple[Knob, ...]) -> tuple[str, ...]:
    """The decisions that the knobs belong to, each once, in the order of ``DECISION_OF``."""
    return tuple(dict.fromkeys(knob.decision for knob in knobs))


def by_decision(knobs: tuple[Knob, ...]) -> tuple[Said, ...]:
    """One sentence a decision, with the fields that differ: "allocation (allocation: reserve_max → paged)"."""
    return tuple(
        say(
            "{decision} ({fields})",
            decision=say(DECISION_NAMES[name]),
            fields=tuple(knob.told() for knob in knobs if knob.decision == name),
        )
        for name in decisions(knobs)
    )


def differing_from_default(policy: SchedulerPolicy) -> str:
    """The policy in one line: the fields that are not the default's, or "default"."""
    default = SchedulerPolicy()
    names = [
        f.name for f in fields(policy) if f.name != "version" and getattr(policy, f.name) != getattr(default, f.name)
    ]
    return ", ".join(f"{name} = {shown(getattr(policy, name))}" for name in names) or "default"
