"""Every message exists in Korean, with the same values in it, and none is left over; of the page and of cards."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

import model_runner
from dashboard.i18n import catalogue, language_of, translator
from dashboard.words import DEFER_SENTENCE, DEFER_SHORT, ENGINE_MESSAGES, EVENT_SENTENCE, engine_words, event_words
from experiments import i18n
from scheduler import DEFER_REASONS, EVENT_KINDS, StepEvent
from tests.dashboard.messages import DASHBOARD, EXPERIMENTS, messages

STAGES = {"measure", "convert", "load", "tokenizer", "warmup"}

KOREAN = {DASHBOARD: catalogue("ko"), EXPERIMENTS: i18n.catalogue("ko")}
"""Package -> its catalogue."""

MESSAGES = [(package, message) for package in KOREAN for message in sorted(messages(package))]

SAME_IN_BOTH = {
    "Chunked prefill", "Prefix caching", "decode", "prefill", "padding", "max_tokens", "temperature", "static batch",
    "static batching", "continuous batching", "TTFT p50 / p95", "TPOT p50 / p95",
}  # fmt: skip
"""Terms that Korean engineers use as they are."""


def names_in(message: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(message) if name}


@pytest.mark.parametrize("package", KOREAN, ids=lambda package: package.name)
def test_every_message_has_a_korean_translation(package: Path):
    missing = [m for m in messages(package) if not KOREAN[package].get(m)]
    assert not missing


@pytest.mark.parametrize("package", KOREAN, ids=lambda package: package.name)
def test_no_translation_is_left_over(package: Path):
    assert set(KOREAN[package]) <= set(messages(package))


@pytest.mark.parametrize(("package", "message"), MESSAGES, ids=lambda value: getattr(value, "name", value))
def test_a_translation_uses_the_values_of_its_message_and_is_korean(package: Path, message: str):
    korean = KOREAN[package][message]
    assert names_in(korean) == names_in(message)
    assert message in SAME_IN_BOTH or re.search("[가-힣]", korean), korean


def test_every_event_kind_and_reason_has_words():
    assert {kind for kind, _ in EVENT_SENTENCE} | {"deferred"} == set(EVENT_KINDS)
    assert set(DEFER_SHORT) == set(DEFER_SENTENCE) == set(DEFER_REASONS)


def test_the_terms_of_the_chapter_are_used():
    korean = catalogue("ko")
    for english, term in {"Admission": "수용", "Preemption": "선점", "Allocation": "할당"}.items():
        titles = [text for message, text in korean.items() if message.startswith(f"{english}: ")]
        assert titles
        assert all(term in text for text in titles)
    assert korean["iteration"] == "반복"


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(("kind", "reason"), sorted(EVENT_SENTENCE))
def test_an_event_without_its_numbers_still_reads(kind, reason, language):
    words = event_words(StepEvent(3, 0.0, kind, "r1", reason), translator(language))
    assert "{" not in words


@pytest.mark.parametrize(
    ("locale", "language"), [("ko-KR", "ko"), ("ko", "ko"), ("en-US", "en"), ("fr", "en"), (None, "en")]
)
def test_the_browser_chooses_the_first_language(locale, language):
    assert language_of(locale) == language


def test_a_sentence_of_the_runner_is_translated_and_an_unknown_one_shown_as_it_came():
    assert engine_words("layer 12", translator("ko")) == "레이어 12"
    death = "the worker was killed by SIGKILL; 3 requests go on with the next"
    assert engine_words(death, translator("ko")) == "워커가 SIGKILL 신호로 종료됨; 요청 3개는 다음 엔진에서 이어집니다"
    assert engine_words("something new", translator("ko")) == "something new"
    assert all(template in messages() for template in ENGINE_MESSAGES)


def test_no_text_reaches_the_reader_without_the_catalogue():
    """Labels of widgets are calls of ``t``; a bare text there would stay English."""
    widgets = r"\b(?:button|toggle|selectbox|select_slider|number_input|caption|expander|text_area)\(\s*f?\"[A-Za-z]"
    for path in DASHBOARD.rglob("*.py"):
        assert not re.search(widgets, path.read_text(encoding="utf-8")), path


def test_no_sentence_of_a_card_is_said_without_the_catalogue():
    """What ``say`` is given is marked with ``N_``, or has places for values only."""
    for path in (EXPERIMENTS / "cards").rglob("*.py"):
        bare = re.findall(r"\bsay\(\s*f?\"([^\"]*)\"", path.read_text(encoding="utf-8"))
        assert not [text for text in bare if re.search("[A-Za-z]", re.sub(r"\{\w+\}", "", text))], path


@pytest.mark.parametrize(
    ("n", "words"),
    [(1, "1 iteration back"), (2, "2 iterations back"), (11, "11 iterations back"), (0, "0 iterations back")],
)
def test_english_says_one_thing_of_one_thing(n, words):
    assert translator("en")("{n} iterations back", n=n) == words


def starting_messages() -> list[str]:
    """What the runner tells while it starts: the third argument of each report of progress, parts of it as "x"."""
    found = []
    for path in sorted((Path(model_runner.__file__).parent).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and len(node.args) == 3 and isinstance(node.args[0], ast.Constant):
                said = node.args[2]
                parts = said.values if isinstance(said, ast.JoinedStr) else [said]
                if node.args[0].value in STAGES and all(
                    isinstance(p, ast.Constant | ast.FormattedValue) for p in parts
                ):
                    found.append("".join(p.value if isinstance(p, ast.Constant) else "x" for p in parts))
    return found


def test_every_message_of_a_start_is_told_in_korean():
    told = starting_messages()
    assert len(told) > 8
    assert [m for m in told if engine_words(m, translator("ko")) == m] == []
