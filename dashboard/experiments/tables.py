"""Findings as the tables of the charts. Each function: findings -> data set name -> Arrow bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from dashboard.arrow import F32, I8, I16, TEXT, rows
from dashboard.charts.outcomes import GROUPS, NUM_DIFFERENCES, PARTS, VERDICTS
from dashboard.experiments import words
from dashboard.experiments.words import (
    FACTORS,
    change_words,
    figure,
    metric_name,
    percent,
    relative,
    signed,
    span,
)
from dashboard.i18n import Translate
from experiments.analysis.attribution import Attribution
from experiments.analysis.comparison import Comparison
from experiments.analysis.goodput_plane import Race
from experiments.analysis.ledger import Line
from experiments.analysis.metrics import METRICS
from experiments.analysis.microscope import Microscope
from experiments.cards.said import unit

Data = Mapping[str, bytes]

SHOWN: Final = (
    "output_tokens_per_s", "request_rps", "goodput_rps", "slo_attainment", "ttft_p50_s", "ttft_p99_s", "itl_p50_s",
    "itl_p99_s", "tpot_p50_s", "e2e_p50_s", "e2e_p99_s", "queue_p99_s",
)  # fmt: skip
"""Metrics of the chart of differences; the table below it has all."""
FURTHEST: Final = 3.0
"""Changes beyond +300 % end at the edge of the chart; the text beside them tells them in full."""
FRAME: Final = {"lo": F32, "hi": F32, "z": F32}
TICKS: Final = {"x": F32, "t": TEXT}
ROWS: Final = {"r": I16, "n": TEXT, "lo": F32, "hi": F32, "m": F32, "v": I8, "t": TEXT}


def difference_data(comparison: Comparison | None, t: Translate) -> Data:
    """Data of ``charts.outcomes.differences``: shares of the baseline."""
    records, ends = [], [0.1]
    for place, name in enumerate(SHOWN[:NUM_DIFFERENCES] if comparison else ()):
        assert comparison is not None
        each = comparison.differences[name]
        middle = None if each.ratio is None else each.ratio - 1
        between = relative(each)
        low, high = between if between else (None, None)
        ends += [abs(value) for value in (middle, low, high) if value is not None]
        verdict = VERDICTS.index(each.verdict)
        records.append((place, metric_name(name, t), low, high, middle, verdict, change_words(each, t)))
    reach = min(FURTHEST, max(ends) * 1.08)
    step = nice_step(reach / 2.2)
    marks = [step * n for n in range(-int(reach / step), int(reach / step) + 1)]
    return {
        "rows": rows(ROWS, records),
        "frame": rows(FRAME, [(-reach, reach, 0.0)]),
        "ticks": rows(TICKS, [(mark, f"{100 * mark:+.0f} %" if mark else "0") for mark in marks]),
    }


def nice_step(size: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is at most ``size``, which is above 0."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (5, 2, 1, 0.5) if factor * power <= size * (1 + 1e-9))


def share_data(attribution: Attribution | None, t: Translate) -> Data:
    """Data of ``charts.outcomes.shares``: where each share begins and ends, in the metric's unit."""
    if attribution is None:
        return {"rows": rows(ROWS, []), "frame": rows(FRAME, [(0, 1, 0)]), "ticks": rows(TICKS, [])}
    unit = METRICS[attribution.metric].unit
    start = at = float(attribution.values["0000"])
    end = float(attribution.values["1111"])
    records: list[tuple[int, str, float, float, float, int, str]] = [
        (0, t("none of the four"), 0.0, start, start, 3, figure(start, unit))
    ]
    gain = end - start
    for part in attribution.shares:
        after = at + part.value
        told = f"{t(words.VERDICTS[part.verdict])}  {signed(part.value, unit)} {span(part.interval, unit)}"
        told += f" · {percent(part.value / gain)}" if gain else ""
        name = t(FACTORS[part.members[0]])
        records.append((len(records), name, at, after, after, VERDICTS.index(part.verdict), told))
        at = after
    records.append((len(records), t("all four"), 0.0, end, end, 3, figure(end, unit)))
    values = [0.0, *(value for record in records for value in record[2:4])]
    low, high = min(values), max(values)
    step = nice_step((high - low) / 4 or 1.0)
    marks = [step * n for n in range(math.ceil(low / step), int(high / step) + 1)]
    return {
        "rows": rows(ROWS, records),
        "frame": rows(FRAME, [(low, high * 1.02 or 1.0, 0.0)]),
        "ticks": rows(TICKS, [(mark, figure(mark, unit)) for mark in marks]),
    }


BARS: Final = {"r": I16, "k": I8, "x": F32, "e": F32, "p": F32, "n": TEXT}


