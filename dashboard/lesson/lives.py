"""The iterations of one run of a scene, and the life of each of its requests in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler import StepSnapshot


@dataclass(frozen=True, slots=True)
class Seen:
    """One iteration. seconds: wall time of it, pauses left out."""

    step: StepSnapshot
    seconds: float


@dataclass(frozen=True, slots=True)
class Own:
    """A request of the scene. arrived: iterations of the run before it came."""

    role: str
    arrived: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """steps: the iterations of the run, oldest first, index 0 upwards. own: request_id -> what it is."""

    steps: Sequence[Seen]
    own: Mapping[str, Own]

    def seconds(self, first: int, end: int) -> float:
        """Of the iterations first .. end - 1."""
        return sum(seen.seconds for seen in self.steps[first:end])

    def tokens(self, index: int) -> int:
        """Tokens computed in an iteration, padding and other people's requests included."""
        step = self.steps[index].step
        return sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())

    def members(self, index: int) -> set[str]:
        """The scene's requests that took part in an iteration."""
        step = self.steps[index].step
        return {r for r in (*step.num_scheduled_tokens, *step.num_padding_tokens) if r in self.own}


def trimmed(steps: Sequence[Seen], own: Mapping[str, Own]) -> Run:
    """The run from its first iteration that concerns the requests to the last."""
    mentioned = [i for i, seen in enumerate(steps) if _concerns(seen.step, own)]
    if not mentioned:
        return Run((), own)
    first = mentioned[0]
    moved = {r: Own(o.role, max(0, o.arrived - first)) for r, o in own.items()}
    return Run(tuple(steps[first : mentioned[-1] + 1]), moved)


def _concerns(step: StepSnapshot, own: Mapping[str, Own]) -> bool:
    ids = (*step.num_scheduled_tokens, *step.num_padding_tokens, *step.preempted, *step.finished)
    return any(r in own for r in ids)


@dataclass(frozen=True, slots=True)
class Life:
    """One request, iterations as indices of the run. started: None = never. tokens: the iteration of each of its
    output tokens. padding: padding tokens computed for it. held: iterations in which it had all its tokens and still
    took part. recompute: tokens computed again; moved: blocks copied, out and in."""

    request_id: str
    role: str
    arrived: int
    started: int | None
    tokens: tuple[int, ...]
    padding: int
    held: int
    preemptions: int
    recompute: int
    moved: int
    ended: bool


def lives(run: Run) -> list[Life]:
    """One life for each request of the scene, in the order of ``own``."""
    records = {r.request_id: r for seen in run.steps for r in seen.step.records if r.request_id in run.own}
    out = []
    for name, own in run.own.items():
        took = [i for i, seen in enumerate(run.steps) if name in run.members(i)]
        tokens = [i for i, seen in enumerate(run.steps) for _ in range(int(name in seen.step.new_tokens))]
        last = tokens[-1] if tokens else len(run.steps)
        record = records.get(name)
        out.append(
            Life(
                request_id=name,
                role=own.role,
                arrived=own.arrived,
                started=took[0] if took else None,
                tokens=tuple(tokens),
                padding=sum(seen.step.num_padding_tokens.get(name, 0) for seen in run.steps),
                held=sum(1 for i in took if i > last and name not in run.steps[i].step.num_scheduled_tokens),
                preemptions=sum(1 for seen in run.steps if name in seen.step.preempted),
                recompute=record.recompute_tokens if record else 0,
                moved=record.swapped_blocks if record else 0,
                ended=record is not None and record.outcome == "finished",
            )
        )
    return out
