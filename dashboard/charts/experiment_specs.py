"""The specifications of the experiments page, each built when it is first shown in a theme and language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

from dashboard.charts.outcomes import differences, ledger, shares
from dashboard.charts.planes import goodput_plane, microscope, race
from dashboard.charts.specs import altair_lock, finish, renderer
from dashboard.charts.theme import THEMES, Theme
from dashboard.i18n import Translate, translator

CHARTS: Final[Mapping[str, Callable[[Theme, Translate], dict[str, Any]]]] = {
    "differences": differences,
    "shares": shares,
    "ledger": ledger,
    "microscope": microscope,
    "plane": goodput_plane,
    "race tokens": partial(race, field="a"),
    "race waiting": partial(race, field="b"),
}
WITH_AXES: Final = frozenset({"microscope", "plane", "race tokens", "race waiting"})
"""Charts that show both axes; the others draw what they need of them."""


def experiment_spec(name: str, theme: str, language: str) -> dict[str, Any]:
    """One of ``CHARTS``. Do not change what is returned: it is shared."""
    with altair_lock:
        return _spec(name, theme, language, renderer())


@cache
def _spec(name: str, theme_name: str, language: str, drawn_by: str) -> dict[str, Any]:
    theme = THEMES[theme_name]
    spec = finish(CHARTS[name](theme, translator(language)), theme, drawn_by)
    if name in WITH_AXES:
        spec = {**spec, "config": {key: value for key, value in spec["config"].items() if key != "axisX"}}
    return spec
