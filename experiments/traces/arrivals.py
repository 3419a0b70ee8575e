"""When requests arrive: seconds from the start of the trace, rising, rounded to a microsecond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from experiments.traces.portable import Stream
from experiments.traces.textform import TextForm

_MOST_RATE = 1e6


@dataclass(frozen=True, slots=True)
class Burst(TextForm):
    """``size`` requests at once every ``every_s`` seconds, from second 0; size 0 = all of them at second 0."""

    kind: ClassVar[str] = "burst"
    size: int = 0
    every_s: float = 1.0

    def problem(self) -> str:
        """ "" or what is wrong."""
        if self.size < 0:
            return f"size is {self.size}, expected 0 (all at once) or more"
        return "" if 0 < self.every_s <= 86_400 else f"every_s is {self.every_s}, expected above 0, to 86400"

    def times(self, count: int, stream: Stream) -> list[float]:
        """``count`` arrivals in seconds."""
        return [index // (self.size or count) * self.every_s for index in range(count)]

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know about how these are made."""
        return ()


@dataclass(frozen=True, slots=True)
class Steady(TextForm):
    """One every 1 / ``rate`` seconds, the first at second 1 / rate: vLLM's burstiness "inf"."""

    kind: ClassVar[str] = "steady"
    rate: float

    def problem(self) -> str:
        """ "" or what is wrong."""
        return _rate(self.rate)

    def times(self, count: int, stream: Stream) -> list[float]:
        """``count`` arrivals in seconds."""
        return [(index + 1) / self.rate for index in range(count)]

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know about how these are made."""
        return ()


@dataclass(frozen=True, slots=True)
class Gamma(TextForm):
    """Gaps drawn from a gamma distribution of shape ``burstiness`` and mean 1 / ``rate``, as ``vllm bench serve`` does.

    Below 1 is burstier than Poisson, 1 is Poisson, above 1 more even; CV of the gaps = 1 / sqrt(burstiness). As there,
    the first request waits one gap too, and all times are then multiplied by one number so that the last arrival is at
    count / rate: seeds differ in their pattern, not in their rate.
    """

    kind: ClassVar[str] = "gamma"
    rate: float
    burstiness: float = 1.0

    def problem(self) -> str:
        """ "" or what is wrong."""
        if not 0.01 <= self.burstiness <= 1000:
            return f"burstiness is {self.burstiness}, expected 0.01 to 1000"
        return _rate(self.rate)

    def times(self, count: int, stream: Stream) -> list[float]:
        """``count`` arrivals in seconds."""
        return _rescaled(_sums([stream.gamma(self.burstiness) for _ in range(count)]), count / self.rate)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know about how these are made."""
        return (("rescaled", "all times by one factor, so that the last arrival is at count / rate, as vLLM's bench"),)


@dataclass(frozen=True, slots=True)
class Poisson(TextForm):
    """Gaps drawn from an exponential distribution of mean 1 / ``rate``; not rescaled."""

    kind: ClassVar[str] = "poisson"
    rate: float

    def problem(self) -> str:
        """ "" or what is wrong."""
        return _rate(self.rate)

    def times(self, count: int, stream: Stream) -> list[float]:
        """``count`` arrivals in seconds."""
        return _sums([stream.exponential() / self.rate for _ in range(count)])

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know about how these are made."""
        return (
            ("rescaled", "no: the last arrival is random, so the rate of one trace differs from the one asked for"),
        )


@dataclass(frozen=True, slots=True)
class Drift(TextForm):
    """Gamma gaps whose rate rises in a straight line from ``low`` to ``high`` and falls back, once over the trace.

    Rescaled as Gamma so that the mean rate is ``rate``; low and high are shares of each other only.
    """

    kind: ClassVar[str] = "drift"
    rate: float
    burstiness: float
    low: float
    high: float

    def problem(self) -> str:
        """ "" or what is wrong."""
        if not 0 < self.low <= self.high:
            return f"low is {self.low}, expected above 0 and at most high ({self.high})"
        return Gamma(self.rate, self.burstiness).problem()

    def times(self, count: int, stream: Stream) -> list[float]:
        """``count`` arrivals in seconds."""
        gaps = []
        for index in range(count):
            place = 2.0 * (index + 0.5) / count
            height = min(place, 2.0 - place)
            gaps.append(stream.gamma(self.burstiness) / (self.low + (self.high - self.low) * height))
        return _rescaled(_sums(gaps), count / self.rate)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know about how these are made."""
        return (
            ("rescaled", "all times by one factor, so that the last arrival is at count / rate"),
            ("assumed", "that the rate rises and falls once, in straight lines; only its range was measured"),
        )


@dataclass(frozen=True, slots=True)
class OnOff(TextForm):
    """Bursts of about ``burst`` requests at ``rate`` a second; silences of about ``silence_s``, at least ``least_s``.

    Burst sizes are exponential, rounded up; gaps within exponential; silences least_s plus an exponential.
    """

    kind: ClassVar[str] = "onoff"
    rate: float
    burst: float
    silence_s: float
    least_s: float = 0.0

    def problem(self) -> str:
        """ "" or what is wrong."""
        if not 1 <= self.burst <= 1e6:
            return f"burst is {self.burst}, expected 1 to 1e6 requests"
        if not 0 <= self.least_s <= self.silence_s <= 86_400:
            return f"silence_s is {self.silence_s}, expected least_s ({self.least_s}) to 86400"
        return _rate(self.rate)

    def times(self, count: int, stream: Stream) -> list[float]:
        """``count`` arrivals in seconds."""
        times: list[float] = []
        now = 0.0
        while len(times) < count:
            size = 1 + int(self.burst * stream.exponential())
            for _ in range(min(size, count - len(times))):
                now += stream.exponential() / self.rate
                times.append(now)
            now += self.least_s + (self.silence_s - self.least_s) * stream.exponential()
        return times

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know about how these are made."""
        return (
            ("rescaled", "no: the rate of one trace depends on how many bursts it holds"),
            ("assumed", "exponential burst sizes and silences; only their means and the least silence were measured"),
        )


Arrivals = Burst | Steady | Gamma | Poisson | Drift | OnOff
ARRIVALS: tuple[type[Arrivals], ...] = (Burst, Steady, Poisson, Gamma, Drift, OnOff)


def _rate(rate: float) -> str:
    return "" if 0 < rate <= _MOST_RATE else f"rate is {rate}, expected above 0, to {_MOST_RATE:g} a second"


def _sums(gaps: list[float]) -> list[float]:
    now, times = 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
    return times


def _rescaled(times: list[float], end: float) -> list[float]:
    factor = end / times[-1] if times and times[-1] > 0 else 1.0
    return [time * factor for time in times]
