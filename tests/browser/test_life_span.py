"""Whatever ends the app ends its engine."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.browser.serving import dashboard, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.process]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_no_engine_outlives_the_app(name, tmp_path):
    with dashboard(tmp_path / "log") as server:
        worker = server.worker()
        assert worker is not None
        server.process.send_signal(getattr(signal, name))
        server.process.wait(30)
        wait_until(
            lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, 20, "the end of the worker"
        )
