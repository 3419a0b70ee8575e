"""What a request must be like to be accepted. Every refusal names field, value and limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from scheduler.request import Request, SamplingParams

MAX_ID_LENGTH: Final = 256
"""Characters of a request id: ids travel in every snapshot."""

MAX_PRIORITY: Final = 2**31
MAX_SECONDS: Final = 1e12


def request_problem(request: Any, *, max_model_len: int, vocab_size: int | None) -> str:
    """The first thing wrong with a request, as a sentence; "" when nothing is. Pool size is not looked at here."""
    if not isinstance(request, Request):
        return f"request is {_short(request)}, expected a Request"
    if not isinstance(request.request_id, str) or not 0 < len(request.request_id) <= MAX_ID_LENGTH:
        return f"request_id is {_short(request.request_id)}, expected a text of 1 to {MAX_ID_LENGTH} characters"
    return next(_problems(request, max_model_len, vocab_size), "")


def _problems(request: Request, max_model_len: int, vocab_size: int | None) -> Iterator[str]:
    yield from _token_problems("prompt_token_ids", request.prompt_token_ids, vocab_size)
    yield from _token_problems("prior_output_token_ids", request.prior_output_token_ids, vocab_size)
    if not request.prompt_token_ids:
        yield "prompt_token_ids is empty, expected at least 1 token"
    if not _is_int(request.priority) or abs(request.priority) > MAX_PRIORITY:
        yield f"priority is {_short(request.priority)}, expected a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}"
    arrival = request.arrival_time
    if arrival is not None and not (_is_number(arrival) and abs(arrival) <= MAX_SECONDS):
        yield f"arrival_time is {_short(arrival)}, expected finite seconds (at most {MAX_SECONDS:g}) or None"
    if not isinstance(request.sampling, SamplingParams):
        yield f"sampling is {_short(request.sampling)}, expected SamplingParams"
    else:
        yield from _sampling_problems(request.sampling, vocab_size)
        yield from _length_problems(request, max_model_len)


def _token_problems(name: str, tokens: Any, vocab_size: int | None) -> Iterator[str]:
    if not isinstance(tokens, tuple):
        yield f"{name} is {_short(tokens)}, expected a tuple of token ids"
        return
    limit = math.inf if vocab_size is None else vocab_size
    if not tokens or (set(map(type, tokens)) == {int} and min(tokens) >= 0 and max(tokens) < limit):
        return  # nearly always: a tenth of the time of looking at each
    expected = "a whole number >= 0" if vocab_size is None else f"a whole number from 0 to {vocab_size - 1}"
    for position, token in enumerate(tokens):
        if not _is_int(token) or not 0 <= token < limit:
            yield f"{name}[{position}] is {_short(token)}, expected {expected}"
            return


def _length_problems(request: Request, max_model_len: int) -> Iterator[str]:
    length = len(request.prompt_token_ids)
    if length + 1 > max_model_len:
        yield (
            f"prompt_token_ids has {length} tokens, at most {max_model_len - 1} leave room for one output token "
            f"(max_model_len {max_model_len})"
        )


def _sampling_problems(sampling: SamplingParams, vocab_size: int | None) -> Iterator[str]:
    max_tokens, seed = sampling.max_tokens, sampling.seed
    if max_tokens is not None and (not _is_int(max_tokens) or max_tokens < 1):
        yield f"max_tokens is {_short(max_tokens)}, expected a whole number >= 1 or None"
    if not _is_int(sampling.min_tokens) or sampling.min_tokens < 0:
        yield f"min_tokens is {_short(sampling.min_tokens)}, expected a whole number >= 0"
    elif _is_int(max_tokens) and sampling.min_tokens > max_tokens:  # type: ignore[operator]
        yield f"min_tokens is {sampling.min_tokens}, expected at most max_tokens ({max_tokens})"
    if not _is_number(sampling.temperature) or sampling.temperature < 0:
        yield f"temperature is {_short(sampling.temperature)}, expected a finite number >= 0"
    if not _is_int(sampling.top_k) or sampling.top_k < 0:
        yield f"top_k is {_short(sampling.top_k)}, expected a whole number >= 0 (0 = all)"
    if not _is_number(sampling.top_p) or not 0 < sampling.top_p <= 1:
        yield f"top_p is {_short(sampling.top_p)}, expected a number above 0 and at most 1"
    if not _is_number(sampling.repetition_penalty) or sampling.repetition_penalty <= 0:
        yield f"repetition_penalty is {_short(sampling.repetition_penalty)}, expected a finite number above 0"
    if seed is not None and not _is_int(seed):
        yield f"seed is {_short(seed)}, expected a whole number or None"
    if not isinstance(sampling.ignore_eos, bool):
        yield f"ignore_eos is {_short(sampling.ignore_eos)}, expected True or False"
    yield from _token_problems("stop_token_ids", sampling.stop_token_ids, vocab_size)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _short(value: Any) -> str:
    """The value for a message, never long, whatever it is."""
    try:
        text = repr(value)
    except Exception as error:  # a hostile __repr__ must not end the engine
        text = f"<{type(value).__name__}, repr failed: {type(error).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."


def check_size(name: str, value: int, least: int) -> None:
    """Raise ValueError unless ``value`` is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least {least}")
