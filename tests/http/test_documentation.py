"""The page on HTTP says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from model_runner.http import app, schemas, settings
from model_runner.long_prompts import INLINE_CHARS

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
        "origin_not_allowed",
        "model_changed",
        "shutting_down",
    }
    assert codes - plain <= named("## Refusals", "## Settings")
    assert plain <= codes, "listed here, and no longer there"


def table(heading: str, next_heading: str) -> list[str]:
    """The first cells of the rows below a heading."""
    rows = TEXT[TEXT.index(heading) : TEXT.index(next_heading)].splitlines()
    return [row.split("|")[1].strip() for row in rows if row.startswith("|") and not row.startswith("| ---")][1:]


def test_every_status_that_is_answered_is_in_the_table_and_no_other():
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(schemas.__file__).parent.glob("*.py"))
    answered = {int(status) for status in re.findall(r"ApiError\(\s*(\d{3})", sources)} | {429, 503}
    assert {
        int(status) for cell in table("## Refusals", "In a stream that has begun") for status in cell.split(",")
    } == (answered - {500})


def test_every_path_is_in_the_table_with_its_method():
    paths = dict(
        reversed(named_path.split()) for cell in table("| path |", "The id of an answer") for named_path in quoted(cell)
    )
    assert paths == app.METHODS | {"/v1/models/NAME": "GET"}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def test_every_variable_is_named():
    assert {quoted(cell)[0] for cell in table("## Settings", "Both ways of serving")} == {
        settings.KEY_VARIABLE,
        settings.QUEUE_VARIABLE,
    }


def test_limits_are_those_of_the_code():
    limits = settings.ApiSettings()
    for said in (
        f"up to {schemas.MAX_PROMPTS} of them",
        f"`stop` ({schemas.MAX_STOPS} at most, {schemas.MAX_STOP_CHARS} characters each)",
        f"Above {INLINE_CHARS:,} characters",
        f"({limits.max_queued}; 1 to {settings.MAX_QUEUED_LIMIT})",
        f"within {limits.body_timeout_s:g} s; is larger than {limits.max_body_bytes // 2**20} MiB",
    ):
        assert said in TEXT, said
