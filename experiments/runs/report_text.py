"""The report of ``report.py`` as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from experiments.cards.escape import visible

SHOWN: Final = (
    "output_tokens_per_s",
    "request_rps",
    "goodput_rps",
    "slo_attainment",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p50_s",
    "itl_p99_s",
    "tpot_p50_s",
    "e2e_p50_s",
    "e2e_p99_s",
    "queue_p50_s",
    "preemptions_per_request",
)
"""Metrics of a short report, in its order."""


def render(report: dict[str, Any], *, everything: bool = False) -> str:
    """The whole report. everything: all metrics."""
    parts = [_head(report), _arms(report, everything)]
    if "comparison" in report:
        parts += [_comparison(report["comparison"], everything), _ledger(report["ledgers"], report["comparison"])]
    if "attribution" in report:
        parts += _attribution(report["attribution"], everything)
    if "microscope" in report:
        parts.append(_microscope(report["microscope"]))
    if report["notes"]:
        parts.append("Before believing it:\n" + "\n".join(f"- {note}" for note in report["notes"]))
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first is flush left, the others flush right."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def number(value: float | None) -> str:
    """Four significant digits; "-" for none."""
    if value is None:
        return "-"
    if value and abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _head(report: dict[str, Any]) -> str:
    c, trace, runs = report["conditions"], report["trace"], report["runs"]
    overheads = [run["overhead_share"] for arm in report["arms"].values() for run in arm]
    own = max((share for share in overheads if share is not None), default=None)
    threads = f", {c['threads']} threads" if c["threads"] else ""
    return "\n".join(
        [
            f"{visible(report['name'])}: {runs['done']} of {runs['planned']} runs",
            f"workload: {visible(trace['name'])}, {trace['requests']} requests, sha256 {trace['sha256'][:12]}; "
            f"{visible(trace['origin']['source'])}: {visible(trace['origin']['description'])}",
            f"{c['kind']}: {c['model']}, {c['dtype']}, {c['device']}{threads}; {c['num_blocks']} blocks of "
            f"{c['block_size']} tokens; driver's own share of the time: "
            + ("none" if own is None else f"at most {100 * own:.1f} %"),
            f"command: {visible(c['command'])}",
        ]
    )


def _arms(report: dict[str, Any], everything: bool) -> str:
    """Means over the repeats, arms side by side as rows."""
    first = next(iter(report["arms"].values()))[0]["metrics"]
    names = [name for name in (first if everything else SHOWN) if _any_value(report, name)]
    rows = []
    for label, runs in report["arms"].items():
        ended = [sum(run["outcomes"][name] for run in runs) for name in ("finished", "unfinished", "rejected")]
        rows.append([label, str(len(runs)), "/".join(map(str, ended)), *(_mean(runs, name) for name in names)])
    if len(rows) > 4 and not everything:
        return "Means over the repeats:\n" + table(["arm", "runs", "ended", *names], rows)
    columns = list(zip(["", "runs", "finished/unfinished/rejected", *names], *rows, strict=True))
    return "Means over the repeats:\n" + table(columns[0], columns[1:])


def _any_value(report: dict[str, Any], name: str) -> bool:
    return any(run["metrics"][name]["value"] is not None for arm in report["arms"].values() for run in arm)


def _mean(runs: Sequence[dict[str, Any]], name: str) -> str:
    values = [run["metrics"][name]["value"] for run in runs]
    return number(None if any(value is None for value in values) else sum(values) / len(values))


def _comparison(found: dict[str, Any], everything: bool) -> str:
    a, b = found["a"]["label"], found["b"]["label"]
    rows = []
    for name, each in found["differences"].items():
        if not everything and (name not in SHOWN or each["a"] is None):
            continue
        rows.append(
            [
                name,
                number(each["a"]),
                number(each["b"]),
                _percent(each["ratio"]),
                number(each["difference"]),
                _ends(each["difference_interval"]),
                each["verdict"],
                f"{each['count_a']}/{each['count_b']}",
            ]
        )
    head = ["metric", a, b, "change", "difference", "its 95 % interval", f"{b} is", "samples a run"]
    worse = [name for name, each in found["differences"].items() if each["verdict"] == "worse"]
    text = f"{b} against {a} (bootstrap over {found['method']}):\n" + table(head, rows)
    return text + f"\nWhat got worse: {', '.join(worse) or 'nothing that these runs can show'}"


def _attribution(found: dict[str, Any], everything: bool) -> list[str]:
    """Shares of each metric's gain, then "1111" against "0000"."""
    rows = []
    for name, each in found["attributions"].items():
        parts = [("all four", each["gain"]), *((part["members"][0], part) for part in each["shares"])]
        effects = [(" x ".join(part["members"]), part) for part in each["effects"]] if everything else []
        for place, (members, part) in enumerate([*parts, *effects]):
            is_share = 0 < place < len(parts)
            title = name if place == 0 else ("  share of " if is_share else "  effect of ") + members
            between = part["interval"]
            rows.append([title, number(part["change"]), _ends(between), part["verdict"]])
    shares = "Whose improvement is it (Shapley shares; they add up to the gain from 0000 to 1111):\n" + table(
        ["metric", "change", "95 % interval", "1111 is"], rows
    )
    harm = [f"- {factor}: {', '.join(names)}" for factor, names in found["harm"].items() if names]
    left_out = [f"- {name}: {why}" for name, why in found["left_out"].items()]
    shares += "\nMade worse by:\n" + "\n".join(harm) if harm else ""
    shares += "\nNot shared out:\n" + "\n".join(left_out) if left_out else ""
    return [shares, _comparison(found["before_after"], everything), _ledger(found["ledgers"], found["before_after"])]


def _microscope(found: dict[str, Any]) -> str:
    rows = [
        [
            str(point["chunk_tokens"]),
            str(point["runs"]),
            number(point["long_ttft_s"]),
            _ends(point["long_ttft_interval"]),
            number(point["others_itl_p99_s"]),
            _ends(point["others_itl_interval"]),
            f"{point['long_count']}/{point['gap_count']}",
        ]
        for point in found["points"]
    ]
    head = ["chunk", "runs", "long TTFT p50 s", "95 %", "others' ITL p99 s", "95 %", "samples a run"]
    knee = found["knee"]
    where = (
        f"knee: none, {knee['why_none']}" if knee["chunk_tokens"] is None else f"knee: {knee['chunk_tokens']} tokens"
    )
    return f"Prompts of {found['long_tokens']} tokens and more against all others:\n{table(head, rows)}\n{where}"


def _ends(found: dict[str, Any] | None) -> str:
    return "-" if found is None else f"{number(found['low'])} .. {number(found['high'])}"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def _ledger(lines: Sequence[dict[str, Any]], comparison: dict[str, Any]) -> str:
    rows = [
        [
            " ".join(filter(None, (line["group"], line["name"]))) + (" (waste)" if line["waste"] else ""),
            number(line["before"]),
            number(line["after"]),
            line["unit"],
        ]
        for line in lines
        if line["before"] or line["after"]
    ]
    head = ["ledger, a run", comparison["a"]["label"], comparison["b"]["label"], "unit"]
    return "Where work, time and memory went:\n" + table(head, rows)
