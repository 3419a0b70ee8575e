"""All scenes, in the order of the chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dashboard.lesson.scene import Scene
from dashboard.lesson.scenes_batch import ADMISSION, REBUILD, STATIC, UNSHOWN
from dashboard.lesson.scenes_check import THREE, TRUST, WHEN
from dashboard.lesson.scenes_memory import ALLOCATION, CONFLICT, PREEMPTION
from dashboard.lesson.scenes_prefill import CHUNKS, DICTIONARY, STARVE

SCENES: Final[tuple[Scene, ...]] = (
    STATIC, REBUILD, ADMISSION, PREEMPTION, ALLOCATION, STARVE, CHUNKS, CONFLICT, DICTIONARY, UNSHOWN,
    WHEN, THREE, TRUST,
)  # fmt: skip
BY_NAME: Final[Mapping[str, Scene]] = {scene.name: scene for scene in SCENES}


def number_of(name: str) -> int:
    """The number of a scene, from 1."""
    return next(i for i, scene in enumerate(SCENES, 1) if scene.name == name)


def next_of(name: str) -> str:
    """The scene after this one; the last has none after it and gives itself."""
    return SCENES[min(number_of(name), len(SCENES) - 1)].name
