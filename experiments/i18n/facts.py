"""Facts that files and analyses hold as English sentences, as templates of the catalogue."""

from __future__ import annotations

from typing import Final

from experiments.i18n import N_

RUNS: Final = (
    N_("{label}, repeat {n}: {reason}"),
    N_("stopped early: {reason}"),
    N_("cancelled: {reason}"),
    N_("the file {name} was there"),
    N_("no sample in the arms {arms}"),
    N_("no run of the arms {arms}; every valid arm needs one"),
    N_("runs have no finished request with two tokens, expected at least 1 to choose limits from"),
    N_("long_tokens is {n} and {long} of {all} prompts are that long, expected some but not all"),
    N_("the resamples find it anywhere from {low} to {high} tokens"),
    N_("the curve bends by {bend} at most, under {least}"),
    N_("{n} chunk sizes, expected at least {least}"),
    N_("a chunk size has no sample"),
    N_("one of the axes does not change over the chunk sizes"),
    N_("from the smallest to the largest chunk neither time is traded for the other"),
    N_("steps: {n} computed something and were timed, at least {least} are needed"),
    N_("at_step is {n}, which is not among the {all} steps of the history"),
    N_(
        "before each run its first {count} requests at once under its own policy, at most {prompt} prompt tokens "
        "and {output} output tokens each"
    ),
)
"""Of runs and of what is made of them."""

COSTS: Final = (
    N_("fitted from {source}: {prices}"),
    N_("run {id}"),
    N_("held-out error over {n} steps: a step {median} (median), {mean} (mean); total time {total}"),
    N_(
        "entered, not measured: roofline of {gpus} ({bandwidth} GB/s x {share}, {flops} TFLOPS bf16 x {part}; "
        "{sheet}) and {model} ({billions} billion parameters; {source}), {ms} ms a step besides"
    ),
)
"""Of step times."""

ORIGINS: Final = (
    N_("made from a seed"),
    N_("all times by one factor, so that the last arrival is at count / rate, as vLLM's bench"),
    N_("all times by one factor, so that the last arrival is at count / rate"),
    N_("that the rate rises and falls once, in straight lines; only its range was measured"),
    N_("exponential burst sizes and silences; only their means and the least silence were measured"),
    N_("no: the rate of one trace depends on how many bursts it holds"),
    N_("no: the last arrival is random, so the rate of one trace differs from the one asked for"),
    N_("in the style of the Azure 2023 conversation trace ({n} requests); not the trace itself"),
    N_("in the style of the Azure 2023 code trace ({n} requests); not the trace itself"),
    N_("prompt and output lengths are drawn apart; in the trace they may hang together"),
    N_(
        "gamma of shape {shape}; rate {rate} a second, drifting from {low} to {high}; CV of the gaps {cv} in the "
        "trace, about {here} here"
    ),
    N_(
        "bursts of about {n} at {rate} a second; {silences} silences over {s} s make {share} of the hour, {each} s "
        "each; {all} a second in all; CV of the gaps {cv} in the trace, {here} here at that length"
    ),
    N_(
        "{n} quantiles of the whole trace, p50 {p50}, p90 {p90}, p99 {p99} tokens; a lognormal would be mu {mu}, "
        "sigma {sigma}"
    ),
    N_("{n} quantiles of the whole trace, p50 {p50}, p90 {p90}, p99 {p99} tokens"),
    N_("{rate} a second instead of {own}"),
    N_("none in the file: all at 0 s"),
    N_("not used: prompts share no prefix"),
    N_("the first asks, the second answers"),
    N_("the first {n} rows; what follows was not read"),
    N_("{at} taken from every arrival"),
    N_("the time of the first row (year {year})"),
    N_("{n} rows were earlier than the row before: sorted"),
    N_("not used: {config}"),
    N_("Azure LLM inference trace"),
    N_("BurstGPT trace"),
    N_("BurstGPT trace with sessions"),
    N_("Vidur processed trace"),
    N_("Vidur processed trace, lengths only"),
    N_("SplitwiseSim trace"),
    N_("Mooncake trace"),
    N_("ShareGPT conversations"),
    N_("workload of the scheduler, arrivals in steps"),
)
"""Where a workload comes from, and what was done to it."""

ROSETTA: Final = (
    N_("a preemption moves the end of the interval, so time spent running counts as queueing"),
    N_("includes the time to the first token, and long outputs count more"),
    N_("an average a request: the mean is that of all gaps, but no percentile shows a single stall"),
    N_("a client cannot see when a server schedules a request"),
    N_("look under ITL"),
    N_("an average a request, what vLLM calls TPOT; its single gaps are inter chunk latency"),
    N_("divides by n, not n - 1: its decode tokens include the one the prefill makes; one token counts as 0"),
    N_("none of the server's: it times its own queue of requests not yet sent"),
    N_("none of that name: its inter token latency is this figure"),
    N_("none: it sees requests and answers only"),
)
"""How a tool's figure differs; formulas stay formulas."""
