"""What the page of experiments remembers of a browser: the filled-in form and the chosen result."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from dashboard.experiments.form import ARRIVALS, FIELD_LABELS, LENGTHS, ArmChoice, Form, text_form
from dashboard.experiments.ranges import RANGES, FieldsError, range_of, shown
from dashboard.experiments.uploads import Upload
from dashboard.i18n import N_
from dashboard.screens.experiments_boxes import value_of, wrong_in
from model_runner.config import RunnerConfig

FIELD: Final = "exp.f."
"""Prefix of every field of the form."""
RESULT: Final = "exp.r.chosen"
KEPT: Final = (FIELD, "exp.r.", "exp.g.")
"""Prefixes of what outlives a change of the section, in which Streamlit would forget what is not drawn."""
NUMBERS: Final = {
    "repeats": N_("Repeats"), "seed": N_("Seed"), "num_requests": N_("Requests"), "prompt_factor": N_("Prompt factor"),
    "output_factor": N_("Output factor"), "time_factor": N_("Time factor"), "max_model_len": N_("Longest"),
    "num_blocks": N_("KV blocks"), "ttft_s": N_("TTFT at most"), "tpot_s": N_("TPOT at most"),
    "e2e_s": N_("End to end at most"),
}  # fmt: skip
"""Boxes for numbers that every experiment has -> their names."""
ARM_NUMBERS: Final = {"seqs": N_("Requests at once"), "budget": N_("Token budget")}
ARMS: Final = {"a": N_("A, the baseline"), "b": N_("B"), "base": N_("All other decisions as in")}
PLACES: Final = {"arrivals": N_("Arrivals"), "prompt": N_("Prompts (tokens)"), "output": N_("Outputs (tokens)")}
BEGUN: Final = "exp.begun"
UPLOADED: Final = "exp.uploaded"
UPLOAD_PROBLEM: Final = "exp.uploaded.problem"


def begun() -> None:
    """In a press that has begun something: all of the page is to be drawn anew, not only the part with the button."""
    st.session_state[BEGUN] = True


def draw_all_anew() -> None:
    """At the top of a part with such a button: the line on what runs then never says that nothing does, after it
    began."""
    if st.session_state.pop(BEGUN, False):
        st.rerun()


def keep() -> None:
    """Hold on to the fields, drawn or not. At the top of a run, before any of them is drawn."""
    for key in list(st.session_state):
        if isinstance(key, str) and key.startswith(KEPT):
            st.session_state[key] = st.session_state[key]


def fill(config: RunnerConfig, max_model_len: int | None) -> None:
    """What the fields are at first: the live engine's model and pool."""
    start = Form()
    values: dict[str, Any] = {
        name: getattr(start, name)
        for name in (
            "kind", "name", "repeats", "seed", "source", "style", "style_rate", "num_requests", "prompt_factor",
            "output_factor", "time_factor", "allocation_off", "sizes", "long_prompt_len", "ttft_s", "tpot_s", "e2e_s",
            "tuning", "headline",
        )
    }  # fmt: skip
    values |= {"model": config.model, "num_blocks": config.num_blocks, "tuned": "unsaid", "seconds_per_step": 0.05}
    values["max_model_len"] = min(max_model_len or 512, config.num_blocks * config.block_size, 512)
    values["hold"] = True
    for name, preset in (("a", "static"), ("b", "vllm-v1"), ("base", "vllm-v1")):
        values |= {f"{name}.preset": preset, f"{name}.seqs": None, f"{name}.budget": None}
    for place, kinds, kind in (
        ("arrivals", ARRIVALS, "gamma"),
        ("prompt", LENGTHS, "lognormal"),
        ("output", LENGTHS, "uniform"),
    ):
        values[place] = kind
        for one, fields in kinds.items():
            values |= {f"{place}.{one}.{field}": value for field, value in fields.items()}
    for name, value in values.items():
        st.session_state.setdefault(FIELD + name, shown(value) if _is_number(name) else value)


def field(name: str) -> Any:
    """What is filled in: of a box for numbers the number, None where it is empty or wrong."""
    return value_of(FIELD + name, range_of(name)) if _is_number(name) else st.session_state[FIELD + name]


def _is_number(name: str) -> bool:
    return name.rpartition(".")[2] in RANGES


def _kind(place: str) -> tuple[str, tuple[str, ...]]:
    """The chosen distribution of arrivals or lengths, and its fields."""
    chosen = field(place)
    return chosen, tuple((ARRIVALS if place == "arrivals" else LENGTHS)[chosen])


def _text_form(place: str) -> str:
    kind, names = _kind(place)
    return text_form(kind, {name: field(f"{place}.{kind}.{name}") for name in names})


def _arm(name: str) -> ArmChoice:
    return ArmChoice(field(f"{name}.preset"), field(f"{name}.seqs"), field(f"{name}.budget"))


def _asked() -> dict[str, tuple[str, ...]]:
    """Boxes for numbers that count in the form as it is now -> what stands over them, the group's name first."""
    found: dict[str, tuple[str, ...]] = {name: (label,) for name, label in NUMBERS.items()}
    kind, source = field("kind"), field("source")
    for arm in ("a", "b") if kind == "ab" else ("base",):
        found |= {f"{arm}.{name}": (ARMS[arm], label) for name, label in ARM_NUMBERS.items()}
    if kind == "chunk":
        found["long_prompt_len"] = (N_("Long prompt (tokens)"),)
    if source == "style":
        found["style_rate"] = (N_("Requests a second"),)
    elif source == "generate":
        for place, label in PLACES.items():
            chosen, names = _kind(place)
            found |= {f"{place}.{chosen}.{name}": (label, FIELD_LABELS[name]) for name in names}
    return found


def form(config: RunnerConfig) -> Form:
    """The form as it is filled in. config: of the live engine, for what the form does not ask.

    Raises FieldsError naming every box that cannot be read, what is in it, and what would be right.
    """
    wrong = wrong_in((FIELD + name, labels, range_of(name)) for name, labels in _asked().items())
    if wrong:
        raise FieldsError(wrong)
    same = {
        name: field(name)
        for name in (
            "kind", "name", "model", "num_blocks", "max_model_len", "repeats", "seed", "source", "style",
            "style_rate", "num_requests", "prompt_factor", "output_factor", "time_factor", "allocation_off",
            "sizes", "ttft_s", "tpot_s", "e2e_s", "tuning", "headline",
        )
    }  # fmt: skip
    is_live = field("model") == config.model
    return Form(
        **same,
        long_prompt_len=field("long_prompt_len") or Form().long_prompt_len,
        a=_arm("a"),
        b=_arm("b"),
        base=_arm("base"),
        tuned={"yes": True, "no": False}.get(field("tuned")),
        arrivals=_text_form("arrivals"),
        prompt=_text_form("prompt"),
        output=_text_form("output"),
        device=config.device,
        dtype=config.dtype if is_live else "auto",
        threads=config.threads,
        block_size=config.block_size,
        num_host_blocks=config.num_host_blocks,
    )


def uploaded() -> Upload | None:
    """The workload that this browser has uploaded."""
    found = st.session_state.get(UPLOADED)
    return found if isinstance(found, Upload) else None
