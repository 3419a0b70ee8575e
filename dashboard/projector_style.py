"""Style sheet of projector mode. Sizes follow the width of the image: 24 px at 1,440 px is 12 minutes of arc at 5 m."""

from __future__ import annotations

from functools import cache
from typing import Final

from dashboard.charts.large import ZOOMS
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


@cache
def projector_sheet(theme_name: str) -> str:
    """CSS for one theme, which need not be that of the browser: the room may be lit."""
    c = THEMES[theme_name]
    zooms = "".join(
        f"@media (min-width: {width}px) {{ {CHARTS} {{ zoom: {times}; width: calc(100% / {times}) !important; }} }}\n"
        for width, times in ZOOMS.items()
    )
    return f"""<style>{CLEARED}
{zooms}.stApp, [data-testid="stApp"] {{ background: {c.background}; color: {c.ink}; }}
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
