"""Presets: what each stands for, where that is written, and what it would change, before anything changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import streamlit as st

from dashboard.changes import apply
from dashboard.desk import Desk
from dashboard.i18n import Translate
from dashboard.values import policy_diff, told
from dashboard.views.markup import esc, table
from dashboard.visit import presenter_only
from scheduler import PRESET_NOTES, PRESETS, SchedulerPolicy

KEPT_BY_PRESET: Final = ("step_delay_ms", "paused", "single_step", "kv_block_limit", "version")
"""Fields a preset leaves alone: pace, and the memory of the machine."""


def with_preset(now: SchedulerPolicy, preset: SchedulerPolicy) -> SchedulerPolicy:
    """A preset's decisions with the pace and the memory limit in force."""
    return replace(preset, **{name: getattr(now, name) for name in KEPT_BY_PRESET})


def presets(desk: Desk, t: Translate) -> None:
    """A menu that only shows; the button below what it shows applies."""
    now = desk.policy
    match = next((n for n, p in PRESETS.items() if not policy_diff(now, with_preset(now, p))), None)
    name = st.selectbox(
        t("Preset"),
        list(PRESETS),
        index=None,
        key="preset",
        placeholder=t("in force: {name}", name=match or t("own policy")),
        help=t("A known engine's decisions all at once. Choosing shows what would change; nothing acts before Apply."),
    )
    if name not in PRESETS:
        return
    changes = policy_diff(now, with_preset(now, PRESETS[name]))
    st.html(preview(name, changes, t))
    st.button(
        t("Apply {name}", name=name), key="preset.apply", on_click=_apply, args=(desk, name), width="stretch",
        disabled=not changes, type="primary",
        help=t("Acts at the next iteration. Pace and memory limit stay; one press of Undo brings the old policy back."),
    )  # fmt: skip


def preview(name: str, changes: list[tuple[str, object, object]], t: Translate) -> str:
    """The sentence, the source, and a table field: now -> would be."""
    note = PRESET_NOTES[name]
    body = [
        [f"<code>{esc(field)}</code>", f"{esc(told(field, old, t))} → <b>{esc(told(field, new, t))}</b>"]
        for field, old, new in changes
    ]
    head = [esc(t("field")), esc(t("now → would be"))]
    rows = table(head, body, esc(t("Nothing would change.")))
    source = f'<p class="bs-source">{esc(note.source)}</p>'
    return f'<div class="bs-preset"><p>{esc(t(note.description))}</p>{source}{rows}</div>'


@presenter_only
def _apply(desk: Desk, name: str) -> None:
    apply(desk, lambda policy: with_preset(policy, PRESETS[name]))
