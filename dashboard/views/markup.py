"""Escaping and the small pieces of HTML that several views use. All text goes through ``esc``."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from dashboard.identity import NUM_HUES, letter

BIDI = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0xFEFF])
"""Direction overrides and zero-width characters: they would let text reach out of its place."""


def esc(value: object, limit: int = 4000) -> str:
    """Text as text: markup escaped, direction overrides and zero-width characters dropped, long text cut."""
    text = str(value).translate(BIDI)
    return escape(text if len(text) <= limit else text[: limit - 1] + "…")


def plain(text: str) -> str:
    """Text for a Markdown element, as text."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]()#+-.!|<>$~:" else c for c in text.translate(BIDI))


def chip(mark: int, hues: tuple[str, ...], inks: tuple[str, ...]) -> str:
    """The letter of a request on its hue; hollow for the second eight, a dash without a mark."""
    if mark < 0:
        return '<span class="bs-chip bs-none">–</span>'
    hue = hues[mark % NUM_HUES]
    style = f"border-color:{hue};" + ("" if mark >= NUM_HUES else f"background:{hue};color:{inks[mark % NUM_HUES]};")
    return f'<span class="bs-chip" style="{style}">{letter(mark)}</span>'


def picks(request_id: str) -> str:
    """The attribute by which a click on an element singles its request out; "" where there is none."""
    return f' data-request="{esc(request_id, 256)}"' if request_id else ""


def table(head: Iterable[str], body: Iterable[Iterable[str]], empty: str) -> str:
    """A table of cells that are escaped already; ``empty`` when there is no row."""
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
    if not rows:
        return f'<p class="bs-quiet">{empty}</p>'
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    return f'<table class="bs-table"><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>'


def scroll(inner: str, height: int, *, grows: bool = False) -> str:
    """A box of fixed height, so that nothing below it moves. grows: by what a tall window has to spare."""
    px = f"calc({height}px + var(--bs-more))" if grows else f"{height}px"
    return f'<div class="bs-scroll" style="height:{px}" tabindex="0">{inner}</div>'
