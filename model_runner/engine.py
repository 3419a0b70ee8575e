"""The engine loop: drain commands, schedule, execute, update, publish. One thread.

Invariants. Commands take effect between two steps and nowhere else. Every answer to a command names the first step it
has effect in. Whatever the loop waits for (a step command, the pace, work), a command wakes it. The engine's clock runs
exactly while the engine is not held. An exception of scheduler or runner ends stepping, not the process: the state is
shown and the requests stay in the client's journal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from model_runner.commands import CommandHandler
from model_runner.engine_clock import EngineClock
from model_runner.gate import Gate, StepGate
from model_runner.messages import (
    ENGINE_FAILED,
    SCHEMA_VERSION,
    Abort,
    Command,
    EngineInfo,
    EnginePhase,
    EngineSnapshot,
    Preempt,
    Reply,
    Resync,
    SetPolicy,
    Shutdown,
    Step,
    Submit,
)
from model_runner.outputs import Outputs
from model_runner.ports import EngineScheduler, Runner, Transport
from scheduler import StepResult, StepSnapshot, StepTimings

HEARTBEAT_S = 0.5

_log = logging.getLogger(__name__)


class Engine:
    """Runs one scheduler on one runner until it is told to stop.

    clock: also the scheduler's, so that no time a person held the engine counts as latency.
    monotonic, wall: seconds; arguments so that tests need no waiting.
    """

    def __init__(
        self,
        runner: Runner,
        scheduler: EngineScheduler,
        transport: Transport,
        *,
        handler: CommandHandler,
        outputs: Outputs,
        info: EngineInfo,
        clock: EngineClock,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._transport = transport
        self._handler = handler
        self._outputs = outputs
        self._info = info
        self._clock = clock
        self._monotonic = monotonic
        self._wall = wall
        self._seq = 0
        self._last = scheduler.peek()
        self._phase: EnginePhase = "idle"
        self._error = ""
        self._gate = StepGate(scheduler, monotonic)
        self._published_at = 0.0
        self._publish_s = 0.0
        self._stopping = False

    def stop(self) -> None:
        """End the loop after the step in flight. May be called from any thread."""
        self._stopping = True

    def run(self) -> None:
        """Loop until stopped."""
        self._publish_state("idle")
        while not self._stopping:
            self.turn()
        self._publish_state("stopping")

    def turn(self) -> None:
        """One round: commands, then a step if one may run, else a wait for whatever comes first."""
        started = self._monotonic()
        changed = self._drain()
        gate = Gate.HELD if self._error or self._stopping else self._gate.ask()
        phase = "failed" if self._error else self._gate.phase(gate)
        if gate is Gate.RUN:
            self._clock.release()
            if phase != self._phase:
                self._publish_state(phase)  # the step may take long, and its readers shall know that it is under way
            self._iterate(started)
            return
        if gate is Gate.IDLE:
            self._clock.release()
        else:
            self._clock.hold()
        now = self._monotonic()
        if changed or phase != self._phase or now - self._published_at >= HEARTBEAT_S:
            if now - self._published_at >= HEARTBEAT_S:
                self._gate.look_again()
            self._publish_state(phase)
        until = self._published_at + HEARTBEAT_S
        if gate is Gate.PACED:
            until = min(until, self._gate.paced_until)
        self._transport.wait(max(0.0, until - self._monotonic()))

    def _iterate(self, started: float) -> None:
        try:
            snapshot = self._step()
        except Exception as error:
            self._fail(error)
            return
        now = self._monotonic()
        if self._scheduler.policy.step_delay_ms > 0:
            self._clock.hold()
        ran = bool(snapshot.num_scheduled_tokens or snapshot.num_padding_tokens or snapshot.preempted)
        self._publish(snapshot, self._gate.phase(Gate.RUN), heartbeat=not ran, step_s=now - started)

    def _step(self) -> StepSnapshot:
        """Schedule, execute and update once; the snapshot carries all timings but its own publishing."""
        begin = self._monotonic()
        step = self._scheduler.schedule()
        scheduled = self._monotonic()
        if step.is_empty and not (step.finished or step.swapped_out or step.swapped_in):
            result = StepResult(step.step_id, {})
        else:
            result = self._runner.execute(step)
        executed = self._monotonic()
        snapshot = self._scheduler.update(result)
        self._gate.stepped(progressed=bool(not step.is_empty or step.preempted or step.finished))
        measured = result.timings
        if measured == StepTimings():  # a runner that takes no times of its own
            measured = StepTimings(execute_s=executed - scheduled)
        timings = replace(
            measured,
            schedule_s=scheduled - begin,
            update_s=self._monotonic() - executed,
            publish_s=self._publish_s,
        )
        return replace(snapshot, timings=timings)

    def _fail(self, error: Exception) -> None:
        """Stop stepping and say why. The scheduler is not asked again: its step is still in flight."""
        _log.exception("the step after %d failed", self._last.step_id)
        self._error = printable(f"runner error: {type(error).__name__}: {error}")
        self._last = replace(self._last, num_scheduled_tokens={}, num_padding_tokens={}, kinds={})
        self._publish_state("failed")

    def _publish_state(self, phase: EnginePhase) -> None:
        """A snapshot of the state between steps."""
        if self._error:
            self._last = replace(
                self._last,
                new_tokens={},
                events=(),
                records=(),
                preempted=(),
                resumed=(),
                new=(),
                finished=(),
                swapped_out=(),
                swapped_in=(),
                resumes=(),
            )
            snapshot = self._last
        else:
            snapshot = self._scheduler.peek()
        self._publish(snapshot, phase, heartbeat=True, step_s=0.0)

    def _publish(self, step: StepSnapshot, phase: EnginePhase, *, heartbeat: bool, step_s: float) -> None:
        begin = self._monotonic()
        self._seq += 1
        self._phase = phase
        self._last = step
        self._transport.publish(
            EngineSnapshot(
                schema=SCHEMA_VERSION,
                seq=self._seq,
                run_id=self._info.run_id,
                phase=phase,
                heartbeat=heartbeat,
                wall_time=self._wall(),
                monotonic_time=begin,
                engine_time=self._clock(),
                step_s=step_s,
                step=step,
                text_deltas=self._outputs.deliver(step.new_tokens, step.records, self._seq),
                info=self._info,
                error=self._error,
            )
        )
        self._published_at = self._monotonic()
        self._publish_s = self._published_at - begin

    def _drain(self) -> bool:
        """Answer every command that is there; True when one of them changed something worth showing."""
        changed = False
        for incoming in self._transport.receive():
            if incoming.command is None:
                _log.warning("refused a message on the command socket: %s", incoming.problem)
                reply = Reply(incoming.command_id, False, self._next_step_id, (incoming.problem,))
                self._transport.reply(incoming.sender, reply)
                continue
            changed = self._answer(incoming.sender, incoming.command, changed) or changed
        if changed:
            self._gate.look_again()
        return changed

    @property
    def _next_step_id(self) -> int:
        return self._last.step_id + 1

    def _answer(self, sender: bytes, command: Command, changed: bool) -> bool:
        step_id = self._next_step_id
        if isinstance(command, Resync):
            if changed:
                self._publish_state(self._phase)  # so that the states below are those of the newest snapshot
            version = self._scheduler.policy.version
            states = self._outputs.states(command.after_seq)
            reply = Reply(command.command_id, True, step_id, version=version, states=states)
            self._transport.reply(sender, reply, self._transport.missed(command.after_seq))
            return False
        try:
            reply = self._apply(command, step_id)
        except Exception as error:
            # One command that nobody foresaw must not take the requests of all others with it.
            _log.exception("command %d failed", command.command_id)
            reason = printable(f"engine error: {type(error).__name__}: {error}")
            reply = Reply(command.command_id, False, step_id, (reason,), self._scheduler.policy.version)
        self._transport.reply(sender, reply)
        return reply.ok

    def _apply(self, command: Submit | Abort | Preempt | SetPolicy | Step | Shutdown, step_id: int) -> Reply:
        version = self._scheduler.policy.version
        if isinstance(command, Shutdown):
            self._stopping = True
            return Reply(command.command_id, True, step_id, version=version)
        if self._error:
            reason = f"the engine has stopped: {self._error}"
            return Reply(command.command_id, False, step_id, (reason,), version, ENGINE_FAILED)
        if isinstance(command, Submit):
            return self._handler.submit(command, step_id)
        if isinstance(command, Abort):
            return self._handler.abort(command, step_id)
        if isinstance(command, Preempt):
            return self._handler.preempt(command, step_id)
        if isinstance(command, SetPolicy):
            return self._handler.set_policy(command, step_id)
        reason = self._gate.grant(command)
        return Reply(command.command_id, not reason, step_id, (reason,) if reason else (), version)


def printable(text: str, limit: int = 2000) -> str:
    """An error's text, safe to send: of bounded length and without halves of surrogate pairs."""
    return text[:limit].encode("utf-8", "replace").decode()
