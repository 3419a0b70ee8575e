"""Many simulations at once: on the cores of this machine, or on a Ray cluster by one option."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import joblib

from experiments.trace import Trace, TraceRequest
from experiments.traces.generators import GeneratorSpec, stream
from experiments.virtual.fleet import FleetSpec, Tally, run_fleet

BACKENDS: Final = ("joblib", "ray")

SHOW_EVERY: Final = 20_000
"""Requests between two lines of progress."""

T = TypeVar("T")
Source = GeneratorSpec | Trace
"""Where requests come from: a spec, drawn anew by each process, or a trace, sent to it."""


class SweepError(RuntimeError):
    """The sweep cannot run; the message says what to do."""


def requests_from(source: Source) -> Iterator[TraceRequest]:
    """The requests in order of arrival."""
    return stream(source) if isinstance(source, GeneratorSpec) else iter(source.requests)


def run_all(
    tasks: Sequence[tuple[Callable[..., T], tuple[Any, ...]]],
    *,
    backend: str = "joblib",
    jobs: int = 1,
    ray_address: str | None = None,
) -> list[T]:
    """The results of independent (function, arguments), in their order. All of both must be picklable.

    backend: "joblib" = processes of this machine, at most ``jobs`` at a time (-1 = one a core); "ray" = a Ray cluster,
    of which ``jobs`` limits the tasks at a time. ray_address: as ray.init takes it ("auto", "ray://HOST:PORT"); None =
    a Ray of its own on this machine. Raises SweepError when Ray is asked for and not installed, or not reached.
    """
    if backend not in BACKENDS:
        raise SweepError(f"backend is {backend!r}, expected one of {', '.join(BACKENDS)}")
    if backend == "joblib" and (jobs == 1 or len(tasks) == 1):
        return [function(*arguments) for function, arguments in tasks]
    calls = [joblib.delayed(function)(*arguments) for function, arguments in tasks]
    if backend == "joblib":
        return list(joblib.Parallel(n_jobs=jobs)(calls))
    with _ray(jobs, ray_address), joblib.parallel_config(backend="ray"):
        return list(joblib.Parallel(n_jobs=jobs)(calls))


@contextmanager
def _ray(jobs: int, address: str | None) -> Iterator[None]:
    """Ray as a backend of joblib (ray.util.joblib.register_ray), shut down afterwards if it was started here."""
    try:
        ray = importlib.import_module("ray")
        register = importlib.import_module("ray.util.joblib").register_ray
    except ImportError as error:
        raise SweepError(
            "backend is 'ray', and Ray is not installed here; install it with: pip install 'ray[default]' "
            f"(or use the backend joblib; {error})"
        ) from error
    started = not ray.is_initialized()
    if started:
        options: dict[str, Any] = {"address": address} if address else {"num_cpus": max(1, jobs) if jobs > 0 else None}
        try:
            ray.init(**options, log_to_driver=False, include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SweepError(f"ray_address is {address!r}, and no Ray was reached there: {error}") from error
    try:
        register()
        yield
    finally:
        if started:
            ray.shutdown()


def run_part(spec: FleetSpec, source: Source, part: tuple[int, int]) -> Tally:
    """One part of a fleet, as a task. The first part of a long one says on the error output how far it has come."""
    total = source.num_requests if isinstance(source, GeneratorSpec) else len(source.requests)

    def progress(count: int) -> None:
        if part[0] == 0 and count % SHOW_EVERY == 0:
            print(f"{count:,} of {total:,} requests have come", file=sys.stderr, flush=True)

    return run_fleet(spec, requests_from(source), part=part, progress=progress)


def run_in_parts(
    spec: FleetSpec, source: Source, *, backend: str = "joblib", jobs: int = 1, ray_address: str | None = None
) -> Tally:
    """A fleet, its replicas shared among processes where they do not depend on each other (round_robin)."""
    parts = min(jobs, spec.num_replicas) if spec.routing == "round_robin" and jobs > 1 else 1
    tasks = [(run_part, (spec, source, (k, parts))) for k in range(parts)]
    found = run_all(tasks, backend=backend, jobs=jobs, ray_address=ray_address)
    whole = found[0]
    for tally in found[1:]:
        whole.merge(tally)
    return whole


def sweep(
    arms: Sequence[tuple[FleetSpec, Source]],
    *,
    backend: str = "joblib",
    jobs: int = 1,
    ray_address: str | None = None,
) -> list[Tally]:
    """Each arm whole, in one process; the tallies in the order of the arms."""
    tasks = [(run_part, (spec, source, (0, 1))) for spec, source in arms]
    return run_all(tasks, backend=backend, jobs=jobs, ray_address=ray_address)
