"""A race as the tables of its chart."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.arrow import F32, I8, I32, TEXT, rows
from dashboard.experiments.racing import Shown
from dashboard.i18n import Translate
from experiments.virtual.forecast import Series


def has_lines(shown: Shown) -> bool:
    """Whether a chart of it would show anything."""
    made = shown.race
    return made is not None and any(each.times_s for each in (shown.live, made.control.series, made.rival.series))


def race_data(shown: Shown, t: Translate) -> Mapping[str, bytes]:
    """Data of ``charts.planes.race``: series 0 is the real run, 1 and 2 are forecasts; seconds since the fork."""
    lines: list[tuple[int, float, int, int]] = []
    names: list[tuple[float, int, int, str]] = []
    made = shown.race
    if made is not None:
        start = made.control.from_s
        all_series: tuple[tuple[Series, str], ...] = (
            (shown.live, t("real")),
            (made.control.series, t("forecast, as it was")),
            (made.rival.series, t("forecast, B")),
        )
        for place, (series, name) in enumerate(all_series):
            found = zip(series.times_s, series.tokens, series.waiting, strict=True)
            lines += [(place, at - start, tokens, waiting) for at, tokens, waiting in found]
            if series.times_s:
                names.append((series.times_s[-1] - start, series.tokens[-1], series.waiting[-1], name))
    return {
        "lines": rows({"s": I8, "x": F32, "a": I32, "b": I32}, lines),
        "names": rows({"x": F32, "a": I32, "b": I32, "t": TEXT}, names),
    }
