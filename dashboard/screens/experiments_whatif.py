"""What if there were a million requests: the same scheduler on a virtual clock, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import streamlit as st

from dashboard import engine
from dashboard.elements import title
from dashboard.experiments import workshop
from dashboard.experiments.ranges import STYLE_RATE, Range, Wrong, shown
from dashboard.experiments.told import refused
from dashboard.experiments.words import ROUTING_WORDS
from dashboard.i18n import N_, Translate, translator
from dashboard.screens.experiments_boxes import mark, number_box, style_boxes, value_of, wrong_in
from dashboard.screens.experiments_state import begun, draw_all_anew
from dashboard.views import whatif as views
from dashboard.views.markup import esc, plain
from dashboard.visit import Visit, presenter_only
from experiments.runs.folder import write_whole
from experiments.runs.spec import SpecError
from experiments.virtual.cost import FittedCost
from experiments.virtual.fleet import ROUTINGS
from experiments.virtual.hardware import GPUS, MODELS
from scheduler import PRESETS

COUNTS: Final = (1_000, 5_000, 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
LIVE: Final = "live"
"""Stands among the machines for the one at hand, with the step times of the live engine."""
FIELDS: Final[dict[str, Any]] = {
    "count": 10_000, "style": "azure-conv", "rate": None, "policies": ["vllm-v1"], "seqs": None, "machine": "H100-SXM",
    "model": "Llama-3.1-8B", "gpus": 1, "replicas": 1, "routing": "round_robin",
}  # fmt: skip
BOXES: Final = {
    "rate": (N_("Requests a second"), STYLE_RATE), "gpus": (N_("GPUs"), Range(1, 64, whole=True)),
    "replicas": (N_("Replicas"), Range(1, 256, whole=True)),
    "seqs": (N_("Requests at once"), Range(1, 4096, whole=True, may_be_empty=True)),
}  # fmt: skip
"""Boxes for numbers -> their names and what they take."""
CHOSEN: Final = "exp.g.w.chosen"


def key(name: str) -> str:
    """Of a field's control."""
    return f"exp.g.w.{name}"


def draw(seen: Visit) -> None:
    """The presenter asks; everybody reads what came out."""
    if seen.presenter:
        _ask(seen.language)
    answers(seen.language)


@st.fragment
def _ask(language: str) -> None:
    draw_all_anew()
    t = translator(language)
    for name, value in FIELDS.items():
        st.session_state.setdefault(key(name), shown(value) if name in BOXES else value)
    st.html(
        title(t("What if there were very many requests?"), t("every decision by the real scheduler, no token computed"))
    )
    count, style, rate, policies = st.columns([1.5, 1.0, 1.0, 2.0], vertical_alignment="bottom")
    count.select_slider(
        t("Requests"), COUNTS, key=key("count"), format_func=lambda n: f"{n:,}",
        help=t("A million take some minutes; memory stays small, for no row is kept of a request."),
    )  # fmt: skip
    style_boxes((style, rate), key("style"), key("rate"), t)
    policies.multiselect(
        t("Policies"), list(PRESETS), key=key("policies"), max_selections=4,
        help=t("Each is simulated with the same requests, one after the other."),
    )  # fmt: skip
    _machine(t)


def _machine(t: Translate) -> None:
    machine, model, gpus, replicas, routing, seqs, go = st.columns(
        [1.6, 1.3, 0.8, 0.8, 1.3, 0.9, 1.0], vertical_alignment="bottom"
    )
    chosen = machine.selectbox(
        t("Machine"), [LIVE, *GPUS], key=key("machine"),
        format_func=lambda name: t("this one, as the live engine runs") if name == LIVE else name,
        help=t("Iteration times fitted to the live engine, or a GPU's data sheet (a roofline, not measured)."),
    )  # fmt: skip
    is_gpu = chosen != LIVE
    model.selectbox(
        t("Model"), list(MODELS), key=key("model"), disabled=not is_gpu, help=t("Its published shape and size."),
    )  # fmt: skip
    number_box(
        gpus, t("GPUs"), key("gpus"), t("Of one replica together; what they say to each other costs nothing here.")
    )
    number_box(replicas, t("Replicas"), key("replicas"), t("Equal machines, each with its own scheduler."))
    routing.selectbox(
        t("Routing"), list(ROUTINGS), key=key("routing"), format_func=lambda name: t(ROUTING_WORDS[name]),
        help=t("Which replica gets a request."),
    )  # fmt: skip
    number_box(
        seqs, t("Requests at once"), key("seqs"),
        t("max_num_seqs of every policy; empty = 256 on a GPU, else as the preset has it."), placeholder=t("as it is"),
    )  # fmt: skip
    wrong = _wrong()
    go.button(
        t("Simulate"), key="exp.whatif", on_click=_begin, type="primary", width="stretch",
        disabled=workshop.shared().job is not None or bool(wrong) or not st.session_state[key("policies")],
        help=t("Runs in a process of its own, and can be cancelled."),
    )  # fmt: skip
    mark(wrong)
    told = "; ".join(each.words(t) for each in wrong.values()) or st.session_state.get("exp.w.told")
    st.html(f'<p class="{"bs-plan bs-unclear" if wrong else "bs-quiet"}">{esc(told)}</p>' if told else "<span></span>")


