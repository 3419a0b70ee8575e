"""Where a server that answers more than its own machine can be reached."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from streamlit import config

from dashboard.door import is_local

ELSEWHERE: Final = ("192.0.2.1", 9)
"""An address for documentation: asking for the way there tells our own address; nothing is sent."""
ALL: Final = ("", "0.0.0.0", "::")
FLAGS: Final = ("command-line argument or environment variable", "environment variable")
"""How Streamlit says that an option was given at the start, not in our own file."""


def _way_out() -> str:
    """The address under which this machine talks to others; "" without a network."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(ELSEWHERE)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _of_name(name: str) -> list[str]:
    try:
        return [str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(name, None)]
    except OSError:
        return []


def own_hosts(bound: str | None) -> tuple[str, ...]:
    """Names and addresses under which a browser elsewhere reaches a server bound to ``bound``, the likeliest first.

    Empty when it is bound to its own machine only.
    """
    if is_local(bound):
        return ()
    if bound and bound not in ALL:
        return (bound,)
    name = socket.gethostname()
    found = [a for a in (_way_out(), *_of_name(name)) if a and not is_local(a)]
    return tuple(dict.fromkeys([*found, name, name if "." in name else f"{name}.local"]))


def let_in(hosts: Sequence[str]) -> None:
    """Have Streamlit accept these in the Host header, besides those of its own machine.

    Another site whose name is made to point here (DNS rebinding) is still refused. Left alone where the start command
    or the environment named hosts.
    """
    if hosts and config.get_where_defined("server.allowedHosts") not in FLAGS:
        known = list(config.get_option("server.allowedHosts"))
        config.set_option("server.allowedHosts", [*known, *(h for h in hosts if h not in known)])


def url(host: str, port: int) -> str:
    """The page's address on this host."""
    try:
        named = f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        named = host
    return f"http://{named}:{port}"
