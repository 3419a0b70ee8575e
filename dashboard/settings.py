"""Start-up choices from the environment, checked. What can change while it runs is a control on the page instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from model_runner.config import RunnerConfig
from model_runner.traffic import TrafficSpec
from model_runner.traffic import problems as traffic_problems
from scheduler import PRESETS, SchedulerPolicy

PREFIX: Final = "BATCHSCOPE_"
DEVICES: Final = ("auto", "cpu", "cuda")
DTYPES: Final = ("auto", "float32", "bfloat16")
INTEGERS: Final = {
    "THREADS": ("threads", 0),
    "NUM_BLOCKS": ("num_blocks", 1),
    "BLOCK_SIZE": ("block_size", 1),
    "MAX_MODEL_LEN": ("max_model_len", 2),
    "SEED": ("seed", 0),
}
"""Variable without prefix -> (field of RunnerConfig, smallest legal value)."""


class SettingsError(ValueError):
    """A start-up choice that cannot be used; the message names variable, value and what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the app starts the runner with."""

    config: RunnerConfig
    policy: SchedulerPolicy
    traffic: TrafficSpec


def _whole(name: str, value: str, smallest: int) -> int:
    if not value.isascii() or not value.strip().isdigit() or int(value) < smallest:
        raise SettingsError(f"{PREFIX}{name}={value!r}: a whole number of at least {smallest} is needed")
    return int(value)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise SettingsError(f"{PREFIX}{name}={value!r}: one of {', '.join(known)} is needed")
    return value


def _device(value: str) -> str:
    kind, _, index = value.partition(":")
    if value in DEVICES or (kind == "cuda" and index.isdigit()):
        return value
    raise SettingsError(f"{PREFIX}DEVICE={value!r}: auto, cpu, cuda or cuda:N is needed")


def _rate(value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if traffic_problems(TrafficSpec(rate=rate)):
        raise SettingsError(f"{PREFIX}RATE={value!r}: a number from 0 to 50 (requests a second) is needed")
    return rate


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Settings from BATCHSCOPE_* variables; those that are absent or empty keep their default.

    MODEL, DEVICE, DTYPE, THREADS, NUM_BLOCKS, BLOCK_SIZE, MAX_MODEL_LEN, SEED: as in RunnerConfig. PRESET: policy of
    the start. RATE: requests a second. Raises SettingsError.
    """
    given = {k.removeprefix(PREFIX): v for k, v in environment.items() if k.startswith(PREFIX) and v.strip()}
    config = RunnerConfig()
    if "MODEL" in given:
        config = replace(config, model=given["MODEL"])
    if "DEVICE" in given:
        config = replace(config, device=_device(given["DEVICE"]))
    if "DTYPE" in given:
        config = replace(config, dtype=_one_of("DTYPE", given["DTYPE"], DTYPES))
    for name, (field, smallest) in INTEGERS.items():
        if name in given:
            number: dict[str, Any] = {field: _whole(name, given[name], smallest)}
            config = replace(config, **number)
    policy = PRESETS[_one_of("PRESET", given["PRESET"], tuple(PRESETS))] if "PRESET" in given else SchedulerPolicy()
    traffic = TrafficSpec(rate=_rate(given["RATE"])) if "RATE" in given else TrafficSpec()
    return Settings(config, policy, traffic)
