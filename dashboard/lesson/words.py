"""Measured numbers, conditions and verdicts in words. Nothing here is escaped."""

from __future__ import annotations

from typing import Final

from dashboard.i18n import N_, Translate
from dashboard.lesson.facts import ENOUGH, FACTS, Value
from dashboard.lesson.scene import DIRECTIONS, Scene
from dashboard.lesson.scenes import BY_NAME, number_of
from dashboard.lesson.verdict import Conditions, Result, direction
from dashboard.room import Said, say
from dashboard.values import told

SHOWN_TO_ROOM: Final = 4
"""Facts that a reveal tells the room beside the verdict."""


def number_words(fact: str, value: Value, t: Translate) -> str:
    """ "150", "12.4 ms", "67 %"; or why there is none."""
    said = number_said(fact, value)
    return said if isinstance(said, str) else said.told(t)


def number_said(fact: str, value: Value) -> Said | str:
    """The same for readers of several languages."""
    if value.number is not None:
        return _number(fact, value.number)
    if fact == "itl_p95":
        return say(N_("too few: n = {n}, {enough} needed"), n=value.n, enough=ENOUGH)
    return Said(N_("none"))


def _number(fact: str, number: float) -> str:
    unit = FACTS[fact].unit
    if unit == "":
        return f"{number:,.0f}"
    if unit == "x":
        return f"{number:,.1f}"
    if unit == "%":
        return f"{number:.0f} %"
    if unit == "/s":
        return f"{number:,.0f}/s" if number >= 100 else f"{number:,.1f}/s"
    if unit == "s":
        return f"{number / 1000:,.1f} s" if number >= 1000 else f"{number / 1000:.2f} s"
    return f"{number:,.0f} ms" if number >= 100 else f"{number:,.1f} ms"


def samples_words(a: Value, b: Value) -> str:
    """ "12", or "12 / 10" where the sides differ."""
    return f"{a.n:,}" if a.n == b.n else f"{a.n:,} / {b.n:,}"


def policy_words(pairs: tuple[tuple[str, object], ...], t: Translate) -> str:
    """Fields that differ from the defaults."""
    return ", ".join(f"{name} {told(name, value, t)}" for name, value in pairs) or t("the defaults")


def condition_lines(result: Result, t: Translate) -> list[str]:
    """Under what the numbers were measured: engine, burst, both policies, and what disturbed them."""
    c, scene = result.conditions, BY_NAME[result.scene]
    lines = [
        engine_line(c, t),
        t(
            "The same {n} requests for A and B (seed {seed}): prompts of {prompts} tokens, answers of {outputs}; "
            "A took {a} iterations, B {b}.",
            n=result.a.num_requests, seed=c.seed, prompts=_range([r.prompt for r in scene.burst]),
            outputs=_range([r.output for r in scene.burst]), a=result.a.num_steps, b=result.b.num_steps,
        ),
        t("A: {policy}", policy=policy_words(c.policy_a, t)),
        t("B: {policy}", policy=policy_words(c.policy_b, t)),
        t(
            "Time is that of the iterations; the pause of {ms} ms after each, for the eye, is left out. One run each.",
            ms=f"{c.pace_ms:g}",
        ),
    ]  # fmt: skip
    if result.strangers:
        lines.append(
            t("{n} other requests were computed meanwhile: the numbers are disturbed by them.", n=result.strangers)
        )
    return lines


def engine_line(c: Conditions, t: Translate) -> str:
    """Model, device and memory."""
    model = t("{model} (random weights)", model=c.model) if c.is_toy else c.model
    return t(
        "{model}, {dtype} on {device} (threads: {threads}, torch {torch}, attention {attention}); {blocks} KV blocks "
        "of {size} tokens, max_model_len {longest}.",
        model=model, dtype=c.dtype, device=c.device, threads=c.threads, torch=c.torch_version,
        attention=c.attention or "torch", blocks=c.num_blocks, size=c.block_size, longest=c.max_model_len,
    )  # fmt: skip


def _range(values: list[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} – {max(values)}"


def verdict(scene: Scene, result: Result) -> Said:
    """What was measured of the key; that it is not what theory expects, where it is not."""
    measured = direction(result, scene.key)
    if measured is None:
        return Said(N_("The question cannot be answered: one of the sides has no sample."))
    if measured == scene.expected:
        return Said(N_("Measured, and as theory expects."))
    return Said(
        N_("Measured otherwise than theory expects. The measurement counts, for these conditions: look at them, and "
           "measure again.")
    )  # fmt: skip


def choice_measured(scene: Scene, result: Result) -> Said | None:
    """The choice that the measurement bears out."""
    measured = direction(result, scene.key)
    return Said(scene.choices[DIRECTIONS.index(measured)]) if measured else None


def outcome(scene: Scene, result: Result | None) -> list[Said]:
    """What a reveal tells the room; at most 12 lines."""
    if not scene.runs:
        return [Said(text) for text in scene.model_answer]
    if result is None:
        return [Said(N_("Not measured yet."))]
    lines = [verdict(scene, result)]
    for name in scene.facts[:SHOWN_TO_ROOM]:
        a, b = result.a.values[name], result.b.values[name]
        lines.append(Said(FACTS[name].label))
        lines.append(
            say(N_("A {a} · B {b} (n = {n})"), a=number_said(name, a), b=number_said(name, b),
                n=samples_words(a, b))
        )  # fmt: skip
    c = result.conditions
    lines.append(
        say(N_("{model}, {dtype} on {device}; {n} requests, {a} and {b} iterations, seed {seed}"), model=c.model,
            dtype=c.dtype, device=c.device, n=result.a.num_requests, a=result.a.num_steps, b=result.b.num_steps,
            seed=c.seed)
    )  # fmt: skip
    return lines


def backing(name: str, result: Result | None, t: Translate) -> str:
    """One line of a model answer: what a scene has measured, or that it has not."""
    n = number_of(name)
    if result is None:
        return t("Scene {n}: not measured yet; run scene {n}.", n=n)
    key = BY_NAME[name].key
    a, b = result.a.values[key], result.b.values[key]
    return t(
        "Scene {n}, measured: {fact}: A {a}, B {b} (n = {samples}).",
        n=n, fact=t(FACTS[key].label), a=number_words(key, a, t), b=number_words(key, b, t),
        samples=samples_words(a, b),
    )  # fmt: skip
