"""Lanes, token budget and time lines on one iteration axis, with policy marks across all of them."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.parts import HUE, data, exact, number, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate

LANES_HEIGHT = 192
WORDS_HEIGHT = 28
"""Head of the lanes, for the words of policy marks."""
BUDGET_HEIGHT = 58
LINE_HEIGHT = 38
TITLE_HEIGHT = 14
"""Head of each panel, kept free of data for its title."""
LABEL_X = 34
"""Right end of the labels in the left margin, in pixels; the axis begins MARGIN_COLUMNS iterations left of the data."""

TITLES: Final = {
    "lanes": N_("Iterations: tall = prefill chunk, thin = one decode token"),
    "budget": N_("tokens per iteration: light = prefill, dark = decode · dashed = budget"),
    "load": N_("requests: solid = running, dotted = waiting"),
    "kv": N_("KV blocks in use · dashed = usable limit · red = preemption"),
    "rate": N_("output tokens per second (mean of 8 iterations)"),
}


def _x(field: str = "x") -> dict[str, Any]:
    """The iteration axis. Its scale is stated once, by the invisible frame of each panel."""
    return {"field": field, "type": "quantitative"}


def _frame(theme: Theme) -> Any:
    """Invisible: spans the axis from the first to the last iteration in view."""
    return alt.Chart(data("frame")).mark_rule(opacity=0).encode(x={**_x("left"), "scale": exact()}, x2="e")


def _now(theme: Theme) -> Any:
    return alt.Chart(data("frame")).mark_rule(color=theme.accent, opacity=0.8).encode(x=_x("now"))


def _grid(theme: Theme) -> Any:
    return alt.Chart(data("ticks")).mark_rule(color=theme.grid).encode(x=_x())


def _mark_rules(theme: Theme) -> Any:
    return (
        alt.Chart(data("marks"))
        .transform_calculate(c=f"datum.k == 'restart' ? {json.dumps(theme.red)} : {json.dumps(theme.accent)}")
        .mark_rule(strokeWidth=1.5, strokeDash=[2, 2])
        .encode(x=_x(), color=raw("c"))
    )


def _columns(theme: Theme) -> Any:
    """Hairlines between the iterations, so that a run of decodes reads as single tokens."""
    return (
        alt.Chart(data("frame"))
        .transform_calculate(i="sequence(datum.x, datum.e)")
        .transform_flatten(["i"])
        .mark_rule(color=theme.background, strokeWidth=1, opacity=0.75)
        .encode(x=_x("i"))
    )


def _haloed(theme: Theme, base: Any, **mark: Any) -> list[Any]:
    """Text that stays legible upon bars and rules: first its outline in the colour of the background."""
    outline = base.mark_text(stroke=theme.background, strokeWidth=3, strokeJoin="round", **mark)
    return [outline, base.mark_text(**mark)]


def _lane_y(field: str = "a", **scale: Any) -> dict[str, Any]:
    """Lanes from the top. The scale is stated once, by the layer that spans them."""
    return {"field": field, "type": "quantitative", "axis": None, **scale}


def _blocks(theme: Theme, name: str) -> Any:
    """The cells of the lanes. Recompute is ringed red, padding grey in ink, an idle slot a grey line."""
    base = (
        alt.Chart(data(name))
        .transform_calculate(
            c=f"datum.k > 2 ? {json.dumps(theme.padding)} : ({HUE})",
            fo="datum.k == 3 ? 0.4 : datum.k == 4 ? 1 : datum.k > 4 ? 0.45 : datum.m > 7 ? 0.18 : "
            "datum.k == 2 ? 0.45 : datum.k == 1 ? 0.85 : 1",
            sc=f"datum.k == 2 ? {json.dumps(theme.red)} : datum.k == 3 ? I : ({HUE})",
            sw="datum.k == 2 || datum.k == 3 || (datum.m > 7 && datum.k < 3) ? 1 : 0",
        )
        .encode(
            x=_x(),
            x2="e",
            y=_lane_y(),
            y2="b",
            fill=raw("c"),
            fillOpacity=number("fo"),
            stroke=raw("sc"),
            strokeWidth=number("sw"),
        )
    )
    tooltip = [
        alt.Tooltip("r:N", title="request"),
        alt.Tooltip("x:Q", title="from"),
        alt.Tooltip("n:Q", title="tokens"),
    ]
    return base.mark_rect().encode(tooltip=tooltip)


def _points(theme: Theme) -> Any:
    """Evictions as white triangles with a red edge, admissions as rings, ends as dots, aborts as crosses."""
    shapes = ["circle", "circle", "triangle-down", "circle", "cross"]
    return (
        alt.Chart(data("points"))
        .transform_calculate(
            s=f"{json.dumps(shapes)}[datum.p]",
            f=f"datum.p == 2 ? '#ffffff' : datum.p < 2 ? 'transparent' : {json.dumps(theme.ink)}",
            o=f"datum.p == 2 ? {json.dumps(theme.red)} : {json.dumps(theme.ink)}",
            z="datum.p == 2 ? 110 : datum.p == 3 ? 16 : 34",
            w="datum.p == 2 ? 2 : 1.2",
        )
        .mark_point()
        .encode(
            x=_x(),
            y=_lane_y("y"),
            shape=raw("s"),
            fill=raw("f"),
            stroke=raw("o"),
            size=number("z"),
            strokeWidth=number("w"),
            tooltip=alt.Tooltip("r:N", title="request"),
        )
    )


def _told(t: Translate) -> str:
    """Vega expression: the words of a mark, which are English in the shared data, in the reader's language."""
    words = [
        ("/burst of ([0-9]+)/g", "burst of $1", t("burst of {n}", n="$1")),
        ("/ on(?=;|$)/g", " on", " " + t("on")),
        ("/ off(?=;|$)/g", " off", " " + t("off")),
    ]
    told = "datum.t"
    for pattern, english, word in words:
        told = told if word == english else f"replace({told}, {pattern}, {json.dumps(word)})"
    return told


