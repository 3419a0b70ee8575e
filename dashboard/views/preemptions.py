"""The list of preemptions with the price of each, and above it what all of them cost beside useful work."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.charts.theme import Theme
from dashboard.evictions import Costs, Eviction
from dashboard.i18n import Translate
from dashboard.values import value_words
from dashboard.views.markup import chip, esc, scroll
from scheduler import ResumeRecord


def duration(seconds: float) -> str:
    """Milliseconds below one second, in as many digits as a reader needs."""
    if seconds >= 1:
        return f"{seconds:,.1f} s"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"


def size(num_bytes: float) -> str:
    """Bytes with a decimal prefix."""
    for unit in ("B", "kB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:,.0f} {unit}" if unit == "B" else f"{num_bytes:,.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} GB"


def summary(costs: Costs, block_bytes: int, t: Translate) -> str:
    """Useful work, recomputing and copying as a bar and in numbers; a line of fixed height before there is a cost."""
    total = costs.work_s or 1.0
    if not costs.num_evictions:
        words = t("What evictions cost shows here once a victim has caught up.")
        return f'<div class="bs-costs bs-quiet">{esc(words)}</div>'
    told = [("useful", costs.useful_s, t("useful work {share}", share=f"{costs.useful_s / total:.1%}"))]
    if costs.recompute_tokens:
        tokens = f"{costs.recompute_tokens:,}"
        words = t("recomputing {s} ({tokens} tokens)", s=duration(costs.recompute_s), tokens=tokens)
        told.append(("again", costs.recompute_s, words))
    if costs.moved_blocks:
        moved = size(costs.moved_blocks * block_bytes)
        told.append(
            ("copy", costs.swap_s, t("copying {s} ({bytes} out and back)", s=duration(costs.swap_s), bytes=moved))
        )
    delay = t(
        "In {steps} iterations since the server began: {n} came back, each delayed by {s} on average",
        steps=f"{costs.num_steps:,}",
        n=f"{costs.num_evictions:,}",
        s=duration(costs.delay_s / costs.num_evictions),
    )
    bar = "".join(f'<div class="bs-w-{kind}" style="width:{100 * s / total:.2f}%"></div>' for kind, s, _ in told)
    key = " ".join(f'<span><i class="bs-w-{kind}"></i>{esc(words)}</span>' for kind, _, words in told)
    return f'<div class="bs-costs"><div class="bs-stack">{bar}</div>{key}<br>{esc(delay)}</div>'


def _headline(e: Eviction, t: Translate) -> str:
    at = {"step": f"{e.step_id:,}", "id": e.request_id}
    if e.rule == "requested":
        return t("iteration {step}: {id} evicted by hand", **at)
    if e.for_request_id == e.request_id:
        return t("iteration {step}: {id} gave up its own blocks: it is the next the rule evicts", **at)
    return t("iteration {step}: {id} evicted for {other}", **at, other=e.for_request_id or t("another request"))


def _loss(e: Eviction, t: Translate) -> str:
    values = {"blocks": e.freed_blocks, "tokens": f"{e.recompute_tokens:,}", "moved": e.moved_blocks}
    if e.mode == "swap":
        text = t("{blocks} blocks freed, {moved} copied to the host", **values)
    elif e.host_full:
        text = t("{blocks} blocks freed; the host pool is full, so {tokens} tokens to recompute", **values)
    else:
        text = t("{blocks} blocks freed, {tokens} tokens to recompute", **values)
    return text if e.rule == "requested" else f"{text} · {t('rule {rule}', rule=value_words(e.rule, t))}"


def _cost(record: ResumeRecord, block_bytes: int, t: Translate) -> str:
    delay = duration(record.caught_up_at - record.evicted_at)
    work = duration(record.work_s)
    if record.mode == "swap":
        moved = size(record.moved_blocks * block_bytes)
        return t(
            "cost: {bytes} copied out and back in {work}; caught up {delay} late", bytes=moved, work=work, delay=delay
        )
    tokens = f"{record.recompute_tokens:,}"
    return t("cost: {tokens} tokens again in {work}; caught up {delay} late", tokens=tokens, work=work, delay=delay)


def _return(e: Eviction, t: Translate) -> str:
    if e.back_step is None:
        return t("ended before it came back") if e.ended else t("still waiting")
    return t("back in iteration {step}, {s} later", step=f"{e.back_step:,}", s=duration(e.away_s or 0.0))


def preemptions(evictions: Sequence[Eviction], block_bytes: int, theme: Theme, t: Translate, height: int) -> str:
    """Who was evicted, for whom, at what price, and when it came back; newest first.

    block_bytes: of one KV block of all layers.
    """
    items = []
    for e in evictions:
        lines = [_loss(e, t), _return(e, t)]
        if e.cost is not None:
            lines.append(_cost(e.cost, block_bytes, t))
        mark = chip(e.mark, theme.hues, theme.on_hue)
        told = "<br>".join(esc(line, 200) for line in lines)
        items.append(f"<li>{mark}<b>{esc(_headline(e, t), 200)}</b><br>{told}</li>")
    if not items:
        words = t("No preemption so far. Lower the usable KV blocks until they run out, and watch who has to go.")
        return scroll(f'<p class="bs-quiet">{esc(words)}</p>', height, grows=True)
    return scroll(f'<ul class="bs-events">{"".join(items)}</ul>', height, grows=True)
