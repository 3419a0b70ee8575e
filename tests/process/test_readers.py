"""Readers of every kind: fast, late, slow, dead, and one that sends nonsense. The engine does not care."""

from __future__ import annotations

import msgspec
import pytest
import zmq
from helpers import FAKE_WORKER, TOY, ended, fake_client, length, letters, live, wait_until

from model_runner.link import ReaderLink, Received, SnapshotFeed
from model_runner.messages import EngineSnapshot, Reply, Resync, Submit
from model_runner.transport import SnapshotRing
from model_runner.worker_process import WorkerProcess
from scheduler import SchedulerPolicy

pytestmark = pytest.mark.process

PROMPT = (5, 6, 7)


class Reader:
    """A reader with nothing but feed and link: tokens and texts by request, each delivery counted."""

    def __init__(self, hello):
        self.link = ReaderLink(hello.commands, hello.snapshots)
        self.feed = SnapshotFeed()
        self.tokens: dict[str, list[int]] = {}
        self.texts: dict[str, str] = {}
        self.ended: set[str] = set()
        self.numbers = 0

    def apply(self, snapshot: EngineSnapshot) -> None:
        for name, token in snapshot.step.new_tokens.items():
            self.tokens.setdefault(name, []).append(token)
        for name, text in snapshot.text_deltas.items():
            self.texts[name] = self.texts.get(name, "") + text
        self.ended |= {record.request_id for record in snapshot.step.records}

    def pump(self) -> None:
        for reply in self.link.replies():
            if reply.command_id < 1_000_000:
                continue
            caught = self.feed.catch_up(reply.snapshots, reply.states)
            for index, received in enumerate(caught.snapshots):
                if not caught.gap or index >= caught.states_after:
                    self.apply(received.snapshot)
            if caught.gap:
                for state in caught.states:
                    self.tokens[state.request_id] = list(state.output_token_ids)
                    self.texts[state.request_id] = state.text
                    self.ended |= {state.request_id} if state.ended else set()
        for snapshot in self.link.snapshots():
            received = self.feed.take(snapshot)
            if received is not None:
                self.apply(received.snapshot)
        if self.feed.needs_resync:
            self.numbers += 1
            self.link.send(Resync(1_000_000 + self.numbers, self.feed.last_seq))
            self.feed.asked()
        self.link.sub.poll(1)


@pytest.fixture
def hello():
    process = WorkerProcess("run", TOY, SchedulerPolicy(), lambda: None, (*FAKE_WORKER, "--step-s", "0.0005"))
    try:
        wait_until(lambda: process.hello is not None)
        yield process.hello
    finally:
        process.end(1.0)


def submit(link, number, count):
    link.send(Submit(number, f"q{number}", length(count), prompt_token_ids=PROMPT))


def pump_until_ended(readers, ids):
    def done():
        for reader in readers:
            reader.pump()
        return all(ids <= reader.ended for reader in readers)

    wait_until(done)


def test_three_readers_get_each_token_once_and_a_late_one_the_whole_text(hello):
    readers = [Reader(hello) for _ in range(3)]
    dead = ReaderLink(hello.commands, hello.snapshots)  # never reads
    ids = {f"q{number}" for number in range(1, 7)}
    for number in range(1, 7):
        submit(readers[0].link, number, 100)
    pump_until_ended(readers, ids)
    late = Reader(hello)
    readers.append(late)
    pump_until_ended(readers, ids)
    for reader in readers:
        for name in ids:
            assert tuple(reader.tokens[name]) == letters(PROMPT, 100)
            assert reader.texts[name] == bytes(letters(PROMPT, 100)).decode()
        reader.link.close()
    dead.close()


def test_a_reader_that_sleeps_through_more_than_is_kept_still_gets_every_token_once(hello):
    quick, sleeper = Reader(hello), Reader(hello)
    wait_until(lambda: [quick.pump(), sleeper.pump()] and quick.feed.last_seq and sleeper.feed.last_seq)
    for number in range(1, 41):
        submit(quick.link, number, 150)
    ids = {f"q{number}" for number in range(1, 41)}
    pump_until_ended([quick], ids)
    assert quick.feed.last_seq > 700
    submit(quick.link, 99, 30)
    pump_until_ended([quick, sleeper], {"q99"})
    pump_until_ended([sleeper], ids)
    for name in ids:
        assert tuple(sleeper.tokens[name]) == tuple(quick.tokens[name]) == letters(PROMPT, 150)
    quick.link.close()
    sleeper.link.close()


