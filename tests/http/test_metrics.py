"""/metrics against Prometheus' own parser, vLLM's names and buckets, and what the snapshots themselves add up to."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from model_runner.http.metrics import Metrics
from model_runner.messages import Abort, SetPolicy, Submit
from scheduler import SamplingParams, SchedulerPolicy
from tests.http.serving import ScriptedClient, post, serving, wait_until, writing
from tests.process.fakes import Bench

HERE = Path(__file__).parent
VLLM = json.loads((HERE / "vllm_metrics.json").read_text(encoding="utf-8"))
LEFT_OUT = set(
    re.findall("vllm:[a-z_]+", (HERE.parents[1] / "docs" / "http-api.md").read_text().partition("- Left out, for")[2])
) - {"vllm:prefix_cache_hits"}
OWN_WORDS = {"vllm:num_requests_waiting_by_reason"}
"""vLLM's reasons to defer are not those that there are here."""


def parsed(page: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name -> values of its labels, without model and engine -> value. ``_created`` left out."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            own = tuple(value for name, value in sample.labels.items() if name not in ("model_name", "engine"))
            if not sample.name.endswith("_created"):
                found.setdefault(sample.name, {})[own] = sample.value
    return found


def value(page: bytes, name: str, *labels: str) -> float:
    return parsed(page)[name][labels]


def client_after(snapshots, unfinished=0) -> ScriptedClient:
    client = ScriptedClient(unfinished=unfinished)
    client.latest = snapshots[-1]
    return client


def counted(snapshots) -> tuple[Metrics, bytes]:
    metrics = Metrics()
    for snapshot in snapshots:
        metrics.take(snapshot)
    return metrics, metrics.page(client_after(snapshots))


@pytest.fixture(scope="module")
def crowded() -> Bench:
    """Two slots, and a pool too small for both: queueing, preemption, an abort, a refusal."""
    bench = Bench(SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=8), num_blocks=8, block_size=4)
    for index in range(6):
        sampling = SamplingParams(max_tokens=8 + index, ignore_eos=True)
        bench.transport.send(Submit(index, f"r{index}", sampling, prompt_token_ids=tuple(range(1, 8 + index))))
    bench.transport.send(Submit(8, "too long", SamplingParams(max_tokens=2), prompt_token_ids=tuple(range(1, 60))))
    bench.turns(30)
    bench.transport.send(Abort(9, "r5"))
    bench.run_for(4.0)
    assert not bench.scheduler.has_unfinished
    return bench


def records(bench: Bench):
    return [record for snapshot in bench.published for record in snapshot.step.records]


def test_before_the_first_snapshot_there_is_an_empty_page():
    assert Metrics().page(ScriptedClient()) == b""


def test_names_kinds_labels_and_help_texts_are_vllms_and_what_is_left_out_is_documented(crowded):
    _, page = counted(crowded.published)
    found = {f.name: f for f in text_string_to_metric_families(page.decode()) if not f.name.endswith("_created")}
    assert found.keys() | LEFT_OUT == VLLM["families"].keys()
    assert not found.keys() & LEFT_OUT
    for name, family in found.items():
        theirs = VLLM["families"][name]
        assert family.type == theirs["kind"], name
        assert name in OWN_WORDS or family.documentation == theirs["help"], name
        for sample in family.samples:
            if theirs["labels"] is not None:
                assert sorted(sample.labels.keys() - {"le"}) == sorted(theirs["labels"]), name


def test_buckets_are_vllms(crowded):
    _, page = counted(crowded.published)
    for family in text_string_to_metric_families(page.decode()):
        bounds = [float(s.labels["le"]) for s in family.samples if s.name.endswith("_bucket")]
        if family.type == "histogram":
            assert bounds == [*VLLM["buckets"][VLLM["families"][family.name]["buckets"]], float("inf")], family.name


