"""The scheduler's own state of one request, and the read-only face the decisions see."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from scheduler.prefix_cache import block_digest
from scheduler.request import Request


class State(Enum):
    """Where a request is. Legal moves: WAITING/PREEMPTED -> RUNNING -> PREEMPTED, and any -> ENDED."""

    WAITING = "waiting"
    PREEMPTED = "preempted"
    RUNNING = "running"
    ENDED = "ended"


class SequenceView(Protocol):
    """What a decision may read of a request. Token counts are whole tokens, times seconds on the scheduler's clock.

    num_tokens: known tokens (prompt and output). num_computed_tokens: of these, the first so many are in the cache.
    allocation: the allocator it was let in with, which it keeps while it runs; "" while it waits.
    capacity: tokens its blocks can hold. max_total_tokens: KV slots it can ever need, prompt + max_tokens - 1, because
    the last sampled token is never computed. order_time: arrival, or the last eviction under requeue "back".
    rank: place in first-come order; an eviction to the front gets a rank below all others.
    num_passed: requests let in past it while it waits (head of line "skip").
    host_block_ids: blocks of the host pool that hold its computed tokens while it is swapped out, else ().
    caching: it was admitted with prefix caching, and its full blocks are offered to others.
    fruitless_evictions: evictions since its last token. idle_evictions: evictions in a row between which no request
    computed a token for the first time; useful_tokens_seen: tokens computed for the first time, by all, until the last.
    held: all tokens made, kept only until its static batch ends.
    """

    @property
    def request_id(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def arrival_time(self) -> float: ...
    @property
    def order_time(self) -> float: ...
    @property
    def rank(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_computed_tokens(self) -> int: ...
    @property
    def num_output_tokens(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def max_total_tokens(self) -> int: ...
    @property
    def num_preemptions(self) -> int: ...
    @property
    def num_passed(self) -> int: ...
    @property
    def fruitless_evictions(self) -> int: ...
    @property
    def idle_evictions(self) -> int: ...
    @property
    def allocation(self) -> str: ...
    @property
    def block_table(self) -> tuple[int, ...]: ...
    @property
    def capacity(self) -> int: ...
    @property
    def host_block_ids(self) -> tuple[int, ...]: ...
    @property
    def caching(self) -> bool: ...
    @property
    def held(self) -> bool: ...
    @property
    def static_length(self) -> int: ...
    @property
    def static_position(self) -> int: ...
    def block_digests(self, block_size: int) -> list[bytes]: ...


class Sequence:
    """One request while it lives. Written by ``Scheduler`` only; satisfies ``SequenceView``.

    high_water: tokens that were computed once already (before an eviction); computing below it is waste.
    context_end: prompt plus tokens of an earlier life; computing below it is prefill, above it decode.
    decoding: it has sampled since it was admitted, so its next step is one token never computed before.
    reserving: it may own blocks that hold none of its computed tokens: a run taken for tokens to come, or blocks of
        tokens whose result was lost.
    swapped_blocks: blocks moved to and from the host pool so far.
    num_registered: of its blocks, the first so many are known to the prefix cache (while ``caching``).
    num_cached_tokens, total_cached_tokens: found in the prefix cache when last admitted, and over all admissions.
    static_length, static_position: padded length of its static batch and how far the row is in it; 0 outside.
    queue_key: its place in the waiting queue, as the order said when it was put there.
    """

    __slots__ = (
        "_digests",
        "allocation",
        "arrival_time",
        "block_table",
        "caching",
        "capacity",
        "context_end",
        "decoding",
        "end_reason",
        "first_scheduled_time",
        "first_token_time",
        "fruitless_evictions",
        "held",
        "high_water",
        "host_block_ids",
        "idle_evictions",
        "last_token_time",
        "max_tokens",
        "max_total_tokens",
        "min_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_output_tokens",
        "num_passed",
        "num_preemptions",
        "num_prompt_tokens",
        "num_registered",
        "num_tokens",
        "order_time",
        "padding_tokens",
        "policy_version",
        "preempted_at",
        "preempted_s",
        "priority",
        "queue_key",
        "rank",
        "recompute_tokens",
        "request",
        "request_id",
        "reserving",
        "slot",
        "state",
        "static_length",
        "static_position",
        "stop_ids",
        "swapped_blocks",
        "token_ids",
        "total_cached_tokens",
        "useful_tokens_seen",
    )

    def __init__(
        self, request: Request, *, max_tokens: int, arrival_time: float, rank: int, stop_ids: frozenset[int]
    ) -> None:
        self.request = request
        self.request_id = request.request_id
        self.priority = request.priority
        self.arrival_time = arrival_time
        self.order_time = arrival_time
        self.rank = rank
        self.queue_key: Any = None
        self.token_ids: list[int] = [*request.prompt_token_ids, *request.prior_output_token_ids]
        self.num_prompt_tokens = len(request.prompt_token_ids)
        self.num_tokens = len(self.token_ids)
        self.num_output_tokens = len(request.prior_output_token_ids)
        self.context_end = self.num_tokens
        self.num_computed_tokens = 0
        self.high_water = 0
        self.max_tokens = max_tokens
        self.max_total_tokens = self.num_prompt_tokens + max_tokens - 1
        self.min_tokens = request.sampling.min_tokens
        self.stop_ids = stop_ids
        self.allocation = ""
        self.block_table: tuple[int, ...] = ()
        self.capacity = 0
        self.host_block_ids: tuple[int, ...] = ()
        self.swapped_blocks = 0
        self.caching = False
        self.num_registered = 0
        self.num_cached_tokens = 0
        self.total_cached_tokens = 0
        self._digests: list[bytes] = []
        self.slot = -1
        self.state = State.WAITING
        self.decoding = False
        self.reserving = False
        self.held = False
        self.end_reason = ""
        self.static_length = 0
        self.static_position = 0
        self.first_scheduled_time: float | None = None
        self.first_token_time: float | None = None
        self.last_token_time: float | None = None
        self.preempted_at: float | None = None
        self.preempted_s = 0.0
        self.num_preemptions = 0
        self.num_passed = 0
        self.fruitless_evictions = 0
        self.idle_evictions = 0
        self.useful_tokens_seen = -1
        self.recompute_tokens = 0
        self.padding_tokens = 0
        self.policy_version = 0

    def block_digests(self, block_size: int) -> list[bytes]:
        """The digests of all full blocks of known tokens, each chained to the one before; kept, not to be written."""
        digests = self._digests
        for start in range(len(digests) * block_size, self.num_tokens - block_size + 1, block_size):
            parent = digests[-1] if digests else b""
            digests.append(block_digest(parent, self.token_ids[start : start + block_size]))
        return digests
