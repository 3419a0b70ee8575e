"""What a simulation of very many requests found, as HTML. All text is escaped."""

from __future__ import annotations

import msgspec

from dashboard.experiments.told import fact
from dashboard.experiments.words import ROUTING_WORDS, duration, figure
from dashboard.i18n import Translate
from dashboard.views.markup import esc, table


class Spread(msgspec.Struct, frozen=True):
    """Of a latency in seconds; quantiles within 0.5 %."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float


class Arm(msgspec.Struct, frozen=True):
    """One policy and seed; the fields of ``experiments.virtual.report.row_of`` that are shown."""

    policy: str
    seed: int
    submitted: int
    finished: int
    rejected: int
    unfinished: int
    virtual_s: float
    requests_per_s: float
    output_tokens_per_s: float
    preemptions: int
    busy_share: dict[str, float]
    ttft_s: Spread
    tpot_s: Spread
    e2e_s: Spread
    queue_s: Spread


class Report(msgspec.Struct, frozen=True):
    """The report of ``python -m experiments whatif --out``."""

    step_times: list[str]
    pool: dict[str, int | None]
    replicas: int
    routing: str
    arms: list[Arm]
    wall_s: float
    cpu_s: float
    largest_process_mib: float
    command: str


def report_html(report: Report, t: Translate, language: str) -> str:
    """What it rests on, each policy's figures, and what making it took."""
    routing = t(ROUTING_WORDS[report.routing]) if report.routing in ROUTING_WORDS else report.routing
    fleet = t(
        "Replicas: {n}, routing {routing}, each with {blocks} KV blocks of {size} tokens. Simulated, not measured.",
        n=f"{report.replicas:,}", routing=routing, blocks=f"{report.pool.get('num_blocks', 0):,}",
        size=report.pool.get("block_size") or 0,
    )  # fmt: skip
    rests = "".join(f"<br><small>{esc(fact(text, language), 800)}</small>" for text in report.step_times)
    took = t(
        "Made in {wall}, {cpu} of processor time, largest process {mib} MiB; quantiles within 0.5 %.",
        wall=duration(report.wall_s, t), cpu=duration(report.cpu_s, t), mib=f"{report.largest_process_mib:,.0f}",
    )  # fmt: skip
    return (
        f'<p class="bs-plan"><b>{esc(fleet)}</b>{rests}</p><div class="bs-whatif">{_rates(report, t)}'
        f'{_latencies(report, t)}</div><p class="bs-quiet" id="bs-whatif">{esc(took)}</p>'
        f'<div class="bs-card"><pre>{esc(report.command)}</pre></div>'
    )


def _rates(report: Report, t: Translate) -> str:
    body = [
        [
            f"<b>{esc(arm.policy)}</b>", f"{arm.submitted:,}", f"{arm.finished:,}", f"{arm.rejected:,}",
            f"{arm.unfinished:,}", esc(duration(arm.virtual_s, t)), f"{arm.requests_per_s:,.2f}",
            f"{arm.output_tokens_per_s:,.0f}", f"{arm.preemptions:,}", _busy(arm),
        ]
        for arm in report.arms
    ]  # fmt: skip
    head = (
        t("policy"), t("requests"), t("finished"), t("rejected"), t("unfinished"), t("virtual time"),
        t("Requests / s"), t("Output tokens / s"), t("preemptions"), t("busy"),
    )  # fmt: skip
    return table([esc(each) for each in head], body, "")


def _busy(arm: Arm) -> str:
    shares = list(arm.busy_share.values())
    if not shares:
        return "–"
    low, high = min(shares), max(shares)
    return f"{low:.0%}" if len(shares) == 1 else f"{low:.0%} … {high:.0%}"


def _latencies(report: Report, t: Translate) -> str:
    body = []
    for arm in report.arms:
        named = (
            ("TTFT", arm.ttft_s),
            ("TPOT", arm.tpot_s),
            (t("End to end"), arm.e2e_s),
            (t("Queue time"), arm.queue_s),
        )
        for place, (name, spread) in enumerate(named):
            values = [esc(figure(value, "s")) for value in (spread.p50, spread.p90, spread.p99, spread.mean)]
            first = f"<b>{esc(arm.policy)}</b>" if not place else ""
            body.append([first, esc(name), *values, f"{spread.count:,}"])
    head = (t("policy"), t("number"), "p50", "p90", "p99", t("mean"), "n")
    return table([esc(each) for each in head], body, "")
