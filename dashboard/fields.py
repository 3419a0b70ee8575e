"""What the page says about each control: its group, its name, and what it trades for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dashboard.i18n import N_, Translate
from dashboard.views.markup import plain
from scheduler import FIELD_RANGES, SchedulerPolicy
from scheduler.custom import loaded
from scheduler.policy import SWITCHES
from scheduler.registry import REGISTRIES

GROUPS: Final = {
    "batch": N_("Batch"),
    "admission": N_("Admission: who gets in"),
    "preemption": N_("Preemption: who has to go"),
    "allocation": N_("Allocation: KV blocks"),
}


@dataclass(frozen=True, slots=True)
class Control:
    """One policy field on the page. steps: values a slider offers (empty: named values or a switch)."""

    field: str
    group: str
    label: str
    help: str
    steps: tuple[float, ...] = ()


CONTROLS: Final = (
    Control("batching", "batch", N_("Batching"), N_(
        "continuous rebuilds the batch every iteration. static starts and ends it whole: simple, but finished requests "
        "hold their slots until the longest one ends, and short prompts are padded.")),
    Control("max_num_seqs", "batch", N_("Requests at once (max_num_seqs)"), N_(
        "More requests share each forward pass: more tokens per second in total, slower tokens for each of "
        "them, and KV "
        "blocks run out sooner."), (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)),
    Control("max_num_batched_tokens", "batch", N_("Token budget (max_num_batched_tokens)"), N_(
        "Tokens one iteration may compute. A large budget finishes prompts sooner (TTFT) but makes each "
        "iteration longer, "
        "so running requests wait longer for their next token."),
        (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)),
    Control("enable_chunked_prefill", "batch", N_("Chunked prefill"), N_(
        "Cuts long prompts into chunks between decodes: the long request starts a little later, the others do not "
        "starve. Switched off, a prompt is computed whole; the token budget is then raised so that any "
        "prompt fits, and "
        "put back when you switch it on again.")),
    Control("long_prefill_token_threshold", "batch", N_("Longest chunk (long_prefill_token_threshold)"), N_(
        "At most so many prompt tokens of one request in one iteration. Small chunks keep the other requests' tokens "
        "coming; the long prompt needs more iterations. 0 = no limit but the "
        "budget."), (0, 8, 16, 32, 48, 64, 96, 128, 256, 512)),
    Control("prefill_mix", "batch", N_("Order of prefill and decode"), N_(
        "Who gets the token budget first. decode_first never stalls a running request; prefill_first gives quick first "
        "tokens and stalls decodes; running_order goes by admission, as vLLM V1 does.")),
    Control("admission_order", "admission", N_("Order of the queue"), N_(
        "fcfs is fair. shortest_prompt and shortest_job lower the mean wait and let long ones starve; shortest_job "
        "counts max_tokens too, which callers seldom know. priority serves the lowest number first.")),
    Control("admission_rule", "admission", N_("What must fit before admission"), N_(
        "next_chunk lets requests in eagerly and pays with preemptions; worst_case reserves for the longest possible "
        "answer, never evicts and leaves memory idle; full_sequence asks for room for the prompt.")),
    Control("head_of_line", "admission", N_("Head of the queue"), N_(
        "strict: nobody passes a request that does not fit. Fair, but one large request can hold up many small ones. "
        "skip lets smaller ones pass: fuller memory, and the large one waits longer, though never for ever.")),
    Control("kv_watermark", "admission", N_("Watermark"), N_(
        "Share of the KV blocks kept free at admission. A reserve for growing requests: fewer preemptions, fewer "
        "requests at once."), (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)),
    Control("admission_paused", "admission", N_("Pause admission"), N_(
        "Nobody is let in; what runs, runs on. The queue grows.")),
    Control("preemption_victim", "preemption", N_("Who is evicted"), N_(
        "newest loses the least waiting; most_blocks frees the most room at once; least_computed wastes the "
        "least work; "
        "lowest_priority spares important requests.")),
    Control("preemption_mode", "preemption", N_("What happens to its KV"), N_(
        "recompute gives the blocks back at once and computes all tokens again when it returns. swap copies them to "
        "host memory and back: no work is lost, but copies take time and host memory. never lets a decode wait for a "
        "block instead: nothing is wasted, but running requests stall.")),
    Control("preemption_requeue", "preemption", N_("Where it waits again"), N_(
        "front lets it return first, which is fair but may evict it again at once; back lets others in before it.")),
    Control("allocation", "allocation", N_("How blocks are given out"), N_(
        "paged gives a block when the last one is full: almost no waste, blocks lie scattered. The others reserve one "
        "piece at admission and need no block table: reserve_max for the longest sequence there can be, mostly never "
        "used; buddy the next power of two, quick to find, with holes between; exact the true length, which nobody "
        "knows in advance: the bound for the other two.")),
    Control("kv_block_limit", "allocation", N_("Usable KV blocks (kv_block_limit)"), N_(
        "A smaller cache on the same machine. Lowering it kills nobody: running requests keep their blocks, admission "
        "waits, and when a decode finds no block somebody is evicted. A request that runs alone may "
        "exceed it, so that it can end.")),
    Control("enable_prefix_caching", "allocation", N_("Prefix caching"), N_(
        "Requests that begin alike share full blocks: less memory and less prefill, at the price of looking up and "
        "keeping old blocks, which are given away least recently used first. It acts under continuous batching with "
        "paged allocation.")),
)  # fmt: skip
PACE_FIELDS: Final = ("step_delay_ms", "paused", "single_step")
PACE_STEPS: Final = (0.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
KNOWN: Final = frozenset({c.field for c in CONTROLS} | set(PACE_FIELDS) | {"version"})


def controls() -> tuple[Control, ...]:
    """The controls that offer a choice today; fields nobody described get a plain one in the batch group."""
    new = [n for n in SchedulerPolicy.__dataclass_fields__ if n not in KNOWN]
    described = (*CONTROLS, *(Control(name, "batch", name, "") for name in new))
    return tuple(c for c in described if _has_choice(c.field))


def _has_choice(field: str) -> bool:
    if field in REGISTRIES:
        return len(REGISTRIES[field].names()) > 1
    return field in SWITCHES or field in FIELD_RANGES


def help_words(control: Control, t: Translate) -> str:
    """What a control trades; and for each value that somebody added, what its author says of it."""
    own = [
        f"**{plain(p.name)}** ({plain(p.file)}): {plain(p.description)}" for p in loaded() if p.field == control.field
    ]
    return "\n\n".join([t(control.help), *own] if control.help else own)


def slider_steps(control: Control, truth: Any, num_blocks: int) -> list[Any]:
    """The values a slider offers: the usual steps, and the one in force wherever it lies. None = no limit."""
    if control.field == "kv_block_limit":
        stride = max(1, num_blocks // 24)
        values: list[Any] = [v for v in range(stride, num_blocks, stride) if v != truth]
        limited = sorted([*values, truth]) if truth is not None else values
        return [*limited, None]
    steps: set[Any] = set(control.steps) or {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
    return sorted(steps | {truth})
