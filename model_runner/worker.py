"""The worker process: ``python -m model_runner worker SPEC``. Started by ``RunnerClient``, ends with its parent.

The last argument is a ``WorkerSpec`` in JSON. Exit codes: 0 ended as asked; 2 this start cannot succeed however often
it is tried (the last line of standard error says why); anything else is an accident.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from model_runner.commands import CommandHandler
from model_runner.config import DEFAULT_MODEL, TOY_MODEL
from model_runner.engine import Engine
from model_runner.engine_clock import EngineClock
from model_runner.errors import ModelNotFoundError, RunnerConfigError, RunnerError
from model_runner.lifeline import Lifeline
from model_runner.long_prompts import LongPrompts
from model_runner.messages import EXIT_CANNOT_START, EngineInfo, Hello, LoadProgress, WorkerSpec
from model_runner.outputs import Outputs
from model_runner.ports import EngineTokenizer, Runner
from model_runner.transport import EngineTransport, remove_socket_dir
from scheduler import custom
from scheduler.policy import with_known_values
from scheduler.scheduler import Scheduler

Progress = Callable[[str, float, str], None]


@dataclass(frozen=True, slots=True)
class Started:
    """An engine that is ready to run, and what gives its memory back."""

    engine: Engine
    close: Callable[[], None]


Start = Callable[[WorkerSpec, EngineTransport, Progress], Started]


def main(argv: Sequence[str]) -> int:
    """Run one worker until its parent ends it; the exit code."""
    return run(argv, start_engine)


def run(argv: Sequence[str], start: Start) -> int:
    """The life of a worker around an engine that ``start`` makes."""
    if len(argv) != 1:
        print("usage: python -m model_runner worker SPEC (a WorkerSpec in JSON)", file=sys.stderr)
        return EXIT_CANNOT_START
    try:
        spec = msgspec.json.decode(argv[0], type=WorkerSpec)
    except msgspec.MsgspecError as error:
        print(f"worker SPEC: {error}", file=sys.stderr)
        return EXIT_CANNOT_START
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    socket_dir = Path(spec.socket_dir)
    lifeline = Lifeline(socket_dir)
    lifeline.start()
    try:
        return _serve(spec, lifeline, start)
    except RunnerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_CANNOT_START
    finally:
        remove_socket_dir(socket_dir)


def _serve(spec: WorkerSpec, lifeline: Lifeline, start: Start) -> int:
    transport = EngineTransport(Path(spec.socket_dir))
    try:
        addresses = transport.addresses
        lifeline.hello(Hello(spec.run_id, os.getpid(), addresses.commands, addresses.snapshots))

        def progress(stage: str, fraction: float, message: str) -> None:
            lifeline.progress(LoadProgress(spec.run_id, stage, fraction, message[:500]))

        started = start(spec, transport, progress)
        try:
            lifeline.stop_with(started.engine.stop)
            started.engine.run()
        finally:
            started.close()
        return 0
    finally:
        transport.close()


def start_engine(spec: WorkerSpec, transport: EngineTransport, progress: Progress) -> Started:
    """Load the model and put scheduler and engine around it.

    The default model missing is no reason not to start: the toy model takes its place and says so.
    """
    custom.load_from_environment()
    progress("import", 0.0, "starting PyTorch")
    from model_runner.runner import ModelRunner  # seconds: the parent has been told by now where to listen

    note = ""
    try:
        runner = ModelRunner.load(spec.config, progress=progress, known=_known(spec, spec.config.model))
    except ModelNotFoundError as error:
        if spec.config.model != DEFAULT_MODEL:
            raise
        note = _toy_note(error)
        toy = replace(spec.config, model=TOY_MODEL)
        runner = ModelRunner.load(toy, progress=progress, known=_known(spec, TOY_MODEL))
    values = asdict(runner.info) | ({"model_note": note} if note else {})
    # By the types of the message: what a library calls a version may be more than a plain text.
    info = msgspec.convert(
        {"run_id": spec.run_id, "pid": os.getpid()}
        | {k: str(v) if isinstance(v, str) else v for k, v in values.items()},
        EngineInfo,
    )
    engine = build_engine(spec, runner, runner.tokenizer, info, transport)
    return Started(engine, runner.close)


def build_engine(
    spec: WorkerSpec, runner: Runner, tokenizer: EngineTokenizer, info: EngineInfo, transport: EngineTransport
) -> Engine:
    """Scheduler, texts, commands and loop around a runner, all on one engine clock.

    Raises RunnerConfigError when the policy to start with contradicts what the worker is started with.
    """
    clock = EngineClock()
    policy = with_known_values(spec.policy)
    try:
        scheduler = Scheduler(
            policy,
            num_blocks=info.num_blocks,
            block_size=info.block_size,
            max_model_len=info.max_model_len,
            vocab_size=tokenizer.vocab_size,
            eos_token_ids=tuple(tokenizer.eos_token_ids),
            clock=clock,
            num_host_blocks=info.num_host_blocks,
            snapshot_waiting_limit=spec.snapshot_waiting_limit,
        )
    except ValueError as error:
        raise RunnerConfigError(str(error)) from error
    outputs = Outputs(tokenizer.detokenizer)
    handler = CommandHandler(
        scheduler, tokenizer, outputs, max_model_len=info.max_model_len, seed=spec.config.seed, clock=clock
    )
    beside = LongPrompts(transport, tokenizer, info.max_model_len)
    engine = Engine(runner, scheduler, beside, handler=handler, outputs=outputs, info=info, clock=clock)
    if policy != spec.policy:
        scheduler.set_policy(spec.policy)  # refused, which names each unknown value in the first events
    return engine


def _known(spec: WorkerSpec, model: str) -> Mapping[tuple[str, int], float]:
    """Decode milliseconds by number type and threads, as far as they are known of this model."""
    return {(t.dtype, t.threads): t.decode_ms for t in spec.start_timings} if spec.timed_model == model else {}


def _toy_note(error: ModelNotFoundError) -> str:
    return f"{error}. Until then the toy model runs, and what it writes means nothing."
