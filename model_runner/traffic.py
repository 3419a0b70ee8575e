"""Steady traffic of real prompts, on the engine's clock, the same for the same seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from model_runner.messages import EngineSnapshot
from scheduler import SamplingParams

MIXES: Final = ("short", "long", "mixed", "bimodal")
PRIORITY_MIXES: Final = ("none", "few_urgent", "uniform")
MAX_RATE: Final = 50.0
MAX_BURST: Final = 200
EXTRAPOLATE_S: Final = 0.5
MAX_ADVANCE_S: Final = 2.0
"""Engine time one call may bring; a reader that was away does not flood the engine afterwards."""

OUTPUT_TOKENS: Final = {"short": (8, 32), "long": (96, 192), "mixed": (24, 120)}
"""Range of ``max_tokens``; the model may end earlier by itself. bimodal: short, one in five long."""


@dataclass(frozen=True, slots=True)
class TrafficSpec:
    """What arrives.

    rate: requests a second of engine time, 0..50. burstiness: > 0, vLLM's: gaps are gamma distributed with this shape,
    1 = Poisson, large = regular, below 1 = bursty. prompt_mix, output_mix: one of MIXES. temperature: >= 0, of every
    request. priority_mix: "none" (all 0), "few_urgent" (one in five -1) or "uniform" (-1, 0, 1). max_waiting: arrivals
    that find so many waiting are dropped and counted. enabled: False = nothing arrives. seed: of prompts, lengths,
    gaps and sampling.
    """

    rate: float = 0.8
    burstiness: float = 1.0
    prompt_mix: str = "mixed"
    output_mix: str = "mixed"
    temperature: float = 0.7
    priority_mix: str = "none"
    max_waiting: int = 64
    enabled: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrafficStats:
    """Since the client was made. generated == submitted + dropped; refused: of the submitted, not accepted."""

    generated: int = 0
    submitted: int = 0
    dropped: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request that arrives."""

    prompt: str
    sampling: SamplingParams
    priority: int


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompt texts by kind: short about 8 to 40 tokens, long about 150 to 400."""

    short: tuple[str, ...]
    long: tuple[str, ...]

    @classmethod
    def load(cls) -> Prompts:
        """The prompts that come with the product."""
        text = resources.files("model_runner").joinpath("prompts.txt").read_text(encoding="utf-8")
        kinds: dict[str, list[str]] = {"short": [], "long": []}
        for block in text.split("\n\n"):
            kind, _, prompt = block.strip().partition(": ")
            if kind in kinds:
                kinds[kind].append(" ".join(prompt.split()))
        return cls(tuple(kinds["short"]), tuple(kinds["long"]))


def problems(spec: TrafficSpec) -> tuple[str, ...]:
    """One sentence for each illegal field; () when the spec can be used."""
    found = []
    if not 0 <= spec.rate <= MAX_RATE:
        found.append(f"rate: {spec.rate}, 0 to {MAX_RATE:g} requests a second are allowed")
    if not 0 < spec.burstiness < float("inf"):
        found.append(f"burstiness: {spec.burstiness}, a number above 0 is needed")
    for name, value, choices in (
        ("prompt_mix", spec.prompt_mix, MIXES),
        ("output_mix", spec.output_mix, MIXES),
        ("priority_mix", spec.priority_mix, PRIORITY_MIXES),
    ):
        if value not in choices:
            found.append(f"{name}: {value!r}, one of {', '.join(choices)} is needed")
    if not 0 <= spec.temperature < float("inf"):
        found.append(f"temperature: {spec.temperature}, a number of at least 0 is needed")
    if spec.max_waiting < 0:
        found.append(f"max_waiting: {spec.max_waiting}, at least 0 is needed")
    return tuple(found)


class Generator:
    """Draws gaps and requests. The same seed and the same specs in the same order give the same."""

    def __init__(self, seed: int, prompts: Prompts) -> None:
        # Two streams, so that a changed rate does not change which prompts come.
        self._gaps = random.Random(f"gaps {seed}")
        self._requests = random.Random(f"requests {seed}")
        self._prompts = prompts

    def copy(self) -> Generator:
        """One that goes on from here by itself: it draws what this one will draw."""
        other = Generator(0, self._prompts)
        other._gaps.setstate(self._gaps.getstate())
        other._requests.setstate(self._requests.getstate())
        return other

    def gap_s(self, spec: TrafficSpec) -> float:
        """Seconds of engine time to the next arrival; mean 1 / rate."""
        return self._gaps.gammavariate(spec.burstiness, 1.0 / (spec.rate * spec.burstiness))

    def arrival(self, spec: TrafficSpec) -> Arrival:
        """The next request."""
        draw = self._requests
        long_prompt, long_output = draw.random(), draw.random()
        prompt_share = {"short": 0.0, "long": 1.0, "mixed": 0.35, "bimodal": 0.2}[spec.prompt_mix]
        texts = self._prompts.long if long_prompt < prompt_share else self._prompts.short
        outputs = spec.output_mix
        if outputs == "bimodal":
            outputs = "long" if long_output < 0.2 else "short"
        priority = {"none": (0,), "few_urgent": (-1, 0, 0, 0, 0), "uniform": (-1, 0, 1)}[spec.priority_mix]
        sampling = SamplingParams(
            max_tokens=draw.randint(*OUTPUT_TOKENS[outputs]), temperature=spec.temperature, seed=draw.getrandbits(31)
        )
        return Arrival(draw.choice(texts), sampling, draw.choice(priority))


class TrafficSource:
    """Arrivals as engine time passes. ``set``, ``burst`` and the properties may be used from any thread.

    submit: takes an arrival in, False = refused. changed: told of each new spec or burst, in words.
    """

    def __init__(
        self,
        submit: Callable[[Arrival], bool],
        changed: Callable[[str], None] = lambda text: None,
        spec: TrafficSpec | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        self._submit = submit
        self._changed = changed
        self._prompts = Prompts.load() if prompts is None else prompts
        self._lock = threading.Lock()
        self._spec = spec or TrafficSpec()
        self._generator = Generator(self._spec.seed, self._prompts)
        self._next_in_s: float | None = None
        self._stats = TrafficStats()

    @property
    def spec(self) -> TrafficSpec:
        """What arrives now."""
        return self._spec

    @property
    def stats(self) -> TrafficStats:
        """What came of it."""
        return self._stats

    def set(self, spec: TrafficSpec) -> tuple[str, ...]:
        """Use another spec from now on; the reasons when it is refused, () when it is in force."""
        found = problems(spec)
        if found:
            return found
        with self._lock:
            before, self._spec = self._spec, spec
            if spec.seed != before.seed:
                self._generator = Generator(spec.seed, self._prompts)
            if (spec.rate, spec.burstiness, spec.enabled, spec.seed) != (
                before.rate,
                before.burstiness,
                before.enabled,
                before.seed,
            ):
                self._next_in_s = None
        text = _difference(before, spec)
        if text:
            self._changed(text)
        return ()

    def burst(self, n: int) -> int:
        """n more requests at once; how many were taken in. max_waiting does not apply: a burst is asked for."""
        count = max(0, min(n, MAX_BURST))
        with self._lock:
            arrivals = [self._generator.arrival(self._spec) for _ in range(count)]
        if count:
            self._changed(f"burst of {count}")
        return sum(self._take(arrival) for arrival in arrivals)

    def advance(self, engine_s: float, num_waiting: int) -> int:
        """Let engine time pass and submit what arrives in it; how many were taken in."""
        left = min(engine_s, MAX_ADVANCE_S)
        taken = 0
        while True:
            with self._lock:
                spec = self._spec
                if not spec.enabled or spec.rate <= 0:
                    return taken
                if self._next_in_s is None:
                    self._next_in_s = self._generator.gap_s(spec)
                if self._next_in_s > left:
                    self._next_in_s -= left
                    return taken
                left -= self._next_in_s
                self._next_in_s = None
                arrival = self._generator.arrival(spec)
            if num_waiting + taken >= spec.max_waiting:
                self._count(dropped=1)
            else:
                taken += self._take(arrival)

    def ahead(self, seconds: float, limit: int = 1_000) -> tuple[tuple[float, Arrival], ...]:
        """What will arrive in the next ``seconds`` of engine time, at most ``limit``, if nobody changes the traffic.

        (seconds from now, arrival) in order; nothing is drawn from the source itself. An arrival may still be dropped
        when it comes, if ``max_waiting`` wait by then.
        """
        with self._lock:
            spec, generator, gap = self._spec, self._generator.copy(), self._next_in_s
        found: list[tuple[float, Arrival]] = []
        if not spec.enabled or spec.rate <= 0:
            return ()
        at = generator.gap_s(spec) if gap is None else gap
        while at <= seconds and len(found) < limit:
            found.append((at, generator.arrival(spec)))
            at += generator.gap_s(spec)
        return tuple(found)

    def _take(self, arrival: Arrival) -> int:
        accepted = self._submit(arrival)
        self._count(submitted=1, refused=0 if accepted else 1)
        return int(accepted)

    def _count(self, submitted: int = 0, dropped: int = 0, refused: int = 0) -> None:
        with self._lock:
            old = self._stats
            self._stats = TrafficStats(
                old.generated + submitted + dropped,
                old.submitted + submitted,
                old.dropped + dropped,
                old.refused + refused,
            )


class TrafficClock:
    """Lets the traffic's time follow the engine's, from one run to the next. One thread."""

    def __init__(self, source: TrafficSource) -> None:
        self._source = source
        self._time = 0.0

    def start_run(self, engine_time: float) -> None:
        """Another engine counts its time from here."""
        self._time = engine_time

    def follow(self, latest: EngineSnapshot, age_s: float, num_waiting: int) -> None:
        """Let pass what passed in the engine. age_s: seconds since ``latest`` came in; the engine's clock is taken to
        have run on since, for a heartbeat at most, unless something holds it.
        """
        runs_on = latest.phase in ("running", "idle") and latest.step.policy.step_delay_ms == 0
        engine_time = latest.engine_time + (min(age_s, EXTRAPOLATE_S) if runs_on else 0.0)
        if engine_time > self._time:
            passed, self._time = engine_time - self._time, engine_time
            self._source.advance(passed, num_waiting)


def _difference(before: TrafficSpec, after: TrafficSpec) -> str:
    names: Sequence[str] = TrafficSpec.__slots__
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in names)
    return "; ".join(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)
