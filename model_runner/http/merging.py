"""Several streams of one answer as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")
_Waiting: TypeAlias = asyncio.Queue[tuple[int, T] | int | Exception]
"""Of a source: an item of it, or its number when it has ended, or its error."""


async def merged(sources: Sequence[AsyncIterator[T]]) -> AsyncIterator[tuple[int, T]]:
    """What the sources bring, as it comes, each with the number of its source; ends with the last of them.

    An error of one ends all. A reader that is slow holds the sources up: at most one item of each waits here.
    """
    if len(sources) == 1:
        async for alone in sources[0]:
            yield 0, alone
        return
    waiting: _Waiting[T] = asyncio.Queue(len(sources))
    tasks = [asyncio.create_task(_forward(number, source, waiting)) for number, source in enumerate(sources)]
    left = len(tasks)
    try:
        while left:
            item = await waiting.get()
            if isinstance(item, Exception):
                raise item
            if isinstance(item, int):
                left -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(number: int, source: AsyncIterator[T], waiting: _Waiting[T]) -> None:
    try:
        async for item in source:
            await waiting.put((number, item))
    except Exception as error:
        await waiting.put(error)
    else:
        await waiting.put(number)
