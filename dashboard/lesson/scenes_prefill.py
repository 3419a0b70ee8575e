"""Scenes on chunked prefill, and the dictionary that vLLM V1 describes a step by."""

from __future__ import annotations

from typing import Final

from dashboard.i18n import N_
from dashboard.lesson.scene import Asked, Scene, Side

DECODES: Final = (Asked(12, 48),) * 5
LONG: Final = Asked(200, 6, at=10, role="long")

STARVE: Final = Scene(
    name="starve",
    section=N_("chunked prefill"),
    title=N_("A long prompt that starves decodes, then in chunks"),
    look=(
        N_("Five requests decode; in iteration 10 a prompt of 200 tokens arrives, computed whole in A, in chunks of "
           "at most 32 in B."),
        N_("Look at the tall block in the token budget: everybody's next token waits until it is done."),
    ),
    question=N_("The longest pause between two tokens of the five others, with chunks (B), is"),
    choices=(N_("shorter than without chunks"), N_("about the same"), N_("longer than without chunks")),
    not_shown=N_("It does not show that chunks cost nothing: the long request itself may get its first token later, "
                 "and more of the others' pauses are a little longer (their 95th percentile)."),
    a=Side(N_("whole prompts, prefill first"), {"enable_chunked_prefill": False, "prefill_mix": "prefill_first"}),
    b=Side(N_("chunks, decodes first"), {"max_num_batched_tokens": 32}),
    burst=(*DECODES, LONG),
    facts=("itl_max", "gap_tokens", "itl_p95", "ttft_long", "ttft_long_steps", "gap_steps"),
    expected="less",
    charts=("lanes", "budget", "rate"),
)  # fmt: skip

CHUNKS: Final = Scene(
    name="chunks",
    section=N_("chunked prefill"),
    title=N_("How large a chunk?"),
    look=(
        N_("The same long prompt in chunks of at most 16 tokens (A) and of at most 128 (B)."),
        N_("Look at how many iterations its prefill takes, and at how tall each of them is."),
    ),
    question=N_("The time to the first token of the long request, with large chunks (B), is"),
    choices=(N_("shorter than with small ones"), N_("about the same"), N_("longer than with small ones")),
    not_shown=N_("It does not show the best chunk: that depends on the promise made for TTFT and ITL, and on the "
                 "machine."),
    a=Side(N_("chunks of at most 16"), {"long_prefill_token_threshold": 16, "max_num_batched_tokens": 256}),
    b=Side(N_("chunks of at most 128"), {"long_prefill_token_threshold": 128, "max_num_batched_tokens": 256}),
    burst=(*DECODES, LONG),
    facts=("ttft_long", "ttft_long_steps", "itl_max", "gap_tokens", "itl_p95", "total_ms"),
    expected="less",
    charts=("lanes", "budget", "rate"),
)  # fmt: skip

DICTIONARY: Final = Scene(
    name="dictionary",
    section=N_("vLLM V1, as a case"),
    title=N_("vLLM V1: an iteration is a dictionary"),
    look=(
        N_("vLLM V1 describes what an iteration computes by a dictionary from request to number of tokens; this "
           "engine's own is shown live below."),
        N_("Look at its numbers: 1 is a decode, more is a chunk of a prompt, and nothing else tells them apart."),
    ),
    question=N_("In how many iterations are prefill and decode in one dictionary, under the rule of vLLM V1 (B)?"),
    choices=(
        N_("in fewer than with whole prompts first"),
        N_("in as many"),
        N_("in more than with whole prompts first"),
    ),
    not_shown=N_("It does not show vLLM's speed: the shape of its decisions is imitated here, not its kernels, and "
                 "names and defaults change between versions."),
    a=Side(N_("whole prompts first"), {"enable_chunked_prefill": False, "prefill_mix": "prefill_first"}),
    b=Side(N_("running requests first, in chunks (vLLM V1)"),
           {"prefill_mix": "running_order", "max_num_batched_tokens": 48}),
    burst=((Asked(12, 24),) * 4) + (Asked(150, 8, at=6, role="long"), Asked(20, 12, at=6), Asked(20, 12, at=6)),
    facts=("mixed", "largest", "gap_tokens", "steps", "ttft_long"),
    expected="more",
    charts=("dictionary", "lanes", "budget"),
    pace_ms=250.0,
)  # fmt: skip
