"""The story of a step: complete, in both languages, and true to the numbers of its snapshot."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields, is_dataclass, replace

import pytest

from dashboard.i18n import translator
from dashboard.narration import CAPTION_KINDS, EVENT_ORDER, caption, narrate
from scheduler import EVENT_KINDS, SchedulerPolicy, StepEvent, StepSnapshot
from tests.dashboard.fakes import FakeClient

LANGUAGES = ("en", "ko")


def leaves(value: object) -> set[float]:
    """Every number in a snapshot, wherever it stands, and those inside its texts."""
    if isinstance(value, bool) or value is None:
        return set()
    if isinstance(value, int | float):
        return {float(value), round(float(value), 1)}
    if isinstance(value, str):
        return {float(n) for n in re.findall(r"\d+(?:\.\d+)?", value)}
    if is_dataclass(value):
        return set().union(*(leaves(getattr(value, f.name)) for f in fields(value)))
    if hasattr(value, "items"):
        return set().union(set(), *(leaves(k) | leaves(v) for k, v in value.items()))
    if isinstance(value, tuple | list):
        return set().union(set(), *(leaves(v) for v in value))
    return set()


def counts(step: StepSnapshot, previous: StepSnapshot | None) -> set[float]:
    """What may be counted in a snapshot: requests of a kind, padding, held slots, blocks of a request."""
    kinds = Counter(step.kinds[r] for r, n in step.num_scheduled_tokens.items() if n)
    held = [len(ids) for ids in step.running.block_ids]
    found = {*kinds.values(), sum(step.num_padding_tokens.values()), sum(step.running.held), *held}
    if previous is not None:
        had = dict(zip(previous.running.request_id, map(len, previous.running.block_ids), strict=True))
        found |= {
            len(ids) - had[r]
            for r, ids in zip(step.running.request_id, step.running.block_ids, strict=True)
            if r in had
        }
    return {float(n) for n in found}


def numbers_in(text: str) -> set[float]:
    return {float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def stories(policy: SchedulerPolicy, steps: int = 60) -> list[tuple[StepSnapshot | None, StepSnapshot]]:
    """Steps of the real scheduler, in a pool too small for what arrives."""
    client = FakeClient(policy, num_blocks=14, block_size=4)
    for i in range(9):
        client.add(f"q{i}", 5 + 3 * i, 4 + i)
    for i in range(steps):
        client.run(1)
        if i == 4:
            client.set_policy(replace(policy, max_num_seqs=3))
        if i == 8:
            client.scheduler.abort("q8")
    shown = [s.step for s in client.history()]
    return list(zip([None, *shown], shown, strict=False))


POLICIES = {
    "recompute": SchedulerPolicy(max_num_batched_tokens=16, max_num_seqs=5),
    "static": SchedulerPolicy(batching="static", max_num_batched_tokens=256, max_num_seqs=3),
    "never": SchedulerPolicy(max_num_batched_tokens=12, preemption_mode="never"),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", POLICIES)
def test_every_number_in_a_sentence_is_in_the_snapshot(name, language):
    t = translator(language)
    for previous, step in stories(POLICIES[name]):
        known = leaves(step) | counts(step, previous)
        for sentence in narrate(step, t, previous):
            assert numbers_in(sentence.text) <= known, sentence


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_event_and_every_computed_token_of_a_step_is_told(language):
    t = translator(language)
    seen: set[str] = set()
    for previous, step in stories(POLICIES["recompute"]):
        told = narrate(step, t, previous)
        assert Counter(s.kind for s in told if s.kind in EVENT_KINDS) == Counter(e.kind for e in step.events)
        tokens = {r for r, n in step.num_scheduled_tokens.items() if n and step.kinds[r] != "decode"}
        assert tokens <= {s.request_id for s in told}
        if any(step.kinds[r] == "decode" for r in step.num_scheduled_tokens):
            assert any(s.kind == "decode" for s in told)
        seen |= {s.kind for s in told}
    assert {"queued", "admitted", "chunked", "preempted", "resumed", "finished", "aborted", "deferred"} <= seen
    assert {"policy_changed", "prefill", "recompute", "decode", "blocks", "pool"} <= seen


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_event_kind_has_a_sentence_in_both_languages(kind):
    step = FakeClient().run(1)
    event = StepEvent(1, 0.0, kind, "r7", "", {"version": 2})
    english, korean = (
        narrate(replace(step, events=(event,)), translator(language))[0 if kind != "deferred" else -1]
        for language in LANGUAGES
    )
    found = [s for s in narrate(replace(step, events=(event,)), translator("ko")) if s.kind == kind]
    assert len(found) == 1
    assert re.search("[가-힣]", found[0].text)
    assert english.text != korean.text
    assert kind in EVENT_ORDER


def test_a_caption_tells_what_is_rare_before_what_every_step_does():
    t = translator("en")
    for previous, step in stories(POLICIES["recompute"]):
        told = narrate(step, t, previous)
        chosen = caption(told, 2)
        assert len(chosen) == min(2, len(told))
        if step.preempted:
            assert any(s.kind == "preempted" for s in chosen) or any(s.kind.startswith("policy") for s in chosen)
    assert set(EVENT_KINDS) - set(CAPTION_KINDS) == {"queued", "swapped_out", "swapped_in"}
