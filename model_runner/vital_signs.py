"""Whether a worker whose process runs is alive: beats, and steps that come to an end."""

from __future__ import annotations

from model_runner.worker_process import WorkerProcess

SILENCE_S = 2.0
"""Without a beat for so long a live worker counts as dead. Beats come from a thread of its own, four a second."""
LOADING_SILENCE_S = 60.0
"""The same while it loads: libraries hold the interpreter for seconds there."""
HUNG_STEP_S = 120.0
"""A step that takes longer is given up with its worker."""
STOOD_STILL_S = 0.2
"""Longer between two looks, and this process itself stood still: others had no chance to be heard."""


class VitalSigns:
    """Looked at by one thread, many times a second. Times are seconds on the monotonic clock."""

    def __init__(self, now: float) -> None:
        self._looked_at = now
        self._grace_until = 0.0

    def look(self, now: float) -> None:
        """Note that this process runs; after a standstill nobody is declared dead for a while."""
        if now - self._looked_at > STOOD_STILL_S:
            self._grace_until = now + SILENCE_S
        self._looked_at = now

    def cause_of_death(self, worker: WorkerProcess, heard_at: float | None, now: float) -> str:
        """Why a worker counts as dead, "" while it does not. heard_at: its newest snapshot, None while it loads."""
        if now < self._grace_until:
            return ""
        silent_s = now - worker.last_beat
        if silent_s > (LOADING_SILENCE_S if heard_at is None else SILENCE_S):
            return f"the worker was silent for {silent_s:.1f} s"
        if heard_at is not None and now - heard_at > HUNG_STEP_S:
            return f"a step of the worker took longer than {HUNG_STEP_S:.0f} s"
        return ""