def test_r16_counters_are_what_the_snapshots_add_up_to(crowded):
    _, page = counted(crowded.published)
    steps = [snapshot.step for snapshot in crowded.published]
    ended = [record for record in records(crowded) if record.outcome != "rejected"]
    assert value(page, "vllm:generation_tokens_total") == sum(len(step.new_tokens) for step in steps)
    assert value(page, "vllm:prompt_tokens_total") == sum(r.num_prompt_tokens for r in ended if r.first_token_time)
    assert value(page, "vllm:num_preemptions_total") == sum(len(step.preempted) for step in steps) > 0
    for reason, outcome in (("length", "finished"), ("abort", "aborted")):
        expected = sum(record.outcome == outcome for record in ended)
        assert value(page, "vllm:request_success_total", reason) == expected > 0
    assert value(page, "vllm:request_success_total", "stop") == 0
    ran = [step for snapshot, step in zip(crowded.published, steps, strict=True) if not snapshot.heartbeat]
    assert value(page, "vllm:iteration_tokens_total_count") == len(ran)
    assert value(page, "vllm:iteration_tokens_total_sum") == sum(sum(s.num_scheduled_tokens.values()) for s in ran)


def test_r16_intervals_are_those_of_the_records(crowded):
    """F58: one TTFT a request, of its first emission. F59: the queue ends with the first schedule."""
    _, page = counted(crowded.published)
    began = [record for record in records(crowded) if record.first_token_time is not None]
    finished = [record for record in began if record.outcome == "finished"]
    assert any(record.num_preemptions for record in finished)
    ttft = [record.first_token_time - record.arrival_time for record in began]
    assert value(page, "vllm:time_to_first_token_seconds_count") == len(began)
    assert value(page, "vllm:time_to_first_token_seconds_sum") == pytest.approx(sum(ttft))
    times = {
        "e2e_request_latency": [r.end_time - r.arrival_time for r in finished],
        "request_queue_time": [r.first_scheduled_time - r.arrival_time for r in finished],
        "request_prefill_time": [r.first_token_time - r.first_scheduled_time for r in finished],
        "request_decode_time": [r.last_token_time - r.first_token_time for r in finished],
        "request_inference_time": [r.last_token_time - r.first_scheduled_time for r in finished],
    }
    for name, seconds in times.items():
        assert value(page, f"vllm:{name}_seconds_count") == len(finished), name
        assert value(page, f"vllm:{name}_seconds_sum") == pytest.approx(sum(seconds)), name
    gaps = [r.last_token_time - r.first_token_time for r in began]
    assert value(page, "vllm:inter_token_latency_seconds_sum") == pytest.approx(sum(gaps))
    assert value(page, "vllm:inter_token_latency_seconds_count") == sum(r.num_output_tokens - 1 for r in began)


def test_f57_no_counter_goes_down_over_a_restart_and_a_continued_request_counts_its_first_token_once(crowded):
    metrics, first = counted(crowded.published)
    second = Bench(num_blocks=8, block_size=4, run_id="another")
    sampling = SamplingParams(max_tokens=6, ignore_eos=True)
    prior = Submit(1, "r0", sampling, prompt_token_ids=(1, 2), prior_output_token_ids=(97, 98), age_s=5.0)
    second.transport.send(prior)
    second.run_for(1.0)
    for snapshot in second.published:
        metrics.take(snapshot)
    page = metrics.page(client_after(second.published))
    before, after = parsed(first), parsed(page)
    for name in before:
        if name.endswith(("_total", "_count", "_sum", "_bucket")):
            assert all(after[name][labels] >= number for labels, number in before[name].items()), name
    for name, grown in (("time_to_first_token_seconds_count", 0), ("generation_tokens_total", 4)):
        assert value(page, f"vllm:{name}") == value(first, f"vllm:{name}") + grown


def test_f60_nothing_is_kept_of_requests_that_ended(crowded):
    metrics, _ = counted(crowded.published)
    assert metrics._lives == {}


def test_a_reader_that_missed_snapshots_still_counts_all_tokens(crowded):
    """Counters come from the totals, the first token of a request that ended from its record."""
    name = "vllm:generation_tokens_total"
    whole = value(counted(crowded.published)[1], name)
    assert value(counted([*crowded.published[::3], crowded.published[-1]])[1], name) == whole


