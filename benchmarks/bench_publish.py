"""What watching costs: publishing as a share of a step, and the runner's speed with 0, 1, 3 and 25 readers.

    python benchmarks/bench_publish.py [--model smollm2|toy] [--running 8 32] [--readers 0 1 3 25] [--steps 60]

The engine is the real one, in this process; the readers share another process, and each decodes every snapshot. Rounds
are interleaved, so that a noisy machine disturbs all numbers of readers alike. Wall time suffers from readers that take
a core; CPU time of the engine's process does not. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model_runner.config import RunnerConfig
from model_runner.link import ReaderLink
from model_runner.messages import EngineSnapshot, Submit, WorkerSpec
from model_runner.transport import EngineTransport, make_socket_dir, remove_socket_dir
from model_runner.worker import start_engine
from scheduler import SamplingParams, SchedulerPolicy

PROMPT_TOKENS = 64


class Recorder(EngineTransport):
    """Keeps the snapshots it publishes, and their sizes."""

    def __init__(self, socket_dir: Path) -> None:
        super().__init__(socket_dir)
        self.published: list[EngineSnapshot] = []

    def publish(self, snapshot: EngineSnapshot) -> None:
        super().publish(snapshot)
        self.published.append(snapshot)


def read_all(commands: str, snapshots: str, count: int, ready: Event, stop: Event) -> None:
    links = [ReaderLink(commands, snapshots) for _ in range(count)]
    ready.set()
    while not stop.is_set():
        links[0].sub.poll(20)
        for link in links:
            link.snapshots()
    for link in links:
        link.close()


def measure(transport: Recorder, engine, readers: int, steps: int) -> dict[str, float]:
    spawn = multiprocessing.get_context("spawn")
    ready, stop = spawn.Event(), spawn.Event()
    addresses = transport.addresses
    process = spawn.Process(target=read_all, args=(addresses.commands, addresses.snapshots, readers, ready, stop))
    if readers:
        process.start()
        ready.wait(30)
        time.sleep(0.3)
    transport.published.clear()
    cpu, wall = time.process_time(), time.perf_counter()
    while sum(not snapshot.heartbeat for snapshot in transport.published) < steps:
        engine.turn()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if readers:
        stop.set()
        process.join()
    ran = [s for s in transport.published if not s.heartbeat]
    publish = [s.step.timings.publish_s for s in ran[1:]]
    return {
        "cpu_ms_per_step": 1000 * cpu / len(ran),
        "wall_ms_per_step": 1000 * wall / len(ran),
        "publish_us_median": 1e6 * statistics.median(publish),
        "publish_share_percent": 100 * statistics.median(publish) / statistics.median(s.step_s for s in ran),
    }


def bench(model: str, running: int, reader_counts: list[int], steps: int, rounds: int) -> dict[str, object]:
    total = steps * (rounds * len(reader_counts) + 1)
    blocks = running * ((PROMPT_TOKENS + total) // 16 + 2)
    config = RunnerConfig(model=model, threads=1, num_blocks=blocks)
    policy = SchedulerPolicy(max_num_seqs=running, max_num_batched_tokens=max(128, running))
    folder = make_socket_dir()
    transport = Recorder(folder)
    started = start_engine(WorkerSpec("bench", str(folder), config, policy), transport, lambda *_: None)
    link = ReaderLink(transport.addresses.commands, transport.addresses.snapshots)
    sampling = SamplingParams(max_tokens=total + 50, ignore_eos=True)
    for number in range(running):
        prompt = tuple(range(10, 10 + PROMPT_TOKENS))
        link.send(Submit(number + 1, f"r{number}", sampling, prompt_token_ids=prompt))
    while not transport.published or len(transport.published[-1].step.running) < running:
        started.engine.turn()
    link.sub.close(linger=0)
    measure(transport, started.engine, 0, steps)
    rows: dict[int, list[dict[str, float]]] = {count: [] for count in reader_counts}
    for number in range(rounds):
        # There and back: contexts grow all the while, and no number of readers shall always come last.
        for count in reader_counts[:: 1 if number % 2 == 0 else -1]:
            rows[count].append(measure(transport, started.engine, count, steps))
    size = len(transport.missed(transport.published[-1].seq - 1)[0])
    started.close()
    link.dealer.close(linger=0)
    transport.close()
    remove_socket_dir(folder)
    by_readers = {
        count: {name: round(statistics.median(row[name] for row in found), 3) for name in found[0]}
        for count, found in rows.items()
    }
    return {"model": model, "running": running, "snapshot_bytes": size, "readers": by_readers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--running", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--readers", type=int, nargs="+", default=[0, 1, 3, 25])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    results = [bench(args.model, running, args.readers, args.steps, args.rounds) for running in args.running]
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
