"""What the scheduler and the client say of things they refuse, in the reader's language.

Patterns of their sentences to plain words; a sentence that no pattern knows is shown as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dashboard.i18n import N_, Translate

REFUSALS: Final = (
    (
        r"prompt_token_ids has (?P<n>\d+) tokens, at most (?P<max>\d+) leave room .*",
        N_("the prompt has {n} tokens; at most {max} fit"),
    ),
    (r"prompt_token_ids is empty, .*", N_("the prompt is empty; at least one token is needed")),
    (
        r"prompt_token_ids has (?P<n>\d+) tokens and max_tokens is (?P<max>\d+): that is up to (?P<needed>\d+) KV "
        r"blocks of \d+ tokens, the pool has (?P<blocks>\d+)",
        N_("{n} prompt tokens and max_tokens {max} may need {needed} KV blocks; the pool has {blocks}"),
    ),
    (
        r"enable_chunked_prefill is False and max_num_batched_tokens is (?P<budget>\d+): a request of up to "
        r"(?P<longest>\d+) tokens .*",
        N_(
            "enable_chunked_prefill is off and max_num_batched_tokens is {budget}: a request of {longest} tokens could "
            "never be computed in one iteration; allow chunks or raise the budget to {longest}"
        ),
    ),
    (
        r"the engine has not answered within (?P<s>\S+) s; .*",
        N_("the engine has not answered within {s} s; what it does next shows on the page"),
    ),
    (r"the client is closed", N_("the page is being shut down")),
    (r"(?P<field>\w+) is (?P<value>.+), expected (?P<wanted>.+)", N_("{field} is {value}; {wanted} is needed")),
)  # fmt: skip
"""(pattern, plain words), the first that matches."""

WANTED: Final = (
    (r"(?P<wanted>.+) or None", N_("{wanted} or none")),
    (r"one of (?P<values>.+)", N_("one of {values}")),
    (r"a whole number of at least (?P<low>\S+)", N_("a whole number of at least {low}")),
    (r"a whole number from (?P<low>\S+) to (?P<high>\S+)", N_("a whole number from {low} to {high}")),
    (r"a number of at least (?P<low>\S+)", N_("a number of at least {low}")),
    (r"a number from (?P<low>\S+) to below (?P<high>\S+)", N_("a number from {low} to below {high}")),
    (r"a number from (?P<low>\S+) to (?P<high>\S+)", N_("a number from {low} to {high}")),
    (r"True or False", N_("on or off")),
)
"""What would be right, likewise."""


def _told(text: str, patterns: Iterable[tuple[str, str]], t: Translate) -> str:
    for pattern, words in patterns:
        match = re.fullmatch(pattern, text)
        if match:
            values = {k: f"{int(v):,}" if v.isdecimal() else v for k, v in match.groupdict().items()}
            if "wanted" in values:
                values["wanted"] = _told(values["wanted"], WANTED, t)
            return t(words, **values)
    return text


def refusal_words(reason: str, t: Translate) -> str:
    """Why something was refused, for a reader who did not write the scheduler; not escaped."""
    return _told(reason, REFUSALS, t)


def refusals_words(reasons: Iterable[str], t: Translate) -> str:
    """Several of them in one line."""
    return "; ".join(refusal_words(reason, t) for reason in reasons)
