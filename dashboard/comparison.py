"""Before and after the last change of policy, from the kept steps of one run: the same numbers on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.history import StepFacts
from dashboard.hub import Frame
from dashboard.i18n import Translate
from dashboard.views.markup import esc
from model_runner.views import Mark

FEWEST: Final = 5
"""Iterations on a side; of fewer a mean says nothing."""


@dataclass(frozen=True, slots=True)
class Side:
    """Means over the iterations of one side. n: how many. output_rate: tokens a second of engine time, None where no
    time passed. kv_share: 0..1."""

    n: int
    output_rate: float | None
    tokens: float
    running: float
    waiting: float
    kv_share: float
    preemptions: int


def side(facts: Sequence[StepFacts]) -> Side:
    """facts: neighbouring steps of one run, at least one. The rate is over the time from the first to the last."""
    n = len(facts)
    seconds = facts[-1].engine_time - facts[0].engine_time
    output = sum(f.output_tokens for f in facts[1:])
    return Side(
        n=n,
        output_rate=output / seconds if seconds > 0 else None,
        tokens=sum(sum(f.tokens.values()) for f in facts) / n,
        running=sum(f.running for f in facts) / n,
        waiting=sum(f.waiting for f in facts) / n,
        kv_share=sum(f.used_blocks / max(1, f.num_blocks) for f in facts) / n,
        preemptions=sum(f.preemptions for f in facts),
    )


def sides(facts: Sequence[StepFacts], marks: Sequence[Mark]) -> tuple[Side, Side, Mark] | None:
    """The two sides of the newest policy mark that has FEWEST iterations on each; None where there is none."""
    if not facts:
        return None
    run = facts[-1].run_id
    own = [f for f in facts if f.run_id == run]
    for mark in reversed([m for m in marks if m.kind == "policy" and m.run_id == run]):
        before = [f for f in own if f.step_id < mark.step_id]
        after = [f for f in own if f.step_id >= mark.step_id]
        if len(before) >= FEWEST and len(after) >= FEWEST:
            return side(before), side(after), mark
    return None


def comparison(frame: Frame, marks: Sequence[Mark], t: Translate) -> str:
    """As a table: what was measured before, and since."""
    found = sides(frame.facts, marks)
    if found is None:
        words = t("No change of policy with {n} iterations on each side is kept.", n=FEWEST)
        return f'<p class="bp-quiet">{esc(words)}</p>'
    before, after, mark = found
    rows = [
        (t("output tokens per second"), *(_rate(s) for s in (before, after))),
        (t("tokens per iteration"), *(f"{s.tokens:.1f}" for s in (before, after))),
        (t("running requests"), *(f"{s.running:.1f}" for s in (before, after))),
        (t("waiting requests"), *(f"{s.waiting:.1f}" for s in (before, after))),
        (t("KV blocks in use"), *(f"{s.kv_share:.0%}" for s in (before, after))),
        (t("preemptions"), *(f"{s.preemptions:,}" for s in (before, after))),
    ]
    body = "".join(
        f'<tr><th scope="row">{esc(name)}</th><td>{esc(old)}</td><td>{esc(new)}</td></tr>' for name, old, new in rows
    )
    heads = [t("before ({n} iterations)", n=f"{before.n:,}"), t("since ({n} iterations)", n=f"{after.n:,}")]
    head = "".join(f'<th scope="col">{esc(h)}</th>' for h in heads)
    return (
        f'<p class="bp-quiet">v{mark.version}: {esc(mark.text, 120)}</p>'
        f'<table class="bp-table"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _rate(one: Side) -> str:
    return "–" if one.output_rate is None else f"{one.output_rate:,.1f}"
