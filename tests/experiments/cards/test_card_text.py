"""Markdown and page rows of a card: readable by an independent reader, in both languages, whatever a text holds."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from experiments.cards.encode import CardError, from_json, to_json
from experiments.cards.escape import block, inline, item, visible
from experiments.cards.markdown import to_markdown
from experiments.cards.plain import plain_card
from experiments.cards.said import Said, say
from tests.experiments.cards.hand import FACTS, baseline, candidate, card, under

GOOD = to_json(card())

READER = MarkdownIt("gfm-like", {"linkify": False})
"""GitHub's dialect, HTML on: what would act there acts here."""

HOSTILE = (
    "a|b",
    "`code`",
    "``` fence",
    "*bold* _under_ __strong__ ~~gone~~",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &#x202e;",
    "[link](https://example.org)",
    "![image](x.png)",
    "https://example.org and www.example.org",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "+ item",
    "back\\slash\\|",
    "$x^2$",
    "| --- |",
    "==",
    "{n} {message.__class__} {0!r:>99}",
    "한글 이름",
)


def text_of(markdown: str) -> str:
    """The text a reader sees in one inline run; fails when any part is more than text."""
    (paragraph, inner, end) = READER.parse(markdown)
    assert (paragraph.type, end.type) == ("paragraph_open", "paragraph_close")
    assert inner.children is not None
    assert {child.type for child in inner.children} <= {"text", "text_special"}, inner.children
    return "".join(child.content for child in inner.children)


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_shown_as_it_is_and_does_nothing(text):
    assert text_of(item(text)) == text
    assert text_of(f"so {inline(text)}") == f"so {text}"


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_stays_in_its_cell(text):
    tokens = READER.parse(f"| a | b |\n| --- | --- |\n| {inline(text)} | last |\n")
    cells = [token for before, token in pairwise(tokens) if before.type == "td_open"]
    assert len(cells) == 2
    assert "".join(child.content for child in cells[0].children or ()) == text
    assert cells[1].content == "last"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\nb", "a b"),
        ("a\r\n\r\n# b", "a    # b"),
        ("evil\u202egpj", "evil[U+202E]gpj"),
        ("a\u200bb\u00adc", "a[U+200B]b[U+00AD]c"),
        ("\u2066x\u2069", "[U+2066]x[U+2069]"),
        ("\x1b[31mred\x00", "[U+001B][31mred[U+0000]"),
        ("\ud800", "[U+D800]"),
        ("\u3164", "[U+3164]"),
        ("\U000e0041", "[U+E0041]"),
    ],
)
def test_what_hides_is_made_visible(text, seen):
    assert visible(text) == seen


def test_a_very_long_text_is_cut_and_says_so():
    assert visible("x" * 5000) == "x" * 999 + "…"


@pytest.mark.parametrize("command", ["run `x`", "```", "a\n```\n# b", "````"])
def test_a_command_cannot_leave_its_block(command):
    (token,) = READER.parse(block(command))
    assert token.type == "fence"
    assert token.content == visible(command) + "\n"


def hostile_card(text: str, language: str = "en") -> str:
    changes = {"model": text, "command": text, "versions": {text: text}, "machine": {"cpu": text}, "warm_up": text}
    a = tuple(replace(run, label="a" + text, trace_name=text) for run in under(baseline(), **changes))
    b = tuple(replace(run, label="b" + text, trace_name=text) for run in under(candidate(), **changes))
    return to_markdown(card(a, b, replace(FACTS, title=text, tuning=text)), language)


@pytest.mark.parametrize("text", ["a|b`<script>*x*", "one\ntwo\n\n# three", "\u202ebackwards"])
def test_a_card_of_hostile_names_has_the_parts_of_any_card(text):
    def parts(markdown: str) -> list[str]:
        tokens = READER.parse(markdown)
        inner = [child.type for token in tokens for child in token.children or () if child.type != "text"]
        return [*(token.type for token in tokens), *(kind for kind in inner if kind not in ("text_special",))]

    markdown = hostile_card(text)
    assert parts(markdown) == parts(hostile_card("harmless"))
    assert "\u202e" not in markdown


