"""The keyboard: which key does what, and the list of them that "?" opens; and clicks on pictures of a request.

A small component listens in the browser, because a button's own shortcut counts two quick presses as one and a held
key as many. It numbers the presses and sends the last of them as its state; each is obeyed once. It says nothing before
a key is pressed: a message while the page is still being built would report controls that have not heard of their
values yet.

A chart is a canvas, which knows of no requests. But what lies under the pointer is told by the chart's own tooltip: a
click takes the request from there, and the page draws nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import streamlit as st

from dashboard import choice, engine, location, moment
from dashboard.charts.memory import BLOCK
from dashboard.charts.theme import FONTS, THEMES, Theme
from dashboard.controls import one_step, toggle_pause
from dashboard.desk import Desk
from dashboard.i18n import N_
from dashboard.projector import PICTURE, PICTURES
from dashboard.scrubber import go_by
from dashboard.visit import PROJECTOR, PROJECTOR_THEME, Visit

SEEN: Final = "keys.seen"
KEY: Final = "keys"


@dataclass(frozen=True, slots=True)
class Key:
    """caps: as printed on the keys. codes: ``KeyboardEvent.key`` values (letters in lower case) or ``code`` values, the
    latter so that a letter works while the keyboard writes Korean. action: "" = the browser does it."""

    caps: tuple[str, ...]
    codes: tuple[str, ...]
    action: str
    words: str


KEYS: Final = (
    Key(("Space", "P"), (" ", "p", "KeyP"), "pause", N_("hold the engine, and let it go on")),
    Key(("N",), ("n", "KeyN"), "step", N_("one iteration; holds the engine first")),
    Key(("→",), ("ArrowRight",), "on", N_("while the engine is held: one iteration; in the past: the next one")),
    Key(("←",), ("ArrowLeft",), "back", N_("to the iteration before this one")),
    Key(("Shift + ←", "Shift + →"), (), "", N_("ten iterations back or on")),
    Key(("L",), ("l", "KeyL"), "live", N_("back to what the engine does now")),
    Key(("B",), ("b", "KeyB"), "projector", N_("projector mode, and back")),
    Key(("1", "2", "3", "4"), ("1", "2", "3", "4"), "picture",
        N_("in projector mode: queue and running, KV blocks, iterations, before and after")),
    Key(("T",), ("t", "KeyT"), "theme", N_("in projector mode: light or dark")),
    Key(("?",), (), "", N_("this list")),
    Key(("Esc",), (), "", N_("close this list")),
)  # fmt: skip


def _style(c: Theme) -> str:
    return f"""
:host, .keys {{ font-family: {FONTS}; }}
.open {{ position: fixed; right: 0; bottom: 6px; width: 17px; height: 28px; border-radius: 8px; font-size: 14px;
  border: 1px solid {c.muted}; background: {c.panel}; color: {c.ink}; cursor: pointer; z-index: 5; padding: 0; }}
.open:focus-visible {{ outline: 2px solid {c.accent}; }}
dialog {{ background: {c.panel}; color: {c.ink}; border: 1px solid {c.muted}; border-radius: 8px; padding: 20px 28px;
  font-size: max(20px, 1.4vw); }}
