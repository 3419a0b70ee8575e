"""``python -m scheduler replay``: what a policy decides on a workload file, one JSON object a step."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from scheduler.policy import SchedulerPolicy, limit_problems, problems
from scheduler.presets import PRESETS
from scheduler.simulate import Planned, Simulation
from scheduler.snapshot import StepSnapshot
from scheduler.workload import POOL_FIELDS, Workload, WorkloadError

NOT_DECISIONS: Final = ("step_delay_ms", "paused", "single_step", "version")
"""Policy fields that change no decision, and are not to be set for a replay."""

VLLM_ORDERS: Final = {"fcfs": ("fcfs", "newest"), "priority": ("priority", "lowest_priority")}
"""vLLM's ``policy`` -> admission order and victim, which go together there."""


def policy_of(preset: str, config: Mapping[str, Any], settings: Mapping[str, Any]) -> SchedulerPolicy:
    """The preset, then the file's config, then the flags. Raises WorkloadError naming the field at fault."""
    if preset not in PRESETS:
        raise WorkloadError(f"policy is {preset!r:.80}, expected one of {', '.join(PRESETS)}")
    changes: dict[str, Any] = {}
    for origin, values in (("config", config), ("--set", settings)):
        for name, value in values.items():
            if name not in POOL_FIELDS:
                changes.update(_translate(origin, name, value))
    policy = replace(PRESETS[preset], **changes)
    wrong = problems(policy)
    if wrong:
        raise WorkloadError("; ".join(wrong))
    return policy


def _translate(origin: str, name: str, value: Any) -> dict[str, Any]:
    """A field of the file or of a flag, as policy fields. vLLM's names are understood in both places."""
    if name == "policy":
        if not isinstance(value, str) or value not in VLLM_ORDERS:
            raise WorkloadError(f"{origin}: policy is {value!r:.80}, expected one of {', '.join(VLLM_ORDERS)}")
        order, victim = VLLM_ORDERS[value]
        return {"admission_order": order, "preemption_victim": victim}
    if name == "watermark":
        return {"kv_watermark": value}
    if name == "scheduler_reserve_full_isl":
        if not isinstance(value, bool):
            raise WorkloadError(f"{origin}: {name} is {value!r:.80}, expected true or false")
        return {"admission_rule": "full_sequence" if value else "next_chunk"}
    known = [item.name for item in fields(SchedulerPolicy) if item.name not in NOT_DECISIONS]
    if name not in known:
        names = ", ".join([*known, "policy", "watermark", "scheduler_reserve_full_isl", *POOL_FIELDS])
        raise WorkloadError(f"{origin}: {name[:80]!r} is not a known field; known are {names}")
    return {name: value}


def setting(text: str) -> tuple[str, Any]:
    """``field=value`` of a flag; the value is read as JSON where it is JSON, else as text. Raises WorkloadError."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise WorkloadError(f"--set is {text!r:.80}, expected field=value")
    words = {"True": True, "False": False, "None": None}
    if value in words:
        return name, words[value]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def pool_of(config: Mapping[str, Any], flags: Mapping[str, int | None]) -> dict[str, int]:
    """Pool sizes: a flag if given, else the file's config. Raises WorkloadError for one that is missing or illegal."""
    sizes: dict[str, int] = {}
    for name in POOL_FIELDS:
        flag = flags.get(name)
        value = config.get(name) if flag is None else flag
        least = 2 if name == "max_model_len" else 1
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 100_000_000:
            option = "--" + name.replace("_", "-")
            raise WorkloadError(
                f"{name} is {value!r:.80}, expected a whole number of at least {least} ({option} sets it)"
            )
        sizes[name] = value
    return sizes


def replay(workload: Workload, policy: SchedulerPolicy, sizes: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """One object a step: counts in schedule order; queues, computed tokens and blocks as they are after planning.

    ``memory`` (token slots, as in ``MemoryUse``) is there unless blocks are given out page by page, the counters of the
    prefix cache so far where it is on. ``finished`` are those that end in the step's update. Limits that contradict
    each other are named on stderr and replayed all the same, as vLLM's scheduler would. Raises
    ``simulate.StalledError`` when the rest can never run.
    """
    for warning in limit_problems(policy, sizes["max_model_len"]):
        print(f"warning: {warning}", file=sys.stderr)
    simulation = Simulation(
        policy,
        workload.requests,
        num_blocks=sizes["num_blocks"],
        block_size=sizes["block_size"],
        max_model_len=sizes["max_model_len"],
        refuse_conflicts=False,
    )
    for index, (planned, snapshot) in enumerate(simulation.run()):
        for event in snapshot.events:
            if event.kind == "rejected":
                print(f"step {index}: {event.request_id} rejected: {event.reason}", file=sys.stderr)
            elif event.kind == "policy_refused":
                print(f"step {index}: {event.reason}", file=sys.stderr)
        yield _line(index, planned, snapshot)


def _line(index: int, planned: Planned, snapshot: StepSnapshot) -> dict[str, Any]:
    step = planned.step
    line: dict[str, Any] = {
        "step": index,
        "num_scheduled_tokens": step.num_scheduled_tokens,
        "new": step.new,
        "resumed": step.resumed,
        "preempted": step.preempted,
        "running": planned.running,
        "waiting": planned.waiting,
        "finished": snapshot.finished,
        "block_ids": planned.block_ids,
        "used_blocks": planned.used_blocks,
        "computed": planned.computed,
    }
    if step.num_padding_tokens:
        line["num_padding_tokens"] = step.num_padding_tokens
    if snapshot.policy.allocation != "paged":
        memory = planned.memory
        line["memory"] = {name: getattr(memory, name) for name in ("filled", "reserved", "internal", "external")}
    if snapshot.policy.enable_prefix_caching:
        line["prefix_cache_queries"] = snapshot.totals.prefix_cache_queries
        line["prefix_cache_hits"] = snapshot.totals.prefix_cache_hits
    return line


def write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> int:
    """Write JSON lines as they come, so that what was decided before an error is kept; returns how many.

    Raises OSError when the file cannot be written.
    """
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count
