"""Logits to tokens. Random choices depend on the request's seed and the token's number, on nothing else."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from model_runner.errors import StepError
from scheduler import Request, SamplingParams

_MASK64 = (1 << 64) - 1
_CANDIDATES = 256
"""Tokens looked at first for a nucleus: sorting the whole vocabulary costs more than the model's head."""


_GROUP = 64
"""Neighbours among which the place of a largest logit is looked for."""


@dataclass(slots=True)
class _State:
    """What sampling remembers of a request. outputs: every token sampled, earlier lives included."""

    params: SamplingParams
    seed: int
    stop_ids: tuple[int, ...]
    prompt: tuple[int, ...]
    outputs: list[int] = field(default_factory=list)

    @property
    def is_plain_greedy(self) -> bool:
        params = self.params
        forbids_end = len(self.outputs) < params.min_tokens and bool(self.stop_ids)
        return params.temperature == 0 and params.repetition_penalty == 1 and not forbids_end


class Sampler:
    """Keeps the sampling state of each unfinished request.

    Output token k of a request is drawn with one number in [0, 1) that is a hash of (seed, k): the same token comes
    out alone, in any batch, after a preemption or in another process.
    """

    def __init__(self, eos_token_ids: Sequence[int], default_seed: int) -> None:
        self._eos_token_ids = tuple(eos_token_ids)
        self._default_seed = default_seed
        self._states: dict[str, _State] = {}

    def __len__(self) -> int:
        return len(self._states)

    def add(self, requests: Iterable[Request]) -> None:
        """Learn about new requests. A request without a seed gets one from its id and the engine's seed."""
        for request in requests:
            params = request.sampling
            seed = self._default_seed ^ zlib.crc32(request.request_id.encode()) if params.seed is None else params.seed
            ends = params.stop_token_ids + (() if params.ignore_eos else self._eos_token_ids)
            self._states[request.request_id] = _State(
                params, seed, ends, request.prompt_token_ids, list(request.prior_output_token_ids)
            )

    def drop(self, request_ids: Iterable[str]) -> None:
        """Forget requests that ended; unknown ids are none of its business."""
        for request_id in request_ids:
            self._states.pop(request_id, None)

    def sample(self, request_ids: Sequence[str], logits: torch.Tensor) -> dict[str, int]:
        """One token for each request. logits: float32 [requests, vocab_size], written into.

        Raises StepError naming a request that was never added.
        """
        try:
            states = [self._states[request_id] for request_id in request_ids]
        except KeyError as error:
            raise StepError(f"sampling_ids names {error.args[0]!r}, which no new_requests introduced") from error
        if not states:
            return {}
        if not all(state.is_plain_greedy for state in states):
            self._adjust(states, logits)
        tokens = _most_likely(logits)
        random_rows = [row for row, state in enumerate(states) if state.params.temperature > 0]
        if random_rows:
            chosen = _draw([states[row] for row in random_rows], logits[random_rows])
            tokens[random_rows] = chosen
        sampled = dict(zip(request_ids, tokens.tolist(), strict=True))
        for state, token in zip(states, sampled.values(), strict=True):
            state.outputs.append(token)
        return sampled

    def _adjust(self, states: list[_State], logits: torch.Tensor) -> None:
        for row, state in enumerate(states):
            penalty = state.params.repetition_penalty
            if penalty != 1:
                seen = torch.tensor(sorted({*state.prompt, *state.outputs}), device=logits.device)
                values = logits[row, seen]
                logits[row, seen] = torch.where(values > 0, values / penalty, values * penalty)
            if state.stop_ids and len(state.outputs) < state.params.min_tokens:
                logits[row, list(state.stop_ids)] = -torch.inf


def _most_likely(logits: torch.Tensor) -> torch.Tensor:
    """``logits.argmax(-1)``, the lowest id where several are equal.

    Largest values are found five times as fast on a CPU as their places, so places are looked for in one group only.
    """
    if logits.shape[1] % _GROUP or logits.device.type != "cpu":
        return logits.argmax(-1)
    groups = logits.view(logits.shape[0], -1, _GROUP)
    best = groups.amax(-1).argmax(-1)
    return best * _GROUP + groups[torch.arange(len(best)), best].argmax(-1)


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) that depends on seed and index alone: two rounds of SplitMix64 (Steele et al., 2014)."""
    mixed = _splitmix64(_splitmix64(seed & _MASK64) ^ (index & _MASK64))
    return (mixed >> 11) * 2.0**-53


def _splitmix64(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return value ^ (value >> 31)


def _draw(states: list[_State], logits: torch.Tensor) -> torch.Tensor:
    """Inverse-transform sampling over what top_k and top_p leave. Returns token ids, int64 [rows]."""
    device = logits.device
    temperatures = torch.tensor([state.params.temperature for state in states], device=device)
    numbers = torch.tensor(
        [uniform(state.seed, len(state.outputs)) for state in states], dtype=torch.float64, device=device
    )
    probabilities = torch.softmax(logits / temperatures.unsqueeze(1), -1, dtype=torch.float64)
    cut = [row for row, state in enumerate(states) if state.params.top_k > 0 or state.params.top_p < 1]
    if cut:
        top_k = torch.tensor([states[row].params.top_k or logits.shape[1] for row in cut], device=device)
        top_p = torch.tensor([states[row].params.top_p for row in cut], dtype=torch.float64, device=device)
        probabilities[cut] = truncate(probabilities[cut], top_k, top_p)
    # In order of token id, in double precision: a rounding difference of the logits moves no boundary noticeably.
    cumulative = probabilities.cumsum(-1)
    targets = (numbers * cumulative[:, -1]).unsqueeze(1)
    return torch.searchsorted(cumulative, targets, right=True).squeeze(1).clamp_(max=logits.shape[1] - 1)


def truncate(probabilities: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero what is outside the top_k most likely tokens, then outside the smallest set of mass top_p (of what is left).

    probabilities: [rows, vocab_size]. top_k: int [rows], >= 1. top_p: [rows], 0 < p <= 1. At least one token stays;
    equal probabilities are told apart by token id as torch sorts them.
    """
    vocab_size = probabilities.shape[1]
    values, ids = _candidates(probabilities, top_k, top_p, ask=probabilities.device.type == "cpu")
    width = values.shape[1]
    ranks = torch.arange(width, device=probabilities.device)
    values = values.masked_fill(ranks >= top_k.unsqueeze(1), 0.0)
    mass = torch.where(top_k >= vocab_size, probabilities.sum(-1), values.sum(-1))
    before = values.cumsum(-1) - values
    values = values.masked_fill((before >= (top_p * mass).unsqueeze(1)) & (ranks > 0), 0.0)
    return torch.zeros_like(probabilities).scatter_(-1, ids, values)


def _candidates(
    probabilities: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, *, ask: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities and ids of at least the tokens that can stay, most likely first, [rows, n].

    ask: look at the numbers to find out how few will do. On a GPU that would be a wait for the device, and sorting
    everything is quick there.
    """
    vocab_size = probabilities.shape[1]
    if ask:
        limits = top_k[top_k < vocab_size]
        width = min(vocab_size, max(_CANDIDATES, int(limits.max()) if limits.numel() else 0))
        values, ids = probabilities.topk(width, -1)
        if width == vocab_size or not bool(((values.sum(-1) < top_p) & (top_k >= vocab_size)).any()):
            return values, ids
    values, ids = probabilities.sort(-1, descending=True)
    return values, ids
