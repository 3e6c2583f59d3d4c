"""Errors that people read: one clear sentence, and what to do next.

Everything that Rumi raises on purpose derives from `RumiError`. `rumi.cli` shows it in one place and turns it
into the exit code of the process. Any other exception that reaches the command line is a bug.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class RumiError(Exception):
    """One sentence about the error, and what to do next.

    `exit_code` is the process's exit code if the error reaches the command line. `code` is what programs call
    its kind; empty for most.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = ""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()

    def to_json(self) -> dict[str, str]:
        """Return the error as programs read it in an answer of Rumi's."""
        return {"code": self.code, "message": self.message, "advice": self.advice}


class UsageError(RumiError):
    """Wrong usage or configuration; also a home that another process holds."""

    exit_code = 2
    code = "tool_input"


class NotTaken(RumiError):
    """A message that was refused and not stored; a later message may be accepted. `trouble` is the reason."""

    def __init__(self, message: str, advice: str = "", trouble: str = "") -> None:
        super().__init__(message, advice)
        self.trouble = trouble


class NotServed(RumiError):
    """No worker serves the chat at the moment, or not this one any more. It is tried again."""

    code = "not_served"


class ConfigError(UsageError):
    """A configuration key that is unknown, or a value that is not allowed."""

    code = "config"


def single(error: BaseException) -> BaseException:
    """Return what a group holds, where that is one error only: trio wraps even Ctrl-C."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def answer_of(error: RumiError) -> dict[str, Any]:
    """Return what another process is told of an error, for its `error_of`."""
    answer = {"error": error.message, "advice": error.advice, "code": error.exit_code}
    return answer | ({"kind": error.code} if error.code else {})


def error_of(answer: Mapping[str, Any]) -> RumiError:
    """Return the error in another process's answer: its `error`, its exit `code`, and its `kind`."""
    kind: type[RumiError] = UsageError if answer.get("code") == UsageError.exit_code else RumiError
    if answer.get("kind") == ConfigError.code:
        kind = ConfigError
    if answer.get("kind") == NotServed.code:
        kind = NotServed
    if answer.get("not_taken"):
        kind = NotTaken
    return kind(answer["error"], answer.get("advice", ""))


class FileError(RumiError):
    """A file could not be fetched or stored."""