def test_gauges_tell_the_present_and_split_those_who_wait():
    bench = Bench(SchedulerPolicy(max_num_seqs=1), num_blocks=8, block_size=4)
    for index in range(3):
        bench.transport.send(Submit(index, f"r{index}", SamplingParams(max_tokens=9), prompt_token_ids=(1, 2, 3)))
    bench.turns(3)
    metrics, _ = counted(bench.published)
    client = client_after(bench.published, unfinished=4)  # one of them not yet with the engine
    client.state = SimpleNamespace(phase="running")
    page = metrics.page(client)
    assert value(page, "vllm:num_requests_running") == 1
    assert value(page, "vllm:num_requests_waiting") == 3
    assert value(page, "vllm:num_requests_waiting_by_reason", "capacity") == 3
    assert value(page, "vllm:kv_cache_usage_perc") == bench.published[-1].step.kv_cache_usage > 0
    bench.transport.send(SetPolicy(9, replace(bench.scheduler.policy, admission_paused=True, max_num_seqs=2)))
    bench.turns(2)
    client.latest = bench.published[-1]
    page = metrics.page(client)
    assert value(page, "vllm:num_requests_waiting_by_reason", "deferred") == 3
    assert value(page, "vllm:num_requests_waiting_by_reason", "capacity") == 0
    client.state = SimpleNamespace(phase="down")
    page = metrics.page(client)
    assert (value(page, "vllm:num_requests_running"), value(page, "vllm:num_requests_waiting")) == (0, 4)
    assert value(page, "vllm:kv_cache_usage_perc") == 0


def test_no_counter_goes_down_when_the_worker_is_killed_and_every_token_is_counted_once():
    others = {child.pid for child in psutil.Process().children()}
    asked = {"prompt": "abc", "max_tokens": 80, "stream": True}
    with writing([b"a"], step_s=0.01) as client, serving(client) as url:
        (worker,) = {child.pid for child in psutil.Process().children()} - others
        pages: list[bytes] = []
        with httpx.stream("POST", f"{url}/v1/completions", json=asked, timeout=60) as response:
            for number, line in enumerate(response.iter_lines()):
                if number % 10 == 0 and (page := httpx.get(f"{url}/metrics").content):
                    pages.append(page)
                if number == 40:
                    os.kill(worker, signal.SIGKILL)
                assert '"error"' not in line
        pages.append(httpx.get(f"{url}/metrics").content)
        assert client.requests()[-1].num_restarts == 1
    assert len(pages) > 5
    for earlier, later in pairwise(map(parsed, pages)):
        for name, samples in earlier.items():
            if name.endswith(("_total", "_count", "_sum", "_bucket")):
                assert all(later[name][labels] >= number for labels, number in samples.items()), name
    for name, number in (("generation_tokens_total", 80), ("time_to_first_token_seconds_count", 1)):
        assert value(pages[-1], f"vllm:{name}") == number
    assert value(pages[-1], "vllm:prompt_tokens_total") == 3
    assert value(pages[-1], "vllm:request_success_total", "length") == 1


def test_refusals_of_a_full_queue_are_counted(crowded):
    metrics, _ = counted(crowded.published)
    metrics.refused()
    metrics.refused()
    client = client_after(crowded.published)
    for _ in range(2):  # a second scrape counts nothing twice
        assert value(metrics.page(client), "vllm:admission_rejections_total", "max_num_queued_reqs") == 2


def test_the_page_is_served_and_counts_what_was_sent():
    with writing([b"a"]) as client, serving(client) as url:

        def generated() -> float:
            return value(httpx.get(f"{url}/metrics").content, "vllm:generation_tokens_total")

        wait_until(lambda: httpx.get(f"{url}/metrics").content, what="a snapshot came after the API was attached")
        before = generated()
        post(url, {"prompt": "abc", "max_tokens": 5})
        wait_until(lambda: generated() == before + 5, what="all tokens are counted")
        response = httpx.get(f"{url}/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text)
    info = next(family for family in families if family.name == "vllm:cache_config_info")
    assert info.samples[0].labels["block_size"] == "4"
    assert info.samples[0].labels["num_gpu_blocks"] == "256"
