"""Who is the presenter: a token, proven once, and the ticket a browser keeps from then on. Pure and thread-safe.

A ticket says until when it holds and is signed with the token, so it outlives a restart of the server, and nothing of
it has to be kept. The token itself is never sent anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Literal

TICKET_S: Final = 12 * 3600
"""A day of teaching."""
MAX_FAILURES: Final = 5
WINDOW_S: Final = 60.0
MAX_ADDRESSES: Final = 1000
MIN_TOKEN: Final = 8
MAX_TOKEN: Final = 200
MAX_GIVEN: Final = 1000

Knock = Literal["in", "wrong", "wait"]


def token_problem(token: str) -> str:
    """What is wrong with a token somebody chose, without repeating it; "" = nothing."""
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        return f"has {len(token)} characters, {MIN_TOKEN} to {MAX_TOKEN} are needed"
    if not token.isascii() or not token.isprintable() or " " in token:
        return "has a character that is no printable ASCII letter, digit or sign, or a space"
    return ""


def is_local(address: str | None) -> bool:
    """Whether a server bound to this address answers its own machine only. None and "" are all addresses."""
    if not address:
        return False
    if address.lower() == "localhost" or address.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


class Door:
    """token: what a presenter must know; "" = everybody is presenter. is_made: it was
    made here. is_told: whether anybody was told it.

    clock: wall seconds since the epoch, for tickets; ticks: seconds that never go back, for the limit of failures.
    """

    def __init__(
        self,
        token: str = "",
        *,
        is_made: bool = False,
        is_told: bool = True,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token = token
        self.is_made = is_made
        self.is_told = is_told
        self._clock = clock
        self._ticks = ticks
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    @classmethod
    def made(cls, *, is_told: bool) -> Door:
        """A door with a token of 128 random bits."""
        return cls(secrets.token_urlsafe(16), is_made=True, is_told=is_told)

    @property
    def is_open(self) -> bool:
        """Everybody is presenter."""
        return not self._token

    @property
    def token(self) -> str:
        """For the terminal of whoever started the server, and for the API's key. Goes to no page."""
        return self._token

    def __repr__(self) -> str:
        return f"Door({'open' if self.is_open else 'needs a token'})"

    def knock(self, given: str, address: str) -> Knock:
        """Compare in constant time. After 5 failures within a minute an address must wait, right token or not.

        address: whose failures are counted; the failures of one keep nobody else out.
        """
        if self.is_open:
            return "in"
        with self._lock:
            now = self._ticks()
            failed = self._failures.get(address, deque())
            while failed and failed[0] <= now - WINDOW_S:
                failed.popleft()
            if len(failed) >= MAX_FAILURES:
                return "wait"
            if len(given) <= MAX_GIVEN and hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
                self._failures.pop(address, None)
                return "in"
            failed.append(now)
            self._failures[address] = failed
            self._failures.move_to_end(address)
            if len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)
            return "wrong"

    def ticket(self) -> str:
        """A new one, for somebody who knew the token."""
        until = str(int(self._clock()) + TICKET_S)
        return f"{until}.{self._signed(until)}"

    def admits(self, ticket: str | None) -> bool:
        """Whether a browser with this ticket is the presenter's."""
        if self.is_open:
            return True
        if not ticket or len(ticket) > MAX_GIVEN:
            return False
        until, _, signature = ticket.partition(".")
        same = hmac.compare_digest(signature.encode(errors="replace"), self._signed(until).encode())
        return same and int(until) > self._clock()

    def _signed(self, until: str) -> str:
        message = f"batchscope presenter until {until}".encode(errors="replace")
        return hmac.new(self._token.encode(), message, hashlib.sha256).hexdigest()


def door_for(token: str, address: str | None, *, has_terminal: bool) -> Door:
    """The door of a server that is bound to ``address``.

    With a token, who knows it is presenter. Without one, everybody on the server's own machine; a server that answers
    others makes a token, and tells it where only a person reads it: without a terminal nobody learns it, and nobody has
    controls.
    """
    if token:
        return Door(token)
    return Door() if is_local(address) else Door.made(is_told=has_terminal)
