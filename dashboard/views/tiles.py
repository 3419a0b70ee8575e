"""Five numbers with their definitions and sample counts."""

from __future__ import annotations

from dashboard.figures import Figures, Percentiles
from dashboard.i18n import Translate
from dashboard.views.markup import esc


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.0f} ms"


def _pair(p: Percentiles) -> str:
    return f'{_ms(p.p50)}<span class="bs-second"> / {_ms(p.p95)}</span>'


def _tile(name: str, value: str, gloss: str, key: str) -> str:
    return (
        f'<div class="bs-tile" id="bs-tile-{key}"><div class="bs-name">{esc(name)}</div>'
        f'<div class="bs-value">{value}</div><div class="bs-gloss">{esc(gloss)}</div></div>'
    )


def tiles(figures: Figures | None, t: Translate) -> str:
    """The row of tiles; dashes and n = 0 while there is nothing to count."""
    if figures is None:
        names = (t("tokens/s"), t("TTFT p50 / p95"), t("TPOT p50 / p95"), t("waiting"), t("KV blocks in use"))
        return _row([_tile(name, "–", "n = 0", str(i)) for i, name in enumerate(names)])
    f = figures
    rate = "–" if f.tokens_per_s is None else f"{f.tokens_per_s:,.1f}"
    wait = t("nobody waits") if f.oldest_wait_s is None else t("oldest waits {s} s", s=f"{f.oldest_wait_s:.1f}")
    usable = f.kv_usage / f.kv_limit_share if f.kv_limit_share else 0.0
    kv = t(
        "{share} of usable · {n} preempted · {tokens} redone",
        share=f"{min(usable, 9.99):.0%}",
        n=f"{f.preemptions:,}",
        tokens=f"{f.recompute_tokens:,}",
    )
    return _row(
        [
            _tile(t("tokens/s"), rate, t("output, last {s} s of engine time", s=f"{f.window_s:.0f}"), "rate"),
            _tile(t("TTFT p50 / p95"), _pair(f.ttft), t("arrival to first token, n = {n}", n=f.ttft.n), "ttft"),
            _tile(
                t("TPOT p50 / p95"), _pair(f.tpot), t("per output token after the first, n = {n}", n=f.tpot.n), "tpot"
            ),
            _tile(t("waiting"), f"{f.waiting:,}", wait, "waiting"),
            _tile(t("KV blocks in use"), f"{f.kv_usage:.0%}", kv, "kv"),
        ]
    )


def _row(parts: list[str]) -> str:
    return f'<div class="bs-tiles">{"".join(parts)}</div>'
