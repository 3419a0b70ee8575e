"""The room: one vote a voter, changed until the question is closed, counted once whatever happens at the same time."""

from __future__ import annotations

import threading

import pytest

from dashboard.i18n import translator
from dashboard.room import HERE_S, MAX_VOTERS, Room, RoomError, say

CHOICES = ("more", "fewer", "the same")


def asked(**options: bool) -> Room:
    room = Room()
    room.ask("q1", CHOICES, "What will happen?", **options)
    return room


def test_a_voter_counts_once_and_may_change_until_the_question_is_closed():
    room = asked()
    assert room.vote("a", 0) == "taken"
    assert room.vote("a", 2) == "changed"
    assert room.vote("b", 2) == "taken"
    assert (room.state.counts, room.state.num_votes, room.choice_of("a")) == ((0, 0, 2), 2, 2)
    room.close()
    assert room.vote("a", 0) == room.vote("c", 0) == "not_open"
    assert room.state.counts == (0, 0, 2)


def test_the_votes_are_hidden_until_they_are_revealed_unless_the_presenter_shows_them():
    room = asked()
    room.vote("a", 1)
    assert room.state.shown_counts is None
    room.show_counts(True)
    assert room.state.shown_counts == (0, 1, 0)
    room.show_counts(False)
    room.close()
    assert room.state.shown_counts is None
    room.reveal(1, [say("{n} tokens", n=3)])
    state = room.state
    assert (state.phase, state.answer, state.shown_counts) == ("revealed", 1, (0, 1, 0))
    assert state.outcome[0].told(translator("en")) == "3 tokens"
    assert asked(shows_counts=True).state.shown_counts == (0, 0, 0)


def test_a_new_question_starts_without_votes_and_refuses_a_click_made_on_the_old_one():
    room = asked()
    old = room.state.round
    room.vote("a", 0)
    room.ask("q2", ("yes", "no"))
    assert room.vote("a", 2, old) == "other_question"
    assert room.vote("a", 2) == "no_such_choice"
    assert room.vote("a", -1) == "no_such_choice"
    assert (room.state.counts, room.choice_of("a")) == ((0, 0), None)
    room.clear()
    assert room.state.phase == "none"
    assert room.vote("a", 0) == "not_open"
    room.ask("q3", ("yes", "no"))
    assert room.state.round > old + 1


def test_who_comes_late_finds_scene_question_and_votes():
    room = Room()
    room.show("static", "Static batching", ["Look at the lanes."])
    room.ask("q1", CHOICES)
    room.vote("a", 0)
    state = room.state
    assert (state.board.scene, state.board.lines[0].message) == ("static", "Look at the lanes.")
    assert (state.phase, state.question_id, state.counts) == ("open", "q1", (1, 0, 0))


def test_the_room_is_bounded_and_names_what_is_too_much():
    room = asked()
    for i in range(MAX_VOTERS):
        assert room.vote(f"v{i}", 0) == "taken"
        room.here(f"v{i}")
    assert room.vote("one more", 0) == "full"
    assert room.vote("v0", 1) == "changed", "who is in may still change"
    room.here("one more")
    assert room.state.num_here == MAX_VOTERS
    with pytest.raises(RoomError, match="choices has 9 entries, 2 to 8 are right"):
        room.ask("q", ["x"] * 9)
    with pytest.raises(RoomError, match="question_id has 0 characters"):
        room.ask("", CHOICES)
    with pytest.raises(RoomError, match="title has 3000 characters"):
        room.show("s", "x" * 3000)
    with pytest.raises(RoomError, match="lines has 13 entries"):
        room.show("s", "t", ["x"] * 13)
    with pytest.raises(RoomError, match="answer is 3, 0 to 2 or None"):
        room.reveal(3)
    assert (room.state.question_id, room.state.phase) == ("q1", "open"), "what was refused changed nothing"


def test_a_page_that_stopped_ticking_is_not_counted_as_open():
    now = [0.0]
    room = Room(clock=lambda: now[0])
    room.here("a")
    now[0] = HERE_S
    room.here("b")
    assert room.state.num_here == 2
    now[0] = HERE_S + 1
    assert room.state.num_here == 1


def test_votes_from_many_threads_are_each_counted_once_and_none_after_the_close():
    room = asked()
    taken: list[str] = []
    begin = threading.Barrier(9)

    def voter(number: int) -> None:
        begin.wait()
        for turn in range(200):
            voter_id = f"{number}.{turn % 20}"
            if room.vote(voter_id, turn % 3) == "taken":
                taken.append(voter_id)

    threads = [threading.Thread(target=voter, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    begin.wait()
    while not room.state.num_votes:
        pass
    room.close()
    at_close = room.state.counts
    for thread in threads:
        thread.join()
    assert room.state.counts == at_close
    assert sum(at_close) == len(taken) == len(set(taken)) <= 160