def _lanes(theme: Theme, t: Translate) -> Any:
    span = alt.Chart(data("frame")).transform_calculate(zero="0").mark_rule(opacity=0)
    span = span.encode(x=_x(), y=_lane_y("zero", scale=exact(range=[WORDS_HEIGHT, LANES_HEIGHT])), y2="n")
    floors = (
        alt.Chart(data("frame"))
        .transform_calculate(i="sequence(0, datum.n)")
        .transform_flatten(["i"])
        .transform_calculate(
            f="datum.i + 0.9",
            q="datum.i + 0.72",
            s="datum.i % (datum.n > 48 ? 8 : datum.n > 16 ? 4 : 1) ? '' : '' + datum.i",
        )
    )
    lines = floors.mark_rule(color=theme.grid).encode(x=_x(), x2="e", y=_lane_y("f"))
    names = floors.mark_text(align="right", color=theme.muted, fontSize=11).encode(
        x={"value": LABEL_X}, y=_lane_y("q"), text="s:N"
    )
    label = (
        alt.Chart(data("labels"))
        .transform_calculate(c=f"datum.m < 0 ? {json.dumps(theme.muted)} : {json.dumps(theme.ink)}")
        .encode(x=_x(), y=_lane_y("y"), text="t:N", color=raw("c"))
    )
    labels = _haloed(theme, label, align="left", baseline="top", dx=1, fontSize=11, fontWeight=600)
    veil = (
        alt.Chart(data("veil"))
        .mark_rect(color=theme.background, opacity=0.72)
        .encode(x={"value": 0}, x2={"value": "width"}, y={"value": 0}, y2={"value": "height"})
    )
    word = alt.Chart(data("marks")).transform_calculate(
        y="datum.l * 14 + 6",
        w=f"datum.k == 'restart' ? {json.dumps(t('restart'))} : {_told(t)}",
        c=f"datum.k == 'restart' ? {json.dumps(theme.red)} : {json.dumps(theme.accent)}",
    )
    at = {"field": "y", "type": "quantitative", "scale": None, "axis": None}

    def words(side: int, **mark: Any) -> list[Any]:
        text = word.transform_filter(f"datum.h == {side}").encode(x=_x(), y=at, text="w:N", color=raw("c"))
        return _haloed(theme, text, fontSize=11, fontWeight=600, **mark)

    layers = [span, _frame(theme), _grid(theme), lines, names, _blocks(theme, "runs"), _columns(theme), *labels]
    layers += [veil, _blocks(theme, "chosen"), _points(theme), _mark_rules(theme)]
    layers += [*words(0, align="left", dx=4), *words(1, align="right", dx=-4), _now(theme)]
    return alt.layer(*layers).properties(height=LANES_HEIGHT)


def _title(theme: Theme, text: str) -> Any:
    base = alt.Chart(data("frame")).transform_calculate(title=json.dumps(text))
    base = base.encode(x=_x(), y={"value": 0}, text="title:N")
    return alt.layer(*_haloed(theme, base, align="left", baseline="top", dx=1, fontSize=11, color=theme.muted))


def _scale(height: int, **extra: Any) -> dict[str, Any]:
    """A vertical scale that leaves the head of its panel to the title."""
    return {"range": [height - 1, TITLE_HEIGHT], **extra}


def _y(field: str, scale: dict[str, Any]) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "scale": scale, "axis": None}


def _label(theme: Theme, source: Any, field: str, scale: dict[str, Any], text: str) -> Any:
    """A number in the left margin at its own height."""
    labelled = source.transform_calculate(t=text)
    mark = labelled.mark_text(align="right", baseline="middle", fontSize=11, color=theme.muted)
    return mark.encode(x={"value": LABEL_X}, y=_y(field, scale), text="t:N")


def _largest(*names: str) -> Any:
    """One row: m, the largest value of the given columns in view, and z = 0."""
    chart = alt.Chart(data("series"))
    chart = chart.transform_aggregate([alt.AggregatedFieldDef(op="max", field=n, **{"as": f"m_{n}"}) for n in names])
    return chart.transform_calculate(m=f"max(1, {', '.join(f'datum.m_{n}' for n in names)})", z="0")


