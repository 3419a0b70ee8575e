"""What the page says in words and numbers, against hand-computed values."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
import pytest

from dashboard.block_squares import map_geometry
from dashboard.charts.specs import specs
from dashboard.charts.theme import DARK, LIGHT, THEMES
from dashboard.fields import controls, slider_steps
from dashboard.figures import percentile
from dashboard.i18n import translator
from dashboard.settings import SettingsError, from_environment
from dashboard.views import status, step, tiles
from dashboard.views.markup import esc, plain
from dashboard.views.memory_account import account_line
from dashboard.views.preemptions import preemptions
from dashboard.views.request import follow
from dashboard.words import policy_words, waiting_words
from model_runner.messages import StartTiming
from model_runner.views import ClientState
from scheduler import SamplingParams, SchedulerPolicy, StepEvent
from tests.dashboard.fakes import FakeClient, engine_with

EN, KO = translator("en"), translator("ko")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\u200b"


def state(phase: str, age: float | None = 0.1, progress: float | None = None, message: str = "") -> ClientState:
    return ClientState(phase, time.time(), age, message, progress, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        ("running", "LIVE"), ("computing", "COMPUTING"), ("idle", "IDLE"), ("paused", "PAUSED"), ("stalled", "STALLED"),
        ("down", "ENGINE DOWN"),
        ("restarting", "RESTARTING"), ("failed", "FAILED"), ("starting", "STARTING"), ("stopped", "STOPPED"),
    ],
)  # fmt: skip
def test_each_state_has_a_word_and_a_shape(phase, word):
    pill = status.pill(state(phase), EN)
    assert word in pill
    assert status.PILLS[phase].shape in pill


def test_old_data_are_called_stale_with_their_age_and_lose_their_colour():
    old = state("running", age=3.2)
    assert "STALE 3.2 s" in status.pill(old, EN)
    assert status.is_frozen(old)
    assert not status.is_frozen(state("running", age=0.4))
    assert not status.is_frozen(state("paused", age=0.4))


def test_loading_shows_how_far_it_is():
    assert "LOADING 40%" in status.pill(state("loading", progress=0.4), EN)
    assert "%" not in status.pill(state("loading", None, progress=0.0), EN), "a stage that cannot tell how far it is"


def test_a_toy_model_is_named_with_the_one_command_that_helps():
    client = FakeClient()
    client.run(1)
    assert status.MODEL_COMMAND in status.toy_notice(client.latest, EN)


def test_the_strip_says_since_which_iteration_the_policy_is_in_force():
    client = FakeClient()
    client.add("r0", 4, 9)
    client.run(3)
    client.set_policy(SchedulerPolicy(max_num_seqs=3))
    client.run(2)
    assert "policy v2 since iteration 4" in status.strip(client.state, client.latest, client.marks, 1, EN)


def test_the_strip_says_how_attention_is_computed_and_why():
    client = FakeClient()
    client.run(1)
    assert "attention" not in status.strip(client.state, client.latest, client.marks, 1, EN)
    info = msgspec.structs.replace(
        client.latest.info, attention="varlen_paged", attention_note='pages of "16"', decode_batches=(1, 64)
    )
    strip = status.strip(client.state, msgspec.structs.replace(client.latest, info=info), client.marks, 1, EN)
    assert '<span title="pages of &quot;16&quot;">attention: varlen_paged</span>' in strip
    assert "CUDA graphs: decodes of up to 64 requests" in strip


def test_the_strip_shows_what_number_type_and_threads_were_chosen_from():
    client = FakeClient()
    client.run(1)
    assert "measured" not in status.strip(client.state, client.latest, client.marks, 1, EN)
    timings = (StartTiming("float32", 1, 41.27), StartTiming("bfloat16", 1, 22.1))
    info = msgspec.structs.replace(client.latest.info, start_timings=timings)
    latest = msgspec.structs.replace(client.latest, info=info)
    figures = "float32 with threads: 1 41.3 ms, bfloat16 with threads: 1 22.1 ms"
    assert f"measured at the start: {figures}</span>" in status.strip(client.state, latest, client.marks, 1, EN)
    assert "시작할 때 잰 값: float32, 스레드 1개 41.3 ms" in status.strip(
        client.state, latest, client.marks, 1, translator("ko")
    )


def test_text_of_requests_and_models_stays_text():
    client = FakeClient()
    view = client.submit(HOSTILE, SamplingParams(max_tokens=3))
    client.run(1)
    shown = client.request(view.request_id)
    assert shown is not None
    html = follow(replace(shown, text=HOSTILE), client.latest.step, 0, DARK, EN)  # type: ignore[union-attr]
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\u200b" not in html
    assert esc("a" * 9000, 100).endswith("…")
    assert len(esc("a" * 9000, 100)) == 100


def test_markdown_signs_in_a_message_are_text():
    assert plain("a_b *c* [x](y) <b>") == r"a\_b \*c\* \[x\]\(y\) \<b\>"


def test_the_decision_is_the_dictionary_of_the_step():
    client = FakeClient(SchedulerPolicy(max_num_batched_tokens=16))
    client.add("r0", 10, 4)
    client.add("r1", 20, 4)
    client.run(1)
    html = step.decision(client.latest, {}, DARK, EN)  # type: ignore[arg-type]
    assert "r0: <b>10</b> <i>prefill</i>" in html
    assert "r1: <b>6</b> <i>prefill</i>" in html
    assert "16 of 16 tokens" in html


def test_the_list_of_preemptions_says_who_for_whom_at_what_price_and_when_it_was_back():
    client = FakeClient(SchedulerPolicy(max_num_seqs=4, kv_block_limit=8, admission_rule="next_chunk"))
    for i in range(3):
        client.add(f"r{i}", 9, 9)
    client.run(40)
    frame = engine_with(client).hub.frame()
    assert frame is not None
    assert frame.evictions
    truth = [e for s in client.history() for e in s.step.events if e.kind == "preempted"]
    assert [(e.request_id, e.freed_blocks, e.recompute_tokens) for e in reversed(frame.evictions)] == [
        (e.request_id, e.numbers["freed_blocks"], e.numbers["recompute_tokens"]) for e in truth
    ]
    back = {e.request_id: e.step_id for s in client.history() for e in s.step.events if e.kind == "resumed"}
    assert frame.evictions[0].back_step == back[frame.evictions[0].request_id]
    html = preemptions(frame.evictions, 64, DARK, EN, 100)
    assert f"evicted for {frame.evictions[0].for_request_id}" in html


def test_the_head_of_the_queue_is_explained_with_its_numbers():
    client = FakeClient(SchedulerPolicy(max_num_seqs=4, kv_block_limit=4))
    client.add("r0", 12, 4)
    client.add("r1", 12, 4)
    now = client.run(1)
    row = now.waiting[0]
    assert row.reason == "kv_capacity"
    assert waiting_words(row, EN) == (
        f"r1 waits: needs {row.needed_blocks} blocks; free: {row.free_blocks}. r0 holds most blocks."
    )
    assert "r1 대기" in step.head_reason(now, KO)
    behind_a_blocked_row = replace(row, needed_blocks=1, free_blocks=3)
    assert waiting_words(behind_a_blocked_row, EN) == (
        "r1 waits: r0 runs, finds no KV block and waits; nobody is admitted meanwhile."
    )


def test_tiles_show_a_dash_and_no_sample_before_there_is_one():
    html = tiles.tiles(None, EN)
    assert html.count(">–<") == 5
    client = FakeClient()
    client.run(1)
    frame = engine_with(client).hub.frame()
    assert frame is not None
    assert "n = 0" in tiles.tiles(frame.figures, EN)


def test_figures_are_those_of_the_requests_that_finished():
    client = FakeClient(SchedulerPolicy(max_num_seqs=2))
    client.add("r0", 4, 5)
    client.run(6)
    frame = engine_with(client).hub.frame()
    assert frame is not None
    # Steps of 0.1 s: the first token after one step, then one token a step. TPOT = (5 - 1) * 0.1 s / (5 - 1).
    assert frame.figures.ttft.n == 1
    assert frame.figures.ttft.p50 == pytest.approx(100)
    assert frame.figures.tpot.p50 == pytest.approx(100)
    assert frame.figures.tokens_per_s == pytest.approx(4 / 0.5)


def test_percentiles_interpolate_between_closest_ranks():
    assert percentile([1, 2, 3, 4], 50) == 2.5
    assert percentile([10], 95) == 10
    assert percentile(list(range(101)), 95) == 95


def test_the_account_of_the_map_says_what_is_locked():
    client = FakeClient(SchedulerPolicy(kv_block_limit=20))
    client.add("r0", 8, 4)
    now = client.run(1)
    line = account_line(now, map_geometry(32), EN)
    assert f"32 × 4 tokens = {now.num_used_blocks} in use + {20 - now.num_used_blocks} free + 12 locked" in line


def test_a_policy_reads_as_a_line():
    line = policy_words(SchedulerPolicy(batching="static", kv_block_limit=9, enable_chunked_prefill=False), EN)
    assert line.startswith("static batching · 8 slots · 128 tokens per iteration")
    assert "prompts whole" in line
    assert "at most 9 KV blocks" in line


def test_a_policy_that_never_preempts_names_no_victim_rule():
    line = policy_words(SchedulerPolicy(preemption_mode="never", preemption_victim="newest"), EN)
    assert "evict nobody" in line
    assert "newest" not in line


def test_every_policy_field_that_offers_a_choice_has_a_control_with_a_help_text():
    shown = {c.field: c for c in controls()}
    assert {
        "batching",
        "max_num_seqs",
        "max_num_batched_tokens",
        "long_prefill_token_threshold",
        "kv_watermark",
    } <= set(shown)
    assert {"enable_chunked_prefill", "admission_order", "admission_rule", "kv_block_limit"} <= set(shown)
    assert {"preemption_victim", "preemption_requeue", "prefill_mix", "admission_paused"} <= set(shown)
    assert all(c.help for c in shown.values())


def test_a_slider_always_offers_the_value_in_force():
    for control in controls():
        if control.steps or control.field == "kv_block_limit":
            assert 37 in slider_steps(control, 37, 192)
    limit = next(c for c in controls() if c.field == "kv_block_limit")
    assert slider_steps(limit, None, 192)[-1] is None


@pytest.mark.parametrize("theme", sorted(THEMES))
@pytest.mark.parametrize("language", ["en", "ko"])
def test_specifications_are_built_once_and_carry_no_data(theme, language):
    built = specs(theme, language, map_geometry(192))
    assert built is specs(theme, language, map_geometry(192))
    for spec in built.values():
        assert "datasets" not in spec
        assert spec["usermeta"]["embedOptions"]["renderer"] in ("canvas", "svg")


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda t: t.name)
def test_contrasts_meet_wcag_aa(theme):
    for text in (theme.ink, theme.muted, theme.red, theme.amber, theme.green, theme.accent):
        assert contrast(text, theme.background) >= 4.5, text
        assert contrast(text, theme.panel) >= 4.5, text
    for hue, ink in zip(theme.hues, theme.on_hue, strict=True):
        assert contrast(hue, theme.background) >= 2.9, hue
        assert contrast(ink, hue) >= 4.5, (hue, ink)


def test_settings_come_from_the_environment_and_name_what_is_wrong():
    given = {
        "BATCHSCOPE_MODEL": "toy",
        "BATCHSCOPE_NUM_BLOCKS": "64",
        "BATCHSCOPE_PRESET": "vllm-v1",
        "BATCHSCOPE_RATE": "2",
    }
    settings = from_environment({**given, "PATH": "x", "BATCHSCOPE_THREADS": ""})
    assert (settings.config.model, settings.config.num_blocks, settings.traffic.rate) == ("toy", 64, 2.0)
    assert settings.policy.prefill_mix == "running_order"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NUM_BLOCKS", "0"), ("NUM_BLOCKS", "many"), ("THREADS", "-1"), ("DTYPE", "float16"), ("DEVICE", "gpu"),
        ("RATE", "51"), ("RATE", "fast"), ("PRESET", "best"), ("MAX_MODEL_LEN", "1"), ("BLOCK_SIZE", "1.5"),
    ],
)  # fmt: skip
def test_a_bad_setting_is_refused_by_name_and_value(name, value):
    with pytest.raises(SettingsError, match=f"BATCHSCOPE_{name}='{value}'"):
        from_environment({f"BATCHSCOPE_{name}": value})


def test_a_policy_refused_in_every_iteration_is_told_once_with_its_number():
    numbers = {"field": "preemption_victim", "name": "mine", "file": "mine.py", "instead": "newest"}
    client = FakeClient()
    client.run(1)
    refused = StepEvent(1, 0.0, "policy_refused", "", "preemption_victim mine (mine.py): no victim", numbers)
    other = replace(refused, reason="preemption_victim mine (mine.py): a dead victim")
    quiet = client.latest.step
    recent = [replace(quiet, step_id=n, events=(replace(refused, step_id=n),)) for n in range(9, 3, -1)]
    recent += [replace(quiet, step_id=3, events=(other,)), quiet]
    for list_of in (recent, recent[-1:] + recent[:-1]):
        shown = step.events(list_of, {}, DARK, EN)
        assert shown.count("no victim") == 1
        assert "(6 times in the last 8 iterations)" in shown
        assert shown.count("a dead victim") == 1


def test_while_the_engine_is_held_the_decision_is_that_of_the_last_iteration_that_ran():
    client = FakeClient(SchedulerPolicy(max_num_batched_tokens=16))
    client.add("r0", 10, 4)
    last = client.run(1)
    nothing = replace(last, num_scheduled_tokens={}, kinds={})
    beat = msgspec.structs.replace(client.latest, heartbeat=True, step_s=0.0, step=nothing)
    html = step.decision(beat, {}, DARK, EN, last)  # type: ignore[arg-type]
    assert "r0: <b>10</b>" in html
    assert "iteration 1: 10 of 16 tokens" in html
    assert " ms" not in html, "how long it took is not in a message between two iterations"
