"""What a user asks for: a request and how its tokens are sampled."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of one request are chosen. Names and meanings are vLLM's.

    max_tokens: output tokens at most, >= 1; None = as many as ``max_model_len`` and the pool of KV blocks leave.
    min_tokens: output tokens before an end-of-sequence or stop token may end the request, >= 0.
    temperature: >= 0; 0 is greedy.
    top_k: keep the k most likely tokens, >= 0; 0 = all.
    top_p: nucleus mass, 0 < top_p <= 1.
    repetition_penalty: > 0; 1 = off; applied to tokens of prompt and output (CTRL, arXiv:1909.05858).
    seed: any int; None = the engine draws one when the request is accepted, and keeps it.
    stop_token_ids: tokens that end the request beside the model's end-of-sequence tokens.
    ignore_eos: True = the model's end-of-sequence tokens do not end the request.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.stop_token_ids, list):
            object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as given to ``Scheduler.add``. Nothing in it changes afterwards.

    request_id: unique among the requests that have not ended.
    prompt_token_ids: at least one token id, each >= 0.
    priority: lower runs first (used where the policy orders by priority).
    arrival_time: seconds on the scheduler's clock; None = the moment of ``add``.
    prior_output_token_ids: output tokens already delivered in an earlier life (a restarted runner);
        they count as output, are recomputed as context, and are not delivered again.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    priority: int = 0
    arrival_time: float | None = None
    prior_output_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("prompt_token_ids", "prior_output_token_ids"):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
