"""What the picture says, as tables: for screen readers and for copying."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.i18n import Translate
from dashboard.identity import letter
from dashboard.views.markup import esc, table
from dashboard.words import waiting_words
from scheduler import RunningRow, StepSnapshot, WaitingRow


def _running_row(row: RunningRow, mark: int, t: Translate) -> list[str]:
    return [
        str(row.slot),
        esc(f"{letter(mark)} {row.request_id}"),
        esc(t(row.kind)),
        f"{row.num_prompt_tokens:,}",
        f"{row.num_computed_tokens:,}",
        f"{row.num_output_tokens:,} / {row.max_tokens:,}",
        f"{row.num_cached_tokens:,}",
        str(row.num_preemptions),
        esc(", ".join(map(str, row.block_ids)), 300),
    ]


def _waiting_row(place: int, row: WaitingRow, t: Translate) -> list[str]:
    return [
        str(place),
        esc(row.request_id),
        f"{row.num_prompt_tokens:,}",
        f"{row.num_output_tokens:,}",
        str(row.needed_blocks),
        str(row.free_blocks),
        esc(row.blocked_by or "–"),
        esc(t("yes") if row.fits_paged else "–"),
        str(row.swapped_blocks),
        esc(waiting_words(row, t)),
    ]


def twin(step: StepSnapshot, marks: Mapping[str, int], t: Translate) -> str:
    """Running set, queue and blocks per request."""
    running = table(
        [
            t("slot"),
            t("request"),
            t("this iteration"),
            t("prompt"),
            t("computed"),
            t("output"),
            t("from the cache"),
            t("preempted"),
            t("blocks"),
        ],
        [_running_row(row, marks.get(row.request_id, -1), t) for row in step.running],
        esc(t("Nobody is running.")),
    )
    waiting = table(
        [
            t("place"),
            t("request"),
            t("prompt"),
            t("output"),
            t("needs blocks"),
            t("free blocks"),
            t("blocked by"),
            t("would fit under paged"),
            t("blocks in the host pool"),
            t("why it waits"),
        ],
        [_waiting_row(i + 1, row, t) for i, row in enumerate(step.waiting)],
        esc(t("Nobody waits.")),
    )
    return f"<h4>{esc(t('Running'))}</h4>{running}<h4>{esc(t('Queue'))}</h4>{waiting}"
