"""What clients may ask for: OpenAI's fields and vLLM's extra ones, checked. What cannot be honoured is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import msgspec

from model_runner.http.errors import ApiError
from model_runner.http.fields import IGNORED, NEUTRAL
from model_runner.messages import Turn
from scheduler import SamplingParams

MAX_STOPS, MAX_STOP_CHARS, MAX_STOP_TOKENS = 16, 256, 256
DEFAULT_COMPLETION_TOKENS = 16
"""Of /v1/completions, as in OpenAI's API; a chat goes on as far as the model allows."""
MAX_MESSAGES = 1_000
MAX_PROMPTS = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. model: "" = whatever runs. prompt: as in ``RunnerClient.submit``.

    further: more prompts of the same request, each answered by a choice of its own.
    """

    model: str
    prompt: str | tuple[int, ...] | tuple[Turn, ...]
    sampling: SamplingParams
    priority: int
    stop: tuple[str, ...]
    include_stop: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    further: tuple[str | tuple[int, ...], ...] = ()

    @property
    def each(self) -> tuple[Wanted, ...]:
        """One for each prompt, in their order."""
        return tuple(replace(self, prompt=prompt, further=()) for prompt in (self.prompt, *self.further))

    @property
    def prompt_field(self) -> str:
        """The field of the body that the prompt came in."""
        is_chat = not isinstance(self.prompt, str) and bool(self.prompt) and isinstance(self.prompt[0], Turn)
        return "messages" if is_chat else "prompt"


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class _Common(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    priority: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


class _Completion(_Common, kw_only=True, forbid_unknown_fields=True):
    prompt: str | list[int | str | list[int]]


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part] | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


class _Chat(_Common, kw_only=True, forbid_unknown_fields=True):
    messages: list[_Message]
    max_completion_tokens: int | None = None


def completion(body: bytes) -> Wanted:
    """Read the body of /v1/completions; raises ApiError naming the field."""
    asked = _read(body, _Completion)
    max_tokens = DEFAULT_COMPLETION_TOKENS if asked.max_tokens is None else asked.max_tokens
    first, *further = _prompts(asked.prompt)
    return replace(_wanted(asked, first, max_tokens, "max_tokens"), further=tuple(further))


def chat(body: bytes) -> Wanted:
    """Read the body of /v1/chat/completions; raises ApiError naming the field."""
    asked = _read(body, _Chat)
    if not 1 <= len(asked.messages) <= MAX_MESSAGES:
        raise _wrong("messages", len(asked.messages), f"1 to {MAX_MESSAGES} messages are needed")
    turns = tuple(_turn(f"messages[{index}]", message) for index, message in enumerate(asked.messages))
    if asked.max_completion_tokens is not None:
        return _wanted(asked, turns, asked.max_completion_tokens, "max_completion_tokens")
    return _wanted(asked, turns, asked.max_tokens, "max_tokens")


T = TypeVar("T", bound=_Common)


def _read(body: bytes, form: type[T]) -> T:
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        return msgspec.convert(_supported(fields), form)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"the body is no JSON object that can be read: {error}") from None


def _supported(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those that ask for nothing; raises ApiError for one that asks for what there is not."""
    kept = {}
    for name, value in fields.items():
        if name in IGNORED:
            continue
        if name not in NEUTRAL:
            kept[name] = value
        elif value is not None and not any(
            value == neutral and _same_kind(value, neutral) for neutral in NEUTRAL[name]
        ):
            taken = " or ".join(msgspec.json.encode(neutral).decode() for neutral in (*NEUTRAL[name], None))
            raise ApiError(
                400, f"{name} is not supported: leave it out, or give {taken}", param=name, code="unsupported_parameter"
            )
    return kept


def _same_kind(value: Any, neutral: Any) -> bool:
    return isinstance(value, bool) == isinstance(neutral, bool)


def _invalid(message: str) -> ApiError:
    """msgspec says "... - at `$.stop[0]`" or "... unknown field `x`"; the field goes into ``param``."""
    unknown = re.search(r"unknown field `([^`]*)`", message)
    at = re.search(r" - at `\$\.?([^`]*)`$", message)
    if unknown:
        return ApiError(400, f"unknown field: {unknown[1][:100]}", param=unknown[1][:100], code="unknown_parameter")
    if at is None:
        missing = re.search(r"missing required field `([^`]*)`", message)
        return ApiError(400, message, param=missing[1] if missing else None)
    text, field = message[: at.start()], at[1].partition("[...]")[0]
    if not field:
        return ApiError(400, text)  # somewhere in a map: msgspec does not say under which key
    return ApiError(400, f"{field}: {text[:1].lower()}{text[1:]}", param=field)


