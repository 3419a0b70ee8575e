"""The page of experiments as a script: what it says of finished folders, and that only the presenter acts."""

from __future__ import annotations

import io
import re
import time
import zipfile
from dataclasses import replace
from fractions import Fraction
from html import unescape

import pytest

from dashboard import engine, visit
from dashboard.arrow import decode
from dashboard.charts.experiment_specs import CHARTS, experiment_spec
from dashboard.door import Door
from dashboard.experiments import racing, tables, workshop
from dashboard.experiments.findings import make
from dashboard.i18n import translator
from dashboard.screens.experiments_card import zipped
from dashboard.screens.experiments_state import UPLOAD_PROBLEM, UPLOADED
from dashboard.views.markup import esc
from experiments.analysis.metrics import METRICS
from experiments.analysis.rosetta import DEFINITIONS
from experiments.cards.markdown import to_markdown
from experiments.exports import FORMATS
from scheduler import PRESETS
from tests.dashboard.experiment_folders import TINY, experiment
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import charts, html, page

T = translator("en")
PART = "exp.r.part"


@pytest.fixture
def shop(monkeypatch, tmp_path):
    made = workshop.Workshop(tmp_path / "experiments")
    made.folder.mkdir()
    monkeypatch.setattr(workshop, "shared", lambda: made)
    return made


@pytest.fixture
def running(monkeypatch, shop):
    fake = FakeClient()
    for i in range(6):
        fake.add(f"r{i}", 20, 60)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    fake.run(40)
    racer = racing.Racer()
    monkeypatch.setattr(racing, "shared", lambda: racer)
    return shared


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each kind."""
    root = tmp_path_factory.mktemp("experiments")
    return {
        "ab": experiment(root, replace(TINY, ttft_s=0.2, tpot_s=0.02)),
        "factorial": experiment(root, replace(TINY, kind="factorial", num_requests=12)),
        "chunk": experiment(root, replace(TINY, kind="chunk")),
    }


def findings(path):
    entry = workshop.Workshop(path.parent).entry(path.name)
    return make(entry, entry.manifest)


@pytest.fixture(scope="module")
def found(folders):
    return {kind: findings(path) for kind, path in folders.items()}


def results(shop, path, part: str = "", lang: str = "en"):
    """The page on a folder's results, once they are computed."""
    (shop.folder / path.name).symlink_to(path)
    while shop.findings.get(shop.entry(path.name)) is None:
        time.sleep(0.02)
    at = page(view="experiments", lang=lang)
    at.button_group(key="exp.section").set_value("results").run()
    if part:
        at.button_group(key=PART).set_value(part).run()
    assert not at.exception
    return at


def test_the_form_says_what_will_be_done_and_waits_for_run(running, shop):
    at = page(view="experiments")
    assert not at.exception
    assert "8 runs of 60 requests" in html(at)
    assert "How long it takes is not known" in html(at) or "as fast as the live engine" in html(at)
    assert not at.button(key="exp.run").disabled
    at.button_group(key="exp.f.kind").set_value("chunk").run()
    at.text_input(key="exp.f.sizes").set_value("16, many").run()
    assert "chunk.sizes" in at.warning[0].value.replace("\\", "")
    assert at.button(key="exp.run").disabled
    assert not any(shop.folder.iterdir())


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("repeats", "0", "Repeats is “0”; a whole number from 1 to 50 is needed"),
        ("repeats", "many", "Repeats is “many”; a whole number from 1 to 50 is needed"),
        ("seed", "", "Seed is empty; a whole number from 0 to 2147483648 is needed"),
        ("num_requests", "1.5", "Requests is “1.5”; a whole number from 1 to 20000 is needed"),
        ("a.seqs", "5000", "A, the baseline: Requests at once is “5000”; a whole number from 1 to 1024, or nothing is"),
        ("arrivals.gamma.rate", "0", "Arrivals: rate (1/s) is “0”; a number from 0.01 to 100000 is needed"),
        ("prompt.lognormal.high", "1e9", "Prompts (tokens): high is “1e9”; a whole number from 1 to 10000000 is"),
        ("ttft_s", "-1", "TTFT at most is “-1”; a number from 0.001 to 3600, or nothing is needed"),
    ],
)
def test_a_wrong_number_is_told_with_its_box_and_holds_run_back(running, field, text, words):
    at = page(view="experiments")
    at.text_input(key=f"exp.f.{field}").set_value(text).run()
    assert words in at.warning[0].value.replace("\\", "")
    assert at.button(key="exp.run").disabled
    assert f".st-key-exp-f-{field.replace('.', '-')}" in html(at), "the box is marked"
    at.text_input(key="exp.f.repeats").set_value("4").run()
    at.text_input(key=f"exp.f.{field}").set_value({"a.seqs": ""}.get(field, "5")).run()
    assert not at.warning
    assert not at.button(key="exp.run").disabled


