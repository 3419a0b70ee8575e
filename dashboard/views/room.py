"""The room as HTML: what is on, the question, the votes, and the way in for phones."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import segno

from dashboard.i18n import N_, Translate
from dashboard.room import RoomState
from dashboard.views.markup import esc

EMPTY: Final = "<span></span>"
PHASES: Final = {
    "open": N_("The vote is open."),
    "closed": N_("The vote is closed; the answer comes in a moment."),
    "revealed": N_("The vote is over. This is what the room thought:"),
}


def board(state: RoomState, t: Translate) -> str:
    """Title and sentences of the scene that is on; nothing without one."""
    shown = state.board
    title = shown.title.told(t)
    if not title and not shown.lines:
        return EMPTY
    lines = "".join(f"<p>{esc(line.told(t))}</p>" for line in shown.lines)
    return f'<div class="bs-board" id="bs-board"><h2>{esc(title)}</h2>{lines}</div>'


def question(state: RoomState, t: Translate) -> str:
    """The question and whether votes are taken; nothing without one."""
    if state.phase == "none":
        return EMPTY
    words = esc(t(PHASES[state.phase]))
    asked = esc(state.question.told(t))
    return f'<div class="bs-question" id="bs-question" data-phase="{state.phase}"><b>{asked}</b><p>{words}</p></div>'


def bars(state: RoomState, counts: tuple[int, ...], t: Translate) -> str:
    """A bar a choice, with its votes; the right one is marked by a word once it is revealed."""
    most = max(1, *counts)
    rows = []
    for i, (choice, count) in enumerate(zip(state.choices, counts, strict=True)):
        is_answer = state.phase == "revealed" and i == state.answer
        mark = f" <b>✓ {esc(t('measured'))}</b>" if is_answer else ""
        width = f"{count / most:.0%}"
        rows.append(
            f'<div class="bs-tally{" bs-answer" if is_answer else ""}"><span>{esc(choice.told(t))}{mark}</span>'
            f'<i><u style="width:{width}"></u></i><em>{count}</em></div>'
        )
    return "".join(rows)


def result(state: RoomState, said: str, t: Translate) -> str:
    """What became of the reader's vote, the votes where they may be seen, and the outcome once it is revealed."""
    if state.phase == "none":
        return EMPTY
    parts = [f'<p class="bs-quiet" role="status">{esc(said)}</p>'] if said else []
    if state.shown_counts is not None:
        parts.append(bars(state, state.shown_counts, t))
    parts += [f"<p><b>{esc(line.told(t))}</b></p>" for line in state.outcome]
    return f'<div class="bs-result" id="bs-result">{"".join(parts)}</div>' if parts else EMPTY


@lru_cache(maxsize=8)
def _code(address: str) -> str:
    return segno.make(address, error="m", micro=False).svg_data_uri(scale=8, border=4, light="#fff", dark="#000")


def invitation(address: str, t: Translate) -> str:
    """The address for the room, large, and as a code for phones."""
    alt = esc(t("QR code of {address}", address=address))
    return (
        f'<div class="bs-invite" id="bs-invite"><img src="{esc(_code(address))}" alt="{alt}">'
        f"<div><p>{esc(t('Open on your phone or laptop, in the same network:'))}</p><b>{esc(address)}</b></div></div>"
    )
