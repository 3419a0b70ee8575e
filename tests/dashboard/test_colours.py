"""The palette holds for every eye and in both themes: contrasts by WCAG 2.2, distances by a simulation of sight.

Sight: Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of color vision deficiency", IEEE
TVCG 15 (2009), matrices of severity 1.0, upon linear RGB. Distance: Euclidean in OKLab (Ottosson 2020), times 100.
"""

from __future__ import annotations

import json
import re
from itertools import combinations

import pytest

from dashboard.block_squares import map_geometry
from dashboard.charts.specs import specs
from dashboard.charts.theme import THEMES, Theme

SIGHT = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
FLOOR = {"normal": 15, "protan": 9, "deutan": 9, "tritan": 9}
"""Just noticeable is about 2; these marks are small and far apart, and a letter names each of them besides."""
TEXT_CONTRAST, LARGE_CONTRAST = 4.5, 3.0


def linear(color: str) -> tuple[float, ...]:
    parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)


def times(matrix, vector) -> tuple[float, ...]:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def oklab(rgb: tuple[float, ...]) -> tuple[float, ...]:
    to_lms = (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
    to_lab = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    return times(to_lab, [max(0.0, v) ** (1 / 3) for v in times(to_lms, rgb)])


def seen(color: str, sight: str) -> tuple[float, ...]:
    return oklab(tuple(min(1.0, max(0.0, v)) for v in times(SIGHT[sight], linear(color))))


def distance(one: str, other: str, sight: str) -> float:
    pairs = zip(seen(one, sight), seen(other, sight), strict=True)
    return 100 * sum((a - b) ** 2 for a, b in pairs) ** 0.5


def contrast(one: str, other: str) -> float:
    light, dark = sorted((times(((0.2126, 0.7152, 0.0722),), linear(c))[0] for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_measures_give_the_values_of_their_definitions():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert distance("#000000", "#ffffff", "normal") == pytest.approx(100, abs=0.01)
    assert distance("#ff0000", "#008000", "deutan") < distance("#ff0000", "#008000", "normal") / 2


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda t: t.name)
def test_any_two_hues_stay_apart_for_every_sight(theme: Theme, sight: str):
    worst = min(combinations(theme.hues, 2), key=lambda pair: distance(*pair, sight))
    assert distance(*worst, sight) >= FLOOR[sight], worst


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda t: t.name)
def test_every_text_colour_is_legible_on_every_ground_it_is_used_on(theme: Theme):
    for name in ("ink", "muted", "red", "amber", "green", "accent"):
        for ground in (theme.background, theme.panel):
            assert contrast(getattr(theme, name), ground) >= TEXT_CONTRAST, name


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda t: t.name)
def test_marks_stand_out_from_the_ground_and_letters_from_their_marks(theme: Theme):
    for hue, ink in zip(theme.hues, theme.on_hue, strict=True):
        assert contrast(hue, theme.background) >= LARGE_CONTRAST, hue
        assert contrast(ink, hue) >= TEXT_CONTRAST, hue
    for name in ("other", "prefill", "decode", "line", "line2", "padding"):
        assert contrast(getattr(theme, name), theme.background) >= LARGE_CONTRAST, name


def over(color: str, ground: str, opacity: float) -> str:
    parts = zip(*([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (color, ground)), strict=True)
    return "#" + "".join(f"{round(opacity * top + (1 - opacity) * below):02x}" for top, below in parts)


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda t: t.name)
def test_words_upon_coloured_areas_are_legible(theme: Theme):
    """As the charts paint them: bars of tokens, squares of the map, rows of the queue, buttons and signs of state."""
    faint = {name: over(getattr(theme, name), theme.background, part) for name, part in
             {"padding": 0.35, "grid": 0.6, "empty": 0.45}.items()}  # fmt: skip
    pairs = {
        "prefill": (theme.on_prefill, theme.prefill),
        "decode": (theme.background, theme.decode),
        "recompute": (theme.background, theme.red),
        "padding": (theme.ink, faint["padding"]),
        "idle slots": (theme.ink, faint["grid"]),
        "shared block": (theme.background, theme.ink),
        "row of the queue": (theme.muted, faint["empty"]),
        "primary button, past": (theme.background, theme.accent),
    }
    told = {name: round(contrast(*pair), 2) for name, pair in pairs.items() if contrast(*pair) < TEXT_CONTRAST}
    assert told == {}


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda t: t.name)
def test_the_bars_of_plain_work_keep_the_full_colour_of_their_request(theme: Theme):
    """A paler one falls below the contrast that was tested for the hue. Kinds 0 and 1 are prefill and decode."""
    spec = json.dumps(specs(theme.name, "en", map_geometry(48))["time"]["vconcat"][0])
    (told,) = set(re.findall(r'"calculate": "(datum\.k == 3 \? [^"]*)"', spec))
    assert told.endswith("datum.m > 7 ? 0.18 : datum.k == 2 ? 0.45 : 1")


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda t: t.name)
def test_the_colours_of_states_are_nobodys_hue(theme: Theme):
    for state in (theme.red, theme.amber):
        assert min(distance(state, hue, "normal") for hue in theme.hues) > 3, state
