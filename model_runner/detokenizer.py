"""Tokens to text, one token at a time, without ever showing half a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable


class IncrementalDetokenizer:
    """Holds the bytes of an unfinished character back until the tokens that complete it arrive.

    The joined results of ``add`` and ``flush`` equal decoding all tokens at once. Bytes that can never become a
    character (a model may produce them) appear as U+FFFD, as in any decoder; an unfinished one appears so only in
    ``flush``.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token_ids: Iterable[int]) -> str:
        """Text that became certain with these tokens; may be empty."""
        return self._decoder.decode(b"".join(map(self._token_bytes, token_ids)))

    def flush(self) -> str:
        """What is still held back, at the end of a request."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
