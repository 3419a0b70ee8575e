"""What the specifications promise the reader: honest scales, visible waste, owners of blocks, no warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dashboard.block_squares import ASPECT, map_geometry
from dashboard.charts.panels import BUDGET_HEIGHT, MEMORY_HEIGHT
from dashboard.charts.specs import live_specs, specs

THEMES = ["dark", "light"]
NUMBERS = {"fillOpacity", "opacity", "strokeWidth", "size"}


def built(theme: str, blocks: int = 48) -> Any:
    return specs(theme, "en", map_geometry(blocks))


def objects(spec: Any) -> Iterator[dict[str, Any]]:
    """Every object of a specification, itself included."""
    if isinstance(spec, dict):
        yield spec
    for child in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        yield from objects(child)


@pytest.mark.parametrize("theme", THEMES)
def test_every_vertical_scale_is_linear(theme):
    for chart in built(theme).values():
        kinds = {(o.get("scale") or {}).get("type") for o in objects(chart) if isinstance(o.get("scale"), dict)}
        assert kinds <= {None, "linear"}


@pytest.mark.parametrize("theme", THEMES)
def test_opacities_widths_and_sizes_are_numbers_for_vega(theme):
    for chart in built(theme).values():
        for channels in (o["encoding"] for o in objects(chart) if "encoding" in o):
            for name in NUMBERS & channels.keys():
                assert channels[name].get("type") != "nominal", name


@pytest.mark.parametrize("theme", THEMES)
def test_padding_in_the_budget_chart_is_seen(theme):
    budget = next(p for p in built(theme)["time"]["vconcat"] if p["height"] == BUDGET_HEIGHT)
    bars = [o["mark"] for o in objects(budget) if isinstance(o.get("mark"), dict) and o["mark"]["type"] == "rect"]
    assert len(bars) == 4
    assert all(bar["fillOpacity"] >= 0.5 and bar["stroke"] != "transparent" for bar in bars if bar["fillOpacity"] < 1)


@pytest.mark.parametrize("theme", THEMES)
def test_a_nearly_empty_block_keeps_the_letter_and_hue_of_its_owner(theme):
    words = json.dumps(built(theme)["map"])
    assert "datum.f < 16 ?" not in words
    edges = [o for o in objects(built(theme)["map"]) if (o.get("encoding") or {}).get("stroke", {}).get("field")]
    assert edges
    assert all(edge["encoding"]["stroke"]["field"] == "col" for edge in edges)


@pytest.mark.parametrize("blocks", [12, 48, 192, 500])
def test_one_unit_of_the_map_is_as_wide_as_it_is_high(blocks):
    chart = built("dark", blocks)["map"]
    encodings = [o["encoding"] for o in objects(chart) if "encoding" in o]
    (wide,) = {e["x"]["scale"]["domain"][1] for e in encodings if "scale" in e.get("x", {})}
    (high,) = {e["y"]["scale"]["domain"][1] for e in encodings if "scale" in e.get("y", {})}
    assert wide / high == pytest.approx(ASPECT)


@pytest.mark.parametrize("theme", THEMES)
def test_held_rows_carry_a_sign_that_fonts_have(theme):
    assert "\u23f8" not in json.dumps(built(theme)["running"], ensure_ascii=False)


def test_words_of_marks_are_put_into_the_readers_language():
    korean = [o["calculate"] for o in objects(specs("dark", "ko", map_geometry(48))["time"]) if "calculate" in o]
    assert any("burst of" in told and json.dumps("$1개 한꺼번에") in told for told in korean)
    assert "burst of" not in json.dumps(built("dark")["time"])


def panels(chart: dict[str, Any]) -> list[dict[str, Any]]:
    return chart.get("vconcat", [chart])


@pytest.mark.parametrize("theme", THEMES)
def test_every_position_scale_states_its_domain(theme):
    """A scale that asks its layers for their extent warns of each one that is empty, and jumps when it fills."""
    for name, chart in built(theme).items():
        for panel in panels(chart):
            for channel in ("x", "y"):
                used = [o["encoding"].get(channel, {}) for o in objects(panel) if "encoding" in o]
                scaled = [e for e in used if "field" in e and e.get("scale", {}) is not None]
                stated = [e["scale"] for e in scaled if e.get("scale")]
                inherited = channel == "x" and name == "time"
                assert not scaled or inherited or all("domain" in scale for scale in stated), (name, channel)
                assert not scaled or stated, (name, channel)


@pytest.mark.parametrize("theme", THEMES)
def test_a_prompt_that_is_half_computed_shows_no_output(theme):
    (steps,) = [
        o["transform"] for o in objects(built(theme)["running"]) if any("p3" in str(t) for t in o.get("transform", []))
    ][:1]
    ends = {t["as"]: t["calculate"] for t in steps if t.get("as") in ("p1", "p2", "p3")}

    def tokens(name: str, computed: int, prompt: int) -> int:
        inner = ends[name].split("min(1, ", 1)[1].split(" / datum.g", 1)[0]
        values = {"min": min, "max": max, "c": computed, "p": prompt}
        return int(eval(inner.replace("datum.", ""), {"__builtins__": {}}, values))

    assert [tokens(name, 3, 10) for name in ("p1", "p2", "p3")] == [3, 10, 10], "output ends where the prompt ends"
    assert [tokens(name, 14, 10) for name in ("p1", "p2", "p3")] == [10, 10, 14], "four tokens of output"


@pytest.mark.parametrize("theme", THEMES)
def test_the_wastes_of_the_memory_line_differ_by_texture_and_not_by_colour_alone(theme):
    memory = next(p for p in built(theme)["time"]["vconcat"] if p["height"] == MEMORY_HEIGHT)
    marks = [o["mark"] for o in objects(memory) if isinstance(o.get("mark"), dict)]
    assert sum(m["type"] == "area" for m in marks) == 2, "tokens and unfilled"
    rules = [m for m in marks if m["type"] == "rule" and m.get("strokeWidth") == 2]
    assert sorted(bool(m.get("strokeDash")) for m in rules) == [False, True], "stripes and dots"


@pytest.mark.parametrize("theme", THEMES)
def test_the_states_of_a_block_differ_by_shape_and_not_by_colour_alone(theme):
    marks = [o["mark"] for o in objects(built(theme)["map"]["layer"]) if isinstance(o.get("mark"), dict)]
    assert any(m["type"] == "rect" and m.get("strokeDash") for m in marks), "reserved"
    assert sum(m["type"] == "rule" and m.get("strokeWidth") == 1.2 for m in marks) == 2, "locked and unusable"


def test_no_mark_tells_of_itself_but_those_that_are_pointed_at():
    """Streamlit's default would tell raw fields of every mark, and a click takes a request from what is told."""
    for chart in built("dark").values():
        assert chart["config"]["mark"] == {"tooltip": None}
    told = {
        name: [tip["title"] for o in objects(chart) for tip in (o.get("encoding") or {}).get("tooltip") or []
               if isinstance(tip, dict)]
        for name, chart in built("dark").items()
    }  # fmt: skip
    assert "request" in told["queue"]
    assert "request" in told["running"]
    assert told["map"][:2] == ["block", "state"], "free ones too"
    assert {"request", "iteration", "tokens"} <= set(told["time"])


def test_charts_of_the_live_page_take_what_a_tall_window_has_to_spare_and_all_others_stay():
    plain, live = built("dark"), live_specs("dark", "en", map_geometry(48))
    for name in ("queue", "running", "map"):
        (height,) = [p["expr"] for p in live[name]["params"] if p["name"] == "height"]
        assert height.startswith(f"{plain[name]['height']} + "), "a chart that is saved has no window"
        assert "windowSize()[1]" in height
    assert live["strip"] == plain["strip"]
    first, plain_first = live["time"]["vconcat"][0], plain["time"]["vconcat"][0]
    ends = [o["range"] for o in objects(first) if "range" in o]
    assert [{"expr": "L"} in end for end in ends] == [True]
    rules = [o for o in objects(first) if isinstance(o.get("mark"), dict) and o["mark"]["type"] == "rule"]
    upright = [o for o in rules if not o["encoding"].get("x2")]
    assert upright
    assert all(o["encoding"]["y2"] == {"value": {"expr": "L"}} for o in upright)
    assert live["time"]["vconcat"][1:] == plain["time"]["vconcat"][1:]
    assert "windowSize" not in json.dumps(plain), "what is shared with other pages is left as it was"
    assert plain_first["height"] == first["height"]
