"""One run under the definitions of other tools: by hand, and by formulas written down a second time."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.analysis.metrics import measure
from experiments.analysis.rosetta import DEFINITIONS, QUANTITIES, STATS, TOOLS, rosetta, summary
from tests.experiments.analysis.made import row, run

# a: due 0, scheduled at 1, evicted, scheduled again at 3; tokens at 2, 3, 6. b: due and scheduled at 1, one token at 2.
RUN = run(
    [
        row("a", 0.0, (2.0, 3.0, 6.0), first_scheduled_s=1.0, last_scheduled_s=3.0, num_preemptions=1),
        row("b", 1.0, (2.0,)),
        row("c", 1.0, (), outcome="rejected", first_scheduled_s=None, last_scheduled_s=None),
    ]
)
MEANS = {
    ("vllm", "ttft", ""): 1.5,
    ("vllm", "tpot", ""): 2.0,
    ("vllm", "itl", ""): 2.0,
    ("vllm", "queue", "code"): 0.5,
    ("vllm", "queue", "documentation"): 1.5,
    ("guidellm", "ttft", ""): 1.5,
    ("guidellm", "tpot", ""): (3 * 2.0 + 1 * 1.0) / 4,
    ("guidellm", "itl", ""): 2.0,
    ("guidellm", "queue", ""): None,
    ("aiperf", "ttft", ""): 1.5,
    ("aiperf", "tpot", ""): None,
    ("aiperf", "itl", ""): 2.0,
    ("aiperf", "queue", ""): None,
    ("vidur", "ttft", ""): 1.5,
    ("vidur", "tpot", ""): (4 / 3 + 0) / 2,
    ("vidur", "itl", ""): 2.0,
    ("vidur", "queue", ""): 0.5,
}
CELLS = {(c.definition.tool, c.definition.quantity, c.definition.variant): c for c in rosetta(RUN).cells}


@pytest.mark.parametrize("key", MEANS)
def test_each_cell_is_what_a_hand_makes_it(key: tuple[str, str, str]):
    values = CELLS[key].values
    assert (None if values is None else values["mean"]) == pytest.approx(MEANS[key])


def test_every_tool_and_quantity_has_a_cell_with_its_formula_and_source():
    assert set(CELLS) == set(MEANS)
    assert {(tool, quantity) for tool, quantity, _ in CELLS} == {(t, q) for t in TOOLS for q in QUANTITIES}
    assert all(each.formula and each.source for each in DEFINITIONS)


def test_differences_are_marked_where_the_figures_differ_and_said_in_words():
    differing = {key for key, cell in CELLS.items() if cell.differs}
    assert {("guidellm", "tpot", ""), ("vidur", "tpot", ""), ("vllm", "queue", "documentation")} <= differing
    assert {key for key in differing if not CELLS[key].definition.difference} == set()
    assert not CELLS["vllm", "ttft", ""].differs


def test_a_run_without_evictions_has_one_queue_time_under_both_meanings_of_vllm():
    cells = rosetta(run([row("a", 0.0, (2.0, 3.0), first_scheduled_s=1.0)])).cells
    queue = [c for c in cells if c.definition.tool == "vllm" and c.definition.quantity == "queue"]
    assert [c.differs for c in queue] == [False, False]


def test_our_own_figures_are_those_of_the_metrics():
    measured = measure(RUN)
    for quantity, values in rosetta(RUN).ours.items():
        assert values is not None
        assert all(values[stat] == measured[f"{quantity}_{stat}_s"].value for stat in STATS)


def test_figures_of_a_larger_run_are_those_of_the_formulas_written_down_again():
    generator = np.random.default_rng(11)
    rows = [row(f"r{i:03}", i * 0.1, i * 0.1 + np.cumsum(generator.exponential(1, 1 + i % 9))) for i in range(90)]
    n = np.array([len(r.token_times_s) for r in rows])
    first, last, due = np.array([(r.token_times_s[0], r.token_times_s[-1], r.due_s) for r in rows]).T
    many = n > 1
    expected = {
        ("guidellm", "tpot"): np.repeat((last - due) / n, n),
        ("guidellm", "itl"): np.repeat(((last - first)[many]) / (n - 1)[many], (n - 1)[many]),
        ("aiperf", "itl"): ((last - due) - (first - due))[many] / (n - 1)[many],
        ("vidur", "tpot"): (last - first) / n,
    }
    cells = {(c.definition.tool, c.definition.quantity): c for c in rosetta(run(rows)).cells}
    for key, values in expected.items():
        assert cells[key].values == pytest.approx(summary(values))
        assert cells[key].count == len(values)
    gaps = np.concatenate([np.diff(r.token_times_s) for r in rows])
    guide = cells["guidellm", "itl"].values
    assert guide is not None
    assert guide["mean"] == pytest.approx(gaps.mean())
    assert guide["p99"] < np.quantile(gaps, 0.99)


def test_a_run_in_which_nothing_finished_has_no_figures():
    made = rosetta(run([]))
    assert set(made.ours.values()) == {None}
    assert all(cell.values is None and cell.count == 0 for cell in made.cells)
