"""Who is the presenter: the token and nothing else, guessed slowly, shown nowhere."""

from __future__ import annotations

import pytest

from dashboard.door import MAX_FAILURES, TICKET_S, WINDOW_S, Door, door_for, is_local, token_problem
from dashboard.settings import SettingsError, from_environment

TOKEN = "open-sesame-42"


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_only_the_token_opens_and_only_a_ticket_of_the_same_token_admits():
    door = Door(TOKEN)
    for given in ("", TOKEN[:-1], TOKEN + " ", TOKEN.upper(), "\udcff"):
        assert Door(TOKEN).knock(given, "1.2.3.4") == "wrong"
    assert door.knock(TOKEN, "1.2.3.4") == "in"
    ticket = door.ticket()
    assert door.admits(ticket)
    assert Door(TOKEN).admits(ticket), "a restarted server knows it again"
    assert not Door("another-token").admits(ticket)
    for forged in (None, "", ".", TOKEN, ticket[:-1], "9" + ticket, ticket + "0", "x" * 5000, "\udcff.\udcff"):
        assert not door.admits(forged)


def test_a_ticket_ends():
    clock = Clock()
    door = Door(TOKEN, clock=clock)
    ticket = door.ticket()
    clock.now += TICKET_S - 1
    assert door.admits(ticket)
    clock.now += 1
    assert not door.admits(ticket)


def test_failures_make_their_address_wait_and_nobody_else():
    clock = Clock()
    door = Door(TOKEN, ticks=clock)
    for _ in range(MAX_FAILURES):
        assert door.knock("guess", "1.1.1.1") == "wrong"
    assert door.knock(TOKEN, "1.1.1.1") == "wait"
    assert door.knock(TOKEN, "2.2.2.2") == "in"
    clock.now += WINDOW_S
    assert door.knock(TOKEN, "1.1.1.1") == "in"


def test_the_token_shows_in_no_text_of_door_settings_or_error():
    settings = from_environment({"BATCHSCOPE_PRESENTER_TOKEN": TOKEN})
    assert settings.presenter_token == TOKEN
    assert TOKEN not in repr(settings) + repr(Door(TOKEN)) + Door(TOKEN).ticket()
    for bad in ("short", "with a space", "ключ-ключ", "x" * 300):
        assert token_problem(bad)
        with pytest.raises(SettingsError, match="BATCHSCOPE_PRESENTER_TOKEN has") as refused:
            from_environment({"BATCHSCOPE_PRESENTER_TOKEN": bad})
        assert bad not in str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "unix:///run/x.sock"])
def test_on_its_own_machine_everybody_is_presenter_unless_there_is_a_token(address):
    assert is_local(address)
    door = door_for("", address, has_terminal=False)
    assert door.is_open
    assert door.admits(None)
    assert not door_for(TOKEN, address, has_terminal=False).admits(None)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", None, "192.168.1.5", "example.org", "127.0.0.1.example.org"])
def test_beyond_it_a_token_is_made_that_only_a_terminal_is_told(address):
    first, second = (door_for("", address, has_terminal=terminal) for terminal in (True, False))
    assert not first.is_open
    assert not first.admits(None)
    assert len(first.token) >= 20
    assert first.token != second.token
    assert (first.is_told, second.is_told) == (True, False)
    assert door_for(TOKEN, address, has_terminal=True).token == TOKEN
