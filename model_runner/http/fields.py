"""Fields of OpenAI's and vLLM's requests that are passed over or refused by name."""

from __future__ import annotations

from typing import Any

IGNORED = frozenset(
    {
        "metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "request_id",
        "safety_identifier", "service_tier", "store", "user",
    }
)  # fmt: skip
"""Fields that concern who asks and how it is billed, not what is answered."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (),
    "prompt_logprobs": (),
    "echo": (False,),
    "suffix": ("",),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "min_p": (0,),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
}
"""Fields that are not supported -> the values (beside null) that ask for nothing, and are taken."""