def _wrong() -> dict[str, Wrong]:
    """Boxes that cannot be read, by their keys."""
    return wrong_in((key(name), (label,), allowed) for name, (label, allowed) in BOXES.items())


@st.fragment
def answers(language: str) -> None:
    """What came out."""
    t, shop = translator(language), workshop.shared()
    found = {path.name: path for path in shop.simulations()}
    if not found:
        st.info(t("Nothing was simulated yet."))
        return
    if st.session_state.get(CHOSEN) not in found:
        st.session_state[CHOSEN] = next(iter(found))
    name = st.selectbox(
        t("Simulation"), list(found), key=CHOSEN, help=t("The newest first."),
        format_func=lambda name: f"{name[0:4]}-{name[4:6]}-{name[6:8]} {name[9:11]}:{name[11:13]}:{name[13:15]} UTC",
    )  # fmt: skip
    try:
        report = msgspec.json.decode((found[name] / workshop.REPORT_FILE).read_bytes(), type=views.Report)
    except (OSError, msgspec.MsgspecError) as error:
        st.error(t("The results cannot be read: {reason}", reason=plain(str(error))))
        return
    st.html(views.report_html(report, t, language))


@presenter_only
def _begin() -> None:
    """Every value is checked by the command itself; its log says what was wrong."""
    language = st.session_state.get("language", "en")
    t, shop, running = translator(language), workshop.shared(), engine.shared()
    if _wrong():
        return
    boxes = {name: value_of(key(name), allowed) for name, (_, allowed) in BOXES.items()}
    asked = {name: st.session_state[key(name)] for name in FIELDS} | boxes
    prices = shop.speed.cost(running.client) if asked["machine"] == LIVE else None
    if asked["machine"] == LIVE and prices is None:
        st.session_state["exp.w.told"] = t("The live engine has computed too little to know its speed; try again soon.")
        return
    latest = running.client.latest
    pool = ["--num-blocks", str(latest.info.num_blocks), "--block-size", str(latest.info.block_size)] if latest else []
    longest = ["--max-model-len", str(latest.info.max_model_len)] if latest else []
    try:
        name = shop.other("whatif", lambda path: arguments(path, asked, prices, [*pool, *longest]), lambda: None)
        st.session_state["exp.w.told"] = t("Begun; its folder is {name}.", name=name)
        begun()
    except workshop.BusyError:
        st.session_state["exp.w.told"] = t("Another experiment runs; two at once would measure each other.")
    except SpecError as error:
        st.session_state["exp.w.told"] = refused(error, language)


def arguments(path: Path, asked: dict[str, Any], prices: FittedCost | None, pool: Sequence[str]) -> list[str]:
    """Of ``python -m experiments``. pool: that of the live engine, used with its prices only."""
    made = ["whatif", "--num-requests", str(asked["count"]), "--style", asked["style"], "--policy", *asked["policies"]]
    made += ["--replicas", str(asked["replicas"]), "--routing", asked["routing"]]
    made += ["--jobs", str(max(1, (os.cpu_count() or 2) - 1)), "--out", str(path / workshop.REPORT_FILE)]
    if asked["rate"]:
        made += ["--rate", repr(asked["rate"])]
    if asked["seqs"]:
        made += ["--set", f"max_num_seqs={asked['seqs']}"]
    if prices is None:
        return [*made, "--gpu", asked["machine"], "--model", asked["model"], "--num-gpus", str(asked["gpus"])]
    write_whole(path / workshop.PRICES_FILE, msgspec.json.encode(prices))
    return [*made, "--prices", str(path / workshop.PRICES_FILE), *pool]
