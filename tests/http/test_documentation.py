"""The page on HTTP says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from model_runner.http import schemas

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")


def named(start: str, end: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", TEXT[TEXT.index(start) : TEXT.index(end)]))


def test_every_field_that_is_taken_is_named_and_no_other():
    taken = {*schemas._Completion.__struct_fields__, *schemas._Chat.__struct_fields__}
    options = {"include_usage", "continuous_usage_stats"}
    assert named("Taken, with OpenAI's", "Refused by name") == taken | options


def test_every_field_that_is_refused_is_named():
    assert named("Refused by name", "A field that is not known") == set(schemas.NEUTRAL)


def test_every_code_of_an_error_is_named():
    sources = Path(schemas.__file__).parent.glob("*.py")
    codes = {code for path in sources for code in re.findall(r'code="([a-z_]+)"', path.read_text(encoding="utf-8"))}
    plain = {
        "unsupported_parameter",
        "unknown_parameter",
        "unknown_url",
        "origin_not_allowed",
        "model_changed",
        "shutting_down",
    }
    assert codes - plain <= named("## Refusals", "## Settings")
    assert plain <= codes, "listed here, and no longer there"
