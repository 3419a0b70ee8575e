"""The charts of the lesson: their data sets, and what 100 % of memory means there."""

from __future__ import annotations

import json

import pytest

from dashboard.arrow import decode
from dashboard.hub import Hub, with_selection
from dashboard.lesson.pictures import FONT, FONT_ROOM, panels, panels_data, shown_charts
from dashboard.lesson.scenes import BY_NAME, SCENES
from scheduler import SamplingParams, SchedulerPolicy
from tests.dashboard.lessons import LessonClient

RUN = [scene for scene in SCENES if scene.runs]
LIMIT = 8


@pytest.fixture(scope="module")
def frame():
    """Of an engine that may use 8 of its 192 blocks, after 70 iterations."""
    client = LessonClient(SchedulerPolicy(kv_block_limit=LIMIT))
    hub = Hub(client)  # type: ignore[arg-type]
    client.submit(tuple(range(40)), SamplingParams(max_tokens=80, ignore_eos=True))
    for _ in range(70):
        client.pump()
        made = hub.frame()
    return made


def fonts(node):
    if isinstance(node, list):
        for part in node:
            yield from fonts(part)
    elif isinstance(node, dict):
        yield from (v for k, v in node.items() if k.lower().endswith("fontsize") and isinstance(v, int | float))
        for part in node.values():
            yield from fonts(part)


@pytest.mark.parametrize("is_room", [False, True])
@pytest.mark.parametrize("scene", RUN, ids=lambda scene: scene.name)
def test_a_chart_gets_exactly_the_data_sets_it_draws_in_letters_large_enough(frame, scene, is_room):
    """One that it does not draw stops it: it goes on showing the first moment."""
    drawn = panels("dark", "ko", shown_charts(scene, is_room=is_room), is_room=is_room)
    if drawn is None:
        assert "map" in scene.charts
        return
    given = panels_data(drawn, frame, with_selection(frame, "")["time"], (), is_room=is_room)
    assert set(given) == drawn.sets
    assert min(fonts(drawn.spec)) >= (FONT_ROOM if is_room else FONT) - 0.01


@pytest.mark.parametrize("is_room", [False, True])
def test_a_budget_far_above_all_tokens_does_not_flatten_them(frame, is_room):
    """40 tokens of a prompt, then one at a time, under a budget of 128: the axis reaches it while it is near."""
    drawn = panels("dark", "en", ("lanes", "budget"), is_room=is_room)
    given = panels_data(drawn, frame, with_selection(frame, "")["time"], (), is_room=is_room)
    budget = frame.snapshot.step.policy.max_num_batched_tokens
    assert decode(given["series"])["u"][-1] == budget
    assert decode(given["frame"])["mu"] == [1 if is_room else budget]
    assert '"clip": true' in json.dumps(drawn.spec), "a line above the panel is not drawn over the lanes"


@pytest.mark.parametrize("is_room", [False, True])
def test_full_memory_is_what_may_be_used_and_not_the_pool(frame, is_room):
    """A scene that runs short of blocks would show a flat line at the bottom."""
    drawn = panels("dark", "en", BY_NAME["admission"].charts, is_room=is_room)
    series = decode(panels_data(drawn, frame, with_selection(frame, "")["time"], (), is_room=is_room)["series"])
    step = frame.snapshot.step
    assert series["kv"][-1] == pytest.approx(step.num_used_blocks / LIMIT)
    assert series["lim"][-1] == 1.0
    assert (series["x"][0] > frame.facts[-1].x - 48) == is_room, "no line to the left of the axis"
