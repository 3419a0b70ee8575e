"""What each command does to the scheduler. Bad input is answered with a reason and changes nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from model_runner.errors import RunnerError
from model_runner.long_prompts import encoded, not_encodable
from model_runner.messages import Abort, Preempt, Reply, SetPolicy, Submit
from model_runner.outputs import Outputs, is_complete
from model_runner.ports import CommandTarget, EngineTokenizer
from scheduler import Request

MAX_PROMPT_CHARS = 1_000_000
MAX_REQUEST_ID_CHARS = 200


class CommandHandler:
    """Applies Submit, Abort, Preempt and SetPolicy between two steps. One thread, the engine's.

    clock: the scheduler's. monotonic: the machine's, that of ``Submit.sent_at``. seed: from which seeds are drawn for
    requests that bring none; each is named in the reply.
    """

    def __init__(
        self,
        scheduler: CommandTarget,
        tokenizer: EngineTokenizer,
        outputs: Outputs,
        *,
        max_model_len: int,
        seed: int,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._tokenizer = tokenizer
        self._outputs = outputs
        self._max_model_len = max_model_len
        self._seeds = random.Random(seed)
        self._clock = clock
        self._monotonic = monotonic

    def submit(self, command: Submit, step_id: int) -> Reply:
        """Take a request in; the reply carries its prompt tokens and seed."""

        def refuse(reason: str) -> Reply:
            return Reply(command.command_id, False, step_id, (reason,), self._scheduler.policy.version)

        if not 0 < len(command.request_id) <= MAX_REQUEST_ID_CHARS:
            return refuse(f"request_id: {len(command.request_id)} characters, 1 to {MAX_REQUEST_ID_CHARS} are allowed")
        prompt = self._prompt_token_ids(command)
        if isinstance(prompt, str):
            return refuse(prompt)
        seed = command.sampling.seed if command.sampling.seed is not None else self._seeds.getrandbits(31)
        request = Request(
            command.request_id,
            prompt,
            replace(command.sampling, seed=seed),
            command.priority,
            arrival_time=self._clock() - self._age(command),
            prior_output_token_ids=command.prior_output_token_ids,
        )
        version = self._scheduler.policy.version
        complete = is_complete(request, self._tokenizer.eos_token_ids, self._max_model_len)
        if complete:
            return Reply(command.command_id, True, step_id, (complete,), version, "finished", prompt, seed)
        outcome = self._scheduler.add(request)
        if not outcome.accepted:
            return refuse(outcome.reason)
        self._outputs.open(request)
        return Reply(command.command_id, True, step_id, (), version, "", prompt, seed)

    def _age(self, command: Submit) -> float:
        """Seconds since the request came to the client. The engine's clock is never held while a command waits."""
        waited = self._monotonic() - command.sent_at if command.sent_at > 0 else 0.0
        return max(0.0, command.age_s) + max(0.0, waited)

    def _prompt_token_ids(self, command: Submit) -> tuple[int, ...] | str:
        """The prompt as token ids, or the sentence that says what is wrong with it."""
        given = (command.prompt_text is not None, command.prompt_token_ids is not None, bool(command.turns))
        if sum(given) != 1:
            return "prompt_text, prompt_token_ids, turns: exactly one of them must be given"
        if command.prompt_token_ids is None:
            return self._encoded(command)
        if len(command.prompt_token_ids) >= self._max_model_len:  # before each of perhaps a million is looked at
            return (
                f"prompt_token_ids has {len(command.prompt_token_ids)} tokens, at most {self._max_model_len - 1} "
                f"leave room for one output token (max_model_len {self._max_model_len})"
            )
        vocab_size = self._tokenizer.vocab_size
        for name, ids in (
            ("prompt_token_ids", command.prompt_token_ids or ()),
            ("prior_output_token_ids", command.prior_output_token_ids),
        ):
            for position, token_id in enumerate(ids):
                if not 0 <= token_id < vocab_size:
                    return f"{name}[{position}]: {token_id} is no token, ids are 0 to {vocab_size - 1}"
        return command.prompt_token_ids or ()

    def _encoded(self, command: Submit) -> tuple[int, ...] | str:
        num_chars = len(command.prompt_text or "") + sum(len(turn.content) for turn in command.turns)
        if num_chars > MAX_PROMPT_CHARS:
            name = "turns" if command.turns else "prompt_text"
            return f"{name}: {num_chars} characters, at most {MAX_PROMPT_CHARS} are allowed"
        try:
            return encoded(command, self._tokenizer)
        except (RunnerError, ValueError) as error:
            return not_encodable(command, error)

    def abort(self, command: Abort, step_id: int) -> Reply:
        """End one request, or all; ``kind`` is the outcome's, of several "aborted" when any was."""
        ids = self._outputs.live_ids if command.request_id is None else (command.request_id,)
        kinds = [self._scheduler.abort(request_id).kind for request_id in ids]
        kind = "aborted" if "aborted" in kinds else (kinds[0] if kinds else "unknown")
        version = self._scheduler.policy.version
        return Reply(command.command_id, kind == "aborted", step_id, (), version, kind)

    def preempt(self, command: Preempt, step_id: int) -> Reply:
        """Evict one running request; ``kind`` is the outcome's."""
        kind = self._scheduler.preempt(command.request_id).kind
        return Reply(command.command_id, kind == "preempted", step_id, (), self._scheduler.policy.version, kind)

    def set_policy(self, command: SetPolicy, step_id: int) -> Reply:
        """Put a policy in force from the next step, or refuse it with a sentence for each illegal field."""
        outcome = self._scheduler.set_policy(command.policy)
        return Reply(command.command_id, outcome.accepted, step_id, outcome.reasons, outcome.version)
