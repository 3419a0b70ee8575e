"""The tables of a factorial's card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from experiments.analysis.attribution import Attribution, Part
from experiments.analysis.effects import KEYS
from experiments.analysis.factorial import FACTORS
from experiments.analysis.ledger import Line
from experiments.analysis.metrics import METRICS
from experiments.cards.arms import Arm
from experiments.cards.card import Table
from experiments.cards.knobs import differing_from_default
from experiments.cards.plain import VERDICTS
from experiments.cards.said import Said, number, percent, plain, say
from experiments.cards.said import unit as unit_words
from experiments.i18n import N_

NAMES: Final = {factor.key: Said(factor.name) for factor in FACTORS}
"""Key of a factor -> its name; the catalogue knows the names."""

LINES: Final = {
    ("tokens", "prefill"): N_("prompt tokens computed, each once"),
    ("tokens", "decode"): N_("output tokens computed, each once"),
    ("tokens", "recompute"): N_("tokens computed again after an eviction"),
    ("tokens", "padding"): N_("filler tokens of static batches"),
    ("tokens", "idle_slots"): N_("free slots of static batches while requests waited, one a slot and step"),
    ("seconds", "useful"): N_("model time of useful tokens, by their number in each step"),
    ("seconds", "recompute"): N_("model time of tokens computed again"),
    ("seconds", "padding"): N_("model time of filler tokens"),
    ("seconds", "swap"): N_("time of copying blocks to the host and back"),
    ("seconds", "engine"): N_("time of planning, building and updating"),
    ("seconds", "other"): N_("time within steps that no timer covers"),
    ("seconds", "idle"): N_("time between steps"),
    ("memory", "filled"): N_("token slots that hold a computed token, times seconds"),
    ("memory", "reserved"): N_("slots of owned blocks that hold no token yet, times seconds"),
    ("memory", "internal"): N_("the empty rest of owned blocks that hold some tokens, times seconds"),
    ("memory", "external"): N_("free slots of no use to the next request, times seconds"),
    ("memory", "free"): N_("the other free slots, times seconds"),
    ("", "swapped_blocks"): N_("blocks copied to the host and back"),
    ("", "preemptions"): N_("evictions"),
}
"""(group, name) of ``analysis.ledger`` -> what it counts."""


def named(members: Sequence[str]) -> Said:
    """Factors by name, "a × b" for an interaction."""
    first, *others = members
    told = NAMES[first]
    for key in others:
        told = say("{one} × {other}", one=told, other=NAMES[key])
    return told


def _amount(part: Part, unit: str) -> Said:
    return say("{value} {unit}", value=f"{part.value:+.4g}", unit=unit_words(unit))


def _interval(part: Part) -> Said:
    return plain(f"{part.interval.low:+.4g} … {part.interval.high:+.4g}" if part.interval else "–")


def _verdict(part: Part) -> Said:
    return Said(VERDICTS[part.verdict])


def shares_table(found: Attribution, shares: Mapping[str, str]) -> Table:
    """Each decision's share of the gain, exact; the last line is their sum."""
    unit = METRICS[found.metric].unit
    rows = [
        (
            NAMES[part.members[0]],
            _amount(part, unit),
            plain(shares.get(part.members[0], "–")),
            _interval(part),
            _verdict(part),
        )
        for part in found.shares
    ]
    whole = plain("100.0 %" if shares else "–")
    rows.append((say(N_("together")), _amount(found.gain, unit), whole, _interval(found.gain), _verdict(found.gain)))
    columns = (
        say(N_("decision")),
        say(N_("its share of the change (Shapley)")),
        say(N_("in per cent")),
        say(N_("95 % interval")),
        say(N_("makes it")),
    )
    return Table(
        f"shares {found.metric}",
        say(N_("Whose improvement is it: {metric}"), metric=found.metric),
        columns,
        tuple(rows),
    )


def effects_table(found: Attribution) -> Table:
    """Main effects and interactions of one metric."""
    unit = METRICS[found.metric].unit
    rows = tuple((named(part.members), _amount(part, unit), _interval(part), _verdict(part)) for part in found.effects)
    columns = (
        say(N_("decisions")),
        say(N_("mean change when switched on")),
        say(N_("95 % interval")),
        say(N_("makes it")),
    )
    title = say(N_("Main effects and interactions (×): {metric}"), metric=found.metric)
    return Table(f"effects {found.metric}", title, columns, rows)


def harm_table(harm: Mapping[str, tuple[str, ...]]) -> Table:
    """Metrics that each decision makes worse."""
    rows = tuple((NAMES[key], plain(", ".join(harm[key]) or "–")) for key in KEYS)
    columns = (say(N_("decision")), say(N_("metrics")))
    return Table("harm", say(N_("What got worse by it")), columns, rows)


def ledger_table(lines: Sequence[Line]) -> Table:
    """Where tokens, seconds and memory went, before and after."""
    rows = tuple(
        (
            Said(LINES[line.group, line.name]),
            say(N_("waste")) if line.waste else plain(""),
            unit_words(line.unit),
            plain(number(line.before)),
            plain(number(line.after)),
            plain(percent(line.after / line.before - 1) if line.before else ""),
        )
        for line in lines
    )
    columns = (say(N_("what")), plain(""), say(N_("unit")), plain("0000"), plain("1111"), say(N_("change")))
    return Table("ledger", say(N_("Where it went: none of the four decisions against all")), columns, rows)


def arms_table(arms: Sequence[Arm]) -> Table:
    """Each combination with its policy."""
    rows = []
    for arm in arms:
        on = tuple(NAMES[key] for key, bit in zip(KEYS, arm.label, strict=True) if bit == "1")
        policy = plain(differing_from_default(arm.runs[0].policy))
        rows.append((plain(arm.label), say("{on}", on=on), policy, plain(str(len(arm.runs)))))
    columns = (say(N_("combination")), say(N_("decisions that are on")), say(N_("policy")), say(N_("runs")))
    return Table("arms", say(N_("Combinations that ran")), columns, tuple(rows))
