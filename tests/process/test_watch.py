"""One reader of one request: everything once and in order, from whenever it begins, in bounded memory."""

from __future__ import annotations

import msgspec
from fakes import Bench
from helpers import ended, fake_client, length, live, wait_until

from model_runner.journal import Journal
from model_runner.messages import EngineSnapshot, Reply, RequestState, Submit, Turn
from model_runner.watch import News, Watch
from scheduler import RequestRecord


class Reader:
    """A watch that notes how often it was woken."""

    def __init__(self, journal: Journal, request_id: str = "r1", **more) -> None:
        self.wakes = 0
        self.watch = Watch(request_id, self.woken, **more)
        self.is_known = journal.watch(self.watch)

    def woken(self) -> None:
        self.wakes += 1

    def take(self) -> list[News]:
        return self.watch.take()


def lived(count: int = 6) -> tuple[Journal, list[EngineSnapshot]]:
    """A journal with r1 at a worker, and the snapshots of its life, to be applied."""
    bench = Bench()
    bench.transport.send(Submit(1, "r1", length(count), prompt_token_ids=(97, 98, 99)))
    bench.run_for(2.0)
    journal = Journal()
    journal.add(Submit(0, "", length(count), prompt_token_ids=(97, 98, 99)), "api")
    journal.unsent("fake", 1)
    journal.sent("r1")
    return journal, bench.published


def text_of(news: list[News]) -> str:
    return "".join(item.text for item in news)


def test_news_are_acceptance_then_each_token_then_the_end_with_the_last():
    journal, snapshots = lived()
    reader = Reader(journal)
    assert (reader.is_known, reader.take()) == (True, [])
    journal.answered("r1", Reply(1, True, 1, prompt_token_ids=(97, 98, 99), seed=1))
    assert reader.take() == [News("", 0, 3)]
    for snapshot in snapshots:
        journal.apply(snapshot)
    news = reader.take()
    assert [item.num_tokens for item in news] == [1, 2, 3, 4, 5, 6]
    assert all(len(item.text) == 1 for item in news)
    assert [item.outcome for item in news] == ["", "", "", "", "", "finished"]
    assert news[-1].reason == "length"
    assert text_of(news) == journal.view("r1", {}).text


def test_a_late_reader_gets_the_whole_text_and_an_unknown_request_is_said_to_be():
    journal, snapshots = lived()
    journal.answered("r1", Reply(1, True, 1, prompt_token_ids=(97, 98, 99)))
    half = len(snapshots) // 2
    early = Reader(journal)
    for index, snapshot in enumerate(snapshots):
        if index == half:
            late = Reader(journal)
        journal.apply(snapshot)
    after = Reader(journal)
    whole = journal.view("r1", {}).text
    assert [text_of(reader.take()) for reader in (early, late, after)] == [whole] * 3
    assert after.take() == []
    assert not Reader(journal, "r9").is_known


def test_a_reader_is_woken_once_until_it_takes_its_news():
    journal, snapshots = lived()
    reader = Reader(journal)
    for snapshot in snapshots:
        journal.apply(snapshot)
    assert reader.wakes == 1
    assert len(reader.take()) == 6


def test_a_reader_that_takes_nothing_costs_bounded_entries_and_loses_nothing():
    journal, snapshots = lived(40)
    reader = Reader(journal, max_news=4)
    most = 0
    for snapshot in snapshots:
        journal.apply(snapshot)
        most = max(most, len(reader.watch._news))
    assert most == 4
    news = reader.take()
    assert text_of(news) == journal.view("r1", {}).text
    assert (news[-1].num_tokens, news[-1].outcome) == (40, "finished")


def test_one_that_no_longer_reads_is_told_nothing_and_nothing_is_kept_of_it():
    journal, snapshots = lived()
    readers = Reader(journal), Reader(journal)
    journal.unwatch(readers[0].watch)
    for snapshot in snapshots:
        journal.apply(snapshot)
    assert (readers[0].take(), len(readers[1].take())) == ([], 6)
    journal.unwatch(readers[0].watch)
    assert journal._watches == {}


def test_a_gap_is_filled_without_a_double():
    journal, snapshots = lived()
    reader = Reader(journal)
    for snapshot in snapshots[:3]:
        journal.apply(snapshot)
    before = text_of(reader.take())
    whole = "".join(snapshot.text_deltas.get("r1", "") for snapshot in snapshots)
    record: RequestRecord = next(r for snapshot in snapshots for r in snapshot.step.records)
    state = RequestState("r1", (97, 98, 99), tuple(range(6)), whole, "finished")
    journal.replace((state,), {"r1": record})
    rest = reader.take()
    assert before + text_of(rest) == whole
    assert (len(rest), rest[-1].outcome, rest[-1].reason) == (1, "finished", "length")


def test_another_model_voids_what_was_told():
    journal, snapshots = lived()
    reader = Reader(journal)
    for snapshot in snapshots[:4]:
        journal.apply(snapshot)
    journal.worker_lost()
    journal.unsent("fake", 1)
    assert not any(news.begun_again for news in reader.watch._news), "the same model goes on"
    journal.unsent("another", 1)
    assert reader.take() == [News(begun_again=True)]


def test_a_request_that_is_aborted_before_any_worker_has_it_is_told_so():
    journal = Journal()
    journal.add(Submit(0, "", length(3), "text"), "api")
    reader = Reader(journal)
    journal.abort_asked("r1")
    (news,) = reader.take()
    assert news.outcome == "aborted"


def test_a_conversation_goes_to_the_worker_as_turns_and_shows_as_text():
    journal = Journal()
    turns = (Turn("system", "be brief"), Turn("user", "hello"))
    journal.add(Submit(0, "", length(3), turns=turns), "api")
    (submit,) = journal.unsent("a", 1)
    assert (submit.turns, submit.prompt_text, submit.prompt_token_ids) == (turns, None, None)
    assert journal.view("r1", {}).prompt_text == "system: be brief\nuser: hello"
    journal.answered("r1", Reply(1, True, 1, prompt_token_ids=(5, 6)))
    (again,) = journal.unsent("a", 1)
    assert (again.turns, again.prompt_token_ids) == ((), (5, 6))
    (other,) = journal.unsent("b", 1)
    assert (other.turns, other.prompt_token_ids) == (turns, None)


def test_an_abandoned_request_ends_and_observers_see_every_snapshot_whatever_one_of_them_does(caplog):
    seen: list[EngineSnapshot] = []

    def broken(snapshot: EngineSnapshot) -> None:
        raise RuntimeError("an observer's own fault")

    with fake_client("--step-s", "0.005") as client:
        live(client)
        client.observe(broken)
        client.observe(seen.append)
        first = client.submit((97, 98), length(200)).request_id
        wait_until(lambda: client.request(first).tokens)
        client.abandon(first)
        client.abandon("r99")
        ended(client, [first])
        assert client.request(first).outcome == "aborted"
        second = client.submit((97, 98), length(20)).request_id
        ended(client, [second])
        told = [snapshot.step.new_tokens[second] for snapshot in seen if second in snapshot.step.new_tokens]
        assert tuple(told) == client.request(second).tokens
        assert caplog.text.count("an observer failed") == 1
        numbers = [snapshot.seq for snapshot in seen]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_turns_survive_the_wire():
    turns = (Turn("user", "연속 배칭"),)
    submit = Submit(1, "r1", length(3), turns=turns)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(submit), type=Submit).turns == turns
