"""vLLM V1's scheduling rules, told once more, plainly and without any of the product's code.

An independent truth for tests: one flat loop over dicts, written from the published rules, in the words of vLLM's own
loop. It is slow and knows nothing of events, snapshots or policies. Prefix caching is off, as in the traces.
"""

from __future__ import annotations

import math
from typing import Any


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
        }
        for r in requests
    }  # fmt: skip
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
            state[name]["blocks"].append(free.pop(0))
        return True

    def give_back(name: str) -> None:
        for block in state[name]["blocks"]:
            free.insert(0, block)  # head first to the front, so that the tail ends up foremost
        state[name]["blocks"] = []

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

        while waiting and budget > 0 and not out and len(running) < config["max_num_seqs"]:
            name = waiting[0]
            s = state[name]
            want = s["known"]
            if 0 < threshold < want:
                want = threshold
            if want > budget and not chunked:
                break
            want = min(want, budget)
            headroom = watermark if running else 0
            asked = blocks_of(s["known"] if whole else want)
            if asked + headroom > len(free):
                break
            take(name, want)
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
            "used_blocks": sum(len(state[n]["blocks"]) for n in running),
            "computed": {n: state[n]["done"] for n in alive},
            "finished": [],
        }
        for name in plan:
            s = state[name]
            if s["done"] == s["known"]:
                s["known"] += 1
                s["left"] -= 1
                if s["left"] == 0:
                    running.remove(name)
                    give_back(name)
                    line["finished"].append(name)
        lines.append(line)
    return lines
