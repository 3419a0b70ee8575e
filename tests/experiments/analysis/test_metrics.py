"""Every metric on traces small enough to work out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.analysis.metrics import METRICS, Counts, counts, measure
from experiments.analysis.samples import FAMILIES, Slo, table
from scheduler import SchedulerPolicy
from scheduler.workload import WorkloadRequest
from tests.experiments.analysis.made import row, run, simulated

# Three finished, one rejected, one cut short. Wall time 10 s.
#   a: due 0, scheduled 1, tokens at 2, 3, 5          ttft 2  tpot 1.5  e2e 5  gaps 1, 2
#   b: due 1, scheduled 3, again 6, tokens at 4, 8    ttft 3  tpot 4    e2e 7  gap 4
#   c: due 2, scheduled 2, one token at 2.5           ttft .5 no tpot   e2e .5 no gap
#   d: rejected.  e: due 3, one token at 9, not done.
RUN = run(
    [
        row("a", 0.0, (2.0, 3.0, 5.0), first_scheduled_s=1.0, prompt_len=10),
        row("b", 1.0, (4.0, 8.0), first_scheduled_s=3.0, last_scheduled_s=6.0, prompt_len=20, num_preemptions=1,
            recompute_tokens=21),
        row("c", 2.0, (2.5,), prompt_len=30, padding_tokens=5),
        row("d", 2.0, (), outcome="rejected", first_scheduled_s=None, prompt_len=99),
        row("e", 3.0, (9.0,), outcome="unfinished", output_len=4, prompt_len=40),
    ],
    wall_s=10.0,
)  # fmt: skip

BY_HAND = {
    "output_tokens_per_s": (0.6, 3),
    "total_tokens_per_s": (6.6, 3),
    "request_rps": (0.3, 5),
    "goodput_rps": (0.2, 5),
    "ttft_p50_s": (2.0, 3),
    "ttft_p90_s": (2.8, 3),
    "ttft_p99_s": (2.98, 3),
    "ttft_mean_s": (5.5 / 3, 3),
    "itl_p50_s": (2.0, 3),
    "itl_p90_s": (3.6, 3),
    "itl_p99_s": (3.96, 3),
    "itl_mean_s": (7 / 3, 3),
    "tpot_p50_s": (2.75, 2),
    "tpot_p90_s": (3.75, 2),
    "tpot_p99_s": (3.975, 2),
    "tpot_mean_s": (2.75, 2),
    "e2e_p50_s": (5.0, 3),
    "e2e_p90_s": (6.6, 3),
    "e2e_p99_s": (6.96, 3),
    "e2e_mean_s": (12.5 / 3, 3),
    "queue_p50_s": (1.0, 3),
    "queue_p90_s": (1.8, 3),
    "queue_p99_s": (1.98, 3),
    "queue_mean_s": (1.0, 3),
    "queue_recent_p50_s": (1.0, 3),
    "queue_recent_p90_s": (4.2, 3),
    "queue_recent_p99_s": (4.92, 3),
    "queue_recent_mean_s": (2.0, 3),
    "slo_attainment": (0.4, 5),
    "preemptions_per_request": (0.2, 5),
    "recompute_tokens_per_request": (4.2, 5),
    "padding_tokens_per_request": (1.0, 5),
}


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_is_what_a_hand_makes_it(name: str):
    value, count = BY_HAND[name]
    found = measure(RUN, Slo(ttft_s=2.0, tpot_s=2.0))[name]
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.count == count


def test_every_metric_says_its_formula_its_source_and_its_unit():
    assert set(BY_HAND) == set(METRICS)
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.formula
        assert metric.source
        assert metric.family in FAMILIES
        assert name.endswith("_s") == (metric.unit in ("s", "tokens/s"))


def test_a_request_has_one_ttft_whatever_happens_to_it_afterwards():
    before = FAMILIES["ttft"](table(RUN), None)
    assert sorted(before.values) == [0.5, 2.0, 3.0]
    assert len(set(before.owner)) == len(before.owner)


def test_a_preemption_moves_the_most_recent_queue_time_and_not_the_first():
    requests = [WorkloadRequest("a", 0, 4, 12), WorkloadRequest("b", 0, 4, 12)]
    sizes = {"num_blocks": 6, "block_size": 4, "max_model_len": 32}
    made = simulated(SchedulerPolicy(), requests, **sizes)
    victim = next(each for each in made.requests if each.num_preemptions)
    rows = table(made)
    index = rows.ids.index(victim.request_id)
    assert (rows.first_scheduled - rows.due)[index] == 0.0
    assert (rows.last_scheduled - rows.due)[index] > 0.0


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        (Slo(), "abc"),
        (Slo(ttft_s=2.0), "ac"),
        (Slo(tpot_s=1.5), "ac"),
        (Slo(tpot_s=1.4999), "c"),
        (Slo(e2e_s=5.0), "ac"),
        (Slo(e2e_s=4.0, ttft_s=0.1), ""),
    ],
)
def test_good_requests_are_within_every_limit_and_one_token_has_a_tpot_of_nothing(slo: Slo, good: str):
    rows = table(RUN)
    assert "".join(np.array(rows.ids)[rows.good(slo)]) == good


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_no_time_is_refused_by_name(value: float):
    with pytest.raises(ValueError, match="tpot_s is"):
        Slo(tpot_s=value)


def test_without_limits_there_is_no_goodput_and_of_nothing_there_is_no_figure():
    assert measure(RUN)["goodput_rps"].value is None
    empty = measure(run([]), Slo(ttft_s=1.0))
    assert {value.value for value in empty.values()} == {None}
    assert {value.count for value in empty.values()} == {0}


def test_unfinished_and_rejected_requests_are_counted_and_not_measured():
    assert counts(RUN) == Counts(requests=5, finished=3, rejected=1, unfinished=1)


def test_percentiles_are_those_of_numpy_and_itl_pools_all_gaps_of_the_run():
    generator = np.random.default_rng(5)
    rows = [row(f"r{i:03}", i * 0.1, i * 0.1 + np.cumsum(generator.exponential(0.05, 1 + i % 7))) for i in range(120)]
    made = run(rows)
    gaps = np.concatenate([np.diff(each.token_times_s) for each in rows])
    found = measure(made)
    assert found["itl_p99_s"].value == np.percentile(gaps, 99)
    assert found["itl_p99_s"].count == len(gaps)
    assert found["ttft_p90_s"].value == np.percentile([each.token_times_s[0] - each.due_s for each in rows], 90)


def test_rows_are_in_order_of_due_time_whatever_the_order_of_the_record():
    shuffled = run(list(reversed(RUN.requests)), wall_s=10.0)
    assert table(shuffled).ids == table(RUN).ids == ("a", "b", "c", "d", "e")
    assert measure(shuffled, Slo(ttft_s=2.0)) == measure(RUN, Slo(ttft_s=2.0))