def test_a_wrong_number_in_a_box_that_does_not_count_holds_nothing_back(running):
    at = page(view="experiments")
    at.text_input(key="exp.f.arrivals.gamma.rate").set_value("x").run()
    at.selectbox(key="exp.f.arrivals").set_value("steady").run()
    assert not at.button(key="exp.run").disabled


def test_what_two_boxes_forbid_together_is_told_in_korean(running):
    at = page(view="experiments", lang="ko")
    at.text_input(key="exp.f.output.uniform.high").set_value("3").run()
    told = at.warning[0].value.replace("\\", "")
    assert "high 3: 8 이상 10000000 이하의 정수 필요" in told
    assert "expected" not in told
    assert at.button(key="exp.run").disabled


def test_wrong_numbers_of_a_race_and_of_a_simulation_hold_their_buttons_back(running):
    at = page(view="experiments")
    at.button_group(key="exp.section").set_value("race").run()
    at.text_input(key="exp.g.race.seqs").set_value("0").run()
    assert "Requests at once is “0”" in html(at)
    assert at.button(key="exp.race").disabled
    assert at.button(key="exp.race.real").disabled
    at.button_group(key="exp.section").set_value("whatif").run()
    at.text_input(key="exp.g.w.gpus").set_value("two").run()
    assert "GPUs is “two”; a whole number from 1 to 64 is needed" in html(at)
    assert at.button(key="exp.whatif").disabled


@pytest.mark.parametrize("kind", ["ab", "factorial", "chunk"])
@pytest.mark.parametrize("source", ["style", "file"])
def test_every_form_draws_in_korean(running, kind, source):
    at = page(view="experiments", lang="ko")
    at.button_group(key="exp.f.kind").set_value(kind).run()
    at.button_group(key="exp.f.source").set_value(source).run()
    assert not at.exception


def test_fields_outlive_a_look_at_the_results(running):
    at = page(view="experiments")
    at.text_input(key="exp.f.repeats").set_value("6").run()
    at.button_group(key="exp.section").set_value("results").run()
    at.button_group(key="exp.section").set_value("start").run()
    assert at.text_input(key="exp.f.repeats").value == "6"


def test_a_wrong_file_changes_nothing_and_names_line_and_field(running):
    at = page(view="experiments")
    at.button_group(key="exp.f.source").set_value("file").run()
    at.get("file_uploader")[0].upload(
        "good.csv", b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,9,4\n", "text/csv"
    ).run()
    assert "vidur, 1 request over 0 s" in html(at)
    kept = at.session_state[UPLOADED]
    at.get("file_uploader")[0].upload(
        "bad.csv", b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,9,x\n", "text/csv"
    ).run()
    assert at.session_state[UPLOADED] is kept
    assert "line 2: num_decode_tokens" in str(at.session_state[UPLOAD_PROBLEM])


def test_the_overview_has_every_metric_its_verdict_and_what_got_worse(running, shop, folders, found):
    at = results(shop, folders["ab"])
    rows = charts(at)["rows"]["rows"]
    assert rows["n"][:2] == ["Output tokens / s", "Requests / s"]
    comparison = found["ab"].comparison
    change = comparison.differences["output_tokens_per_s"].ratio - 1
    assert rows["m"][0] == pytest.approx(change, rel=1e-5)
    text = html(at)
    assert all(word in text for word in ("▲ better", "? unclear", "How requests ended", "queue kept growing"))
    assert "<b>bold</b>" not in text


def test_a_bar_of_the_chart_has_the_verdict_of_its_interval(found):
    rows = decode(tables.difference_data(found["ab"].comparison, T)["rows"])
    for low, high, place in zip(rows["lo"], rows["hi"], rows["v"], strict=True):
        if low is not None:
            assert (low > 0 or high < 0) == (place != 2)


def test_shapley_shares_of_the_chart_lead_from_none_to_all(found):
    for each in found["factorial"].factorial.attributions.values():
        rows = decode(tables.share_data(each, T)["rows"])
        assert rows["lo"][1:5] == rows["hi"][:4]
        assert rows["hi"][4] == pytest.approx(rows["hi"][5], rel=1e-5)
        assert sum((part.change for part in each.shares), Fraction(0)) == each.gain.change


