"""F64: text streams in whole characters."""

from __future__ import annotations

import random

import pytest

from model_runner.detokenizer import IncrementalDetokenizer
from model_runner.tokenizer import ByteTokenizer

TEXTS = ["plain", "naïve café", "연속 배칭", "👩‍👩‍👧 done 🚀", "mixed é漢字🙂!", ""]


@pytest.mark.parametrize("text", TEXTS)
def test_f64_no_half_character_and_nothing_lost(text: str) -> None:
    """Every byte is a token of its own: the hardest case, an emoji over four tokens."""
    tokenizer = ByteTokenizer()
    stream = tokenizer.detokenizer()
    deltas = [stream.add([token]) for token in tokenizer.encode(text)]
    assert not any("\N{REPLACEMENT CHARACTER}" in delta for delta in deltas)
    assert "".join(deltas) == text
    assert stream.flush() == ""


def test_f64_an_unfinished_character_appears_only_at_the_end() -> None:
    stream = ByteTokenizer().detokenizer()
    half = "🙂".encode()[:3]
    assert [stream.add([byte]) for byte in half] == ["", "", ""]
    assert stream.flush() == "\N{REPLACEMENT CHARACTER}"
    assert stream.add(b"a") == "a"


@pytest.mark.parametrize("seed", range(20))
def test_joined_deltas_equal_the_full_decode_of_any_bytes(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [rng.randbytes(rng.randint(0, 5)) for _ in range(40)]
    stream = IncrementalDetokenizer(pieces.__getitem__)
    joined = "".join(stream.add([i]) for i in range(len(pieces))) + stream.flush()
    assert joined == b"".join(pieces).decode("utf-8", "replace")


def test_control_tokens_add_no_text() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode("hi", chat=True)) == "hi"
