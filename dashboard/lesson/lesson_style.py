"""Style sheet of the lesson: for a screen that the room sees, and in projector mode for the last row."""

from __future__ import annotations

from functools import cache

from dashboard.charts.theme import FONTS, THEMES
from dashboard.projector_style import CAPTION, FLOOR


@cache
def sheet(theme_name: str, *, is_room: bool = False) -> str:
    """CSS of the lesson. What the room reads is at least 24 px high, small print 15. is_room: for projector mode, where
    all of it is readable from 5 metres."""
    return f"<style>{_desk(theme_name)}{_room() if is_room else ''}</style>"


def _desk(theme_name: str) -> str:
    c = THEMES[theme_name]
    return f"""
.bs-lesson, .bs-lesson * {{ font-family: {FONTS}; font-variant-numeric: tabular-nums; }}
.bs-lesson {{ color: {c.ink}; }}
.bs-lesson .bs-where {{ font-size: 16px; line-height: 22px; color: {c.muted}; }}
.bs-lesson h2 {{ font-size: 31px; line-height: 38px; margin: 0 0 4px; padding: 0; }}
.bs-lesson .bs-look {{ font-size: 24px; line-height: 32px; margin: 0 0 4px; }}
.bs-lesson .bs-ask {{ font-size: 24px; line-height: 31px; font-weight: 650; margin: 0 0 8px; }}
.bs-lesson .bs-choice {{ position: relative; border: 1.5px solid {c.grid}; border-radius: 5px; margin: 0 0 6px;
  padding: 4px 10px; font-size: 19px; line-height: 26px; overflow: hidden; display: flex; gap: 10px; }}
.bs-lesson .bs-choice i {{ position: absolute; left: 0; top: 0; bottom: 0; background: {c.grid}; z-index: 0; }}
.bs-lesson .bs-choice span {{ position: relative; flex: 1; }} .bs-lesson .bs-choice b {{ position: relative; }}
.bs-lesson .bs-choice.bs-right {{ border: 3px solid {c.green}; }}
.bs-lesson .bs-say {{ font-size: 20px; line-height: 27px; margin: 6px 0; }}
.bs-lesson .bs-otherwise {{ border-left: 5px solid {c.amber}; padding-left: 10px; }}
.bs-lesson .bs-table {{ font-size: 18px; line-height: 24px; }}
.bs-lesson .bs-table td:nth-child(n+2) {{ white-space: nowrap; }}
.bs-lesson .bs-fine {{ font-size: 15px; line-height: 21px; color: {c.muted}; margin: 0; overflow-wrap: anywhere; }}
.bs-lesson .bs-not {{ font-size: 19px; line-height: 26px; border-left: 5px solid {c.accent}; padding-left: 10px;
  margin: 8px 0; }}
.bs-lesson .bs-status {{ font-size: 18px; line-height: 24px; min-height: 24px; color: {c.accent}; }}
.bs-lesson .bs-status.bs-bad {{ color: {c.red}; }}
.bs-lesson ol {{ font-size: 15px; line-height: 22px; padding-left: 26px; margin: 0; }}
.bs-lesson li.bs-now {{ font-weight: 700; font-size: 15px; line-height: 22px; color: {c.ink}; }}
.bs-dict .bs-head {{ font-size: 17px; line-height: 24px; }}
.bs-dict code {{ font-size: 17px; line-height: 26px; height: 114px; }}
.bs-account {{ font-size: 16px; line-height: 22px; height: auto; white-space: normal; }}
.bs-gauges {{ font-size: 15px; line-height: 20px; height: 20px; }}"""


def _room() -> str:
    """Over the sizes above; 24 px at a width of 1,440 px is the floor, as on the live page. The help of a button, which
    stays after a press, would cover the title: it is for the desk."""
    small = ", ".join(f".bs-lesson .bs-{name}" for name in ("where", "fine", "status", "choice", "not"))
    large = ".bs-lesson .bs-look, .bs-lesson .bs-say"
    return f"""
{small}, {large}, .bs-lesson li, .bs-dict .bs-head, .bs-dict code, .bs-account, .bs-gauges {{
  font-size: {FLOOR}; line-height: 1.25; }}
{large}, .bs-lesson .bs-table {{ font-size: max(27px, 1.875vw); line-height: 1.25; margin: 2px 0; }}
.bs-lesson .bs-table td, .bs-lesson .bs-table th {{ padding: 0.2em 0.6em 0.2em 0; }}
[role="tooltip"] {{ display: none !important; }}
.bs-lesson h2, .bs-lesson .bs-ask {{ font-size: {CAPTION}; line-height: 1.2; }}
.bs-lesson .bs-status {{ min-height: 1.25em; }}
.bs-dict code {{ height: 5.4em; }}
.bs-dict .bs-chip {{ font-size: 1em; height: auto; line-height: 1.2; min-width: 1.3em; }}
.bs-gauges {{ height: 1.3em; }}
[class*="st-key-lesson"] button p {{ font-size: {FLOOR}; line-height: 1.2; }}
[class*="st-key-lesson"] button {{ padding: 2px 6px; }}"""
