"""The page of experiments."""

from __future__ import annotations

import pytest

from dashboard import engine
from dashboard.experiments import workshop
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import html, page


@pytest.fixture
def running(monkeypatch, tmp_path):
    fake = FakeClient()
    for i in range(6):
        fake.add(f"r{i}", 20, 30)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    fake.run(40)
    shop = workshop.Workshop(tmp_path / "experiments")
    monkeypatch.setattr(workshop, "shared", lambda: shop)
    return shared


def test_the_form_draws(running):
    at = page(view="experiments")
    print([e.value for e in at.exception], [w.value for w in at.warning])
    print(html(at)[-3000:])
    assert not at.exception
