"""From a spec to its arms, and to the order in which their runs are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.analysis.factorial import arms as factorial_arms
from experiments.runs.spec import PolicyTable, Spec, SpecError
from scheduler import SchedulerPolicy
from scheduler.policy import limit_problems, problems
from scheduler.replay import policy_of
from scheduler.workload import POOL_FIELDS, WorkloadError


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """An arm and the policy it runs under."""

    label: str
    policy: SchedulerPolicy


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the experiment: its place in the order, and which arm's which repeat it is, all from 0."""

    position: int
    label: str
    repeat: int

    @property
    def file_name(self) -> str:
        """Where its result lies in the folder of runs."""
        return f"{self.position:03d}-{self.label}-{self.repeat}.json"


def arms_of(spec: Spec) -> tuple[ArmPlan, ...]:
    """The arms in the order of the spec, the baseline first. Raises SpecError naming table and field."""
    if spec.kind == "ab":
        found = [_arm(spec, name) for name in ("a", "b")]
    elif spec.kind == "single":
        found = [_arm(spec, "policy", "single")]
    elif spec.kind == "chunk":
        found = _chunk_arms(spec)
    else:
        found = _factorial_arms(spec)
    if len({arm.label for arm in found}) < len(found):
        raise SpecError(f"a.label and b.label are both {found[0].label!r}, expected two labels")
    for arm in found:
        for text in _problems(arm.policy, spec):
            raise SpecError(f"arm {arm.label}: {text}")
    return tuple(found)


def order_of_runs(labels: Sequence[str], repeats: int) -> tuple[PlannedRun, ...]:
    """Every arm once a repeat, forwards and backwards in turn: A B B A A B ... for two arms.

    So a machine that gets steadily slower, or warmer, favours no arm over an even number of repeats.
    """
    order: list[PlannedRun] = []
    for repeat in range(repeats):
        for label in labels if repeat % 2 == 0 else reversed(labels):
            order.append(PlannedRun(len(order), label, repeat))
    return tuple(order)


def _arm(spec: Spec, table: str, label: str = "") -> ArmPlan:
    given: PolicyTable = getattr(spec, table) or PolicyTable()
    return ArmPlan(given.label or label or table, _policy(given, table))


def _policy(given: PolicyTable, table: str) -> SchedulerPolicy:
    for name in POOL_FIELDS:
        if name in given.set:
            raise SpecError(f"{table}.set.{name} belongs to [model]: all arms share one pool")
    try:
        return policy_of(given.preset, {}, given.set)
    except WorkloadError as error:
        raise SpecError(f"[{table}]: {error}") from error


def _chunk_arms(spec: Spec) -> list[ArmPlan]:
    base, chunk = _policy(spec.policy or PolicyTable(), "policy"), spec.chunk
    assert chunk is not None
    if not base.enable_chunked_prefill or base.batching != "continuous":
        raise SpecError("[policy]: a chunk microscope needs enable_chunked_prefill true and batching 'continuous'")
    if chunk.field == "max_num_batched_tokens":
        policies = [replace(base, max_num_batched_tokens=size) for size in chunk.sizes]
    else:
        budget = base.max_num_batched_tokens
        if max(chunk.sizes) > budget:
            raise SpecError(
                f"chunk.sizes has {max(chunk.sizes)}, above max_num_batched_tokens ({budget}), which would cut first"
            )
        policies = [replace(base, long_prefill_token_threshold=size) for size in chunk.sizes]
    return [ArmPlan(f"chunk-{size}", policy) for size, policy in zip(chunk.sizes, policies, strict=True)]


def _factorial_arms(spec: Spec) -> list[ArmPlan]:
    base, table = _policy(spec.policy or PolicyTable(), "policy"), spec.factorial
    options = {"allocation_off": table.allocation_off, "optimistic_rule": table.optimistic_rule} if table else {}
    assert spec.model.max_model_len is not None
    try:
        found = factorial_arms(base, spec.model.max_model_len, **options)
    except ValueError as error:
        raise SpecError(f"factorial: {error}") from error
    return [ArmPlan(arm.label, arm.policy) for arm in found if not arm.why_invalid]


def _problems(policy: SchedulerPolicy, spec: Spec) -> tuple[str, ...]:
    found = list(problems(policy))
    if policy.admission_paused:
        found.append("admission_paused is True, expected False: nobody would ever be let in")
    if not found and spec.model.max_model_len is not None:
        found += limit_problems(policy, spec.model.max_model_len, spec.model.num_host_blocks)
    return tuple(found)
