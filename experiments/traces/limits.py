"""How large a file may be before it is refused, so that no file can fill the memory or the day."""

from __future__ import annotations

from typing import Final

MAX_TABLE_BYTES: Final = 4 * 2**30
"""Of CSV and JSON Lines, which are read line by line."""
MAX_DOCUMENT_BYTES: Final = 1 * 2**30
"""Of one JSON value, which is held in memory (ShareGPT's usual file has 672 MB)."""
MAX_LINE_BYTES: Final = 1 * 2**20
"""Of one line of a table."""
MAX_TOKENS: Final = 10_000_000
"""Prompt or output of one request."""
MAX_TEXT: Final = 4 * 2**20
"""Characters of one turn of a conversation."""
MAX_SECONDS: Final = 10 * 366 * 86_400.0
"""From the first arrival to the last."""
MAX_ID: Final = 256
"""Characters of a request id."""