def test_nonsense_on_the_command_socket_is_answered_and_hurts_nobody(hello):
    reader = Reader(hello)
    context = zmq.Context()
    raw = context.socket(zmq.DEALER)
    raw.connect(hello.commands)
    wait_until(lambda: [reader.pump()] and reader.feed.last_seq)
    for frames in (
        [b""],
        [b"\xff\xfe"],
        [b"\x81\xa4type\xa6submit"],
        [msgspec.msgpack.encode({"type": "nuke"})],
        [b"a", b"b"],
    ):
        raw.send_multipart(frames)
        assert raw.poll(5000)
        reply = msgspec.msgpack.decode(raw.recv(), type=Reply)
        assert not reply.ok
        assert reply.reasons[0].startswith("command:")
    submit(reader.link, 1, 10)
    pump_until_ended([reader], {"q1"})
    raw.close(linger=0)
    context.term()
    reader.link.close()


def test_f69_a_record_that_is_not_whole_is_ignored_and_asked_for_again(tmp_path):
    context = zmq.Context()
    router, pub = context.socket(zmq.ROUTER), context.socket(zmq.PUB)
    router.bind(f"ipc://{tmp_path}/c")
    pub.bind(f"ipc://{tmp_path}/s")
    link = ReaderLink(f"ipc://{tmp_path}/c", f"ipc://{tmp_path}/s")
    whole = msgspec.msgpack.encode(sample_snapshot(1))
    found: list = []

    def arrived():
        pub.send_multipart([b"snapshot", whole[: len(whole) // 2]])
        pub.send_multipart([b"snapshot"])
        pub.send_multipart([b"snapshot", whole])
        found.extend(link.snapshots())
        return found

    wait_until(arrived)
    assert all(isinstance(item, Received) and item.snapshot.seq == 1 for item in found)
    wait_until(lambda: link.snapshots() is not None and link.unreadable > 0)
    link.close()
    router.close(linger=0)
    pub.close(linger=0)
    context.term()


def sample_snapshot(seq: int) -> EngineSnapshot:
    from fakes import Bench

    bench = Bench()
    bench.turns(1)
    return msgspec.structs.replace(bench.published[0], seq=seq)


def test_feed_hands_on_in_order_and_each_once_whatever_order_they_come_in():
    snapshots = {seq: sample_snapshot(seq) for seq in range(1, 9)}
    feed = SnapshotFeed()
    handed = []
    for seq in (1, 2, 2, 4, 5, 1):
        received = feed.take(Received(snapshots[seq], 1))
        handed += [received.snapshot.seq] if received else []
    assert feed.needs_resync
    feed.asked()
    assert not feed.needs_resync
    caught = feed.catch_up([snapshots[s] for s in (2, 3, 4)], ())
    handed += [item.snapshot.seq for item in caught.snapshots]
    assert not caught.gap
    assert handed == [1, 2, 3, 4, 5]
    assert feed.take(Received(snapshots[7], 1)) is None
    caught = feed.catch_up([snapshots[8]], ())
    assert caught.gap
    assert feed.last_seq == 8


def test_ring_is_bounded_by_count_and_by_bytes_and_keeps_the_newest():
    ring = SnapshotRing(max_count=3, max_bytes=100)
    for seq in range(1, 6):
        ring.append(seq, b"x" * 10)
    assert len(ring.after(0)) == 3
    ring.append(6, b"y" * 95)
    assert ring.after(0) == (b"y" * 95,)
    ring.append(7, b"z" * 500)
    assert ring.after(0) == (b"z" * 500,)


def test_snapshots_are_whole_over_thousands_of_reads():
    with fake_client("--step-s", "0", policy=SchedulerPolicy(max_num_seqs=4), num_blocks=40) as client:
        live(client)
        ids = [client.submit(PROMPT, length(60)).request_id for _ in range(40)]
        seen, last = 0, (0, 0)
        while not all(client.request(i).outcome for i in ids):
            for _ in range(200):
                snapshot = client.latest
                step, totals = snapshot.step, snapshot.step.totals
                ending = totals.finished + totals.aborted + totals.rejected
                assert totals.submitted == ending + len(step.running) + step.num_waiting
                assert step.num_used_blocks + step.num_free_blocks == step.num_blocks
                assert sum(map(len, step.running.block_ids)) == step.num_used_blocks
                assert sum(step.num_scheduled_tokens.values()) <= step.policy.max_num_batched_tokens
                assert (snapshot.seq, step.step_id) >= last
                last = (snapshot.seq, step.step_id)
                seen += 1
        assert seen > 2000
        ended(client, ids)
        history = [s.step.step_id for s in client.history()]
        assert history == sorted(set(history))
