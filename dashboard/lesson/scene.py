"""What a scene is: frozen data. Two policies, one burst of requests for both, a question, and what to measure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from dashboard.i18n import N_
from model_runner.messages import EngineInfo
from scheduler import SchedulerPolicy

Direction = Literal["less", "same", "more"]
"""How B compares with A."""
DIRECTIONS: Final[tuple[Direction, ...]] = ("less", "same", "more")
TOKEN_IDS: Final = range(16, 112)
"""Ids of the prompts: every vocabulary has them, and no scheduling decision looks at them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a burst. prompt, output: tokens; it makes exactly ``output`` of them.

    at: iterations of the run before it arrives. role: "long" is told apart from "other" in what is measured.
    shared: so many tokens at the beginning of the prompt are the same for all that share.
    """

    prompt: int
    output: int
    at: int = 0
    role: Literal["other", "long"] = "other"
    priority: int = 0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two policies. name: a message. policy: fields that differ from the defaults of SchedulerPolicy.

    kv_tokens: token slots that may be in use, made whole blocks of the engine; None = all. kv_sequences: the same in
    sequences of the longest legal length, for engines of any max_model_len.
    """

    name: str
    policy: Mapping[str, Any]
    kv_tokens: int | None = None
    kv_sequences: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", MappingProxyType(dict(self.policy)))


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene. All texts are messages of the catalogue.

    section: of the chapter. look: two sentences, what to look at. question, choices: the prediction; where the scene
    is measured, choice i says that B's ``key`` is DIRECTIONS[i] compared with A's. answer: of a scene without a run,
    the right choice. a, b, burst: None and () for a scene that runs nothing. facts: names of ``facts.FACTS`` to show,
    the key first. expected: what theory says of the key; the page shows what was measured. charts: panels and pictures
    to look at, the most telling first. pace_ms: pause after each iteration, for the eye; not counted. not_shown: what
    must not be concluded. based_on: scenes whose results back the model answer.
    """

    name: str
    section: str
    title: str
    look: tuple[str, str]
    question: str
    choices: tuple[str, ...]
    not_shown: str
    a: Side | None = None
    b: Side | None = None
    burst: tuple[Asked, ...] = ()
    facts: tuple[str, ...] = ()
    expected: Direction = "same"
    charts: tuple[str, ...] = ("lanes", "budget", "load")
    pace_ms: float = 60.0
    seed: int = 8
    answer: int | None = None
    model_answer: tuple[str, ...] = ()
    based_on: tuple[str, ...] = field(default=())

    @property
    def key(self) -> str:
        """The fact that the question is about; "" for a scene that runs nothing."""
        return self.facts[0] if self.facts else ""

    @property
    def runs(self) -> bool:
        """Whether there is something to measure."""
        return self.a is not None and self.b is not None


class SceneError(ValueError):
    """A scene that this engine cannot run; the message is for the page (a message of the catalogue and its values)."""

    def __init__(self, message: str, **values: str | int | float) -> None:
        super().__init__(message.format(**values))
        self.message = message
        self.values = values


def policy_of(side: Side, info: EngineInfo, *, pace_ms: float = 0.0) -> SchedulerPolicy:
    """The side as a policy for this engine.

    Whole prompts need a budget that holds the longest legal sequence, so it is raised where chunks are off.
    """
    policy = replace(SchedulerPolicy(), **side.policy)
    if not policy.enable_chunked_prefill:
        budget = max(policy.max_num_batched_tokens, info.max_model_len - 1)
        policy = replace(policy, max_num_batched_tokens=budget)
    blocks = _usable_blocks(side, info)
    if blocks is not None:
        policy = replace(policy, kv_block_limit=blocks if blocks < info.num_blocks else None)
    return replace(policy, step_delay_ms=pace_ms)


def _usable_blocks(side: Side, info: EngineInfo) -> int | None:
    if side.kv_sequences is not None:
        return side.kv_sequences * -(-info.max_model_len // info.block_size)
    return None if side.kv_tokens is None else max(1, -(-side.kv_tokens // info.block_size))


def prompts(scene: Scene) -> tuple[tuple[int, ...], ...]:
    """Token ids of each request of the burst, the same for A and B and on every machine."""
    draw = random.Random(f"lesson {scene.seed}")
    common = [draw.choice(TOKEN_IDS) for _ in range(max([r.shared for r in scene.burst], default=0))]
    made = []
    for asked in scene.burst:
        own = [draw.choice(TOKEN_IDS) for _ in range(asked.prompt)]
        made.append(tuple((common[: asked.shared] + own)[: asked.prompt]))
    return tuple(made)


def check(scene: Scene, info: EngineInfo) -> None:
    """Raises SceneError where the engine is too small for a request of the burst, or has nowhere to swap to."""
    longest = max((r.prompt + r.output for r in scene.burst), default=0)
    room = min(info.max_model_len, info.num_blocks * info.block_size)
    if longest > room:
        raise SceneError(
            N_("This scene has a request of {needed} tokens; this engine takes {room}. Start it with a larger "
               "max_model_len and more KV blocks."), needed=longest, room=room,
        )  # fmt: skip
    swaps = any(side.policy.get("preemption_mode") == "swap" for side in (scene.a, scene.b) if side)
    if swaps and not info.num_host_blocks:
        raise SceneError(
            N_("This scene swaps, and the engine has no host blocks. Start it with num_host_blocks above 0.")
        )
