"""Whether an engine that is alive also gets on: the difference between idle, held and stalled."""

from __future__ import annotations

from model_runner.messages import EngineSnapshot
from model_runner.views import ClientPhase
from scheduler import StepSnapshot

STALL_S = 2.0
"""Engine time with work and without a computed token, or seconds without a snapshot though no step is under way, after
which it is stalled; seconds after which a step is called long."""


class StallWatch:
    """Follows the snapshots of one run. Times of ``now`` are the reader's monotonic clock in seconds."""

    def __init__(self) -> None:
        self._computed = -1
        self._progress_at = 0.0
        self._heard_at: float | None = None
        self._snapshot: EngineSnapshot | None = None

    def observe(self, snapshot: EngineSnapshot, now: float) -> None:
        """Take the next snapshot."""
        totals = snapshot.step.totals
        computed = (
            totals.prefill_tokens
            + totals.decode_tokens
            + totals.recompute_tokens
            + totals.padding_tokens
            + totals.finished
            + totals.aborted
        )
        has_work = snapshot.step.num_waiting > 0 or len(snapshot.step.running) > 0
        if computed != self._computed or not has_work:
            self._computed = computed
            self._progress_at = snapshot.engine_time
        self._heard_at = now
        self._snapshot = snapshot

    def verdict(self, now: float) -> str:
        """Why the engine counts as stalled, "" when it does not. A held engine is never stalled."""
        snapshot = self._snapshot
        if snapshot is None or self._heard_at is None:
            return ""
        silent_s = now - self._heard_at
        if silent_s > STALL_S and snapshot.phase != "running":
            return f"no snapshot for {silent_s:.1f} s, the last is of iteration {snapshot.step.step_id:,}"
        if snapshot.phase in ("paused", "failed", "loading", "stopping"):
            return ""
        stuck_s = snapshot.engine_time - self._progress_at
        if stuck_s <= STALL_S:
            return ""
        return f"no token computed for {stuck_s:.1f} s. {pool_equation(snapshot.step)}"

    def long_step(self, now: float) -> str:
        """What to say of a step that takes long, "" when none does.

        An engine that runs says so before its first step and after each, so what follows its silence is a step; that
        its process lives is known from the beats.
        """
        if self._snapshot is None or self._heard_at is None or self._snapshot.phase != "running":
            return ""
        silent_s = now - self._heard_at
        if silent_s <= STALL_S:
            return ""
        return f"the iteration after {self._snapshot.step.step_id:,} has been computed for {silent_s:.1f} s"


def live_phase(latest: EngineSnapshot, stalled: str, long_step: str, restarting: str) -> tuple[ClientPhase, str]:
    """Phase and message of an engine that is live.

    stalled: the watch's verdict. long_step: what it says of a long step. restarting: message of a restart.
    """
    if latest.phase == "failed":
        return "failed", latest.error
    if long_step:
        return "computing", long_step
    if stalled and latest.step.policy.admission_paused and not len(latest.step.running):
        return "paused", f"the policy admits nobody (admission_paused). {stalled}"
    if stalled:
        return "stalled", stalled
    if latest.phase in ("running", "idle", "paused"):
        return latest.phase, ""
    return "restarting", restarting


def pool_equation(step: StepSnapshot) -> str:
    """The pool and the head of the queue in one line, so that a reader sees why nothing moves."""
    text = (
        f"KV blocks: {step.num_used_blocks} used + {step.num_free_blocks} free = {step.num_blocks}, "
        f"limit {step.block_limit}; {len(step.running)} running, {step.num_waiting} waiting"
    )
    if len(step.waiting):
        head = step.waiting[0]
        text += (
            f"; {head.request_id} is first and needs {head.needed_blocks} blocks, "
            f"{head.free_blocks} are usable ({head.reason or 'not looked at yet'})"
        )
    return text + "."
