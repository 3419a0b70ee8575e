"""Goodput over all pairs of limits at once, from runs that are over: who wins where, and how the score can be gamed.

Token times are kept, so that the limits need not be known before the run. Gaming as described by Wang et al.,
"Revisiting Service Level Objectives and System Level Metrics in Large Language Model Serving" (arXiv 2410.14257):
delaying the delivery of tokens can improve the figures of a request, and abandoning requests those of a system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from experiments.analysis.bootstrap import LEVEL
from experiments.analysis.samples import Bools, Floats, Ints, Slo, Table, table
from experiments.record import Run

SOURCE: Final = "Wang et al., arXiv 2410.14257, section 1"
AXIS_POINTS: Final = 40

Line = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plane:
    """Goodput in requests/s, shape (ttft limits, tpot limits): mean over the runs. Limits in seconds, rising."""

    ttft_limits_s: tuple[float, ...]
    tpot_limits_s: tuple[float, ...]
    goodput_rps: Floats


@dataclass(frozen=True, slots=True)
class Race:
    """Two arms over the same limits. difference: b - a in requests/s.

    winner: 1 where b is ahead, -1 where a is, 0 where the difference is within its interval; shape as the planes.
    contour: pieces of the line on which both have the same goodput, each ((ttft, tpot), (ttft, tpot)) in seconds.
    """

    a: Plane
    b: Plane
    difference: Floats
    winner: Ints
    contour: tuple[Line, ...]
    level: float


@dataclass(frozen=True, slots=True)
class Gaming:
    """A way in which the score of a run could have been higher without anybody being served better.

    kind: "delay" = holding back first tokens; "abandon" = giving up requests that could no longer count. requests:
    how many. tokens, share: computed for them after their limit was missed, and of all tokens computed (0..1).
    goodput_rps: as measured; could_be_rps: under "delay" the score after holding back; under "abandon" the same score,
    which the freed tokens could only raise.
    """

    kind: Literal["delay", "abandon"]
    requests: int
    tokens: int
    share: float
    goodput_rps: float
    could_be_rps: float
    source: str = SOURCE


def default_limits(runs: Sequence[Run], points: int = AXIS_POINTS) -> tuple[Floats, Floats]:
    """(TTFT limits, TPOT limits) between the smallest and the largest value of the runs, evenly on a log scale.

    Raises ValueError when no request of the runs finished with two tokens.
    """
    tables = [table(run) for run in runs]
    ttft = np.concatenate([(rows.first_token - rows.due)[rows.finished] for rows in tables])
    tpot = np.concatenate([rows.tpot[rows.finished] for rows in tables])
    axes = [values[(values > 0) & np.isfinite(values)] for values in (ttft, tpot)]
    if not all(len(values) for values in axes):
        raise ValueError("runs have no finished request with two tokens, expected at least 1 to choose limits from")
    low, high = ((float(values.min()), float(values.max())) for values in axes)
    return log_axes(low, high, points)


def log_axes(ttft: tuple[float, float], tpot: tuple[float, float], points: int) -> tuple[Floats, Floats]:
    """Both axes from their (smallest, largest) value; the last point lies just above the largest."""
    made = [np.geomspace(low, max(high, low * 1.0001) * 1.001, points) for low, high in (ttft, tpot)]
    return made[0], made[1]


def plane(runs: Sequence[Run], ttft_limits: Floats, tpot_limits: Floats) -> Plane:
    """Goodput at every pair of limits. Raises ValueError for limits that are no rising positive numbers, or no run."""
    _refuse(runs, ttft_limits, tpot_limits)
    planes = [_plane(table(run), ttft_limits, tpot_limits) for run in runs]
    return Plane(tuple(map(float, ttft_limits)), tuple(map(float, tpot_limits)), np.mean(planes, axis=0))


def _refuse(runs: Sequence[Run], *axes: Floats) -> None:
    if not runs:
        raise ValueError("runs has none, expected at least 1")
    for name, limits in zip(("ttft_limits", "tpot_limits"), axes, strict=True):
        if not len(limits) or not np.isfinite(limits).all() or limits[0] <= 0 or (np.diff(limits) <= 0).any():
            raise ValueError(f"{name} is {limits!r:.80}, expected rising numbers of seconds above 0")


def _values(rows: Table) -> tuple[Floats, Floats]:
    """(TTFT, TPOT) of every request: infinite where it did not finish; a TPOT of 0 for one token."""
    done = rows.finished & (rows.delivered > 0)
    tpot = np.where(rows.delivered > 1, rows.tpot, 0.0)
    return np.where(done, rows.first_token - rows.due, np.inf), np.where(done, tpot, np.inf)


def _plane(rows: Table, ttft_limits: Floats, tpot_limits: Floats) -> Floats:
    ttft, tpot = _values(rows)
    shape = len(ttft_limits) + 1, len(tpot_limits) + 1
    cells = np.zeros(shape)
    np.add.at(cells, (np.searchsorted(ttft_limits, ttft), np.searchsorted(tpot_limits, tpot)), 1)
    good: Floats = cells.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] / (rows.wall_s or np.inf)
    return good


def race(
    a_runs: Sequence[Run], b_runs: Sequence[Run], ttft_limits: Floats, tpot_limits: Floats, level: float = LEVEL
) -> Race:
    """Who has more goodput at which limits.

    The interval of a difference is normal, from the spread over requests: of each request's own difference where both
    arms have the same requests (as in McNemar's test), else of both arms for themselves. Wall times are held fixed.
    """
    a, b = plane(a_runs, ttft_limits, tpot_limits), plane(b_runs, ttft_limits, tpot_limits)
    difference = b.goodput_rps - a.goodput_rps
    arms = [[table(run) for run in runs] for runs in (a_runs, b_runs)]
    reach = NormalDist().inv_cdf((1 + level) / 2)
    spread = np.stack([_spread(arms, limit, tpot_limits) for limit in ttft_limits])
    winner = np.where(np.abs(difference) > reach * spread, np.sign(difference), 0).astype(np.int64)
    return Race(a, b, difference, winner, _contour(ttft_limits, tpot_limits, difference), level)


def _spread(arms: Sequence[Sequence[Table]], ttft_limit: float, tpot_limits: Floats) -> Floats:
    """Standard error of the difference at one TTFT limit and all TPOT limits: shape (tpot limits,)."""
    first = arms[0][0]
    goods = [[_good(rows, ttft_limit, tpot_limits) for rows in arm] for arm in arms]
    if all(rows.ids == first.ids for arm in arms for rows in arm):
        sides = [np.mean(goods[1], axis=0) - np.mean(goods[0], axis=0)]
    else:
        sides = [np.concatenate(arm) / len(arm) for arm in goods]
    variances = np.stack([len(side) * side.var(axis=0) for side in sides])
    errors: Floats = np.sqrt(variances.sum(axis=0))
    return errors


def _good(rows: Table, ttft_limit: float, tpot_limits: Floats) -> Floats:
    """What each request adds to the goodput: shape (requests, tpot limits)."""
    ttft, tpot = _values(rows)
    return ((ttft <= ttft_limit)[:, None] & (tpot[:, None] <= tpot_limits)) / (rows.wall_s or np.inf)


def _contour(x: Floats, y: Floats, difference: Floats) -> tuple[Line, ...]:
    """Marching squares: where the difference changes sign between two neighbours, by straight lines in between."""
    lines: list[Line] = []
    for i in range(len(x) - 1):
        for j in range(len(y) - 1):
            corners = ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
            found = []
            for (i1, j1), (i2, j2) in zip(corners, corners[1:] + corners[:1], strict=True):
                one, two = difference[i1, j1], difference[i2, j2]
                if one * two < 0:
                    part = one / (one - two)
                    found.append((float(x[i1] + part * (x[i2] - x[i1])), float(y[j1] + part * (y[j2] - y[j1]))))
            lines.extend(zip(found[::2], found[1::2], strict=False))
    return tuple(lines)


def gaming(run: Run, slo: Slo) -> tuple[Gaming, ...]:
    """Where delaying or giving up would have raised the score of this run without serving anybody better."""
    rows = table(run)
    good = rows.good(slo)
    score = float(good.sum()) / rows.wall_s if rows.wall_s > 0 else 0.0
    made: list[Gaming] = []
    delayed = int(_helped_by_delay(rows, slo).sum())
    if delayed:
        made.append(Gaming("delay", delayed, 0, 0.0, score, score + delayed / rows.wall_s))
    hopeless, tokens = _hopeless(run, rows, slo)
    if hopeless:
        computed = sum(step.num_tokens for step in run.steps)
        made.append(Gaming("abandon", hopeless, tokens, tokens / computed if computed else 0.0, score, score))
    return tuple(made)


def _helped_by_delay(rows: Table, slo: Slo) -> Bools:
    """Requests that miss the TPOT limit alone, and would keep it had their tokens been held back to the TTFT limit."""
    if slo.tpot_s is None or slo.ttft_s is None:
        return np.zeros(len(rows.due), dtype=np.bool_)
    others = rows.good(Slo(ttft_s=slo.ttft_s, e2e_s=slo.e2e_s))
    held = np.minimum(rows.due + slo.ttft_s, rows.last_token)
    some = rows.delivered > 1
    late = np.divide(rows.last_token - held, rows.delivered - 1, out=np.full(len(held), np.inf), where=some)
    helped: Bools = others & ~rows.good(slo) & (late <= slo.tpot_s)
    return helped


def _hopeless(run: Run, rows: Table, slo: Slo) -> tuple[int, int]:
    """(requests that were computed for after a limit was missed for good, tokens computed for them from then on)."""
    lost = np.full(len(rows.due), np.inf)
    last = np.where(rows.finished, np.nan_to_num(rows.last_token, nan=np.inf), np.inf)
    asked = {row.request_id: row.output_len for row in run.requests}
    gaps = np.array([asked[name] - 1 for name in rows.ids])
    deadlines = []
    if slo.ttft_s is not None:
        deadlines.append((rows.due + slo.ttft_s, np.nan_to_num(rows.first_token, nan=np.inf)))
    if slo.e2e_s is not None:
        deadlines.append((rows.due + slo.e2e_s, last))
    if slo.tpot_s is not None:
        deadlines.append((np.nan_to_num(rows.first_token, nan=np.inf) + slo.tpot_s * gaps, last))
    for until, made in deadlines:
        lost = np.minimum(lost, np.where(made > until, until, np.inf))
    when = dict(zip(rows.ids, lost.tolist(), strict=True))
    tokens, seen = 0, set[str]()
    for step in run.steps:
        for name, count, _ in step.scheduled:
            if step.start_s >= when.get(name, np.inf):
                tokens += count
                seen.add(name)
    return len(seen), tokens
