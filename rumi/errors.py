"""Errors that people are shown: one clear sentence, and what to do next.

Everything that Rumi raises on purpose derives from `RumiError`; `rumi.cli` shows it in one place and
turns it into the exit code of the process. Anything else that reaches the command line is a fault of ours.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class RumiError(Exception):
    """What went wrong, in one sentence, and what to do next.

    `exit_code` is what the process ends with when the error reaches the command line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class UsageError(RumiError):
    """Wrong usage or configuration; also a home that another process holds."""

    exit_code = 2


class NotTaken(RumiError):
    """One message was not taken and is not stored; a later one may be. `trouble` is what keeps it away."""

    def __init__(self, message: str, advice: str = "", trouble: str = "") -> None:
        super().__init__(message, advice)
        self.trouble = trouble


class ConfigError(UsageError):
    """A configuration key that is unknown, or a value that is not allowed."""


def single(error: BaseException) -> BaseException:
    """Return what a group holds, where that is one error only: trio wraps even Ctrl-C."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def error_of(answer: Mapping[str, Any]) -> RumiError:
    """What another process has answered instead of a result: its `error`, and the exit `code`."""
    kind = UsageError if answer.get("code") == UsageError.exit_code else RumiError
    if answer.get("not_taken"):
        kind = NotTaken
    return kind(answer["error"], answer.get("advice", ""))
