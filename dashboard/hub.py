"""From the client's history to what one tick shows: made once per snapshot, for all open pages."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dashboard.epochs import EpochBook
from dashboard.evictions import EvictionBook
from dashboard.figures import FigureBook
from dashboard.frame import SHOWN_STEPS, Frame, build, marks_until, with_selection
from dashboard.history import assign_slots, step_facts
from dashboard.identity import MarkBook
from dashboard.lives import LifeBook
from dashboard.past import GapBook, Kept, Moment, Past
from dashboard.strip import StripBook
from model_runner.messages import EngineSnapshot
from model_runner.views import Mark
from scheduler import StepSnapshot, Totals

if TYPE_CHECKING:
    from model_runner.client import RunnerClient

__all__ = ["BREAK", "Frame", "Hub", "with_selection"]

BREAK: Final = 3
"""Empty iterations drawn between the steps of two runs."""
KNOWN_ORIGINS: Final = 4_096
FOLLOW_AFTER: Final = 200
"""Steps that may come before they are taken without a page: a tenth of what the client keeps."""
OLD_FRAMES: Final = 32
"""Pictures of past steps that are kept made: more than a roomful of pages that each look at another one."""


class Hub:
    """Follows one client. May be called from any thread; it draws nothing and calls no Streamlit."""

    def __init__(self, client: RunnerClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._past = Past()
        self._book = MarkBook()
        self._slots: dict[str, int] = {}
        self._figures = FigureBook()
        self._evictions = EvictionBook()
        self._gaps = GapBook()
        self._strip = StripBook()
        self.lives = LifeBook()
        self.epochs = EpochBook(client.request)
        self._seen: tuple[str, int] = ("", -1)
        self._totals: Totals | None = None
        self._frame: Frame | None = None
        self._key: tuple[object, ...] = ()
        self._old: OrderedDict[Moment, Frame] = OrderedDict()
        self._own: OrderedDict[str, bool] = OrderedDict()
        self._due = threading.Event()
        self._behind = self._unshown = 0

    def frame(self) -> Frame | None:
        """The newest picture; None before the first snapshot."""
        with self._lock:
            latest = self._client.latest
            if latest is None:
                return None
            marks = self._client.marks
            key = (latest.run_id, latest.seq, len(marks), marks[-1] if marks else None)
            if self._frame is None or key != self._key:
                self._follow()
                self._frame = self._build(latest, marks, self._unshown)
                self._unshown = 0
                self._key = key
            return self._frame

    def frame_at(self, moment: Moment) -> Frame | None:
        """The picture as it was after that step; None when the step is not kept.

        The newest 2,000 steps are kept, fewer where they are large (see ``model_runner.history``). A picture that was
        asked for lately is kept even when its step has gone.
        """
        with self._lock:
            frame = self._old.get(moment)
            if frame is None:
                kept = self._past.find(moment)
                if kept is None:
                    return None
                marks = marks_until(self._client.marks, kept.snapshot)
                shown = self._past.last(SHOWN_STEPS, until=kept.n)
                frame = self._old[moment] = build(
                    shown, kept.snapshot, kept.figures, marks, self._starred(kept.snapshot.step)
                )
            self._old.move_to_end(moment)
            while len(self._old) > OLD_FRAMES:
                self._old.popitem(last=False)
            return frame

    def kept(self) -> tuple[Kept, ...]:
        """The steps one can go back to, oldest first."""
        with self._lock:
            return self._past.all()

    def strip(self, *, fresh: bool = False) -> Mapping[str, bytes]:
        """Tables of the strip over the kept steps, up to the newest picture; ``fresh``: not those of a second ago.

        Empty before the first picture. Pages that do not ask cost nothing.
        """
        with self._lock:
            if self._frame is None:
                return {}
            return self._strip.tables(self._past, self._client.marks, self._frame, fresh=fresh)

    def keep_up(self) -> None:
        """From now on miss no step, even while no page asks for a picture: call it once, before the client starts.

        The client's thread only counts; a thread of our own does the work, and only when FOLLOW_AFTER steps came that
        nobody looked at.
        """
        threading.Thread(target=self._follow_for_ever, name="hub", daemon=True).start()
        self._client.observe(self._count)

    def _count(self, snapshot: EngineSnapshot) -> None:
        if not snapshot.heartbeat:
            self._behind += 1
            if self._behind >= FOLLOW_AFTER:
                self._due.set()

    def _follow_for_ever(self) -> None:
        while self._due.wait():
            self._due.clear()
            with self._lock:
                self._follow()

    def _follow(self) -> None:
        """Take every step of the client's history that was not seen yet."""
        self._behind = 0
        taken = 0
        for snapshot in self._new_steps():
            self._take(snapshot)
            taken += 1
        if taken:
            self._past.trim(len(self._client.history()))
        self._unshown += taken

    def _new_steps(self) -> Sequence[EngineSnapshot]:
        count = 64
        while True:
            steps = self._client.history(last=count)
            fresh = [i for i, s in enumerate(steps) if (s.run_id, s.step.step_id) == self._seen]
            if fresh:
                return steps[fresh[-1] + 1 :]
            if len(steps) < count:
                return steps
            count *= 4

    def _take(self, snapshot: EngineSnapshot) -> None:
        step = snapshot.step
        if snapshot.run_id != self._seen[0]:
            self._slots = {}
            self._totals = None
        elif step.step_id != self._seen[1] + 1:
            self._totals = None
        mentioned = (*step.running.request_id, *step.num_scheduled_tokens, *step.num_padding_tokens)
        waiting = [r for r, s in zip(step.waiting.request_id, step.waiting.status, strict=True) if s == "preempted"]
        self._book.update(mentioned, (*mentioned, *waiting, *step.preempted))
        names = self._book.snapshot()
        slots = assign_slots(step, self._slots)
        self._figures.add(snapshot)
        self._evictions.add(snapshot, names)
        self._keep(snapshot, slots, names)
        self.lives.add(snapshot)
        self.epochs.add(snapshot)
        self._totals = step.totals
        self._slots = {r: slots[r] for r in step.running.request_id}
        self._seen = (snapshot.run_id, step.step_id)

    def _keep(self, snapshot: EngineSnapshot, slots: Mapping[str, int], names: Mapping[str, int]) -> None:
        """Put the step where pages can go back to it. What did not change is shared with the step before."""
        before = self._past.newest
        evictions = self._evictions.list()
        if before is not None:
            names = before.names if before.names == names else names
            evictions = before.evictions if before.evictions == evictions else evictions
        gap_s, gap_of = self._gaps.add(snapshot)
        self._past.add(
            Kept(
                n=before.n + 1 if before else 0,
                snapshot=snapshot,
                facts=step_facts(snapshot, self._next_x(snapshot), slots, names, self._totals),
                names=names,
                figures=self._figures.figures(snapshot),
                evictions=evictions,
                costs=self._evictions.costs,
                gap_s=gap_s,
                gap_of=gap_of,
            )
        )

    def _next_x(self, snapshot: EngineSnapshot) -> int:
        if self._past.newest is None:
            return snapshot.step.step_id
        last = self._past.newest.facts
        if last.run_id != snapshot.run_id:
            return last.x + 1 + BREAK
        return last.x + max(1, snapshot.step.step_id - last.step_id)

    def _starred(self, step: StepSnapshot) -> frozenset[str]:
        """Requests of somebody's own. Each is asked for once: the whole journal takes longer than the picture."""
        for request_id in (*step.running.request_id, *step.waiting.request_id, *self._book.snapshot()):
            if request_id not in self._own:
                view = self._client.request(request_id)
                if view is not None:
                    self._own[request_id] = view.origin == "user"
        while len(self._own) > KNOWN_ORIGINS:
            self._own.popitem(last=False)
        return frozenset(request_id for request_id, own in self._own.items() if own)

    def _build(self, latest: EngineSnapshot, marks: Sequence[Mark], taken: int) -> Frame:
        every = max(1, taken) if self._frame else 1
        kept = self._past.last(SHOWN_STEPS)
        return build(kept, latest, self._figures.figures(latest), marks, self._starred(latest.step), every)
