"""How many tokens a text has in a model of the runner. Imported late: it brings torch with it."""

from __future__ import annotations

from collections.abc import Callable

from experiments.traces.errors import TraceError
from model_runner.config import RunnerConfig
from model_runner.device import choose_device
from model_runner.errors import ModelFormatError, ModelNotFoundError, TokenizerError
from model_runner.opening import open_model


def token_counter(model: str) -> Callable[[str], int]:
    """Counts plain texts, without a chat template, with the tokens that the tokenizer puts around every text.

    model: "smollm2", "toy" or a folder. Raises TraceError when it cannot be opened; the counter does where a text has
    no tokens in the model.
    """
    config = RunnerConfig(model=model, device="cpu", dtype="float32", threads=1)
    try:
        tokenizer = open_model(config, choose_device(config), lambda *_: None).tokenizer
    except (ModelNotFoundError, ModelFormatError) as error:
        raise TraceError("--model", str(error)) from error

    def count(text: str) -> int:
        try:
            return len(tokenizer.encode(text))
        except TokenizerError as error:
            raise TraceError("--model", str(error)) from error

    return count
