"""Very many requests on one or several replicas: the same scheduler, no row kept of any request."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from experiments.runs.driver import PoolShape
from experiments.trace import TraceRequest
from experiments.virtual.cost import CostModel
from experiments.virtual.streaming import LogHistogram, Spread
from experiments.virtual.work import decode_work, work_of_step
from scheduler import Request, RequestRecord, SamplingParams, SchedulerPolicy, ScheduleStep, StepResult
from scheduler.on_demand import DecodeStep
from scheduler.simulate import FILLER_TOKEN, VirtualClock
from scheduler.unwatched import UnwatchedScheduler

MEASURES: Final = ("ttft_s", "tpot_s", "e2e_s", "queue_s")
"""Latencies of finished requests, from arrival: first token; mean time of a token after it (requests of two tokens or
more); last token; until first scheduled. As in the definition sheet; gaps between single tokens are not kept."""

SHORTEST_SKIP: Final = 4
"""Fewer sure steps are taken one by one: writing them into all rows would cost more."""


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """num_replicas: equal machines, each with its own scheduler and pool, >= 1. routing: a key of ``ROUTINGS``. seed:
    of a routing that draws. Requests get filler prompts, so prefix caching must be off.
    """

    policy: SchedulerPolicy
    pool: PoolShape
    cost_model: CostModel
    num_replicas: int = 1
    routing: str = "round_robin"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_replicas < 1:
            raise ValueError(f"num_replicas is {self.num_replicas!r}, expected a whole number of at least 1")
        if self.routing not in ROUTINGS:
            raise ValueError(f"routing is {self.routing!r}, expected one of {', '.join(ROUTINGS)}")
        if self.policy.enable_prefix_caching:
            raise ValueError(
                "enable_prefix_caching is True: prompts here are filler, so every prefix would be found; set it to "
                "False, or simulate a trace with prompts"
            )


@dataclass(slots=True)
class Tally:
    """What is kept of a stream of requests. Tallies of parts of a fleet add up to that of the whole.

    unfinished: left when nothing could be planned any more. last_end_s: of the last step. busy_s: replica -> seconds in
    steps. cpu_s: of the simulation.
    """

    submitted: int = 0
    finished: int = 0
    rejected: int = 0
    unfinished: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    recompute_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    last_end_s: float = 0.0
    cpu_s: float = 0.0
    busy_s: dict[int, float] = field(default_factory=dict)
    latencies: dict[str, LogHistogram] = field(default_factory=lambda: {name: LogHistogram() for name in MEASURES})

    def ended(self, record: RequestRecord) -> None:
        """A request left a scheduler."""
        if record.outcome != "finished" or record.last_token_time is None or record.first_token_time is None:
            return
        self.finished += 1
        self.prompt_tokens += record.num_prompt_tokens
        self.output_tokens += record.num_output_tokens
        self.recompute_tokens += record.recompute_tokens
        self.preemptions += record.num_preemptions
        add, arrival = self.latencies, record.arrival_time
        add["ttft_s"].add(record.first_token_time - arrival)
        add["e2e_s"].add(record.last_token_time - arrival)
        if record.first_scheduled_time is not None:
            add["queue_s"].add(record.first_scheduled_time - arrival)
        if record.num_output_tokens > 1:
            took = record.last_token_time - record.first_token_time
            add["tpot_s"].add(took / (record.num_output_tokens - 1))

    def merge(self, other: Tally) -> None:
        """Add another part of the same fleet."""
        for name in (
            "submitted",
            "finished",
            "rejected",
            "unfinished",
            "prompt_tokens",
            "output_tokens",
            "recompute_tokens",
            "preemptions",
            "steps",
            "cpu_s",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.last_end_s = max(self.last_end_s, other.last_end_s)
        self.busy_s |= other.busy_s
        for name, histogram in self.latencies.items():
            histogram.merge(other.latencies[name])

    def spreads(self) -> dict[str, Spread]:
        """Latency -> its summary, in seconds."""
        return {name: histogram.spread() for name, histogram in self.latencies.items()}


class Replica:
    """One machine. Its step in flight is over for nobody before it ends, so that a router sees what a real one would.

    outstanding: requests that were taken and have not ended.
    """

    def __init__(self, index: int, spec: FleetSpec, tally: Tally) -> None:
        self.index = index
        self.outstanding = 0
        self._tally = tally
        self._cost_model = spec.cost_model
        self._clock = VirtualClock()
        pool = spec.pool
        self._scheduler = UnwatchedScheduler(
            spec.policy,
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            max_model_len=pool.max_model_len,
            num_host_blocks=pool.num_host_blocks,
            clock=self._clock,
            snapshot_waiting_limit=0,
        )
        self._in_flight: ScheduleStep | None = None
        self._step_ends = 0.0
        self._step_s = 0.0
        self._gap_s = 0.0
        self._last_arrival_s = 0.0
        self._fruitless = 0
        self._busy_s = 0.0

    def add(self, asked: TraceRequest) -> None:
        """A request arrives, not before any that arrived earlier; ``advance`` to its arrival first."""
        at = asked.arrival_s
        self._gap_s += 0.1 * (at - self._last_arrival_s - self._gap_s)
        self._last_arrival_s = at
        if self._in_flight is None:
            self._clock.now = max(self._clock.now, at)
        sampling = SamplingParams(max_tokens=asked.output_len, ignore_eos=True)
        prompt = (FILLER_TOKEN,) * asked.prompt_len
        outcome = self._scheduler.add(Request(asked.request_id, prompt, sampling, asked.priority, at))
        self._tally.submitted += 1
        self._fruitless = 0
        if outcome.accepted:
            self.outstanding += 1
        else:
            self._tally.rejected += 1

    def advance(self, until: float) -> None:
        """Take every step that begins before ``until``; the last may end after it, and is then still in flight."""
        scheduler, clock = self._scheduler, self._clock
        while True:
            if self._in_flight is not None:
                if self._step_ends > until:
                    return
                self._complete(self._in_flight)
            if clock.now >= until or not self.outstanding or self._fruitless > 1:
                return
            sure = scheduler.num_sure()
            if sure >= SHORTEST_SKIP and until - clock.now > SHORTEST_SKIP * self._step_s:
                self._skip(sure, until)
            else:
                self._plan()

    def finish(self) -> None:
        """No more requests will come: go on to the end, and count what can never end."""
        self.advance(math.inf)
        self._tally.unfinished += self.outstanding
        self._tally.busy_s[self.index] = self._busy_s

    def _skip(self, sure: int, until: float) -> None:
        scheduler, seconds = self._scheduler, self._cost_model.seconds
        rows, context = len(scheduler.running_ids), scheduler.next_context
        begin = now = self._clock.now
        count = 0
        while count < sure and now < until:
            now += seconds(decode_work(rows, context))
            context += rows
            count += 1
        self._clock.now = now
        scheduler.skip(count, now)
        self._account(count, now - begin, now)

    def _plan(self) -> None:
        scheduler, clock = self._scheduler, self._clock
        context = scheduler.next_context
        self._in_flight = step = scheduler.schedule()
        if type(step) is DecodeStep:
            self._step_s = self._cost_model.seconds(decode_work(len(step.sampling_ids), context))
        elif step.is_empty and not step.swapped_out and not step.swapped_in:
            self._step_s = 0.0
            self._fruitless = 0 if step.preempted else self._fruitless + 1
        else:
            self._step_s = self._cost_model.seconds(work_of_step(step))
            self._fruitless = 0
        self._step_ends = clock.now + self._step_s
        scheduler.calm = self._gap_s > SHORTEST_SKIP * self._step_s

    def _complete(self, step: ScheduleStep) -> None:
        self._in_flight = None
        self._clock.now = self._step_ends
        self._scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, FILLER_TOKEN)))
        for record in self._scheduler.take_records():
            if record.outcome != "rejected":
                self.outstanding -= 1
                self._fruitless = 0
            self._tally.ended(record)
        self._account(1 if self._step_s else 0, self._step_s, self._step_ends)

    def _account(self, steps: int, seconds: float, now: float) -> None:
        self._tally.steps += steps
        self._busy_s += seconds
        self._tally.last_end_s = max(self._tally.last_end_s, now)


Routing = Callable[[Sequence[Replica], TraceRequest, int, random.Random], Replica]
"""Who gets a request, from the replicas, the request, how many came before it and a generator."""


def round_robin(replicas: Sequence[Replica], asked: TraceRequest, number: int, draw: random.Random) -> Replica:
    """Each in turn, whatever it has to do."""
    chosen = replicas[number % len(replicas)]
    chosen.advance(asked.arrival_s)
    return chosen


def least_outstanding(replicas: Sequence[Replica], asked: TraceRequest, number: int, draw: random.Random) -> Replica:
    """The one with the fewest requests that have not ended; of equals the first."""
    for replica in replicas:
        replica.advance(asked.arrival_s)
    return min(replicas, key=lambda replica: replica.outstanding)


def two_choices(replicas: Sequence[Replica], asked: TraceRequest, number: int, draw: random.Random) -> Replica:
    """Of two drawn at random the one with fewer (Mitzenmacher, IEEE TPDS 12, 2001); of equals the first drawn."""
    drawn = draw.sample(replicas, min(2, len(replicas)))
    for replica in drawn:
        replica.advance(asked.arrival_s)
    return min(drawn, key=lambda replica: replica.outstanding)


ROUTINGS: Final[dict[str, Routing]] = {
    "round_robin": round_robin,
    "least_outstanding": least_outstanding,
    "two_choices": two_choices,
}
"""Name -> rule. Under round_robin replicas do not depend on each other, so several processes can share the work."""


def run_fleet(
    spec: FleetSpec,
    requests: Iterable[TraceRequest],
    *,
    part: tuple[int, int] = (0, 1),
    progress: Callable[[int], None] = lambda count: None,
) -> Tally:
    """Run a stream of requests, in order of arrival, to its end.

    part: (k, n) = only the replicas k, k + n, ... under round_robin; the tallies of all n parts merge into that of the
    fleet. progress: told how many requests have come, every 10,000. Raises ValueError for an illegal policy or size, or
    another routing in parts.
    """
    mine, parts = part
    if parts > 1 and spec.routing != "round_robin":
        raise ValueError(f"routing is {spec.routing!r}: only round_robin can be run in parts")
    cpu, tally, draw = time.process_time(), Tally(), random.Random(f"routing {spec.seed}")
    replicas = [Replica(index, spec, tally) for index in range(spec.num_replicas)]
    route, count = ROUTINGS[spec.routing], 0
    for number, asked in enumerate(requests):
        if parts == 1 or number % spec.num_replicas % parts == mine:
            route(replicas, asked, number, draw).add(asked)
        count = number + 1
        if count % 10_000 == 0:
            progress(count)
    for replica in replicas:
        if replica.index % parts == mine:
            replica.finish()
    tally.cpu_s = time.process_time() - cpu
    return tally
