"""The text of every request in the worker: tokens in, whole characters out, and the state a late reader asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from model_runner.messages import RequestState
from model_runner.ports import Detokenizer
from scheduler import Request, RequestRecord

KEPT_ENDED = 500
"""Requests whose text is kept after their end, newest first out last."""


@dataclass(slots=True)
class _Output:
    prompt_token_ids: tuple[int, ...]
    detokenizer: Detokenizer
    output_token_ids: list[int]
    pieces: list[str] = field(default_factory=list)
    ended: str = ""
    ended_seq: int = 0


class Outputs:
    """Tokens and texts by request: all that live and the newest ``KEPT_ENDED`` that ended. One thread."""

    def __init__(self, new_detokenizer: Callable[[], Detokenizer], kept_ended: int = KEPT_ENDED) -> None:
        self._new_detokenizer = new_detokenizer
        self._kept_ended = kept_ended
        self._live: dict[str, _Output] = {}
        self._ended: dict[str, _Output] = {}

    @property
    def live_ids(self) -> tuple[str, ...]:
        """Ids that have not ended, in order of arrival."""
        return tuple(self._live)

    def open(self, request: Request) -> None:
        """Start a request. Its prior tokens are read in, so that the next character continues theirs, and not sent."""
        output = _Output(request.prompt_token_ids, self._new_detokenizer(), list(request.prior_output_token_ids))
        output.pieces.append(output.detokenizer.add(request.prior_output_token_ids))
        self._ended.pop(request.request_id, None)
        self._live[request.request_id] = output

    def deliver(self, new_tokens: Mapping[str, int], records: Iterable[RequestRecord], seq: int) -> dict[str, str]:
        """Take the tokens and the ends of one snapshot; the new text by request_id (no entry = none)."""
        deltas: dict[str, str] = {}
        for request_id, token_id in new_tokens.items():
            output = self._live[request_id]
            output.output_token_ids.append(token_id)
            self._extend(deltas, request_id, output, output.detokenizer.add((token_id,)))
        for record in records:
            if record.outcome == "rejected":
                continue  # it never had an output, and its id may be that of a request that lives
            ended = self._live.pop(record.request_id)
            self._extend(deltas, record.request_id, ended, ended.detokenizer.flush())
            ended.ended = record.outcome
            ended.ended_seq = seq
            self._ended[record.request_id] = ended
        while len(self._ended) > self._kept_ended:
            del self._ended[next(iter(self._ended))]
        return deltas

    @staticmethod
    def _extend(deltas: dict[str, str], request_id: str, output: _Output, text: str) -> None:
        if text:
            output.pieces.append(text)
            deltas[request_id] = deltas.get(request_id, "") + text

    def states(self, after_seq: int) -> tuple[RequestState, ...]:
        """Every request that lives or ended after ``after_seq``, as far as it is kept."""
        recent = {key: output for key, output in self._ended.items() if output.ended_seq > after_seq}
        return tuple(
            RequestState(
                request_id=request_id,
                prompt_token_ids=output.prompt_token_ids,
                output_token_ids=tuple(output.output_token_ids),
                text="".join(output.pieces),
                ended=output.ended,
            )
            for request_id, output in (recent | self._live).items()
        )


def is_complete(request: Request, eos_token_ids: Sequence[int], max_model_len: int) -> str:
    """Why the prior tokens of a request are already all of it: "length", "stop", or "" when they are not.

    A request that ended while nobody received its end comes back like this after a restart of the worker.
    """
    prior, sampling = request.prior_output_token_ids, request.sampling
    if not prior:
        return ""
    stops = set(sampling.stop_token_ids) | (set() if sampling.ignore_eos else set(eos_token_ids))
    if len(prior) >= sampling.min_tokens and prior[-1] in stops:
        return "stop"
    full = len(request.prompt_token_ids) + len(prior) >= max_model_len
    if full or (sampling.max_tokens is not None and len(prior) >= sampling.max_tokens):
        return "length"
    return ""