def test_the_markdown_of_a_card_has_every_condition_figure_and_limit():
    made = card()
    text = re.sub(r"\\(.)", r"\1", to_markdown(made))
    for section in made.sections:
        for row in section.rows:
            assert row.value is not None
            assert f"| {row.label.told()} | {row.value.told()} |" in text
    for figure in made.figures:
        assert f"| {figure.name} | {figure.unit} |" in text
        assert figure.formula in text
    for said in made.not_supported:
        assert f"- {said.told()}" in text
    assert made.commands[0] in text


def test_the_rows_of_the_page_say_what_the_card_says():
    made = card(facts=replace(FACTS, tuned=None))
    plain = plain_card(made)
    assert plain.headline == ""
    assert plain.withheld == ("Was the baseline tuned: nobody said whether the baseline was tuned",)
    (unknown,) = [row for row in plain.conditions if not row.known]
    assert unknown.label == "Was the baseline tuned"
    assert [figure.name for figure in plain.figures] == [figure.name for figure in made.figures]
    assert plain.arms == ("static", "continuous")
    ttft = next(figure for figure in plain.figures if figure.name == "ttft_p50_s")
    assert ttft.levels == ("0.3405 (0.34 – 0.341)", "0.1205 (0.12 – 0.121)")
    assert ttft.samples == "120 / 120"
    assert ttft.formula == "first token - due, once a request"


def test_korean_and_english_cards_have_the_same_numbers():
    def numbers(text: str) -> list[str]:
        return sorted(re.findall(r"\d(?:[\d,.]*\d)?", text))

    korean = plain_card(card(), "ko")
    english = plain_card(card(), "en")
    assert numbers(korean.headline) == numbers(english.headline)
    assert re.search("[가-힣]", korean.headline)
    for one, other in zip(korean.conditions, english.conditions, strict=True):
        assert numbers(one.text) == numbers(other.text), (one, other)


def test_a_value_cannot_ask_the_message_for_anything_but_itself():
    assert say("{a} {b.c} {a!r:>9}", a="{b}").told() == "{b} {b.c} {a!r:>9}"


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"{", "not a card"),
        (b"[]", "not a card"),
        (b"\xff\xfe", "not a card"),
        (b'{"kind": "ab"}', "title"),
        (GOOD.replace(b"batchscope-card/1", b"batchscope-card/9"), "form"),
        (GOOD.replace(b'"withheld": []', b'"withheld": [{"message": "x"}]'), "withheld"),
        (GOOD.replace(b'"count": 120', b'"count": "many"', 1), "count"),
    ],
)
def test_a_file_that_is_no_card_is_refused_with_the_field(data, names):
    with pytest.raises(CardError, match=names):
        from_json(data)


def test_a_card_reads_back_as_it_was_written():
    made = card()
    assert from_json(to_json(made)) == made
    assert isinstance(from_json(to_json(made)).not_supported[0], Said)


def mutated(value: object, chance: random.Random) -> object:
    """The same JSON with one part in thirty replaced by something else."""
    if chance.random() < 0.03:
        return chance.choice([None, -1, 10**30, 1e308, "", "{n}", "\u202e|`<b>", [], {}, True, {"message": "{a}"}])
    if isinstance(value, dict):
        return {key: mutated(part, chance) for key, part in value.items() if chance.random() > 0.003}
    return [mutated(part, chance) for part in value] if isinstance(value, list) else value


def test_a_changed_file_is_refused_or_reads_as_a_card():
    good = json.loads(GOOD)
    chance, read = random.Random(5), 0
    for _ in range(60):
        picked = {key: mutated(part, chance) if chance.random() < 0.1 else part for key, part in good.items()}
        try:
            made = from_json(json.dumps(picked).encode("utf-8", "surrogatepass"))
        except CardError:
            continue
        read += 1
        assert "\u202e" not in to_markdown(made, chance.choice(["en", "ko"]))
    assert 5 < read < 60


def test_sentences_nested_without_end_are_refused():
    part = '{"message": "{a}", "values": {"a": '
    deep = part * 400 + '"x"' + "}}" * 400
    with pytest.raises(CardError):
        from_json(GOOD.replace(b'"not_supported": [', f'"not_supported": [{deep},'.encode()))
