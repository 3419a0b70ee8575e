"""What two measured runs say, in order: never what was expected of them."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.lesson.facts import FACTS, Measured
from dashboard.lesson.scene import DIRECTIONS, Direction, Scene


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a result holds. policy_a, policy_b: fields that differ from the defaults, as (field, value)."""

    model: str
    is_toy: bool
    device: str
    dtype: str
    attention: str
    threads: int
    torch_version: str
    num_blocks: int
    block_size: int
    max_model_len: int
    policy_a: tuple[tuple[str, object], ...]
    policy_b: tuple[tuple[str, object], ...]
    seed: int
    pace_ms: float
    run_id: str
    measured_at: float


@dataclass(frozen=True, slots=True)
class Result:
    """Both runs of a scene."""

    scene: str
    a: Measured
    b: Measured
    conditions: Conditions

    @property
    def strangers(self) -> int:
        """Other requests that ran in between."""
        return self.a.strangers + self.b.strangers


def direction(result: Result, fact: str) -> Direction | None:
    """How B's value compares with A's; None where one of them is missing."""
    a, b = result.a.values[fact].number, result.b.values[fact].number
    if a is None or b is None:
        return None
    if abs(b - a) <= FACTS[fact].tolerance * max(abs(a), abs(b)):
        return "same"
    return "less" if b < a else "more"


def answer_of(scene: Scene, result: Result | None) -> int | None:
    """Index of the right choice by what was measured; None while nothing was, or the fact has no value."""
    if not scene.runs:
        return scene.answer
    measured = direction(result, scene.key) if result else None
    return None if measured is None else DIRECTIONS.index(measured)
