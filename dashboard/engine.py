"""The one runner of this process, shared by every session of the page.

It is kept by Streamlit's resource cache, because that survives both the end of all sessions and an edit of the sources,
for which Streamlit re-imports our modules; a module-level variable would be forgotten then and a second runner started.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

import streamlit as st

from dashboard.desk import Desk
from dashboard.door import Door, door_for
from dashboard.hub import Hub
from dashboard.lesson.teacher import Teacher
from dashboard.room import Room
from dashboard.settings import from_environment
from model_runner.client import RunnerClient
from scheduler import custom


@dataclass(frozen=True, slots=True)
class Engine:
    """The client of the runner, the pictures made from what it sees, and the desk that changes its policy.

    room: what the presenter has on for everybody, and the votes. door: who is the presenter. teacher: runs scenes.
    """

    client: RunnerClient
    hub: Hub
    desk: Desk
    room: Room = field(default_factory=Room)
    door: Door = field(default_factory=Door)
    teacher: Teacher = field(default_factory=Teacher)


def start() -> Engine:
    """Start a runner as the environment says. Raises SettingsError."""
    custom.load_from_environment()
    settings = from_environment(os.environ)
    client = RunnerClient(settings.config, settings.policy, traffic=settings.traffic)
    hub = Hub(client)
    hub.keep_up()
    client.start()
    door = door_for(settings.presenter_token, st.get_option("server.address"), has_terminal=sys.stderr.isatty())
    return Engine(client, hub, Desk(client), door=door)


# An edit of this body would make Streamlit call it again while the first runner goes on: keep it one line.
@st.cache_resource(show_spinner=False)
def shared() -> Engine:
    """The engine of this process; started by whoever asks first."""
    return start()
