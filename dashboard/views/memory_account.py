"""The account of the block map: a sentence that sums, a key of what the squares show with its numbers, and gauges."""

from __future__ import annotations

from dashboard.block_squares import MapGeometry, account
from dashboard.figures import lone_above_limit
from dashboard.i18n import Translate
from dashboard.views.markup import esc
from scheduler import StepSnapshot


def above_limit(step: StepSnapshot, limit: int, t: Translate) -> str:
    """Why more blocks are in use than ``kv_block_limit`` makes usable."""
    lone = lone_above_limit(step)
    if lone:
        return t(
            "{id} alone holds {used} of the {limit} usable: the limit yields to a request that runs alone",
            id=lone,
            used=step.num_used_blocks,
            limit=limit,
        )
    return t(
        "{used} in use, {limit} usable: running requests keep their blocks until they end or are evicted",
        used=step.num_used_blocks,
        limit=limit,
    )


def _entry(kind: str, words: str) -> str:
    return f'<span class="bs-entry"><i class="bs-k bs-k-{kind}"></i>{esc(words)}</span>'


def wastes(a: dict[str, int], t: Translate) -> list[str]:
    """The three wastes in tokens and as shares of the pool; the two that need a contiguous allocator only where
    there are any."""
    slots = max(1, a["blocks"] * a["size"])
    told = [("part", t("unfilled"), a["internal"], True)]
    told += [("reserved", t("reserved"), a["reserved"], a["reserved"] > 0)]
    told += [("unusable", t("unusable"), a["external"], a["external"] > 0)]
    return [_entry(kind, f"{word} {n:,} ({n / slots:.0%})") for kind, word, n, shown in told if shown]


def _cache(step: StepSnapshot, a: dict[str, int], t: Translate) -> list[str]:
    totals = step.totals
    if not step.policy.enable_prefix_caching and not totals.prefix_cache_queries:
        return []
    hits = totals.prefix_cache_hits / max(1, totals.prefix_cache_queries)
    shared = t("shared {n} (saves {saved})", n=a["shared"], saved=a["saved"])
    rate = t("prefix hits {share}", share=f"{hits:.0%}" if totals.prefix_cache_queries else "–")
    found = f"{totals.prefix_cache_hits:,} / {totals.prefix_cache_queries:,}"
    cached = t("cached {n}", n=a["cached"])
    hit = f'<span class="bs-entry" title="{esc(found)}">{esc(rate)}</span>'
    return [_entry("cached", cached), _entry("shared", shared), hit]


def _host(step: StepSnapshot, t: Translate) -> str:
    used, total = step.num_used_host_blocks, step.num_host_blocks
    if not total or not (used or step.policy.preemption_mode == "swap"):
        return ""
    words = t("host pool {used} / {total}", used=used, total=total)
    gauge = f'<div class="bs-gauge bs-host"><div class="bs-w-copy" style="width:{100 * used / total:.1f}%"></div></div>'
    return f"<span>{esc(words)}</span>{gauge}"


def _gauge(a: dict[str, int]) -> str:
    """The pool from left to right: tokens, unfilled, reserved; the usable limit as a tick."""
    total, size = max(1, a["blocks"]), max(1, a["size"])
    shares = (
        ("tokens", a["used"] - (a["internal"] + a["reserved"]) / size),
        ("part", a["internal"] / size),
        ("reserved", a["reserved"] / size),
    )
    parts = "".join(f'<div class="bs-g-{name}" style="width:{100 * n / total:.2f}%"></div>' for name, n in shares if n)
    limit = 100 * a["limit"] / total
    return f'<div class="bs-gauge bs-stack">{parts}<i style="left:{limit:.1f}%"></i></div>'


def account_line(step: StepSnapshot, geometry: MapGeometry, t: Translate) -> str:
    """ "192 × 16 tokens = 131 in use + 61 free" with the wastes beside it; below, gauges of the pools and the cache."""
    a = account(step)
    if a["locked"]:
        text = t("{blocks} × {size} tokens = {used} in use + {free} free + {locked} locked", **a)
    else:
        text = t("{blocks} × {size} tokens = {used} in use + {free} free", **a)
    more = "".join(wastes(a, t))
    if geometry.blocks_per_cell > 1:
        more += _entry("none", t("one square = {n} blocks", n=geometry.blocks_per_cell))
    if a["used"] > a["limit"]:
        more = f"<span>{esc(above_limit(step, a['limit'], t))}</span>"
    below = _gauge(a) + "".join(_cache(step, a, t)) + _host(step, t)
    return f'<div class="bs-account"><b>{esc(text)}</b> {more}</div><div class="bs-gauges">{below}</div>'
