"""The tables of numbers as a reader sees them: heads, help and code words in the reader's language. Pure.

Files keep the names of ``number_frames`` and the bare code words in every language: they are what a program reads. The
help of a head names its column in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pandas as pd

from dashboard.epoch_tables import SHORT
from dashboard.i18n import N_, Translate
from dashboard.number_frames import filtered
from dashboard.refusals import refusal_words
from dashboard.values import GLOSS
from dashboard.words import DEFER_SHORT

PERCENTILE: Final = re.compile(r"(ttft|itl|tpot|queue|e2e)_p(\d+)_ms")
COUNT: Final = re.compile(r"(ttft|itl|tpot|queue|e2e)_n")
LABELS: Final[Mapping[str, str]] = {
    "request_id": N_("request"), "epoch": N_("epoch"), "spans_epochs": N_("spanning"), "outcome": N_("outcome"),
    "reason": N_("reason"), "prompt_tokens": N_("prompt tokens"), "output_tokens": N_("output tokens"),
    "queue_ms": N_("queue time (ms)"), "ttft_ms": "TTFT (ms)", "tpot_ms": "TPOT (ms)", "e2e_ms": N_("end to end (ms)"),
    "preemptions": N_("preemptions"), "recompute_tokens": N_("recomputed tokens"),
    "padding_tokens": N_("padding tokens"), "ended_utc": N_("ended (UTC)"), "run_id": N_("life of the worker"),
    "iteration": N_("iteration"), "policy_version": N_("policy version"), "engine_time_s": N_("engine time (s)"),
    "duration_ms": N_("duration (ms)"), "schedule_ms": N_("scheduling (ms)"), "execute_ms": N_("model (ms)"),
    "sample_ms": N_("sampling (ms)"), "update_ms": N_("update (ms)"), "prefill_tokens": N_("prefill tokens"),
    "decode_tokens": N_("decode tokens"), "delivered_tokens": N_("delivered tokens"),
    "running_requests": N_("running requests"), "waiting_requests": N_("waiting requests"),
    "preempted_requests": N_("preempted requests"), "used_blocks": N_("blocks in use"),
    "usable_blocks": N_("usable blocks"), "kind": N_("event"), "numbers": N_("its numbers"),
    "changes": N_("what changed"), "began_utc": N_("began (UTC)"), "iterations": N_("iterations"),
    "restarts": N_("restarts"), "finished_requests": N_("finished"), "aborted_requests": N_("aborted"),
    "rejected_requests": N_("rejected"), "unfinished_requests": N_("unfinished"), "good_requests": N_("good requests"),
    "judged_requests": N_("judged requests"), "goodput_share": N_("goodput, share"),
    "goodput_requests_per_s": N_("goodput (requests / s)"), "slo_ttft_ms": N_("TTFT at most (ms)"),
    "slo_tpot_ms": N_("TPOT at most (ms)"), "idle_slot_steps": N_("idle slots"),
}  # fmt: skip
"""Column -> its head."""
NOTES: Final[Mapping[str, str]] = {
    "epoch": N_("A stretch under one policy, counted from 1."),
    "spans_epochs": N_("It arrived or ended in another epoch, or lived over a restart."),
    "outcome": N_("How it ended."),
    "reason": N_("Why: the code word of the scheduler."),
    "queue_ms": N_("first admission − arrival"),
    "ttft_ms": N_("first token − arrival"),
    "tpot_ms": N_("(last token − first token) / (output tokens − 1)"),
    "e2e_ms": N_("end − arrival"),
    "preemptions": N_("How often it was evicted."),
    "recompute_tokens": N_("Tokens computed again after an eviction."),
    "padding_tokens": N_("Tokens computed only to fill a static batch."),
    "run_id": N_("Name of the worker process's life; another one follows each restart."),
    "policy_version": N_("The version of the policy in force."),
    "engine_time_s": N_("Engine time: it stands still while the engine is paused or slowed down on purpose."),
    "duration_ms": N_("The whole iteration."),
    "schedule_ms": N_("Deciding what is computed."),
    "execute_ms": N_("Computing the model."),
    "sample_ms": N_("Choosing the next tokens."),
    "update_ms": N_("Taking the new tokens in."),
    "delivered_tokens": N_("New output tokens."),
    "usable_blocks": N_("What kv_block_limit leaves of the pool."),
    "kind": N_("What the scheduler did or noticed."),
    "numbers": N_("The numbers of the event, as the scheduler names them."),
    "changes": N_("What differs from the epoch before."),
    "restarts": N_("Restarts of the worker within the epoch."),
    "unfinished_requests": N_("Requests that have not ended yet."),
    "good_requests": N_("Finished within both limits."),
    "judged_requests": N_("Ended, and a limit can be checked."),
    "goodput_share": N_("Good requests of those judged."),
    "goodput_requests_per_s": N_("Good requests a second of engine time."),
    "slo_ttft_ms": N_("The limit that is set on the page."),
    "slo_tpot_ms": N_("The limit that is set on the page."),
    "idle_slot_steps": N_("Free places of a static batch while requests waited, one a slot and iteration."),
}  # fmt: skip
"""Column -> what to know of it, where the head does not say it all."""
CODES: Final[Mapping[str, str]] = {
    "queued": N_("arrived"), "admitted": N_("admitted"), "resumed": N_("back"), "chunked": N_("prefill in chunks"),
    "deferred": N_("waits"), "preempted": N_("preempted"), "swapped_out": N_("copied to the host"),
    "swapped_in": N_("copied back from the host"), "finished": N_("finished"), "aborted": N_("aborted"),
    "rejected": N_("rejected"), "policy_changed": N_("policy changed"), "policy_refused": N_("policy refused"),
    "length": N_("the length it asked for"), "stop": N_("the model ended its answer"), "requested": N_("by hand"),
    **DEFER_SHORT, **GLOSS,
}  # fmt: skip
"""Code words of outcomes, kinds and reasons in words. In English the code word says it."""
CODED: Final = ("outcome", "kind", "reason")


def _metric(name: str, t: Translate) -> str:
    return SHORT[name] if SHORT[name].isupper() else t(SHORT[name])


def head(column: str, t: Translate) -> str:
    """What stands above a column; the column's name where there is no word for it."""
    if match := PERCENTILE.fullmatch(column):
        return f"{_metric(match[1], t)} p{match[2]} (ms)"
    if match := COUNT.fullmatch(column):
        return t("{metric}, samples", metric=_metric(match[1], t))
    return t(LABELS.get(column, column))


def heads(columns: list[str], t: Translate) -> dict[str, dict[str, str]]:
    """Label and help of each column, as ``st.dataframe`` takes them."""
    told = t("In the file: {name}")
    notes = {column: t(NOTES[column]) + "  \n" if column in NOTES else "" for column in columns}
    return {
        column: {"label": head(column, t), "help": notes[column] + told.format(name=f"`{column}`")}
        for column in columns
    }  # fmt: skip


def _code_words(value: str, t: Translate) -> str:
    english = CODES.get(value, "")
    words = t(english) if english else refusal_words(value, t)
    return value if words in (english, value) else f"{value} ({words})" if english else words


def in_words(table: pd.DataFrame, t: Translate) -> pd.DataFrame:
    """The same table with its code words told; the code word always stays, as elsewhere on the page."""
    coded = [name for name in CODED if name in table]
    return table.assign(**{name: table[name].map(lambda value: _code_words(value, t)) for name in coded})


def chosen_rows(table: pd.DataFrame, text: str, t: Translate) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows that have every word of ``text``, as they are shown or as they are in the file: (shown, for the file)."""
    shown = in_words(table, t)
    keep = filtered(shown, text).index
    return shown.loc[keep], table.loc[keep]
