"""The account of the block map: a sentence that sums, and a bar with the usable limit."""

from __future__ import annotations

from dashboard.figures import lone_above_limit
from dashboard.i18n import Translate
from dashboard.state_tables import MapGeometry, account
from dashboard.views.markup import esc
from scheduler import StepSnapshot


def above_limit(step: StepSnapshot, limit: int, t: Translate) -> str:
    """Why more blocks are in use than ``kv_block_limit`` makes usable."""
    lone = lone_above_limit(step)
    if lone:
        return t(
            "{id} alone holds {used} of the {limit} usable: the limit yields to a request that runs alone",
            id=lone,
            used=step.num_used_blocks,
            limit=limit,
        )
    return t(
        "{used} in use, {limit} usable: running requests keep their blocks until they end or are evicted",
        used=step.num_used_blocks,
        limit=limit,
    )


def account_line(step: StepSnapshot, geometry: MapGeometry, t: Translate) -> str:
    """ "192 × 16 tokens = 131 in use + 61 free"; with the locked blocks and the aggregation where there are any."""
    a = account(step)
    if a["locked"]:
        text = t("{blocks} × {size} tokens = {used} in use + {free} free + {locked} locked by kv_block_limit", **a)
    else:
        text = t("{blocks} × {size} tokens = {used} in use + {free} free", **a)
    more = t("{unfilled} reserved slots hold no token yet", **a)
    if geometry.blocks_per_cell > 1:
        more += " · " + t("one square = {n} blocks", n=geometry.blocks_per_cell)
    if a["used"] > a["limit"]:
        more = above_limit(step, a["limit"], t)
    total = max(1, a["blocks"])
    used, limit = 100 * a["used"] / total, 100 * a["limit"] / total
    return (
        f'<div class="bs-account"><b>{esc(text)}</b> <span>{esc(more)}</span></div>'
        f'<div class="bs-gauge"><div style="width:{used:.1f}%"></div><i style="left:{limit:.1f}%"></i></div>'
    )
