"""What the specifications promise the reader: honest scales, visible waste, owners of blocks, no warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dashboard.charts.specs import specs
from dashboard.charts.timeline import BUDGET_HEIGHT
from dashboard.state_tables import ASPECT, map_geometry

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
