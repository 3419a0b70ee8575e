"""What can go wrong before and while a model runs, each with the sentence a user needs."""

from __future__ import annotations


class RunnerError(Exception):
    """Base of every error of the runner that a user can act upon."""


class RunnerConfigError(RunnerError):
    """A start-up choice is wrong or cannot be met. The message names field, value and what would be right."""


class ModelNotFoundError(RunnerError):
    """The model is not on this machine. ``command`` is the one command that brings it, "" when there is none."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class ModelFormatError(RunnerError):
    """A model file is damaged, incomplete or of a kind that is not supported. The message names file and field."""


class TokenizerError(RunnerError):
    """A text cannot be turned into tokens of this model."""


class StepError(RunnerError):
    """A step cannot be computed: it contradicts what the runner knows. The message names request and field."""


def first_line(error: BaseException) -> str:
    """What an error of a library says, without the pages that some of them add."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
