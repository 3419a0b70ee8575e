"""Style sheets of projector mode. Sizes follow the width of the image: 24 px at 1,440 px is 12 arcmin at 5 m."""

from __future__ import annotations

from functools import cache
from typing import Final

from dashboard.charts.large import FONT_FLOOR, SMALLEST_FONT, ZOOMS
from dashboard.charts.theme import FONTS, THEMES

FLOOR: Final = "max(24px, 1.667vw)"
CAPTION: Final = "max(32px, 2.222vw)"
VALUE: Final = "max(64px, 4.444vw)"

CLEARED: Final = """
[data-testid="stSidebar"], [data-testid="stSidebarCollapsedControl"], [data-testid="stExpandSidebarButton"],
[data-testid="stHeader"], [data-testid="stToolbar"] { display: none !important; }
[data-testid="stMainBlockContainer"] { padding: 2px 24px 0; }"""
"""No sidebar, no toolbar; the sidebar is still drawn, so that its controls keep their state."""
CHARTS: Final = '[data-testid="stElementContainer"]:has([data-testid="stVegaLiteChart"])'
"""What is zoomed. A chart is made as wide as this looks on the screen and then zoomed with it, so this is made narrower
by as much."""


READ: Final = '[data-testid="stMainBlockContainer"] [data-testid="stHtml"]'
"""Words and tables of our own on a page that is read from top to bottom."""
OPENED: Final = '[data-testid="stPopoverBody"], [role="listbox"], [data-testid="stTooltipContent"], #vg-tooltip-element'
"""What comes up over the page."""


def _zooms(at_first: float) -> str:
    rules = [f"{CHARTS} {{ zoom: {at_first:.4f}; width: calc(100% / {at_first:.4f}) !important; }}"]
    for width, times in ZOOMS.items():
        zoom = f"{times * at_first:.4f}"
        rules.append(
            f"@media (min-width: {width}px) {{ {CHARTS} {{ zoom: {zoom}; width: calc(100% / {zoom}) !important; }} }}"
        )
    return "\n".join(rules)


@cache
def reading_sheet(theme_name: str) -> str:
    """CSS, after ``projector_sheet``, for pages that stay as they are at the desk but for their size: one thing below
    the other, each as wide as the page, which is read by going down it.

    Left out are definitions, the buttons over a chart (which would lie on what is above it), and buttons of an
    experiment while they can do nothing.

    Streamlit's own elements are measured in the page's font size, of which their smallest words have 12/16. Charts are
    made as for the desk and zoomed.
    """
    c = THEMES[theme_name]
    column = '[data-testid="stMainBlockContainer"] [data-testid="stColumn"]'
    return f"""<style>{_zooms(FONT_FLOOR / SMALLEST_FONT)}
html {{ font-size: calc({FLOOR} * 16 / 14) !important; }}
[data-testid="stMainBlockContainer"] {{ padding: 10px 24px 48px; }}
[data-testid="stMainBlockContainer"] [data-testid="stHorizontalBlock"] {{ flex-wrap: wrap; gap: 10px 24px; }}
{column} {{ min-width: min(100%, 22rem) !important; flex-grow: 1 !important; }}
{column}:is(:has(table), :has([data-testid="stVegaLiteChart"]), :has([data-testid="stButtonGroup"]), :has(.bs-title)) {{
  min-width: 100% !important; }}
{column}:not(:has([data-testid="stElementContainer"])), [data-testid="stElementToolbar"],
{column}:has(:is(.st-key-exp-cancel, .st-key-exp-resume) button:disabled) {{ display: none; }}
[data-testid="stMain"] [data-testid="stWidgetLabel"] p, [data-testid="stMain"] [data-testid="stMarkdownContainer"] *,
[data-testid="stMain"] input, [data-testid="stMain"] small, [data-testid="stSliderTickBar"] * {{
  font-size: {FLOOR} !important; line-height: 1.25; }}
[data-testid="stMain"] button {{ height: auto; }}
[data-testid="stMain"] button p {{ white-space: normal; }}
{READ} *:not(style) {{ font-size: {FLOOR} !important; line-height: 1.3 !important; white-space: normal; }}
{READ} .bs-title, {READ} .bs-scroll, {READ} .bs-tiles {{ height: auto !important; }}
{READ} .bs-title, {READ} .bs-head {{ font-size: {CAPTION} !important; margin-top: 0.4em; }}
{READ} .bs-tiles {{ grid-template-columns: 1fr 1.5fr 1fr !important; gap: 18px; }}
{READ} .bs-tile {{ padding: 2px 18px 6px; }}
{READ} .bs-value {{ font-size: max(56px, 3.889vw) !important; line-height: 1.1 !important; color: {c.ink}; }}
{READ} .bs-chip {{ height: auto; min-width: 1.3em; }}
{READ} td, {READ} th {{ padding: 4px 24px 4px 0 !important; max-width: none !important; }}
{READ} .bs-stroke {{ width: 52px; vertical-align: middle; }}
{OPENED} {{ font-size: {FLOOR} !important; }}
</style>"""


@cache
def projector_sheet(theme_name: str) -> str:
    """CSS for one theme, which need not be that of the browser: the room may be lit."""
    c = THEMES[theme_name]
    return f"""<style>{CLEARED}
{_zooms(1)}
.stApp, [data-testid="stApp"] {{ background: {c.background}; color: {c.ink}; }}
.bp-strip, .bp-tiles, .bp-title, .bp-caption, .bp-table, .bp-quiet {{ font-family: {FONTS}; color: {c.ink};
  font-variant-numeric: tabular-nums; font-size: {FLOOR}; line-height: 1.25; }}
.bp-strip {{ display: flex; gap: 1.6em; align-items: center; white-space: nowrap; overflow: hidden; height: 1.8em; }}
.bp-strip .bs-pill {{ font-size: {FLOOR}; padding: 2px 0.7em; border-radius: 1em; }}
.bp-strip b {{ font-size: 1.3em; }} .bp-strip .bs-pill b {{ font-size: 1em; }}
.bp-strip #bs-version {{ color: {c.accent}; overflow: hidden;
  text-overflow: ellipsis; }}
.bp-tiles {{ display: grid; grid-template-columns: repeat(3, 1fr); gap: 18px; }}
.bp-tile {{ background: {c.panel}; border-radius: 8px; padding: 1px 20px 3px; white-space: nowrap;
  overflow: hidden; }}
.bp-tile div {{ color: {c.muted}; text-overflow: ellipsis; overflow: hidden; }}
.bp-tile b {{ font-size: {VALUE}; line-height: 1.05; font-weight: 650; }}
h1.bp-title {{ font-size: {FLOOR}; font-weight: 650; margin: 0 0 0 auto; padding: 0; }}
.bp-caption {{ font-size: {CAPTION}; line-height: 1.25; height: 2.5em; overflow: hidden; margin: 2px 0;
  overflow-wrap: anywhere; }}
.bp-quiet {{ color: {c.muted}; margin: 0 0 2px 0; overflow-wrap: anywhere; }}
.bp-table {{ font-size: {CAPTION}; border-collapse: collapse; width: 100%; }}
.bp-table th {{ text-align: left; font-weight: 500; }} .bp-table td, .bp-table thead th {{ text-align: right; }}
.bp-table td, .bp-table th {{ padding: 6px 18px 6px 0; border-bottom: 1px solid {c.grid}; }}</style>"""
