"""vLLM V1's scheduling rules, told once more, plainly and without any of the product's code.

An independent truth for tests: one flat loop over dicts, written from the published rules, in the words of vLLM's own
loop. It is slow and knows nothing of events, snapshots or policies.

With prefix caching a block is known by all tokens up to its end, written out. In one thing it does not follow vLLM:
blocks of a request that is evicted in the very step that should have filled them are forgotten.
"""

from __future__ import annotations

import math
from typing import Any

SAMPLED = 0
"""Every sampled token, and every prompt token that is not given."""


def run(config: dict[str, Any], requests: list[dict[str, Any]], max_steps: int = 100_000) -> list[dict[str, Any]]:  # noqa: C901  one flat loop on purpose
    """Step lines in the form of ``replay``: see the traces for the meaning of each field."""
    block_size = config["block_size"]
    by_priority = config.get("policy", "fcfs") == "priority"
    watermark = int(config.get("watermark", 0.0) * (config["num_blocks"] + 1))
    whole = config.get("scheduler_reserve_full_isl", True)
    chunked = config.get("enable_chunked_prefill", True)
    max_len = config["max_model_len"]
    free = list(range(1, config["num_blocks"] + 1))  # front of the list = next to be handed out
    state = {
        r["id"]: {
            "id": r["id"], "known": r["prompt_len"], "done": 0, "left": r["output_len"], "blocks": [],
            "again": False, "prio": r.get("priority", 0), "at": r.get("arrival_step", 0),
            "tokens": list(r.get("prompt") or [SAMPLED] * r["prompt_len"]), "known_blocks": 0, "filled": [],
        }
        for r in requests
    }  # fmt: skip
    caching = config.get("enable_prefix_caching", False)
    users = [0] * (config["num_blocks"] + 1)
    content: dict[int, tuple[int, ...]] = {}  # block -> tokens up to its end, in the order in which they became known
    queries = hits = 0
    running: list[str] = []
    waiting: list[str] = []
    lines = []

    def blocks_of(tokens: int) -> int:
        return math.ceil(tokens / block_size)

    def take(name: str, tokens: int) -> bool:
        lacking = blocks_of(state[name]["done"] + tokens) - len(state[name]["blocks"])
        if lacking > len(free):
            return False
        for _ in range(lacking):
            block = free.pop(0)
            content.pop(block, None)
            users[block] = 1
            state[name]["blocks"].append(block)
        return True

    def fill(name: str, end: int) -> None:
        s = state[name]
        for index in range(s["known_blocks"], end // block_size if caching else 0):
            content[s["blocks"][index]] = tuple(s["tokens"][: (index + 1) * block_size])
            s["filled"].append(s["blocks"][index])
            s["known_blocks"] = index + 1

    def find(name: str) -> list[int]:
        s, found = state[name], []
        for index in range((s["known"] - 1) // block_size if caching else 0):
            wanted = tuple(s["tokens"][: (index + 1) * block_size])
            same = [block for block, tokens in content.items() if tokens == wanted]
            if not same:
                break
            found.append(same[0])
        return found

    def give_back(name: str) -> None:
        for block in state[name]["blocks"]:
            users[block] -= 1
            if not users[block] and block not in content:
                free.insert(0, block)  # head first to the front, so that the tail ends up foremost
        free.extend(b for b in reversed(state[name]["blocks"]) if not users[b] and b in content)
        state[name]["blocks"], state[name]["known_blocks"] = [], 0

    def enqueue(name: str, front: bool) -> None:
        waiting.insert(0, name) if front else waiting.append(name)
        if by_priority:
            waiting.sort(key=lambda n: (state[n]["prio"], state[n]["at"], n))

    for step in range(max_steps):
        if not any(s["left"] for s in state.values()):
            break
        for r in requests:
            if r.get("arrival_step", 0) == step:
                enqueue(r["id"], front=False)
        threshold = config.get("long_prefill_token_threshold", 0)
        if len(running) + len(waiting) <= 1:
            threshold = 0
        budget = config["max_num_batched_tokens"]
        plan: dict[str, int] = {}
        for s in state.values():
            s["filled"] = []
        new, resumed, out = [], [], []

        position = 0
        while position < len(running) and budget > 0:
            name = running[position]
            s = state[name]
            want = s["known"] - s["done"]
            if 0 < threshold < want:
                want = threshold
            want = min(want, budget, max_len - 1 - s["done"])
            if want == 0:
                position += 1
                continue
            got = take(name, want)
            while not got:
                loser = running[-1]
                if by_priority:
                    loser = max(running, key=lambda n: (state[n]["prio"], state[n]["at"]))  # of equals the first
                if loser in plan:
                    budget += plan.pop(loser)
                    position -= 1
                    for block in state[loser]["filled"]:
                        content.pop(block, None)
                running.remove(loser)
                give_back(loser)
                state[loser]["done"] = 0
                state[loser]["again"] = True
                out.append(loser)
                enqueue(loser, front=True)
                if loser == name:
                    break
                got = take(name, want)
            if not got:
                break
            plan[name] = want
            budget -= want
            position += 1
            fill(name, s["done"] + want)

        while waiting and budget > 0 and not out and len(running) < config["max_num_seqs"]:
            name = waiting[0]
            s = state[name]
            found = find(name)
            want = s["known"] - len(found) * block_size
            if 0 < threshold < want:
                want = threshold
            if want > budget and not chunked:
                break
            want = min(want, budget)
            headroom = watermark if running else 0
            shared = sum(users[block] > 0 for block in found)
            asked = blocks_of(s["known"] if whole else len(found) * block_size + want) - shared
            if asked + headroom > len(free):
                break
            for block in found:
                if not users[block]:
                    free.remove(block)
                users[block] += 1
            s["blocks"], s["done"], s["known_blocks"] = list(found), len(found) * block_size, len(found)
            take(name, want)
            fill(name, s["done"] + want)
            if not s["again"]:
                queries, hits = queries + s["known"], hits + s["done"]
            waiting.pop(0)
            running.append(name)
            plan[name] = want
            budget -= want
            (resumed if s["again"] else new).append(name)

        for name, count in plan.items():
            state[name]["done"] += count
        alive = running + waiting
        line = {
            "step": step,
            "num_scheduled_tokens": plan,
            "new": new,
            "resumed": resumed,
            "preempted": out,
            "running": list(running),
            "waiting": list(waiting),
            "block_ids": {n: list(state[n]["blocks"]) for n in running},
            "used_blocks": len({block for n in running for block in state[n]["blocks"]}),
            "computed": {n: state[n]["done"] for n in alive},
            "finished": [],
        }
        if caching:
            line |= {"prefix_cache_queries": queries, "prefix_cache_hits": hits}
        for name in plan:
            s = state[name]
            if s["done"] == s["known"]:
                s["known"] += 1
                s["tokens"].append(SAMPLED)
                s["left"] -= 1
                if s["left"] == 0:
                    running.remove(name)
                    give_back(name)
                    line["finished"].append(name)
        lines.append(line)
    return lines
