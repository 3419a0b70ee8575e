"""A step told in plain sentences: every event of it, and what it computed, sampled and took from the KV pool.

Pure: snapshots in, sentences out. Each number in a sentence is one of the snapshot (or counts things in it), so that a
reader can check it against the pictures and tables beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dashboard.i18n import Translate
from dashboard.words import event_words
from scheduler import StepSnapshot

EVENT_ORDER: Final = (
    "policy_changed",
    "policy_refused",
    "queued",
    "rejected",
    "preempted",
    "swapped_out",
    "swapped_in",
    "admitted",
    "resumed",
    "chunked",
    "deferred",
    "finished",
    "aborted",
)
"""Event kinds as a step lives through them: what was asked, who came, who had to go, who got in, who ended."""

_BEFORE_WORK: Final = EVENT_ORDER.index("deferred")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One plain sentence, not escaped. kind: of the event, or "prefill", "recompute", "decode", "padding", "idle",
    "blocks", "pool", "nothing". request_id: "" where it is about several or none."""

    kind: str
    request_id: str
    text: str


def narrate(step: StepSnapshot, t: Translate, previous: StepSnapshot | None = None) -> tuple[Sentence, ...]:
    """Every event of the step, then its work and its memory, in the reader's language.

    previous: the step before, of the same run; without it nothing is said about who got how many blocks.
    """
    order = {kind: i for i, kind in enumerate(EVENT_ORDER)}
    told = [(order.get(e.kind, 0), Sentence(e.kind, e.request_id, event_words(e, t))) for e in step.events]
    told.sort(key=lambda pair: pair[0])
    before = [sentence for at, sentence in told if at < _BEFORE_WORK]
    after = [sentence for at, sentence in told if at >= _BEFORE_WORK]
    return (*before, *_work(step, t), *_blocks(step, previous, t), *after)


def _work(step: StepSnapshot, t: Translate) -> Iterator[Sentence]:
    chunked = {e.request_id for e in step.events if e.kind == "chunked"}
    by_kind: dict[str, list[str]] = {}
    for request_id, tokens in step.num_scheduled_tokens.items():
        if tokens:
            by_kind.setdefault(step.kinds.get(request_id, ""), []).append(request_id)
    for request_id in by_kind.get("prefill", []):
        if request_id not in chunked:
            n = step.num_scheduled_tokens[request_id]
            words = t("{id} computes {n} prompt tokens, the rest of its prompt.", id=request_id, n=f"{n:,}")
            yield Sentence("prefill", request_id, words)
    for request_id in by_kind.get("recompute", []):
        n = step.num_scheduled_tokens[request_id]
        words = t("{id} computes {n} tokens again that its eviction had thrown away.", id=request_id, n=f"{n:,}")
        yield Sentence("recompute", request_id, words)
    yield from _decodes(step, by_kind.get("decode", []), t)
    yield from _waste(step, t)


def _decodes(step: StepSnapshot, decoding: list[str], t: Translate) -> Iterator[Sentence]:
    if len(decoding) == 1:
        yield Sentence("decode", decoding[0], t("{id} generates one token.", id=decoding[0]))
    elif decoding:
        yield Sentence("decode", "", t("{n} requests generate one token each.", n=f"{len(decoding):,}"))
    if not any(step.num_scheduled_tokens.values()):
        yield Sentence("nothing", "", t("Nothing was computed in this iteration."))


def _waste(step: StepSnapshot, t: Translate) -> Iterator[Sentence]:
    padding = sum(step.num_padding_tokens.values())
    if padding:
        yield Sentence("padding", "", t("Padding computed for nothing: {n} tokens.", n=f"{padding:,}"))
    held = sum(step.running.held)
    if held:
        words = t("Requests that are done and hold their slot until the batch ends: {n}.", n=f"{held:,}")
        yield Sentence("idle", "", words)


def _blocks(step: StepSnapshot, previous: StepSnapshot | None, t: Translate) -> Iterator[Sentence]:
    if previous is not None:
        yield from _grown(step, previous, t)
    words = t(
        "KV blocks in use after it: {used} of {all}; free: {free}.",
        used=f"{step.num_used_blocks:,}",
        all=f"{step.num_blocks:,}",
        free=f"{step.num_free_blocks:,}",
    )
    yield Sentence("pool", "", words)


def _held_blocks(step: StepSnapshot) -> Mapping[str, int]:
    return {r: len(ids) for r, ids in zip(step.running.request_id, step.running.block_ids, strict=True)}


def _grown(step: StepSnapshot, previous: StepSnapshot, t: Translate) -> Iterator[Sentence]:
    """Requests that ran before and hold more blocks now: what an admission gets is told by its own event."""
    had = _held_blocks(previous)
    came = {e.request_id for e in step.events if e.kind in ("admitted", "resumed")}
    for request_id, now in _held_blocks(step).items():
        more = now - had.get(request_id, now)
        if more > 0 and request_id not in came:
            words = t("{id} is given {n} more KV blocks; it holds {now} now.", id=request_id, n=more, now=f"{now:,}")
            if more == 1:
                words = t("{id} is given one more KV block; it holds {now} now.", id=request_id, now=f"{now:,}")
            yield Sentence("blocks", request_id, words)


CAPTION_KINDS: Final = (
    "policy_changed", "policy_refused", "preempted", "resumed", "rejected", "admitted", "chunked", "finished",
    "aborted", "recompute", "prefill", "padding", "decode", "deferred", "nothing", "pool",
)  # fmt: skip
"""What a caption of one or two sentences tells first: what is rare and matters, before what every step does."""


def _rank(sentence: Sentence) -> int:
    return CAPTION_KINDS.index(sentence.kind) if sentence.kind in CAPTION_KINDS else len(CAPTION_KINDS)


def caption(sentences: tuple[Sentence, ...], room: int = 2) -> tuple[Sentence, ...]:
    """The sentences of a step that matter most, at most ``room`` of them, in the order of the step."""
    chosen = sorted(range(len(sentences)), key=lambda i: _rank(sentences[i]))[:room]
    return tuple(sentences[i] for i in sorted(chosen))
