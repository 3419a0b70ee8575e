"""A long prompt is tokenized beside the engine's thread: nobody's step waits for it, and nothing else changes."""

from __future__ import annotations

import threading
import time
import unicodedata

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from model_runner.long_prompts import LongPrompts, too_long
from model_runner.messages import Abort, Resync, Submit, Turn
from model_runner.tokenizer import BytePairTokenizer, ByteTokenizer
from model_runner.transport import EngineTransport
from scheduler import SamplingParams
from tests.process.fakes import Bench

LONG = "long " * 10
SAMPLING = SamplingParams(max_tokens=30, ignore_eos=True)


class HeldTokenizer(ByteTokenizer):
    """Encodes what the engine's thread asks for at once, and anything else when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.engine_thread = threading.current_thread()
        self.may_go_on = threading.Event()
        self.by: list[threading.Thread] = []

    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        self.by.append(threading.current_thread())
        if self.by[-1] is not self.engine_thread:
            assert self.may_go_on.wait(30)
        if "broken" in text:
            raise RuntimeError("a bug")
        return super().encode(text, chat=chat)


class Beside(Bench):
    """A bench whose engine takes long prompts in through ``LongPrompts``."""

    def __init__(self, **pool) -> None:
        super().__init__(**pool)
        self.tokenizer = HeldTokenizer()
        self.woken = threading.Event()
        self.transport.wake = self.woken.set
        self.prompts = LongPrompts(self.transport, self.tokenizer, 200, inline_chars=20)
        self.engine._transport = self.prompts
        self.engine._handler._tokenizer = self.tokenizer

    def submit(self, number: int, text: str) -> None:
        self.transport.send(Submit(number, f"r{number}", SAMPLING, text, chat=False))

    def let_it_go_on(self, jobs: int = 1) -> None:
        self.tokenizer.may_go_on.set()
        for _ in range(jobs):
            assert self.woken.wait(30)
        deadline = time.monotonic() + 30
        while self.prompts._done.qsize() < jobs:
            assert time.monotonic() < deadline


@pytest.fixture
def bench():
    made = Beside()
    yield made
    made.tokenizer.may_go_on.set()


def test_steps_go_on_while_a_long_prompt_is_tokenized(bench):
    bench.submit(1, "short")
    bench.submit(2, LONG)
    bench.submit(3, "short too")
    bench.turns(20)
    assert [len(bench.tokens[name]) for name in ("r1", "r3")] == [20, 20]
    assert [reply.command_id for reply in bench.transport.replies] == [1, 3]
    bench.let_it_go_on()
    bench.run_for(2.0)
    assert bench.transport.replies[-1].ok
    assert bench.transport.replies[-1].prompt_token_ids == tuple(LONG.encode())
    by = [thread is bench.tokenizer.engine_thread for thread in bench.tokenizer.by]
    assert sorted(by) == [False, True, True], "the short ones by the engine's own thread"


def test_its_tokens_are_those_of_a_prompt_that_did_not_have_to_wait(bench):
    bench.submit(1, LONG)
    bench.turns(1)
    bench.let_it_go_on()
    bench.run_for(2.0)
    inline = Bench()
    inline.transport.send(Submit(1, "r1", SAMPLING, LONG, chat=False))
    inline.run_for(2.0)
    assert bench.tokens == inline.tokens
    assert len(bench.tokens["r1"]) == 30


@pytest.mark.parametrize("request_id", ["r1", None])
def test_one_that_is_ended_meanwhile_ends_as_aborted_and_writes_nothing(bench, request_id):
    bench.submit(1, LONG)
    bench.submit(2, "short")
    bench.turns(2)
    bench.transport.send(Abort(3, request_id))
    bench.turns(2)
    bench.let_it_go_on()
    bench.run_for(1.0)
    ended = {record.request_id: record.outcome for s in bench.published for record in s.step.records}
    assert ended == {"r1": "aborted", "r2": "finished" if request_id else "aborted"}
    assert "r1" not in bench.tokens
    assert {reply.command_id: reply.kind for reply in bench.transport.replies}[3] == "aborted"


def test_a_reader_that_comes_meanwhile_is_answered(bench):
    bench.submit(1, LONG)
    bench.turns(1)
    bench.transport.send(Resync(2, 0))
    bench.turns(1)
    assert (bench.reply.command_id, bench.reply.states) == (2, ())


def test_one_that_cannot_fit_is_refused_without_being_tokenized(bench):
    bench.submit(1, "x" * 1_000_000)
    bench.turns(1)
    assert bench.tokenizer.by == []
    (reason,) = bench.reply.reasons
    assert reason.startswith("prompt_text: 1000000 characters are 1000000 tokens at least, at most 199 leave room")
    assert reason.endswith("(max_model_len 200)")
    assert (bench.reply.ok, bench.reply.step_id) == (False, bench.published[-1].step.step_id + 1)


def test_an_error_of_the_tokenizer_refuses_one_request_and_the_next_is_served(bench):
    bench.submit(1, "broken " * 5)
    bench.submit(2, LONG)
    bench.turns(1)
    bench.let_it_go_on(2)
    bench.run_for(2.0)
    first, second = bench.transport.replies
    assert (first.ok, first.reasons) == (False, ("prompt_text: not encodable (RuntimeError: a bug)",))
    assert second.ok
    assert len(bench.tokens["r2"]) == 30


@pytest.mark.parametrize(
    ("command", "is_too_long"),
    [
        (Submit(1, "r", SAMPLING, "x" * 990), False),
        (Submit(1, "r", SAMPLING, "x" * 991), True),
        (Submit(1, "r", SAMPLING, turns=(Turn("user", "x" * 500), Turn("user", "x" * 491))), True),
        (Submit(1, "r", SAMPLING, turns=(Turn("user", "x" * 990 + " " * 500),)), False),
        (Submit(1, "r", SAMPLING, turns=(Turn("assistant", "x" * 5000), Turn("user", "x"))), False),
    ],
)
def test_only_what_surely_does_not_fit_is_refused_by_its_length(command, is_too_long):
    """Ten characters a token at most, and 100 tokens: 99 of the prompt and one of the answer."""
    assert bool(too_long(command, 10, 100)) is is_too_long
    assert too_long(command, 0, 100) == ""


def test_a_long_list_of_token_ids_is_refused_by_its_length():
    bench = Bench()
    bench.transport.send(Submit(1, "r1", SAMPLING, prompt_token_ids=(10**9,) * 200))
    bench.turns(1)
    assert bench.reply.reasons == (
        "prompt_token_ids has 200 tokens, at most 199 leave room for one output token (max_model_len 200)",
    )


def byte_level(normalizer=None) -> BytePairTokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(["aaaaaaaa " * 9], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    return BytePairTokenizer(backend, ())


@pytest.mark.parametrize("normalizer", [None, normalizers.NFC()])
@pytest.mark.parametrize("text", ["a" * 999, unicodedata.normalize("NFD", "ᾆ") * 200, "각" * 50, " a" * 300])
def test_no_token_stands_for_more_characters_than_is_said(normalizer, text):
    tokenizer = byte_level(normalizer)
    assert len(text) <= tokenizer.max_chars_per_token * len(tokenizer.encode(text))


@pytest.mark.parametrize("normalizer", [normalizers.Strip(), normalizers.NFKC()])
def test_where_characters_may_vanish_no_bound_is_claimed(normalizer):
    assert byte_level(normalizer).max_chars_per_token == 0


def test_other_threads_go_on_while_a_text_is_tokenized():
    tokenizer, text = byte_level(), "some words to read " * 20_000
    turns, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            turns[0] += 1
            time.sleep(0.0001)

    other = threading.Thread(target=count)
    other.start()
    before = turns[0]
    tokenizer.encode(text)
    during = turns[0] - before
    done.set()
    other.join()
    assert during > 5


def test_a_waiting_engine_is_woken_by_another_thread(tmp_path):
    transport = EngineTransport(tmp_path)
    try:
        threading.Timer(0.05, transport.wake).start()
        started = time.monotonic()
        assert transport.wait(30.0)
        assert time.monotonic() - started < 20
        assert not transport.wait(0.0), "one wake ends one wait"
    finally:
        transport.close()