def _wrong(name: str, value: object, right: str) -> ApiError:
    return ApiError(400, f"{name} is {str(value)[:80]}: {right}", param=name)


def _prompts(prompt: str | Sequence[int | str | list[int]]) -> Sequence[str | tuple[int, ...]]:
    """A text, texts, token ids, or lists of token ids; there is always a first."""
    if isinstance(prompt, str):
        return [prompt]
    ids = tuple(item for item in prompt if isinstance(item, int))
    if len(ids) == len(prompt):
        return [ids]
    texts = [item for item in prompt if isinstance(item, str)]
    lists = [tuple(item) for item in prompt if isinstance(item, list)]
    if len(prompt) not in (len(texts), len(lists)):
        raise _wrong("prompt", "a list of several kinds", "texts, or token ids, or lists of token ids are needed")
    if len(prompt) > MAX_PROMPTS:
        raise _wrong("prompt", f"a list of {len(prompt)}", f"at most {MAX_PROMPTS} prompts a request are taken")
    return texts or lists


def _turn(name: str, message: _Message) -> Turn:
    if message.tool_calls or message.function_call:
        raise ApiError(400, f"{name}: calls of tools are not supported", param=name, code="unsupported_parameter")
    if message.content is None:
        raise ApiError(400, f"{name}.content: a text is needed", param=f"{name}.content")
    role = "system" if message.role == "developer" else message.role
    if isinstance(message.content, str):
        return Turn(role, message.content)
    texts = []
    for index, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            field = f"{name}.content[{index}]"
            raise ApiError(400, f"{field}: only parts of type text are supported", param=field)
        texts.append(part.text)
    return Turn(role, "".join(texts))


def _wanted(
    asked: _Common, prompt: str | tuple[int, ...] | tuple[Turn, ...], max_tokens: int | None, max_tokens_name: str
) -> Wanted:
    min_tokens = asked.min_tokens or 0
    options = asked.stream_options or _StreamOptions()
    if asked.stream_options is not None and not asked.stream:
        raise _wrong("stream_options", "given", "it has a meaning with stream true only")
    if len(asked.stop_token_ids or ()) > MAX_STOP_TOKENS:
        raise _wrong("stop_token_ids", f"{len(asked.stop_token_ids or ())} ids", f"at most {MAX_STOP_TOKENS} are taken")
    if max_tokens is not None and not 1 <= max_tokens <= 10**9:
        raise _wrong(max_tokens_name, max_tokens, "a whole number >= 1 is needed")
    if not 0 <= min_tokens <= (max_tokens or 10**9):
        raise _wrong("min_tokens", min_tokens, f"a whole number from 0 to {max_tokens_name} is needed")
    sampling = SamplingParams(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=_number("temperature", asked.temperature, 1.0, 0.0, 2.0),
        top_p=_number("top_p", asked.top_p, 1.0, math.ulp(0.0), 1.0),
        top_k=_whole("top_k", asked.top_k, 0, -1, 2**31),
        repetition_penalty=_number("repetition_penalty", asked.repetition_penalty, 1.0, math.ulp(0.0), 100.0),
        seed=None if asked.seed is None else _whole("seed", asked.seed, 0, -(2**63), 2**63 - 1),
        stop_token_ids=tuple(asked.stop_token_ids or ()),
        ignore_eos=bool(asked.ignore_eos),
    )
    return Wanted(
        model=asked.model or "",
        prompt=prompt,
        sampling=sampling,
        priority=_whole("priority", asked.priority, 0, -(2**31), 2**31),
        stop=_stops(asked.stop),
        include_stop=bool(asked.include_stop_str_in_output),
        stream=bool(asked.stream),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.include_usage and options.continuous_usage_stats),
    )


def _number(name: str, value: float | None, default: float, smallest: float, largest: float) -> float:
    if value is None:
        return default
    if not smallest <= value <= largest:
        least = f"above 0 and at most {largest:g}" if 0 < smallest < 1e-300 else f"from {smallest:g} to {largest:g}"
        raise _wrong(name, value, f"a number {least} is needed")
    return float(value)


def _whole(name: str, value: int | None, default: int, smallest: int, largest: int) -> int:
    if value is None:
        return default
    if not smallest <= value <= largest:
        raise _wrong(name, value, f"a whole number from {smallest} to {largest} is needed")
    return max(0, value) if name == "top_k" else value


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > MAX_STOPS:
        raise _wrong("stop", f"{len(stops)} texts", f"at most {MAX_STOPS} are taken")
    if not all(1 <= len(text) <= MAX_STOP_CHARS for text in stops):
        raise _wrong("stop", "a text that is empty or too long", f"1 to {MAX_STOP_CHARS} characters each are taken")
    return stops
