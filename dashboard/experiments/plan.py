"""What an experiment will do, before it is begun: its requests, its arms, and about how long it takes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from experiments.runs.arms import arms_of
from experiments.runs.driver import PoolShape
from experiments.runs.spec import Spec, SpecError
from experiments.runs.workload import check_fits, scale_spec, trace_of
from experiments.trace import Trace
from experiments.traces import TraceError, scale
from experiments.virtual.cost import FittedCost
from experiments.virtual.fit import FitError
from experiments.virtual.race import fit_history
from experiments.virtual.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from model_runner.client import RunnerClient

TRIED: Final = 100
"""Requests that are simulated for an estimate."""
FRESH_S: Final = 30.0
"""Seconds for which step times of the live engine are taken as they were."""


@dataclass(frozen=True, slots=True)
class Plan:
    """trace: as it will be run. labels: of the arms, in order. runs: of all arms together.

    seconds: a guess for all runs, from step times of the live engine; None where nothing is known of the speed.
    """

    trace: Trace
    labels: tuple[str, ...]
    runs: int
    seconds: float | None

    @property
    def least_s(self) -> float:
        """No run ends before its last request has come."""
        return self.runs * self.trace.requests[-1].arrival_s


def plan_of(spec: Spec, base: Path, upload: Trace | None, cost: FittedCost | None) -> Plan:
    """Read or make the workload, scale it, check every arm, and estimate. Raises SpecError.

    upload: the workload where the spec names a file. cost: step times of this model on this machine, None = unknown.
    """
    trace = _trace(spec, base, upload)
    arms = arms_of(spec)
    model = spec.model
    longest = model.max_model_len or model.num_blocks * model.block_size
    pool = PoolShape(model.num_blocks, model.block_size, longest, model.num_host_blocks)
    check_fits(trace, max_model_len=longest, pool_tokens=model.num_blocks * model.block_size, vocab_size=2**31)
    runs = len(arms) * spec.repeats
    seconds = None
    if cost is not None:
        tried = replace(trace, requests=trace.requests[:TRIED])
        try:
            walls = [simulate(arm.policy, tried, cost, pool).wall_s for arm in (arms[0], arms[-1])]
        except ValueError as error:
            raise SpecError(str(error)) from error
        seconds = sum(walls) / 2 * len(trace.requests) / len(tried.requests) * runs
    return Plan(trace, tuple(arm.label for arm in arms), runs, seconds)


def _trace(spec: Spec, base: Path, upload: Trace | None) -> Trace:
    if not spec.trace.file:
        return trace_of(spec, base)
    if upload is None:
        raise SpecError("trace.file: no file was uploaded yet")
    try:
        return scale(upload, scale_spec(spec))
    except TraceError as error:
        raise SpecError(str(error)) from error


class SpeedBook:
    """Step times of the live engine, fitted now and then for all pages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, float] = ("", 0.0)
        self._cost: FittedCost | None = None

    def cost(self, client: RunnerClient) -> FittedCost | None:
        """None while the present run of the engine has too few steps."""
        latest = client.latest
        if latest is None:
            return None
        with self._lock:
            run_id, until = self._key
            if run_id != latest.run_id or time.monotonic() > until:
                try:
                    self._cost = fit_history(client.history()).model
                except FitError:
                    self._cost = None
                self._key = latest.run_id, time.monotonic() + (FRESH_S if self._cost else 2.0)
            return self._cost
