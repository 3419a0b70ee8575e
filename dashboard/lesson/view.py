"""HTML of a scene: title and sentences, the vote, A beside B, conditions. Text goes through ``esc``."""

from __future__ import annotations

from dashboard.i18n import Translate
from dashboard.lesson.facts import FACTS
from dashboard.lesson.scene import Scene
from dashboard.lesson.scenes import SCENES, number_of
from dashboard.lesson.teacher import Lesson
from dashboard.lesson.verdict import Result
from dashboard.lesson.words import (
    backing,
    choice_measured,
    condition_lines,
    number_words,
    samples_words,
    verdict,
)
from dashboard.room import RoomState
from dashboard.views.markup import esc, table


def _box(inner: str) -> str:
    return f'<div class="bs-lesson">{inner}</div>'


def head(scene: Scene, t: Translate, *, has_look: bool = True) -> str:
    """Where in the chapter, the title, and what to look at. has_look: False where there is no picture to look at."""
    where = t("Scene {n} of {total} · {section}", n=number_of(scene.name), total=len(SCENES), section=t(scene.section))
    look = "".join(f'<p class="bs-look">{esc(t(text))}</p>' for text in scene.look if has_look)
    return _box(f'<div class="bs-where">{esc(where)}</div><h2>{esc(t(scene.title))}</h2>{look}')


def contents(now: Scene, lesson: Lesson, t: Translate) -> str:
    """The list of scenes for who cannot choose; a tick marks those that were measured."""
    items = []
    for scene in SCENES:
        tick = " ✓" if scene.name in lesson.results else ""
        cls = ' class="bs-now"' if scene.name == now.name else ""
        items.append(f"<li{cls}>{esc(t(scene.title))}{tick}</li>")
    return _box(f"<ol>{''.join(items)}</ol>")


def status(scene: Scene, lesson: Lesson, t: Translate) -> str:
    """How far the scene is."""
    bad = lesson.phase == "failed" and lesson.scene == scene.name
    text = _status(scene, lesson, t)
    return _box(f'<div id="bs-lesson-status" class="bs-status{" bs-bad" if bad else ""}">{esc(text)}</div>')


def _status(scene: Scene, lesson: Lesson, t: Translate) -> str:
    if lesson.is_running and lesson.scene != scene.name:
        return t("Scene {n} is running.", n=number_of(lesson.scene))
    if lesson.phase == "clearing":
        return t("Waiting until {n} earlier requests have ended; nothing new arrives.", n=lesson.waiting_for)
    if lesson.is_running:
        side = scene.a if lesson.phase == "a" else scene.b
        name = t(side.name) if side else ""
        return t(
            "Run {side}, {name}: {n} of {total} requests have ended.",
            side=lesson.phase.upper(), name=name, n=lesson.ended, total=lesson.total,
        )  # fmt: skip
    if lesson.scene == scene.name and lesson.fault:
        return lesson.fault.told(t)
    if not scene.runs:
        return t("Nothing runs here: the answer leans on the scenes before.")
    return t("Measured.") if scene.name in lesson.results else t("Not measured yet.")


def sides(scene: Scene, t: Translate) -> str:
    """What A and B stand for."""
    if not scene.a or not scene.b:
        return _box("<span></span>")
    return _box(f'<p class="bs-say"><b>A</b> {esc(t(scene.a.name))} · <b>B</b> {esc(t(scene.b.name))}</p>')


def votes(scene: Scene, state: RoomState, seen: bool, t: Translate) -> str:
    """The question with its choices; bars and the right one once they may be seen. seen: votes may be."""
    asked = state.question_id == scene.name and state.phase != "none"
    counts = state.counts if asked and (seen or state.phase == "revealed") else None
    answer = state.answer if asked and state.phase == "revealed" else None
    most = max(counts or (0,)) or 1
    rows = []
    for i, choice in enumerate(scene.choices):
        bar = f'<i style="width:{100 * counts[i] / most:.0f}%"></i>' if counts else ""
        told = f"<b>{counts[i]}</b>" if counts else ""
        right = i == answer
        mark = "✓ " if right else ""
        cls = "bs-choice bs-right" if right else "bs-choice"
        rows.append(f'<div class="{cls}">{bar}<span>{mark}{"ABCDEFGH"[i].lower()}) {esc(t(choice))}</span>{told}</div>')
    line = t("Votes: {n}", n=state.num_votes) if asked else t("The vote has not begun.")
    if asked and state.phase == "closed":
        line = t("Votes: {n}; the vote is closed", n=state.num_votes)
    return _box(f'<p class="bs-ask">{esc(t(scene.question))}</p>{"".join(rows)}<p class="bs-fine">{esc(line)}</p>')


def result_table(scene: Scene, result: Result, t: Translate) -> str:
    """A beside B, every number with its n, and whether theory expected it."""
    head_cells = [esc(t("measured")), "A", "B", "n"]
    body = []
    for name in scene.facts:
        a, b = result.a.values[name], result.b.values[name]
        cells = (t(FACTS[name].label), number_words(name, a, t), number_words(name, b, t), samples_words(a, b))
        body.append([esc(cell) for cell in cells])
    borne_out = choice_measured(scene, result)
    expected = borne_out is not None and verdict(scene, result).message.startswith("Measured, and")
    cls = "bs-say" if expected else "bs-say bs-otherwise"
    answer = f"<b>{esc(borne_out.told(t))}</b> · " if borne_out else ""
    words = f'<p class="{cls}" id="bs-lesson-verdict">{answer}{esc(verdict(scene, result).told(t))}</p>'
    return _box(words + table(head_cells, body, ""))


def model_answer(scene: Scene, lesson: Lesson, t: Translate) -> str:
    """The answer to a check question, with what this session has measured."""
    told = "".join(f'<p class="bs-say">{esc(t(text))}</p>' for text in scene.model_answer)
    lines = [backing(name, lesson.results.get(name), t) for name in scene.based_on]
    small = "".join(f"<li>{esc(line)}</li>" for line in lines)
    return _box(f"{told}<ul class='bs-say'>{small}</ul>")


def foot(scene: Scene, lesson: Lesson, revealed: bool, t: Translate) -> str:
    """What must not be concluded, and under which conditions the numbers hold."""
    out = f'<p class="bs-not"><b>{esc(t("What this does not show"))}</b> {esc(t(scene.not_shown))}</p>'
    if revealed:
        out += "".join(f'<p class="bs-fine">{esc(line)}</p>' for line in _conditions(scene, lesson, t))
    return _box(out)


def _conditions(scene: Scene, lesson: Lesson, t: Translate) -> list[str]:
    """Of the scene, or of the scenes its answer leans on: what holds for all of them is said once."""
    told = {n: condition_lines(r, t) for n in (scene.name, *scene.based_on) if (r := lesson.results.get(n))}
    if set(told) <= {scene.name}:
        return told.get(scene.name, [])
    first = next(iter(told.values()))
    common = [line for line in first if len(told) > 1 and all(line in lines for lines in told.values())]
    own = [
        t("Scene {n}", n=number_of(name)) + ": " + " · ".join(line for line in lines if line not in common)
        for name, lines in told.items()
    ]
    return [*common, *own]
