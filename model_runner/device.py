"""Where the model runs: device, number type and threads, chosen once at start."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from model_runner.config import RunnerConfig
from model_runner.errors import RunnerConfigError
from model_runner.start_measurement import Measure, StartTiming, choose_by_measuring

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """device: where tensors live. dtype: of weights and KV cache. threads: torch threads of the process, >= 1.

    timings: what the choice of the last two was made from; empty = nothing was measured.
    """

    device: torch.device
    dtype: torch.dtype
    threads: int
    timings: tuple[StartTiming, ...] = ()

    @property
    def dtype_name(self) -> str:
        """The name used in ``RunnerConfig.dtype``."""
        return str(self.dtype).removeprefix("torch.")


def choose_device(config: RunnerConfig, measure: Measure | None = None) -> DeviceChoice:
    """Resolve "auto" and check the rest.

    measure: how a CPU is timed; what it says decides dtype "auto" and threads 0 there by the rule of
    ``start_measurement``, and it is not called for what was asked for. Without it, and on CUDA: dtype "auto" is
    bfloat16 where the hardware multiplies it (CPU: AVX512-BF16 or AMX; CUDA: compute capability 8.0), else float32;
    threads 0 is all usable cores but one, so that the page keeps one. A CPU without such hardware is never asked about
    bfloat16.

    Raises RunnerConfigError naming the field.
    """
    device = _device(config.device)
    dtype, threads = _dtype(config.dtype, device), _threads(config.threads)
    if measure is None or device.type != "cpu":
        return DeviceChoice(device, dtype, threads)
    both = config.dtype == "auto" and dtype == torch.bfloat16
    dtypes = (torch.float32, torch.bfloat16) if both else (dtype,)
    chosen = choose_by_measuring(dtypes, config.threads, usable_cores(), measure)
    return DeviceChoice(device, chosen.dtype, chosen.threads, chosen.timings)


def apply_threads(choice: DeviceChoice) -> None:
    """Set torch's thread number for this process, so that page and runner do not fight for cores."""
    torch.set_num_threads(choice.threads)
    if choice.device.index is not None and choice.device.type == "cuda":
        torch.cuda.set_device(choice.device)  # what is recorded or allocated without a device goes to this one


class DeviceTimer:
    """Seconds of work on a device. On CUDA by events, so that nobody has to wait for the device only to take a time."""

    def __init__(self, device: torch.device) -> None:
        make: Any = torch.cuda.Event if device.type == "cuda" else None
        self._events = (make(enable_timing=True), make(enable_timing=True)) if make else None
        self._times = [0.0, 0.0]

    def start(self) -> None:
        """The work begins."""
        self._mark(0)

    def stop(self) -> None:
        """All of it has been launched."""
        self._mark(1)

    def seconds(self) -> float:
        """Of the last work. On CUDA the caller has waited for the device since."""
        if self._events:
            return float(self._events[0].elapsed_time(self._events[1])) / 1e3
        return self._times[1] - self._times[0]

    def _mark(self, index: int) -> None:
        if self._events:
            self._events[index].record()
        else:
            self._times[index] = time.perf_counter()


def is_out_of_memory(error: BaseException) -> bool:
    """True for the ways in which torch and Python say that memory is used up."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    if name == "cpu":
        return torch.device("cpu")
    kind, _, index = name.partition(":")
    if kind != "cuda" or (":" in name and not index.isdigit()):
        raise RunnerConfigError(f"device is {name!r}; it must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if not torch.cuda.is_available():
        raise RunnerConfigError(f"device is {name!r}, but torch finds no CUDA device here; use 'auto' or 'cpu'")
    count = torch.cuda.device_count()
    if index and int(index) >= count:
        raise RunnerConfigError(f"device is {name!r}, but there are {count} CUDA devices; N must be below {count}")
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        fast = torch.cuda.get_device_capability(device) >= (8, 0) if device.type == "cuda" else cpu_has_bf16()
        return torch.bfloat16 if fast else torch.float32
    if name not in DTYPES:
        raise RunnerConfigError(f"dtype is {name!r}; it must be 'auto', 'float32' or 'bfloat16'")
    return DTYPES[name]


def _threads(threads: int) -> int:
    if threads < 0:
        raise RunnerConfigError(f"threads is {threads}; it must be 0 (chosen at start) or more")
    return threads or max(1, usable_cores() - 1)


def usable_cores() -> int:
    """Cores this process may use: the affinity mask where the system has one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_has_bf16() -> bool:
    """True where the CPU multiplies bfloat16 in hardware; False where that cannot be found out."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return False
    return "avx512_bf16" in text or "amx_bf16" in text
