"""Start-up choices from the environment, checked. What can change while it runs is a control on the page instead."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dashboard.door import token_problem
from model_runner.config import RunnerConfig
from model_runner.traffic import TrafficSpec
from model_runner.traffic import problems as traffic_problems
from scheduler import PRESETS, SchedulerPolicy

_log = logging.getLogger(__name__)

PREFIX: Final = "BATCHSCOPE_"
DEVICES: Final = ("auto", "cpu", "cuda")
DTYPES: Final = ("auto", "float32", "bfloat16")
MAX_THREADS: Final = 512
MAX_BLOCKS: Final = 1_000_000
TEXTS: Final = ("MODEL", "DEVICE", "DTYPE", "PRESET", "RATE", "PRESENTER_TOKEN")
INTEGERS: Final = {
    "THREADS": ("threads", 0, MAX_THREADS),
    "NUM_BLOCKS": ("num_blocks", 1, MAX_BLOCKS),
    "NUM_HOST_BLOCKS": ("num_host_blocks", 0, MAX_BLOCKS),
    "BLOCK_SIZE": ("block_size", 1, 1024),
    "MAX_MODEL_LEN": ("max_model_len", 2, 1_000_000),
    "SEED": ("seed", 0, 2**63 - 1),
}
"""Variable without prefix -> (field of RunnerConfig, smallest and largest legal value)."""
READ_ELSEWHERE: Final = ("CACHE", "POLICIES", "RENDERER", "API_KEY", "API_MAX_QUEUED")
"""By the cache of converted models, the policies of one's own, the chart specifications and the HTTP API; listed so
that they are not called unknown."""


class SettingsError(ValueError):
    """A start-up choice that cannot be used; the message names variable, value and what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the app starts the runner with. presenter_token: what a presenter must know, "" = not set."""

    config: RunnerConfig
    policy: SchedulerPolicy
    traffic: TrafficSpec
    presenter_token: str = field(default="", repr=False)


def _whole(name: str, value: str, smallest: int, largest: int) -> int:
    digits = value.strip()
    fits = digits.isascii() and digits.isdigit() and len(digits) < 20 and smallest <= int(digits) <= largest
    if not fits:
        raise SettingsError(f"{PREFIX}{name}={value[:60]!r}: a whole number from {smallest} to {largest} is needed")
    return int(digits)


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


def _token(value: str) -> str:
    problem = token_problem(value)
    if problem:
        raise SettingsError(f"{PREFIX}PRESENTER_TOKEN {problem}")
    return value


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Settings from BATCHSCOPE_* variables; those that are absent or empty keep their default.

    MODEL, DEVICE, DTYPE, THREADS, NUM_BLOCKS, NUM_HOST_BLOCKS, BLOCK_SIZE, MAX_MODEL_LEN, SEED: as in RunnerConfig.
    PRESET: policy of the start. RATE: requests a second. PRESENTER_TOKEN: 8 to 200 signs. Raises SettingsError.
    """
    given = {k.removeprefix(PREFIX): v for k, v in environment.items() if k.startswith(PREFIX) and v.strip()}
    known_names = (*TEXTS, *INTEGERS, *READ_ELSEWHERE)
    unknown = sorted(set(given) - set(known_names))
    if unknown:
        known = ", ".join(PREFIX + name for name in known_names)
        _log.warning("%s: not known; known are %s", ", ".join(PREFIX + name for name in unknown), known)
    config = RunnerConfig()
    if "MODEL" in given:
        config = replace(config, model=given["MODEL"])
    if "DEVICE" in given:
        config = replace(config, device=_device(given["DEVICE"]))
    if "DTYPE" in given:
        config = replace(config, dtype=_one_of("DTYPE", given["DTYPE"], DTYPES))
    for name, (target, smallest, largest) in INTEGERS.items():
        if name in given:
            number: dict[str, Any] = {target: _whole(name, given[name], smallest, largest)}
            config = replace(config, **number)
    policy = PRESETS[_one_of("PRESET", given["PRESET"], tuple(PRESETS))] if "PRESET" in given else SchedulerPolicy()
    traffic = TrafficSpec(rate=_rate(given["RATE"])) if "RATE" in given else TrafficSpec()
    return Settings(config, policy, traffic, _token(given["PRESENTER_TOKEN"]) if "PRESENTER_TOKEN" in given else "")
