"""Every request this client answers for: the unfinished ones, which outlive a worker, and the newest that ended.

Invariant: an unfinished request is known here with every token that was delivered, so it can be given to another worker
and goes on from there. It ends here exactly once.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from model_runner.journal_entry import Entry, news_of, submit_of, view_of
from model_runner.messages import ENGINE_FAILED, EngineSnapshot, Reply, RequestState, Submit
from model_runner.views import RequestView, SubmitOutcome
from model_runner.watch import News, Watch
from scheduler import RequestRecord

MAX_UNFINISHED = 1_000
KEPT_ENDED = 500


class Journal:
    """Thread-safe; every method takes the lock once and calls nothing outside but the watches."""

    def __init__(
        self,
        max_unfinished: int = MAX_UNFINISHED,
        kept_ended: int = KEPT_ENDED,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._engine_time = 0.0
        self._max_unfinished = max_unfinished
        self._kept_ended = kept_ended
        self._lock = threading.Lock()
        self._unfinished: dict[str, Entry] = {}
        self._ended: dict[str, Entry] = {}
        self._watches: dict[str, list[Watch]] = {}
        self._unsent = 0
        self._count = 0

    @property
    def num_unfinished(self) -> int:
        """Requests that have not ended, wherever they are."""
        return len(self._unfinished)

    @property
    def num_unsent(self) -> int:
        """Requests no worker has been given yet."""
        return self._unsent

    def add(self, submit: Submit, origin: str) -> SubmitOutcome:
        """Take a request in under an id of its own, or refuse it when too many are unfinished."""
        with self._lock:
            if len(self._unfinished) >= self._max_unfinished:
                reason = f"requests: {len(self._unfinished)} are unfinished, at most {self._max_unfinished} are taken"
                return SubmitOutcome(False, reasons=(reason,), refusal="full")
            sampling = submit.sampling
            if sampling.seed is None:
                # Drawn here: a worker that dies before its answer came must not change what is sampled.
                sampling = replace(sampling, seed=secrets.randbits(31))
            self._count += 1
            request_id = f"r{self._count}"
            self._unfinished[request_id] = Entry(
                request_id,
                origin,
                sampling,
                submit.priority,
                submit.chat,
                submit.prompt_text,
                submit.prompt_token_ids,
                submit.turns,
                given_text=submit.prompt_token_ids is None,
                counted_from=self._monotonic(),
            )
            self._unsent += 1
            return SubmitOutcome(True, request_id)

    def unsent(self, model: str, limit: int) -> list[Submit]:
        """The next requests for a worker that runs ``model``, in order of arrival, with the tokens they have.

        Tokens of another model mean nothing to this one: such a request starts again from its prompt.
        """
        with self._lock:
            commands: list[Submit] = []
            if not self._unsent:
                return commands
            for entry in self._unfinished.values():
                if len(commands) >= limit:
                    break
                if not entry.sent:
                    if entry.model != model and entry.tokens:
                        self._tell(entry, begun_again=True)
                    commands.append(submit_of(entry, model, self._monotonic()))
            return commands

    def sent(self, request_id: str) -> None:
        """A worker has it now."""
        with self._lock:
            entry = self._unfinished.get(request_id)
            if entry is not None and not entry.sent:
                entry.sent = True
                entry.age_s += self._monotonic() - entry.counted_from
                entry.counted_from = self._engine_time
                self._unsent -= 1

    def answered(self, request_id: str, reply: Reply) -> None:
        """The worker's answer to a Submit: keep its tokens and seed, or end the request with the reason."""
        with self._lock:
            entry = self._unfinished.get(request_id)
            if entry is None:
                return
            if reply.kind == ENGINE_FAILED:
                self._take_back(entry)  # the engine stopped before it saw it: the next one gets it
                self._unsent += 1
            elif not reply.ok:
                self._end(entry, "rejected", "; ".join(reply.reasons))
            elif reply.kind == "finished":
                self._end(entry, "finished", "; ".join(reply.reasons))
            else:
                entry.prompt_token_ids = reply.prompt_token_ids
                entry.accepted = True
                self._tell(entry)

    def apply(self, snapshot: EngineSnapshot) -> None:
        """Take tokens, texts and ends of the next snapshot."""
        with self._lock:
            self._engine_time = snapshot.engine_time
            for request_id, token in snapshot.step.new_tokens.items():
                if request_id in self._unfinished:
                    self._unfinished[request_id].tokens.append(token)
            for request_id, text in snapshot.text_deltas.items():
                if request_id in self._unfinished:
                    self._unfinished[request_id].pieces.append(text)
            for record in snapshot.step.records:
                entry = self._unfinished.get(record.request_id)
                if entry is not None:
                    entry.record = record
                    text = snapshot.text_deltas.get(record.request_id, "")
                    self._end(entry, record.outcome, record.reason, text)
            for request_id in self._watches.keys() & (snapshot.step.new_tokens.keys() | snapshot.text_deltas.keys()):
                self._tell(self._unfinished[request_id], snapshot.text_deltas.get(request_id, ""))

    def replace(self, states: Iterable[RequestState], records: Mapping[str, RequestRecord]) -> None:
        """Take whole states instead of what is known: after a gap. records: of those that ended, as far as known."""
        with self._lock:
            for state in states:
                entry = self._unfinished.get(state.request_id)
                if entry is None:
                    continue
                new_text = state.text[sum(map(len, entry.pieces)) :]
                entry.tokens = list(state.output_token_ids)
                entry.pieces = [state.text]
                if state.ended:
                    entry.record = records.get(state.request_id)
                    self._end(entry, state.ended, entry.record.reason if entry.record else "", new_text)
                else:
                    self._tell(entry, new_text)

    def abort_asked(self, request_id: str | None, *, is_complete: bool = False) -> tuple[str, ...]:
        """Note that these shall end; those no worker has yet end at once. The ids that ended here.

        is_complete: they have all their reader wanted, and end as finished by "stop".
        """
        with self._lock:
            chosen = [e for e in self._unfinished.values() if request_id is None or e.request_id == request_id]
            ended = [entry for entry in chosen if not entry.sent]
            for entry in chosen:
                entry.abort_asked, entry.is_complete = True, is_complete
            for entry in ended:
                self._end(entry, "aborted", "")
            return tuple(entry.request_id for entry in ended)

    def watch(self, watch: Watch) -> bool:
        """Tell this reader all there is of its request and all that comes; False when it is unknown."""
        with self._lock:
            entry = self._unfinished.get(watch.request_id) or self._ended.get(watch.request_id)
            if entry is None:
                return False
            if entry.accepted or entry.outcome:
                watch.put(news_of(entry, "".join(entry.pieces)))
            if not entry.outcome:
                self._watches.setdefault(watch.request_id, []).append(watch)
            return True

    def unwatch(self, watch: Watch) -> None:
        """This reader wants to hear no more."""
        with self._lock:
            watches = self._watches.get(watch.request_id, [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._watches.pop(watch.request_id, None)

    def _tell(self, entry: Entry, text: str = "", *, begun_again: bool = False) -> None:
        for watch in self._watches.get(entry.request_id, ()):
            watch.put(News(begun_again=True) if begun_again else news_of(entry, text))

    def status(self, request_id: str) -> str:
        """ "unfinished", "ended" or "unknown"."""
        with self._lock:
            if request_id in self._unfinished:
                return "unfinished"
            return "ended" if request_id in self._ended else "unknown"

    def worker_lost(self) -> int:
        """Their worker is gone: all unfinished wait for the next, but those that were to be aborted end now."""
        with self._lock:
            for entry in list(self._unfinished.values()):
                if entry.abort_asked:
                    self._end(entry, "aborted", "")
                elif entry.sent:
                    self._take_back(entry)
                    entry.num_restarts += 1
            self._engine_time = 0.0
            self._unsent = len(self._unfinished)
            return self._unsent

    def view(self, request_id: str, states: Mapping[str, str]) -> RequestView | None:
        """One request. states: what the newest snapshot says of requests that run or wait."""
        with self._lock:
            entry = self._unfinished.get(request_id) or self._ended.get(request_id)
            return None if entry is None else view_of(entry, states)

    def views(self, limit: int, states: Mapping[str, str]) -> tuple[RequestView, ...]:
        """The newest ``limit`` requests by arrival, oldest first."""
        with self._lock:
            entries = sorted((self._ended | self._unfinished).values(), key=lambda entry: int(entry.request_id[1:]))
            return tuple(view_of(entry, states) for entry in entries[-limit:])

    def _take_back(self, entry: Entry) -> None:
        """Its age went by the engine's clock while a worker had it; until the next has it, it goes by the wall's."""
        entry.sent = False
        entry.age_s += max(0.0, self._engine_time - entry.counted_from)
        entry.counted_from = self._monotonic()

    def _end(self, entry: Entry, outcome: str, reason: str, text: str = "") -> None:
        """text: what came with the end, for those who watch."""
        is_regular = entry.is_complete and outcome == "aborted"
        entry.outcome, entry.reason = ("finished", "stop") if is_regular else (outcome, reason)
        if not entry.sent:
            self._unsent -= 1
        self._tell(entry, text)
        self._watches.pop(entry.request_id, None)
        del self._unfinished[entry.request_id]
        self._ended[entry.request_id] = entry
        while len(self._ended) > self._kept_ended:
            del self._ended[next(iter(self._ended))]