def test_the_factorial_tells_effects_interactions_and_what_does_not_exist(running, shop, folders):
    at = results(shop, folders["factorial"], "whose")
    text = html(at)
    assert "iteration-level batching × paged allocation" in text
    assert "Optimistic admission needs paged allocation" in text
    assert len(charts(at)["rows"]["rows"]["n"]) == 6


def test_the_microscope_has_a_point_a_size_with_its_interval(running, shop, folders):
    at = results(shop, folders["chunk"], "microscope", "ko")
    points = charts(at)["points"]["points"]
    assert points["n"] == ["16", "32", "64", "128"]
    assert all(low <= x <= high for low, x, high in zip(points["x1"], points["x"], points["x2"], strict=True))
    assert "꺾" in html(at)


def test_parts_of_a_ledger_bar_add_up_to_its_total(found):
    data = {name: decode(table) for name, table in tables.ledger_data(found["ab"].ledger, "a", "b", T, "en").items()}
    for row in range(6):
        parts = [k for k, r in enumerate(data["bars"]["r"]) if r == row]
        assert sum(data["bars"]["p"][k] for k in parts) == pytest.approx(1, abs=1e-5)
        ends = [data["bars"]["e"][k] for k in parts]
        assert ends == sorted(ends)
        assert ends[-1] <= 1 + 1e-6


def test_the_plane_is_read_at_the_limits_of_the_sliders(running, shop, folders, found):
    at = results(shop, folders["ab"], "plane")
    both = found["ab"].plane
    cells = charts(at)["cells"]["cells"]
    assert len(cells["w"]) == both.winner.size
    assert set(cells["w"]) == set(both.winner.flatten().tolist())
    middle = len(both.a.ttft_limits_s) // 2
    assert f"{both.a.goodput_rps[middle, middle]:.3f} good requests / s" in html(at)


@pytest.mark.parametrize("part", ["waste", "rosetta", "files"])
def test_the_other_parts_draw_in_both_languages(running, shop, folders, part):
    for lang in ("en", "ko"):
        (shop.folder / folders["ab"].name).unlink(missing_ok=True)
        at = results(shop, folders["ab"], part, lang)
        assert not [each.value for each in at.error]
    assert part != "rosetta" or "GuideLLM" in html(at)


def test_the_card_is_drawn_in_the_language_of_the_page_and_escaped(running, shop, folders):
    at = results(shop, folders["ab"], "card", "ko")
    text = html(at)
    assert "이 결과로 주장할 수 없는 것" in text
    assert "tiny &lt;b&gt;bold&lt;/b&gt;" in text


def test_a_card_without_its_conditions_has_no_headline(running, shop, tmp_path):
    path = experiment(tmp_path / "other", replace(TINY, tuned=None), runs=3)
    text = html(results(shop, path, "card"))
    assert "No headline number" in text
    assert "bs-missing" in text


def test_an_unfinished_folder_offers_to_go_on_and_a_finished_one_does_not(running, shop, folders, tmp_path):
    at = results(shop, experiment(tmp_path / "other", TINY, runs=2))
    assert not at.button(key="exp.resume").disabled
    (shop.folder / folders["factorial"].name).symlink_to(folders["factorial"])
    at.run()
    at.selectbox(key="exp.r.chosen").set_value(folders["factorial"].name).run()
    assert at.button(key="exp.resume").disabled


@pytest.mark.parametrize("name", FORMATS)
def test_every_export_is_a_zip_with_a_file_a_run(folders, name):
    names = zipfile.ZipFile(io.BytesIO(zipped(folders["ab"], name))).namelist()
    assert len({each.split(".")[0] for each in names}) == (1 if name == "workload" else 4)


def test_the_audience_reads_results_and_can_begin_nothing(monkeypatch, running, shop, folders):
    locked = replace(running, door=Door("open-sesame-42"))
    monkeypatch.setattr(engine, "shared", lambda: locked)
    monkeypatch.setattr(visit, "_cookie", lambda kind: None)
    (shop.folder / folders["ab"].name).symlink_to(folders["ab"])
    at = page(view="experiments")
    keys = {button.key for button in at.button}
    assert not keys & {"exp.run", "exp.cancel", "exp.resume", "exp.race", "exp.race.real", "exp.whatif"}
    for section in ("race", "whatif"):
        at.button_group(key="exp.section").set_value(section).run()
        assert not at.exception
        assert {button.key for button in at.button} & keys == {button.key for button in at.button}
    assert "start" not in at.button_group(key="exp.section").options


