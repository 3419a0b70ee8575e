"""The block map of a large pool: a byte a square on one canvas, where Vega would redraw thousands of marks in a tick.

Used above ``LETTER_MAX_CELLS`` squares, where no letter fits in any more. Same hues, same fill from below, same order.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import streamlit as st

from dashboard import choice
from dashboard.block_squares import CACHED, FULL, LOCKED, UNUSABLE, Block, MapGeometry
from dashboard.charts.memory import LETTER_MAX_CELLS
from dashboard.charts.theme import Theme
from dashboard.charts.window import MOST_PX, PLAIN_PX
from dashboard.elements import vega
from dashboard.hub import Frame
from dashboard.i18n import Translate
from dashboard.identity import LETTERS

FILLS: Final = 9
"""Fills told apart: none, then eighths."""
OTHER, SHARED, FREE = 16, 17, 18
STATES: Final = {LOCKED: 19, UNUSABLE: 20, CACHED: 21}
"""After the marks 0..15: an owner without a mark, several owners, nobody; then the marks of blocks without owner."""


def is_dense(geometry: MapGeometry) -> bool:
    """Whether the pool has more squares than letters fit into."""
    return geometry.cells > LETTER_MAX_CELLS


def packed(blocks: Sequence[Block], cells: int) -> bytes:
    """A byte a square: state * FILLS + eighths filled (rounded up, so that a token always shows)."""
    out = bytearray([FREE * FILLS]) * cells
    for block in blocks:
        if block.mark in STATES:
            out[block.cell] = STATES[block.mark] * FILLS
            continue
        state = SHARED if len(block.owners) > 1 else block.mark if block.mark >= 0 else OTHER
        out[block.cell] = state * FILLS + -(-block.fill * (FILLS - 1) // FULL)
    return bytes(out)


def members(blocks: Sequence[Block], cells: int, request_id: str) -> bytes:
    """A bit a square, lowest first: those of one request; empty when it has none."""
    out = bytearray(-(-cells // 8))
    for block in blocks:
        if request_id in block.owners:
            out[block.cell >> 3] |= 1 << (block.cell & 7)
    return bytes(out) if any(out) else b""


@lru_cache(maxsize=4)
def _cells(frame: Frame) -> str:
    return b64encode(packed(frame.blocks, frame.geometry.cells)).decode()


@lru_cache(maxsize=8)
def _chosen(frame: Frame, request_id: str) -> str:
    return b64encode(members(frame.blocks, frame.geometry.cells, request_id)).decode() if request_id else ""


@cache
def _component() -> Any:
    script = (Path(__file__).parent / "dense_map.js").read_text(encoding="utf-8")
    style = "canvas { width: 100%; display: block; }"
    return st.components.v2.component("batchscope_blocks", html='<canvas role="img"></canvas>', css=style, js=script)


def dense_map(frame: Frame, chosen: str, theme: Theme, height: int, t: Translate, grows: float = 0) -> None:
    """Draw it. chosen: the request singled out, "" = none. height: pixels. grows: by what share of the room that a
    tall window has to spare."""
    look = {
        "hues": theme.hues,
        "letters": LETTERS,
        "other": theme.other,
        "ink": theme.ink,
        "locked": theme.locked,
        "muted": theme.muted,
        "padding": theme.padding,
        "grid": theme.grid,
    }
    words = [
        t("a request without a letter"),
        t("shared"),
        t("free"),
        t("locked"),
        t("unusable"),
        t("cached"),
        t("block"),
    ]
    _component()(
        key="blocks",
        data={
            "cells": _cells(frame),
            "chosen": _chosen(frame, chosen),
            "columns": frame.geometry.columns,
            "per_cell": frame.geometry.blocks_per_cell,
            "height": height,
            "grows": grows,
            "plain": PLAIN_PX,
            "most": MOST_PX,
            "look": look,
            "words": words,
            "alt": t("KV block map"),
        },
    )


def block_map(
    frame: Frame,
    spec: Mapping[str, Any],
    data: Mapping[str, bytes],
    theme: Theme,
    height: int,
    t: Translate,
    grows: float = 0,
) -> None:
    """The block map of any pool: squares with letters, or the dense one. height, grows: of the latter."""
    if is_dense(frame.geometry):
        dense_map(frame, choice.chosen(), theme, height, t, grows)
    else:
        vega(spec, data, t("KV block map"))
