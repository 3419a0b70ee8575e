"""Stand-ins for what the engine loop touches: time, the wire and the device. The scheduler is always the real one."""

from __future__ import annotations

from collections import deque

import msgspec

from model_runner.commands import CommandHandler
from model_runner.engine import Engine
from model_runner.engine_clock import EngineClock
from model_runner.messages import Command, EngineInfo, EngineSnapshot, Reply
from model_runner.outputs import Outputs
from model_runner.tokenizer import ByteTokenizer
from model_runner.transport import Incoming, SnapshotRing
from scheduler import SchedulerPolicy, ScheduleStep, StepResult
from scheduler.scheduler import Scheduler


def next_letter(tokens_before: int, last_token: int) -> int:
    """The fake model: each token follows from the position and the token before it, always a letter."""
    return ord("a") + (last_token * 7 + tokens_before * 3) % 26


class FakeRunner:
    """Samples ``next_letter`` for each row that samples. error: raised at the step with number ``error_at``."""

    def __init__(self, now=None, step_s=0.01, error_at=-1, error=None):
        self.now, self.step_s, self.error_at, self.error = now, step_s, error_at, error
        self.steps: list[ScheduleStep] = []
        self.count = 0

    def execute(self, step: ScheduleStep) -> StepResult:
        self.steps.append(step)
        self.count += 1
        if self.now is not None:
            self.now.advance(self.step_s)
        if self.count == self.error_at:
            raise self.error
        sampled = {
            name: next_letter(step.positions_start[name] + len(step.token_ids[name]), step.token_ids[name][-1])
            for name in step.sampling_ids
        }
        return StepResult(step.step_id, sampled)


class VirtualTime:
    """A monotonic clock that only moves when told to."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class FakeTransport:
    """Commands from a script, snapshots into a list; a wait lets virtual time pass. script: (at_seconds, command)."""

    def __init__(self, now: VirtualTime):
        self.now = now
        self.inbox: deque[Incoming] = deque()
        self.script: list[tuple[float, Command]] = []
        self.published: list[EngineSnapshot] = []
        self.replies: list[Reply] = []
        self.missed_replies: list[tuple[EngineSnapshot, ...]] = []
        self.waits: list[float] = []
        self.ring = SnapshotRing()

    def send(self, command: Command) -> None:
        self.inbox.append(Incoming(b"reader", command))

    def at(self, seconds: float, command: Command) -> None:
        self.script.append((seconds, command))
        self.script.sort(key=lambda item: item[0])

    def wait(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        until = self.now.seconds + timeout_s
        if self.script and self.script[0][0] <= until:
            until, command = self.script.pop(0)
            self.send(command)
        self.now.seconds = max(self.now.seconds, until)
        return bool(self.inbox)

    def receive(self) -> list[Incoming]:
        items = list(self.inbox)
        self.inbox.clear()
        return items

    def reply(self, sender: bytes, reply: Reply, snapshots: tuple[bytes, ...] = ()) -> None:
        self.replies.append(reply)
        self.missed_replies.append(tuple(msgspec.msgpack.decode(s, type=EngineSnapshot) for s in snapshots))

    def publish(self, snapshot: EngineSnapshot) -> None:
        self.published.append(snapshot)
        self.ring.append(snapshot.seq, msgspec.msgpack.encode(snapshot))

    def missed(self, after_seq: int) -> tuple[bytes, ...]:
        return self.ring.after(after_seq)


def engine_info(run_id="run", num_blocks=64, block_size=4, max_model_len=200, num_host_blocks=16) -> EngineInfo:
    return EngineInfo(
        run_id=run_id,
        pid=1,
        model="fake",
        model_note="",
        num_parameters=0,
        device="none",
        dtype="none",
        threads=1,
        block_size=block_size,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        kv_bytes_per_token=0,
        weight_bytes=0,
        torch_version="",
        is_toy=True,
        num_host_blocks=num_host_blocks,
    )


class Bench:
    """An engine on virtual time, ready to take turns."""

    def __init__(self, policy=None, runner=None, **pool):
        self.now = VirtualTime()
        self.transport = FakeTransport(self.now)
        self.runner = runner or FakeRunner(self.now)
        self.runner.now = self.now
        info = engine_info(**pool)
        self.clock = EngineClock(self.now)
        tokenizer = ByteTokenizer()
        self.scheduler = Scheduler(
            policy or SchedulerPolicy(),
            num_blocks=info.num_blocks,
            block_size=info.block_size,
            max_model_len=info.max_model_len,
            eos_token_ids=tokenizer.eos_token_ids,
            clock=self.clock,
            num_host_blocks=info.num_host_blocks,
            snapshot_waiting_limit=64,
        )
        outputs = Outputs(tokenizer.detokenizer)
        handler = CommandHandler(
            self.scheduler, tokenizer, outputs, max_model_len=info.max_model_len, seed=0, clock=self.clock
        )
        self.engine = Engine(
            self.runner,
            self.scheduler,
            self.transport,
            handler=handler,
            outputs=outputs,
            info=info,
            clock=self.clock,
            monotonic=self.now,
            wall=self.now,
        )

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.engine.turn()

    def run_for(self, seconds: float, limit: int = 10_000) -> None:
        until = self.now.seconds + seconds
        for _ in range(limit):
            if self.now.seconds >= until:
                return
            self.engine.turn()
        raise AssertionError(f"the engine took {limit} turns in {seconds} s: it spins")

    @property
    def published(self) -> list[EngineSnapshot]:
        return self.transport.published

    @property
    def reply(self) -> Reply:
        return self.transport.replies[-1]

    @property
    def tokens(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for snapshot in self.published:
            for name, token in snapshot.step.new_tokens.items():
                found.setdefault(name, []).append(token)
        return found

    @property
    def texts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for snapshot in self.published:
            for name, text in snapshot.text_deltas.items():
                found[name] = found.get(name, "") + text
        return found