def _budget(theme: Theme, t: Translate) -> Any:
    scale = _scale(BUDGET_HEIGHT, nice=False, zero=True)
    series = alt.Chart(data("series")).transform_filter("datum.u !== null").transform_calculate(e="datum.x + 1")
    parts = [
        ("0", "datum.d", theme.decode, 1.0, theme.decode),
        ("datum.d", "datum.d + datum.f", theme.prefill, 1.0, None),
        ("datum.d + datum.f", "datum.d + datum.f + datum.c", theme.red, 0.55, theme.red),
        ("datum.d + datum.f + datum.c", "datum.d + datum.f + datum.c + datum.g", theme.padding, 0.5, theme.ink),
    ]
    layers = [_frame(theme), _grid(theme)]
    for low, high, color, opacity, stroke in parts:
        layers.append(
            series.transform_calculate(lo=low, hi=high)
            .transform_filter("datum.hi > datum.lo")
            .mark_rect(color=color, fillOpacity=opacity, stroke=stroke or "transparent")
            .encode(x=_x(), x2="e", y=_y("lo", scale), y2="hi")
        )
    rule = series.mark_line(color=theme.amber, strokeDash=[4, 3], interpolate="step-after")
    layers.append(rule.encode(x=_x(), y=_y("u", scale)))
    top = _largest("u")
    layers += [_label(theme, top, "m", scale, "format(datum.m, ',')"), _label(theme, top, "z", scale, "'0'")]
    layers += [_columns(theme), _mark_rules(theme), _now(theme), _title(theme, t(TITLES["budget"]))]
    return alt.layer(*layers).properties(height=BUDGET_HEIGHT)


def _line(field: str, scale: dict[str, Any], **mark: Any) -> Any:
    return alt.Chart(data("series")).mark_line(interpolate="step-after", **mark).encode(x=_x(), y=_y(field, scale))


def _panel(theme: Theme, title: str, *layers: Any) -> Any:
    extra = [_mark_rules(theme), _now(theme), _title(theme, title)]
    return alt.layer(_frame(theme), _grid(theme), *layers, *extra).properties(height=LINE_HEIGHT)


def _load(theme: Theme, t: Translate) -> Any:
    scale = _scale(LINE_HEIGHT, zero=True, nice=False)
    running = _line("run", scale, color=theme.line, strokeWidth=2)
    waiting = _line("wait", scale, color=theme.line2, strokeWidth=2, strokeDash=[1, 2])
    top = _largest("run", "wait")
    labels = [_label(theme, top, "m", scale, "format(datum.m, ',')"), _label(theme, top, "z", scale, "'0'")]
    return _panel(theme, t(TITLES["load"]), running, waiting, *labels)


def _kv(theme: Theme, t: Translate) -> Any:
    scale = _scale(LINE_HEIGHT, domain=[0, 1], nice=False)
    area = alt.Chart(data("series")).mark_area(
        interpolate="step-after", color=theme.decode, opacity=0.45, line={"color": theme.line}
    )
    limit = _line("lim", scale, color=theme.amber, strokeDash=[4, 3])
    evicted = (
        alt.Chart(data("series"))
        .transform_filter("datum.pre > 0")
        .transform_calculate(h="datum.x + 0.5")
        .mark_rule(color=theme.red, strokeWidth=3)
        .encode(x=_x("h"), y={"value": LINE_HEIGHT}, y2={"value": TITLE_HEIGHT})
    )
    ends = alt.Chart(data("frame")).transform_calculate(z="0", m="1")
    labels = [_label(theme, ends, "m", scale, "'100%'"), _label(theme, ends, "z", scale, "'0%'")]
    return _panel(theme, t(TITLES["kv"]), area.encode(x=_x(), y=_y("kv", scale)), limit, evicted, *labels)


def _rate(theme: Theme, t: Translate) -> Any:
    scale = _scale(LINE_HEIGHT, zero=True, nice=False)
    top = _largest("tps")
    labels = [_label(theme, top, "m", scale, "format(datum.m, ',.0f')"), _label(theme, top, "z", scale, "'0'")]
    return _panel(theme, t(TITLES["rate"]), _line("tps", scale, color=theme.line, strokeWidth=2), *labels)


def _axis(theme: Theme) -> Any:
    text = (
        alt.Chart(data("ticks"))
        .mark_text(fontSize=11, color=theme.muted, baseline="middle")
        .encode(x=_x(), y={"value": 7}, text="t:N")
    )
    return alt.layer(_frame(theme), text).properties(height=14)


def timeline(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: frame, runs, points, labels, series, ticks, marks, chosen, veil (see ``dashboard.lanes``)."""
    panels = [_lanes(theme, t), _budget(theme, t), _load(theme, t), _kv(theme, t), _rate(theme, t), _axis(theme)]
    spec: dict[str, Any] = alt.vconcat(*panels, spacing=5).resolve_scale(x="shared").to_dict(validate=False)
    return spec
