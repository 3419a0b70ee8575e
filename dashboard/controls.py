"""The sidebar. A control acts at once; what it shows is always what the engine has in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import streamlit as st

from dashboard.changes import apply
from dashboard.desk import Desk
from dashboard.fields import GROUPS, PACE_STEPS, Control, controls, help_words, slider_steps
from dashboard.following import follow, is_current
from dashboard.i18n import N_, Translate
from dashboard.presets import presets
from dashboard.refusals import refusals_words
from dashboard.restart import restart_section
from dashboard.values import told, value_words
from dashboard.views.markup import plain
from dashboard.visit import presenter_only
from model_runner.traffic import MAX_RATE, MIXES, PRIORITY_MIXES, TrafficSpec
from scheduler import SchedulerPolicy
from scheduler.policy import SWITCHES
from scheduler.registry import REGISTRIES

RATES: Final = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, 50.0)
BURST: Final = 24


def shown_truth(desk: Desk) -> tuple[object, ...]:
    """What the controls depend on; when it differs from what was drawn, they must be drawn again."""
    latest = desk.client.latest
    return (desk.policy, desk.client.traffic.spec, desk.client.config, latest.run_id if latest else "")


def with_field(
    policy: SchedulerPolicy, field: str, value: Any, max_model_len: int, memory: dict[str, Any]
) -> SchedulerPolicy:
    """The policy with one field changed.

    Whole prompts need a budget that holds the longest of them, so switching chunks off raises it; ``memory`` keeps the
    budget from before, which comes back when chunks are switched on.
    """
    changed = replace(policy, **{field: value})
    if field != "enable_chunked_prefill":
        return changed
    if not value and policy.max_num_batched_tokens < max_model_len - 1:
        memory["budget"] = policy.max_num_batched_tokens
        return replace(changed, max_num_batched_tokens=max_model_len - 1)
    if value and "budget" in memory:
        return replace(changed, max_num_batched_tokens=memory.pop("budget"))
    return changed


@presenter_only
def _changed(desk: Desk, field: str, key: str) -> None:
    if not is_current(f"policy.{field}", key):
        return
    latest = desk.client.latest
    longest = latest.info.max_model_len if latest else 0
    value = st.session_state[key]
    if value is None and field in REGISTRIES:
        return
    memory = st.session_state.setdefault("memory", {})
    apply(desk, lambda policy: with_field(policy, field, value, longest, memory))


def _widget(desk: Desk, control: Control, num_blocks: int, t: Translate) -> None:
    field = control.field
    truth = getattr(desk.policy, field)
    now = follow(f"policy.{field}", truth)
    label, help_text = t(control.label), help_words(control, t) or None
    common: dict[str, Any] = {"key": now.key, "help": help_text, "on_change": _changed, "args": (desk, field, now.key)}
    if field in REGISTRIES:
        names = list(REGISTRIES[field].names())
        if len(names) == 2:  # side by side, where a gloss has no room
            st.segmented_control(label, names, default=now.start, width="stretch", required=True, **common)
        else:
            at = names.index(now.among(names, truth))
            st.selectbox(label, names, index=at, format_func=lambda name: value_words(name, t), **common)
    elif field in SWITCHES:
        st.toggle(label, value=now.start, **common)
    else:
        steps = slider_steps(control, truth, num_blocks)
        at = now.among(steps, truth)
        st.select_slider(label, steps, value=at, format_func=lambda value: told(field, value, t), **common)


def sidebar(desk: Desk, t: Translate) -> None:
    """Everything in the sidebar below the language switch. Draws the truth and remembers that it did."""
    desk.settle()
    st.session_state["drawn"] = shown_truth(desk)
    latest = desk.client.latest
    num_blocks = latest.info.num_blocks if latest else desk.client.config.num_blocks
    with st.container():  # one element whatever it holds: what follows keeps its place, and the keyboard its focus
        _echo(desk, t)
    presets(desk, t)
    described = controls()
    with st.expander(t("Traffic"), expanded=True):
        _traffic(desk, t)
    for group, title in GROUPS.items():
        members = [c for c in described if c.group == group]
        if members:
            with st.expander(t(title), expanded=group in ("batch", "allocation")):
                for control in members:
                    _widget(desk, control, num_blocks, t)
    with st.expander(t("Pace"), expanded=True):
        _pace(desk, t)
    with st.expander(t("Restart: model, memory, device")):
        restart_section(desk.client, t)


def _echo(desk: Desk, t: Translate) -> None:
    reply, changes = st.session_state.get("echo", (None, []))
    if reply is None:
        st.caption(t("A change acts at the next iteration; what is in force is echoed here."))
    elif not reply.accepted:
        st.error(t("Refused: {reason}", reason=plain(refusals_words(reply.reasons, t))))
    elif reply.step_id:
        step = f"{reply.step_id:,}"
        text = t("In force from iteration {step} as policy v{version}", step=step, version=reply.version)
        words = "; ".join(f"{name} {told(name, old, t)} → {told(name, new, t)}" for name, old, new in changes)
        st.success(f"**{text}**  \n{plain(words)}")
    else:
        st.success(t("In force from the next start as policy v{version}", version=reply.version))
    if st.session_state.get("undo") is not None and reply is not None and reply.accepted:
        st.button(
            t("Undo"), key="undo.button", on_click=_undo, args=(desk,), width="stretch",
            help=t("Puts the policy from before the last change in force again, for everybody."),
        )  # fmt: skip


@presenter_only
def _undo(desk: Desk) -> None:
    policy = st.session_state.pop("undo", None)
    if policy is not None:
        apply(desk, lambda _: policy)


TRAFFIC_CHOICES: Final = (
    ("prompt_mix", N_("Prompt lengths"), N_(
        "Long prompts fill the token budget with prefill; bimodal mixes a few long ones among many short ones."
    ), MIXES),
    ("output_mix", N_("Output lengths"), N_(
        "Answers of different length are what a static batch wastes its slots on; long ones make the KV cache grow."
    ), MIXES),
    ("priority_mix", N_("Priorities"), N_(
        "Only the priority order and the lowest_priority victim look at them."
    ), PRIORITY_MIXES),
)  # fmt: skip


def _traffic(desk: Desk, t: Translate) -> None:
    spec = desk.client.traffic.spec
    now = follow("traffic.enabled", spec.enabled)
    st.toggle(
        t("Requests arrive by themselves"),
        value=now.start,
        key=now.key,
        help=t("Off: the queue drains, and only requests of your own or of a client come in."),
        on_change=_set_traffic,
        args=(desk, "enabled", now.key),
    )
    now, rates = follow("traffic.rate", spec.rate), sorted({*RATES, spec.rate})
    st.select_slider(
        t("Arrivals per second"),
        rates,
        value=now.among(rates, spec.rate),
        key=now.key,
        format_func=lambda v: f"{v:g}",
        help=t(
            "More than the engine can serve makes the queue grow without end. At most {n} a second.", n=f"{MAX_RATE:g}"
        ),
        on_change=_set_traffic,
        args=(desk, "rate", now.key),
    )
    columns = st.columns(2)
    for i, (name, label, help_text, values) in enumerate(TRAFFIC_CHOICES):
        now = follow(f"traffic.{name}", getattr(spec, name))
        columns[i % 2].selectbox(
            t(label),
            values,
            index=values.index(now.start),
            key=now.key,
            format_func=t,
            help=t(help_text),
            on_change=_set_traffic,
            args=(desk, name, now.key),
        )
    with columns[1]:
        st.button(
            t("Burst of {n}", n=BURST), key="burst", on_click=_burst, args=(desk, BURST), width="stretch",
            help=t("That many requests arrive at once."),
        )  # fmt: skip


@presenter_only
def _burst(desk: Desk, n: int) -> None:
    st.session_state.pop("step.problem", None)
    desk.client.traffic.burst(n)


@presenter_only
def _set_traffic(desk: Desk, name: str, key: str) -> None:
    if not is_current(f"traffic.{name}", key):
        return
    spec: TrafficSpec = desk.client.traffic.spec
    found = desk.client.traffic.set(replace(spec, **{name: st.session_state[key]}))
    st.session_state["traffic.problem"] = "; ".join(found)


def _pace(desk: Desk, t: Translate) -> None:
    policy = desk.policy
    now, paces = follow("policy.step_delay_ms", policy.step_delay_ms), sorted({*PACE_STEPS, policy.step_delay_ms})
    st.select_slider(
        t("Pause after each iteration"),
        paces,
        value=now.among(paces, policy.step_delay_ms),
        key=now.key,
        format_func=lambda v: t("none") if not v else f"{v:g} ms",
        help=t("Slows the engine for the eye. It is not counted as engine time, so rates and latencies stay true."),
        on_change=_changed,
        args=(desk, "step_delay_ms", now.key),
    )
    now = follow("policy.single_step", policy.single_step)
    st.toggle(
        t("Single step"),
        value=now.start,
        key=now.key,
        help=t("Each iteration waits for the step button (key N)."),
        on_change=_changed,
        args=(desk, "single_step", now.key),
    )


@presenter_only
def toggle_pause(desk: Desk) -> None:
    """Hold the engine, or let it go."""
    hold(desk, not (desk.policy.paused or desk.policy.single_step))


@presenter_only
def hold(desk: Desk, on: bool) -> None:
    """What the button said when it was pressed. A page may obey one press twice when two of its runs overlap: that
    must not let go what was to be held."""
    apply(desk, lambda policy: replace(policy, paused=on, single_step=False))


@presenter_only
def one_step(desk: Desk) -> None:
    """Run one iteration; holds the engine first when it runs freely."""
    policy = desk.policy
    if not (policy.paused or policy.single_step):
        apply(desk, lambda now: replace(now, paused=True))
    reply = desk.client.step(1)
    st.session_state["step.problem"] = "" if reply.accepted else "; ".join(reply.reasons)