def ledger_data(lines: Sequence[Line], before: str, after: str, t: Translate, language: str) -> Data:
    """Data of ``charts.outcomes.ledger``: both arms of each group on the scale of the larger one."""
    heads = {group: t(word) for group, word in GROUPS.items()}
    bars, names = [], []
    for group, head in heads.items():
        parts = [line for line in lines if line.group == group]
        sides = [[max(0.0, line.before) for line in parts], [max(0.0, line.after) for line in parts]]
        most = max((sum(side) for side in sides), default=0.0) or 1.0
        for index, (side, label) in enumerate(zip(sides, (before, after), strict=True)):
            row, total, at = 2 * list(GROUPS).index(group) + index, sum(side), 0.0
            for line, value in zip(parts, side, strict=True):
                if value:
                    told = f"{_amount(value)} {unit(line.unit).told(language)}"
                    end = at + value / most
                    bars.append((row, list(PARTS).index(line.name), at, end, value / (total or 1.0), told))
                    at = end
            of_all = unit(parts[0].unit).told(language) if parts else ""
            names.append((row, f"{head} · {label[:16]}", f"{_amount(total)} {of_all}"))
    return {
        "bars": rows(BARS, bars),
        "names": rows({"r": I16, "n": TEXT, "t": TEXT}, names),
        "frame": rows(FRAME, [(0.0, 1.0, 0.0)]),
    }


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:,.2f}"


POINTS: Final = {
    "o": I16, "n": TEXT, "t": TEXT, "x": F32, "x1": F32, "x2": F32, "y": F32, "y1": F32, "y2": F32, "k": I8,
}  # fmt: skip


def microscope_data(scope: Microscope | None, t: Translate) -> Data:
    """Data of ``charts.planes.microscope``, in ms; sizes without samples are left out."""
    records = []
    for place, point in enumerate(scope.points if scope else ()):
        assert scope is not None
        if point.long_ttft_s is None or point.others_itl_p99_s is None:
            continue
        x, y = 1e3 * point.long_ttft_s, 1e3 * point.others_itl_p99_s
        along, up = point.long_ttft_interval, point.others_itl_interval
        is_knee = point.chunk_tokens == scope.knee.chunk_tokens
        size = f"{point.chunk_tokens:,}"
        records.append(
            (
                place, size, f"{size} · {t('knee')}" if is_knee else size,
                x, 1e3 * along.low if along else x, 1e3 * along.high if along else x,
                y, 1e3 * up.low if up else y, 1e3 * up.high if up else y, int(is_knee),
            )
        )  # fmt: skip
    return {"points": rows(POINTS, records)}


CELLS: Final = {"x": F32, "x2": F32, "y": F32, "y2": F32, "w": I8, "s": F32, "a": F32, "b": F32}
EDGES: Final = {"x": F32, "x2": F32, "y": F32, "y2": F32}


def plane_data(plane: Race | None, before: str, after: str, here: tuple[int, int], t: Translate) -> Data:
    """Data of ``charts.planes.goodput_plane``, in ms. here: places of the limits that are read, in both axes."""
    if plane is None:
        return {
            "cells": rows(CELLS, []), "contour": rows(EDGES, []),
            "here": rows({"x": F32, "y": F32}, []), "signs": rows({"x": F32, "y": F32, "t": TEXT}, []),
        }  # fmt: skip
    x, y = ([1e3 * limit for limit in axis] for axis in (plane.a.ttft_limits_s, plane.a.tpot_limits_s))
    edges_x, edges_y = _edges(x), _edges(y)
    most = float(abs(plane.difference).max()) or 1.0
    cells = [
        (
            edges_x[i], edges_x[i + 1], edges_y[j], edges_y[j + 1], int(plane.winner[i, j]),
            abs(float(plane.difference[i, j])) / most,
            float(plane.a.goodput_rps[i, j]), float(plane.b.goodput_rps[i, j]),
        )
        for i in range(len(x)) for j in range(len(y))
    ]  # fmt: skip
    contour = [(1e3 * x1, 1e3 * x2, 1e3 * y1, 1e3 * y2) for (x1, y1), (x2, y2) in plane.contour]
    signs = []
    for side, label in ((-1, before), (1, after)):
        won = [(i, j) for i in range(len(x)) for j in range(len(y)) if plane.winner[i, j] == side]
        if len(won) >= 20:
            i, j = won[len(won) // 2]
            signs.append((x[i], y[j], t("{arm} ahead", arm=label[:24])))
    return {
        "cells": rows(CELLS, cells),
        "contour": rows(EDGES, contour),
        "here": rows({"x": F32, "y": F32}, [(x[here[0]], y[here[1]])]),
        "signs": rows({"x": F32, "y": F32, "t": TEXT}, signs),
    }


def _edges(axis: Sequence[float]) -> list[float]:
    """Each limit is the upper edge of its cell; the first cell is as wide as the second."""
    first = axis[0] ** 2 / axis[1] if len(axis) > 1 else axis[0] / 2
    return [first, *axis]
