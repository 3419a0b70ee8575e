"""The scenes, and the effect of every control in one of them, on the real scheduler with a step-time model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest

from dashboard.fields import CONTROLS, controls
from dashboard.i18n import translator
from dashboard.lesson.effects import EFFECTS, Effect
from dashboard.lesson.scene import Scene, SceneError, Side, check, policy_of, prompts
from dashboard.lesson.scenes import BY_NAME, SCENES, next_of, number_of
from dashboard.lesson.verdict import Result, direction
from dashboard.lesson.words import outcome
from dashboard.room import MAX_LINES, Room
from scheduler import SchedulerPolicy, problems
from scheduler.policy import limit_problems
from tests.dashboard.lessons import ENGINE, conditions, simulated

RUN = [scene for scene in SCENES if scene.runs]
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "lesson.md"


def measured(scene: Scene, a: Side | None, b: Side | None, steps: int = 2000) -> Result:
    assert a is not None
    assert b is not None
    return Result(scene.name, simulated(scene, a, steps), simulated(scene, b, steps), conditions())


@cache
def as_written(name: str) -> Result:
    """Both sides of a scene."""
    scene = BY_NAME[name]
    return measured(scene, scene.a, scene.b)


@pytest.mark.parametrize("scene", RUN, ids=lambda scene: scene.name)
def test_a_scene_shows_what_it_is_about(scene):
    result = as_written(scene.name)
    assert direction(result, scene.key) == scene.expected
    assert result.a.values["ended"].number == result.b.values["ended"].number == len(scene.burst)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.field)
def test_a_control_has_its_expected_effect_in_its_scene(effect: Effect):
    scene, before, after = effect.sides()
    result = measured(scene, before, after, steps=300)
    assert direction(result, effect.fact) == effect.expected


def test_every_control_has_a_scene():
    assert [e.field for e in EFFECTS] == list(dict.fromkeys(e.field for e in EFFECTS)), "one each"
    assert {e.field for e in EFFECTS} == {c.field for c in CONTROLS} == {c.field for c in controls()}


def test_the_table_of_the_guide_is_this_one():
    text = GUIDE.read_text(encoding="utf-8")
    missing = [row for row in map(row_of, EFFECTS) if row not in text]
    assert not missing, "\n".join(missing)


def row_of(effect: Effect) -> str:
    """The line of docs/lesson.md on a control."""
    also = "".join(f", {name} {value}" for name, value in effect.also)
    where = f"{number_of(effect.scene)} {effect.scene}, side {effect.side.upper()}{also}"
    values = f"{effect.before} → {effect.after}"
    return f"| `{effect.field}` | {where} | {values} | `{effect.fact}` {effect.expected} |"


def test_the_trade_of_the_chunk_size_has_two_sides():
    scene = BY_NAME["chunks"]
    result = as_written(scene.name)
    assert direction(result, "ttft_long") == "less"
    assert direction(result, "itl_max") == "more"


def test_conflict_what_admission_gains_preemption_pays():
    scene = BY_NAME["conflict"]
    result = as_written(scene.name)
    assert direction(result, "recompute") == "less"
    assert direction(result, "wait") == "more"


@pytest.mark.parametrize("scene", RUN, ids=lambda scene: scene.name)
@pytest.mark.parametrize(("block_size", "num_blocks"), [(16, 192), (1, 4096), (256, 192)])
def test_a_scene_fits_engines_of_other_block_sizes(scene, block_size, num_blocks):
    engine = msgspec.structs.replace(ENGINE, block_size=block_size, num_blocks=num_blocks)
    check(scene, engine)
    for side in (scene.a, scene.b):
        policy = policy_of(side, engine, pace_ms=scene.pace_ms)
        assert problems(policy) == limit_problems(policy, engine.max_model_len, engine.num_host_blocks) == ()
        assert policy.kv_block_limit is None or policy.kv_block_limit * block_size >= (side.kv_tokens or 0)


@pytest.mark.parametrize(("longest", "fit"), [(128, 3), (512, 3), (2048, 1), (3072, 1)])
def test_what_is_reserved_for_the_longest_sequence_keeps_others_out_whatever_that_length_is(longest, fit):
    """A pool of 192 x 16 slots holds one sequence of 2,048 or 3,072 tokens and 24 of 128, more than the scene has."""
    scene = BY_NAME["allocation"]
    engine = msgspec.structs.replace(ENGINE, max_model_len=longest)
    a, b = (simulated(scene, side, engine=engine) for side in (scene.a, scene.b))
    assert a.values["max_running"].number == fit < b.values["max_running"].number
    assert a.values["ended"].number == b.values["ended"].number == len(scene.burst)


def test_an_engine_that_is_too_small_is_told_what_it_lacks():
    with pytest.raises(SceneError, match="206 tokens; this engine takes 128"):
        check(BY_NAME["starve"], msgspec.structs.replace(ENGINE, max_model_len=128))
    with pytest.raises(SceneError, match="num_host_blocks"):
        check(BY_NAME["preemption"], msgspec.structs.replace(ENGINE, num_host_blocks=0))


def test_the_burst_is_the_same_every_time_and_another_with_another_seed():
    scene = BY_NAME["allocation"]
    assert prompts(scene) == prompts(scene)
    assert prompts(scene) != prompts(replace(scene, seed=9))
    assert [len(p) for p in prompts(scene)] == [r.prompt for r in scene.burst]
    assert len({p[:32] for p in prompts(scene)}) == 1, "they begin alike"
    assert len(set(prompts(scene))) == len(scene.burst), "and are not the same"


def test_the_sides_of_a_scene_differ_in_one_decision_and_what_it_needs():
    for scene in RUN:
        a, b = policy_of(scene.a, ENGINE), policy_of(scene.b, ENGINE)
        changed = {n for n in SchedulerPolicy.__dataclass_fields__ if getattr(a, n) != getattr(b, n)}
        assert 1 <= len(changed) <= 3, (scene.name, changed)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_scene_and_its_outcome_fit_the_room(scene, language):
    room, result = Room(), as_written(scene.name) if scene.runs else None
    room.show(scene.name, scene.title, scene.look)
    room.ask(scene.name, scene.choices, scene.question)
    told = outcome(scene, result)
    assert len(told) <= MAX_LINES
    room.reveal(0, told)
    assert all("{" not in line.told(translator(language)) for line in room.state.outcome)
    assert len(scene.look) == 2
    assert len(scene.choices) == 3


def test_scenes_follow_each_other_to_the_last():
    assert [number_of(scene.name) for scene in SCENES] == list(range(1, 14))
    assert next_of("static") == "rebuild"
    assert next_of(SCENES[-1].name) == SCENES[-1].name
    assert all(name in BY_NAME and BY_NAME[name].runs for scene in SCENES for name in scene.based_on)
