"""Values of policy fields in words. The code word always shows: it is what papers, logs and files call it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from dashboard.i18n import N_, Translate
from scheduler import SchedulerPolicy

GLOSS: Final = {
    "continuous": N_("rebuilt every iteration"),
    "static": N_("starts and ends whole"),
    "fcfs": N_("order of arrival"),
    "shortest_prompt": N_("short prompts first"),
    "shortest_job": N_("short jobs first"),
    "next_chunk": N_("the first chunk"),
    "full_sequence": N_("the whole prompt"),
    "worst_case": N_("all it may ever need"),
    "strict": N_("nobody passes"),
    "skip": N_("others may pass"),
    "decode_first": N_("decodes first"),
    "prefill_first": N_("prefill first"),
    "running_order": N_("order of admission"),
    "recompute": N_("compute again"),
    "swap": N_("copy to the host"),
    "never": N_("nobody is evicted"),
    "newest": N_("the last admitted"),
    "lowest_priority": N_("the least important"),
    "most_blocks": N_("holds most blocks"),
    "least_computed": N_("least work lost"),
    "front": N_("before all others"),
    "back": N_("behind all others"),
    "paged": N_("page by page"),
    "reserve_max": N_("the maximum in one piece"),
    "buddy": N_("a power of two in one piece"),
    "exact": N_("the true length in one piece"),
    "priority": N_("by priority"),
    "standstill": N_("nobody could move"),
}
"""What a value means, for readers of another language: an English reader has the code word and the help text."""


def value_words(value: str, t: Translate) -> str:
    """ "paged", or "paged (…)" with the gloss in a language that has one."""
    english = GLOSS.get(value, "")
    gloss = t(english) if english else ""
    return value if gloss == english else f"{value} ({gloss})"


def told(field: str, value: Any, t: Translate) -> str:
    """A value as the controls and the echo show it."""
    if value is None:
        return t("all")
    if isinstance(value, bool):
        return t("on") if value else t("off")
    if isinstance(value, str):
        return value_words(value, t)
    if field == "long_prefill_token_threshold" and value == 0:
        return t("off")
    if field == "kv_watermark":
        return f"{value:.0%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def grouped(text: str) -> str:
    """A whole number in words of the engine as the page writes numbers: "8192" is "8,192". Other text as it came."""
    return f"{int(text):,}" if text.isascii() and text.isdigit() and len(text) < 16 else text


def policy_diff(old: SchedulerPolicy, new: SchedulerPolicy) -> list[tuple[str, Any, Any]]:
    """(field, old value, new value) of every field that differs, the version left out."""
    names = [f.name for f in fields(SchedulerPolicy) if f.name != "version"]
    return [(n, getattr(old, n), getattr(new, n)) for n in names if getattr(old, n) != getattr(new, n)]
