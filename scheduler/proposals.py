"""What the decisions propose: block movements to be carried out, and why those who get nothing wait."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.sequence import SequenceView


@dataclass(frozen=True, slots=True)
class Grow:
    """Give a running request ``num_blocks`` more blocks: ``block_ids``, or the pool's next where there are none."""

    request_id: str
    num_blocks: int
    block_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Take all blocks of a running request and put it back in the queue, to make room for ``for_request_id``.

    for_request_id: "" = for nobody, it was asked for. reason: why it had to go, "" = the policy's victim rule chose it.
    mode: "recompute", or "swap", which copies the first ``moved_blocks`` blocks to the host pool.
    host_free_blocks: what was free there when a swap became a recompute for want of room, else None.
    """

    request_id: str
    for_request_id: str
    freed_blocks: int
    recompute_tokens: int
    reason: str = ""
    mode: str = "recompute"
    moved_blocks: int = 0
    host_free_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class Admit:
    """Let a waiting request in, with ``num_blocks`` blocks: ``block_ids``, or the pool's next where there are none.

    cached_ids: the first of these blocks, found in the prefix cache; looked_up: it was asked.
    """

    request_id: str
    num_blocks: int
    static_length: int = 0
    block_ids: tuple[int, ...] = ()
    cached_ids: tuple[int, ...] = ()
    looked_up: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """End a held row of a static batch before the batch ends, because a row that still works needs its blocks."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A running request that found no blocks for its next ``num_tokens`` tokens and waits (preemption "never")."""

    seq: SequenceView
    num_tokens: int
    needed_blocks: int
    free_blocks: int


Action = Grow | Evict | Admit | Release


@dataclass(frozen=True, slots=True)
class Deferral:
    """Why the walk over the queue ended. Block counts are whole blocks.

    request_id: the request it ended at, the head. whole_queue: the reason holds for everybody who waits; otherwise
    those behind wait for the head (``head_of_line``). longest_run: most free blocks in a row, where that is what is
    short (``allocator_fragmented``). fits_paged: ids that would be let in were all blocks given out page by page.
    others: the reasons of further requests that were looked at and did not fit (head of line "skip"); rest: (reason,
    blocked_by) of those the walk did not reach, None = the usual.
    """

    reason: str
    request_id: str
    needed_blocks: int = 0
    free_blocks: int = 0
    watermark_blocks: int = 0
    budget_left: int = 0
    blocked_by: str = ""
    longest_run: int = 0
    fits_paged: tuple[str, ...] = ()
    whole_queue: bool = True
    others: tuple[Deferral, ...] = ()
    rest: tuple[str, str] | None = None

    @property
    def behind(self) -> tuple[str, str]:
        """(reason, blocked_by) of those behind the head."""
        if self.rest is not None:
            return self.rest
        return (self.reason, self.blocked_by) if self.whole_queue else ("head_of_line", self.request_id)
