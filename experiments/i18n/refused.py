"""Refusals that the packages below word in English, as templates of the catalogue."""

from __future__ import annotations

from typing import Final

from experiments.i18n import N_

SPEC: Final = (
    N_("chunk.sizes is {value}, expected whole numbers such as 16, 32, 64"),
    N_("chunk.sizes is {value}, expected each size once"),
    N_("chunk.sizes has {value}, above max_num_batched_tokens ({budget}), which would cut first"),
    N_("[policy]: a chunk microscope needs enable_chunked_prefill true and batching 'continuous'"),
    N_("a.label and b.label are both {value}, expected two labels"),
    N_("arm {label}: {reason}"),
    N_("{place} belongs to [model]: all arms share one pool"),
    N_("admission_paused is True, expected False: nobody would ever be let in"),
    N_("trace holds no request, expected at least one"),
    N_(
        "trace: {id} is {prompt} prompt and {output} output tokens long, the engine takes {limit} together "
        "(model.max_model_len, and model.num_blocks x block_size); cut lengths by [trace.scale] max_model_len, or "
        "give the engine more"
    ),
    N_("trace: the prompt of {id} has token {token}, the model's vocabulary ends at {last}"),
    N_("trace.file: no file was uploaded yet"),
    N_(
        "max_num_batched_tokens is {value}, expected at least max_num_seqs ({seqs}): with chunks a step must hold "
        "one token of each running request"
    ),
    N_(
        "enable_prefix_caching is True, expected False: only some of the arms could use the cache, so it would be "
        "a fifth difference between them"
    ),
    N_(
        "enable_chunked_prefill is False and max_num_batched_tokens is {budget}: a request of up to {longest} "
        "tokens (max_model_len {most}) could never be computed in one step; allow chunks or raise "
        "max_num_batched_tokens to {needed}"
    ),
    N_(
        "preemption_mode is 'swap' and num_host_blocks is 0: there is no host pool to swap to; choose 'recompute', "
        "or start with num_host_blocks of at least 1"
    ),
    N_("{folder}: another process is making runs in this folder"),
    N_("{folder}: holds runs, but no experiment.json; use another folder"),
    N_("{name}: no spec.toml in it"),
)
"""Of specs, arms and folders."""

TRACE: Final = (
    N_("{file}: line {line}: {reason}"),
    N_("is {value}, expected {wanted}"),
    N_("{field} is {value}, expected {wanted}"),
    N_("is {value}, earlier than the request before ({before})"),
    N_("is {value}, but the two lengths before it make {sum}"),
    N_("is {value}, but prompt has {n} tokens"),
    N_("is {value}, as on line {line}"),
    N_("is {value}, already used by {other}"),
    N_("is {value}: there is no such day"),
    N_("is {value}: there is no such time of day"),
    N_("is {value}: there is no such time zone"),
    N_("is {value} in {text}, expected {wanted}"),
    N_("is missing in {text}, expected {wanted}"),
    N_("is {value}; the arrivals are steps, so say how many seconds one is (above 0, to 3600)"),
    N_("is empty, and rows follow: one is missing"),
    N_("is empty, expected at least one"),
    N_("is given twice"),
    N_("is not a field of a request; there are {names}"),
    N_("is not a field of a trace; there are {names}"),
    N_("is no field of a workload in steps; a trace in seconds begins with {begin}"),
    N_("has {n} tokens, at most {most} are read"),
    N_("has a turn of {n} tokens, at most {most} are read"),
    N_("has {n} rows, at most {most} are read"),
    N_("has {n} bytes, at most {most} are read"),
    N_("is longer than {n} bytes"),
    N_("more than {n} rows; give limit to read the first of them"),
    N_("holds a carriage return that does not end the line"),
    N_("holds no request that can run; {n} rows with a length of 0"),
    N_("holds texts (ShareGPT), so a tokenizer is needed: give count_tokens (--model)"),
    N_("is not UTF-8 text at byte {n} of the line"),
    N_("is not UTF-8 text at byte {n} of the file"),
    N_("the row has {n} cells, expected {wanted}"),
    N_("the row is no CSV: {why}"),
    N_("some times of the file have a time zone, others do not"),
    N_("the columns are {value}, expected {wanted}"),
    N_("begins with {value}, which is none of {formats}"),
    N_("{text} is no number of JSON"),
    N_("column {n}: no JSON: {why}"),
    N_("no JSON that can be read: {why}"),
    N_("entry {n} is {value}, expected {wanted}"),
    N_("arrives more than {n} s after the first request"),
    N_("no request of {n} is left after scaling"),
    N_("puts the last arrival at {at} s, at most {most}"),
    N_("gives {id} {n} tokens, at most {most}"),
    N_("{arrivals} ends after {at} s, at most {most}"),
    N_("its texts took longer than {n} s to count"),
    N_("expected a comma or the end of the list"),
    N_("something follows the end of the list"),
    N_("is not that of the requests ({hash}): they were changed. Take the field out to use them"),
    N_("could not be read"),
    N_("there is no such file"),
    N_("is not a file"),
)
"""Of traces and generators, behind file, line and field."""

WANTED: Final = (
    N_("a whole number from {low} to {high}"),
    N_("a whole number"),
    N_("a whole number of at least {low}"),
    N_("a number"),
    N_("a number of seconds, 0 or more"),
    N_("seconds from {low} to {high}"),
    N_("above 0 and at most high ({high})"),
    N_("above {low}, to {high}"),
    N_("{low} to {high}"),
    N_("{low} or more"),
    N_("a time as {example}"),
    N_("a list of token ids, not empty"),
    N_("a list of whole numbers"),
    N_("a list of turns"),
    N_("{format} of version {version}"),
    N_("a list"),
    N_("an object"),
    N_("an object with from and value"),
    N_("a text of 1 to {n} printable characters"),
    N_("a text of at most {n} characters"),
    N_("1: a row here is one request"),
    N_("one of {values}"),
    N_("missing"),
)
"""What would be right: behind "expected"."""
