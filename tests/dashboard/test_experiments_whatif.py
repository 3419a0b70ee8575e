"""The simulation of very many requests: what the page asks the command for, and how it tells what came out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dashboard import engine
from dashboard.experiments import workshop
from dashboard.screens.experiments_whatif import FIELDS, arguments
from experiments.__main__ import main
from tests.dashboard.experiment_folders import COST
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import html, page


@pytest.fixture
def shop(monkeypatch, tmp_path):
    made = workshop.Workshop(tmp_path / "experiments")
    monkeypatch.setattr(workshop, "shared", lambda: made)
    fake = FakeClient()
    fake.run(1)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    return made


@pytest.mark.parametrize("prices", [None, COST])
def test_what_is_asked_on_the_page_is_simulated_and_told(shop, prices, capsys):
    path = shop.folder / "20260102-030405-000-whatif"
    path.mkdir(parents=True)
    asked = FIELDS | {"count": 200, "policies": ["vllm-v1", "static"], "rate": 20.0, "seqs": 8}
    pool = ["--num-blocks", "4096", "--block-size", "16", "--max-model-len", "16384"]
    assert main(arguments(path, asked, prices, pool)) == 0, capsys.readouterr().err
    at = page(view="experiments", lang="ko")
    at.button_group(key="exp.section").set_value("whatif").run()
    assert not at.exception
    text = html(at)
    assert "잰 것이 아니라 시뮬레이션입니다" in text
    assert ("prices of a test" in text) == (prices is not None)
    assert text.count("<td>200</td>") >= 2


def test_prices_of_another_form_are_refused_with_the_file(tmp_path, capsys):
    (tmp_path / "prices.json").write_text('{"coefficients": [1, 2], "source": "x"}', encoding="utf-8")
    assert main(["whatif", "--num-requests", "5", "--prices", str(tmp_path / "prices.json")]) == 2
    assert "coefficients" in capsys.readouterr().err


def test_a_simulation_says_in_its_log_how_far_it_is(shop):
    path = shop.folder / "20260102-030405-000-whatif"
    path.mkdir(parents=True)
    assert shop.simulated(path.name) == (0, 0)
    (path / workshop.LOG_FILE).write_text("20,000 of 50,000 requests have come\n40,000 of 50,000 requests have come\n")
    assert shop.simulated(path.name) == (40_000, 50_000)


@pytest.mark.process
def test_the_child_ends_when_its_parent_is_gone():
    command = [sys.executable, "-m", "dashboard.experiments.minder", "whatif", "--num-requests", "1000000"]
    child = subprocess.Popen(command, env=workshop.environment(), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(60) != 0