dialog::backdrop {{ background: rgba(0, 0, 0, 0.6); }}
h2 {{ margin: 0 0 12px 0; font-size: 1.2em; }}
dl {{ display: grid; grid-template-columns: max-content auto; gap: 8px 22px; margin: 0 0 16px 0; }}
dd {{ margin: 0; }}
kbd {{ border: 1px solid {c.muted}; border-radius: 4px; padding: 0 7px; font-family: inherit; }}
dialog button {{ font: inherit; color: {c.ink}; background: {c.background}; border: 1px solid {c.muted};
  border-radius: 4px; padding: 2px 14px; }}"""


@cache
def _component(theme_name: str) -> Any:
    script = (Path(__file__).parent / "keys.js").read_text(encoding="utf-8")
    html = '<div class="keys"><button class="open" type="button">?</button>'
    html += '<dialog aria-labelledby="bs-keys-title"></dialog></div>'
    return st.components.v2.component(
        f"batchscope_keys_{theme_name}", html=html, css=_style(THEMES[theme_name]), js=script
    )


@st.fragment(key="keys-part")
def keys(seen: Visit) -> None:
    """The listener; a press runs this fragment alone, and the page where it must look different."""
    t = seen.t
    if st.session_state.pop("keys.redraw", False):
        st.rerun()
    _component(seen.theme_name)(
        key=KEY,
        data={
            "title": t("Keys"),
            "close": t("Close"),
            "language": seen.language,
            "hidden": seen.projector,
            "rows": [[list(key.caps), t(key.words)] for key in KEYS],
            "names": {t("request"): "choose", t(BLOCK): "block"},
            "actions": _codes(seen.projector),
        },
        on_pressed_change=_pressed,
    )


def _codes(projector: bool) -> dict[str, str]:
    """What each key of the browser does. On the desk the buttons for ten iterations hear Shift and an arrow."""
    codes = {
        code: f"{key.action}.{code}" if key.action == "picture" else key.action for key in KEYS for code in key.codes
    }
    return {**codes, "Shift+ArrowLeft": "back10", "Shift+ArrowRight": "on10"} if projector else codes


def _state(name: str) -> Any:
    state = st.session_state.get(KEY)
    return state.get(name) if isinstance(state, Mapping) else None


def _pressed() -> None:
    """Obey what came since the last message. What a browser sends is checked: it may be anything."""
    sent = _state("pressed")
    if not isinstance(sent, Mapping) or not isinstance(sent.get("presses"), list):
        return
    page = str(sent.get("page"))[:60]
    known, last = st.session_state.get(SEEN, ("", 0))
    last = last if known == page else 0
    for press in sent["presses"][-40:]:
        number, action = (press[0], press[1]) if isinstance(press, list) and len(press) == 2 else (0, "")
        if isinstance(number, int) and number > last:
            last = number
            _act(str(action))
    st.session_state[SEEN] = (page, last)


def _act(action: str) -> None:
    name, _, value = action.partition(".")
    if name == "choose":
        choice.turn(value)
    elif name == "block":
        _turn_owner(value)
    elif name in ACTIONS:
        ACTIONS[name](engine.shared().desk)
    elif name == "picture" and value.isdigit() and 1 <= int(value) <= len(PICTURES):
        st.session_state[PICTURE] = list(PICTURES)[int(value) - 1]
        st.session_state["keys.redraw"] = bool(st.session_state.get(PROJECTOR))


def _turn_owner(block: str) -> None:
    """The request that owns a block of the map that is shown. block: its number."""
    running = engine.shared()
    newest = running.hub.frame()
    if newest is None or not block.isdigit():
        return
    table = moment.to_show(running.hub, newest).snapshot.step.running
    owners = [r for r, ids in zip(table.request_id, table.block_ids, strict=True) if int(block) in ids]
    if owners:
        choice.turn(owners[0])


def _on(desk: Desk) -> None:
    """In the past one kept iteration on; live one new iteration, only while the engine is held: the key that moves on
    must not stop a running engine."""
    if moment.looking() is not None:
        go_by(engine.shared(), 1)
    elif desk.policy.paused or desk.policy.single_step:
        one_step(desk)


def _back(_: Desk) -> None:
    go_by(engine.shared(), -1)


def _back10(_: Desk) -> None:
    go_by(engine.shared(), -10)


def _on10(_: Desk) -> None:
    go_by(engine.shared(), 10)


def _live(_: Desk) -> None:
    moment.look_at(engine.shared().hub, None)


def _projector(_: Desk) -> None:
    on = not st.session_state.get(PROJECTOR)
    st.session_state[PROJECTOR] = on
    location.write(**{PROJECTOR: "1" if on else ""})
    st.session_state["keys.redraw"] = True


def _theme(_: Desk) -> None:
    if st.session_state.get(PROJECTOR):
        shown = st.session_state.get(PROJECTOR_THEME) or st.context.theme.type or "dark"
        st.session_state[PROJECTOR_THEME] = "light" if shown == "dark" else "dark"
        st.session_state["keys.redraw"] = True


ACTIONS: Final[Mapping[str, Callable[[Desk], None]]] = {
    "pause": toggle_pause,
    "step": one_step,
    "on": _on,
    "back": _back,
    "on10": _on10,
    "back10": _back10,
    "live": _live,
    "projector": _projector,
    "theme": _theme,
}
