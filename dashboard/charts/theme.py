"""Colours of both themes, from one set of names.

Hues belong to requests. Red, amber and white are reserved for states and never name a request. The palettes were chosen
by simulation: every pair stays apart for normal, protan, deutan and tritan sight, and each hue has a contrast of at
least 3:1 against its background.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

FONTS: Final = "'Source Sans', 'Noto Sans KR', 'Noto Sans CJK KR', 'Apple SD Gothic Neo', 'Malgun Gothic', sans-serif"


@dataclass(frozen=True, slots=True)
class Theme:
    """hues: of marks A..H. on_hue: ink upon each hue. other: a request without a mark."""

    name: str
    background: str
    panel: str
    ink: str
    muted: str
    grid: str
    empty: str
    locked: str
    hues: tuple[str, ...]
    on_hue: tuple[str, ...]
    other: str
    red: str
    amber: str
    green: str
    accent: str
    prefill: str
    decode: str
    padding: str
    line: str
    line2: str

    @property
    def on_prefill(self) -> str:
        """Ink upon the colour of prefill; on decode and red the background is legible in both themes."""
        return self.background if self.name == "dark" else self.ink


DARK: Final = Theme(
    name="dark",
    background="#0e1117",
    panel="#161b22",
    ink="#f0f3f6",
    muted="#a9b4c0",
    grid="#2b323b",
    empty="#3d4550",
    locked="#2a2f37",
    hues=("#2c68f4", "#f7b106", "#7afeb2", "#914887", "#54a9c1", "#df6e6a", "#dfbffd", "#576d0e"),
    on_hue=("#ffffff", "#0e1117", "#0e1117", "#ffffff", "#0e1117", "#0e1117", "#0e1117", "#ffffff"),
    other="#8b949e",
    red="#ff6b63",
    amber="#e3a008",
    green="#3fb950",
    accent="#79b8ff",
    prefill="#d7dee6",
    decode="#76828f",
    padding="#7a828c",
    line="#d7dee6",
    line2="#8f9baa",
)
LIGHT: Final = Theme(
    name="light",
    background="#ffffff",
    panel="#f5f7f9",
    ink="#14181d",
    muted="#4d5763",
    grid="#e1e5ea",
    empty="#c3cad2",
    locked="#e4e7eb",
    hues=("#525f9a", "#4a1900", "#0d5a06", "#a8335c", "#329ed3", "#c97d7d", "#3e016c", "#728413"),
    on_hue=("#ffffff", "#ffffff", "#ffffff", "#ffffff", "#14181d", "#14181d", "#ffffff", "#000000"),
    other="#7a838d",
    red="#c62828",
    amber="#a15c00",
    green="#1a7f37",
    accent="#0b57d0",
    prefill="#8894a1",
    decode="#4d5763",
    padding="#8b949e",
    line="#2d3640",
    line2="#7a8592",
)
THEMES: Final = {"dark": DARK, "light": LIGHT}


def config(theme: Theme) -> dict[str, Any]:
    """Vega-Lite config shared by all charts: text of at least 11 px, quiet axes, no frame."""
    return {
        "background": theme.background,  # a saved picture is legible on any page
        "font": FONTS,
        # A description of every mark, made anew in every tick, is a third of the work; each chart has its "alt".
        "aria": False,
        "view": {"stroke": None},
        "mark": {"tooltip": None},  # Streamlit's default tells of every mark its raw fields
        "text": {"fontSize": 12, "color": theme.ink},
        "axis": {
            "labelFontSize": 11,
            "titleFontSize": 12,
            "labelColor": theme.muted,
            "titleColor": theme.muted,
            "domain": False,
            "ticks": False,
            "grid": False,
            "titleFontWeight": "normal",
        },
        "axisX": {"disable": True},
        "legend": {"disable": True},
        "concat": {"spacing": 4},
    }