@pytest.mark.parametrize("is_real", [False, True])
def test_a_race_has_both_ghosts_the_error_and_changes_the_engine_only_when_asked(monkeypatch, running, is_real):
    monkeypatch.setattr(running.client.traffic, "ahead", lambda seconds: (), raising=False)
    before = running.desk.policy
    at = page(view="experiments")
    at.button_group(key="exp.section").set_value("race").run()
    at.selectbox(key="exp.g.race.preset").set_value("sarathi").run()
    at.button(key="exp.race.real" if is_real else "exp.race").click().run()
    until = time.monotonic() + 30
    while racing.shared().shown.stage in ("none", "making") and time.monotonic() < until:
        time.sleep(0.02)
    running.client.run(5)
    time.sleep(0.7)
    at.run()
    assert not at.exception
    text, lines = html(at), charts(at)["lines"]["lines"]
    assert "held out" in text
    assert {1, 2} <= set(lines["s"])
    assert (running.client.policy.max_num_batched_tokens == PRESETS["sarathi"].max_num_batched_tokens) == is_real
    assert is_real or running.client.policy == before


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_chart_has_a_fixed_height_and_the_background_of_its_theme(name, theme):
    spec = experiment_spec(name, theme, "ko")
    assert spec["config"]["background"] == {"dark": "#0e1117", "light": "#ffffff"}[theme]
    parts = spec.get("vconcat", [spec])
    assert all(isinstance(part["height"], int) for part in parts)


def test_counts_of_samples_are_those_of_the_card_and_say_of_what(running, shop, folders, found):
    text = html(results(shop, folders["ab"]))
    assert '<th scope="col">samples a run</th>' in text
    on_card = {figure.name: [level.count for level in figure.levels] for figure in found["ab"].card.figures}
    for name, each in found["ab"].comparison.differences.items():
        if name in on_card:
            assert on_card[name] == [each.count_a, each.count_b], name
            assert f"<td>{each.count_a:,} / {each.count_b:,}</td>" in text
    assert on_card["ttft_p50_s"] == [24, 24], "the trace has 24 requests, each run twice"


def test_a_race_without_lines_is_a_sentence_and_no_chart(running):
    at = page(view="experiments")
    at.button_group(key="exp.section").set_value("race").run()
    assert not at.get("vega_lite_chart")
    assert "No lines yet" in html(at)


def test_the_card_on_the_page_and_its_markdown_say_the_same_headings_and_figures(running, shop, folders, found):
    for lang in ("en", "ko"):
        (shop.folder / folders["ab"].name).unlink(missing_ok=True)
        text = unescape(html(results(shop, folders["ab"], "card", lang)))
        heads = re.findall(r"^## (.+)$", to_markdown(found["ab"].card, lang), re.MULTILINE)
        assert heads
        assert sorted(re.findall(r"<h4>(.+?)</h4>", text)) == sorted(heads)
        for figure in found["ab"].plain_cards[lang].figures:
            assert f">{figure.name}</span>" in text
            assert f"<td>{figure.samples}</td>" in text


SENTENCE = re.compile(r"\b(is|are|the|expected|was|of|from|each|not|requests|tokens|steps|interval)\b")


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        *(("ab", part) for part in ("overview", "waste", "plane", "rosetta", "card")), ("chunk", "microscope"),
        ("chunk", "card"), ("factorial", "whose"), ("factorial", "card"),
    ],
)  # fmt: skip
def test_no_sentence_of_the_results_is_left_in_english_on_a_korean_page(running, shop, folders, kind, part):
    """Formulas of other tools, commands and names stay; what a person wrote into the form too."""
    text = html(results(shop, folders[kind], part, "ko"))
    text = re.sub(
        r"<style.*?</style>|<pre>.*?</pre>|<code.*?</code>|<span title=.*?>|prices of a test|presets as they are",
        "",
        text,
        flags=re.DOTALL,
    )
    for metric in METRICS.values():  # where a definition is written, not what it says
        text = text.replace(esc(metric.source), "")
    pieces = [unescape(piece).strip() for piece in re.split(r"<[^>]+>", text)]
    english = [piece for piece in pieces if SENTENCE.search(re.sub(r"\([^)]*\)", "", piece)) and piece not in KEPT]
    assert not english


KEPT = {definition.formula for definition in DEFINITIONS}
