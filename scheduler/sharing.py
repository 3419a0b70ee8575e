"""Prefix caching while requests move: what they find when they are let in, and what they offer as they go on."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.block_pool import KVBlockPool
from scheduler.metrics import Books
from scheduler.policy import SchedulerPolicy, offers_prefix_cache
from scheduler.proposals import Admit
from scheduler.sequence import Sequence


def begin_behind_hit(seq: Sequence, action: Admit, policy: SchedulerPolicy, pool: KVBlockPool, books: Books) -> None:
    """Count the cached prefix of a request that is let in as computed.

    Only first admissions are counted in the books: vLLM counts those of resumed requests apart.
    """
    seq.caching = offers_prefix_cache(policy)
    if not action.looked_up:
        return
    hit = len(action.cached_ids) * pool.block_size
    seq.num_registered = len(action.cached_ids)
    seq.num_computed_tokens = seq.num_cached_tokens = hit
    seq.total_cached_tokens += hit
    if not seq.num_preemptions:
        books.prefix_cache_queries += seq.num_tokens
        books.prefix_cache_hits += hit


def register_full_blocks(rows: Iterable[Sequence], pool: KVBlockPool) -> None:
    """Make the blocks that a step fills known, as soon as it is planned, in schedule order, as vLLM does."""
    size = pool.block_size
    for seq in rows:
        full = seq.num_computed_tokens // size
        if seq.caching and full > seq.num_registered:
            digests = seq.block_digests(size)
            for index in range(seq.num_registered, full):
                pool.cache.register(seq.block_table[index], digests[index])
            seq.num_registered = full


def drop_cache(running: Iterable[Sequence], pool: KVBlockPool) -> None:
    """Forget all prefixes: known blocks that are free become plain free ones, and nobody offers any more."""
    pool.cache.clear()
    for seq in running:
        seq.caching, seq.num_registered = False, 0
