"""Five numbers with their definitions and sample counts."""

from __future__ import annotations

from dashboard.figures import LATENCY_SAMPLES, Figures, Percentiles
from dashboard.i18n import Translate
from dashboard.views.markup import esc


def _ms(value: float | None) -> str:
    """Three digits, for which each tile has room."""
    if value is None:
        return "–"
    if value < 999.5:
        return f"{value:.0f} ms"
    seconds = value / 1000
    return f"{seconds:,.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f} s"


def _pair(p: Percentiles) -> str:
    return f'{_ms(p.p50)}<span class="bs-second"> / {_ms(p.p95)}</span>'


def _tile(name: str, value: str, gloss: str, key: str) -> str:
    return (
        f'<div class="bs-tile" id="bs-tile-{key}"><div class="bs-name">{esc(name)}</div>'
        f'<div class="bs-value">{value}</div><div class="bs-gloss">{esc(gloss)}</div></div>'
    )


def _ttft_words(p: Percentiles, t: Translate) -> str:
    if p.n == LATENCY_SAMPLES:
        return t("to first token, newest {n} since v{version}", n=p.n, version=p.since_version)
    return t("to first token, n = {n} since v{version}", n=p.n, version=p.since_version)


def _tpot_words(p: Percentiles, t: Translate) -> str:
    if p.n == LATENCY_SAMPLES:
        return t("per token, newest {n} since v{version}", n=p.n, version=p.since_version)
    return t("per token, n = {n} admitted since v{version}", n=p.n, version=p.since_version)


def _kv_words(f: Figures, t: Translate) -> str:
    if f.used_blocks <= f.limit_blocks:
        use = t("{share} of usable", share=f"{f.used_blocks / max(1, f.limit_blocks):.0%}")
    elif f.lone_request_id:
        use = t("above the limit of {limit}: one runs alone", limit=f.limit_blocks)
    else:
        use = t("above the limit of {limit}: who runs keeps its blocks", limit=f.limit_blocks)
    counts = t("{n} preempted · {tokens} redone", n=f"{f.preemptions:,}", tokens=f"{f.recompute_tokens:,}")
    return f"{use} · {counts}"


def tiles(figures: Figures | None, t: Translate) -> str:
    """The row of tiles; dashes and n = 0 while there is nothing to count."""
    if figures is None:
        names = (t("tokens/s"), t("TTFT p50 / p95"), t("TPOT p50 / p95"), t("waiting"), t("KV blocks in use"))
        return _row([_tile(name, "–", "n = 0", str(i)) for i, name in enumerate(names)])
    f = figures
    rate = "–" if f.tokens_per_s is None else f"{f.tokens_per_s:,.1f}"
    wait = t("nobody waits") if f.oldest_wait_s is None else t("oldest waits {s} s", s=f"{f.oldest_wait_s:.1f}")
    return _row(
        [
            _tile(t("tokens/s"), rate, t("output, last {s} s of engine time", s=f"{f.window_s:.0f}"), "rate"),
            _tile(t("TTFT p50 / p95"), _pair(f.ttft), _ttft_words(f.ttft, t), "ttft"),
            _tile(t("TPOT p50 / p95"), _pair(f.tpot), _tpot_words(f.tpot, t), "tpot"),
            _tile(t("waiting"), f"{f.waiting:,}", wait, "waiting"),
            _tile(t("KV blocks in use"), f"{f.kv_usage:.0%}", _kv_words(f, t), "kv"),
        ]
    )


def _row(parts: list[str]) -> str:
    return f'<div class="bs-wide"><div class="bs-tiles">{"".join(parts)}</div></div>'
