"""Errors for users: one clear sentence, and what to do next.

Every exception that Rumi raises on purpose derives from `RumiError`. `rumi.cli` prints it in one place and
exits with its exit code. Any other exception that reaches the command line is a bug.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class RumiError(Exception):
    """An expected error. `message` describes it in one sentence; `advice` says what the user can do next.

    If this error ends the process, `exit_code` is the process's exit code. `code` tells programs the kind of
    the error; it is empty for most errors.
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
        """Return the error as a JSON object for programs."""
        return {"code": self.code, "message": self.message, "advice": self.advice}


class UsageError(RumiError):
    """Wrong usage or configuration, or a home that another process has locked."""

    exit_code = 2
    code = "tool_input"


class NotTaken(RumiError):
    """A message was refused and not stored; it may be accepted later. `trouble` is the reason."""

    def __init__(self, message: str, advice: str = "", trouble: str = "") -> None:
        super().__init__(message, advice)
        self.trouble = trouble


class NotServed(RumiError):
    """No worker serves the chat now, or this worker no longer serves it. The caller should retry."""

    code = "not_served"


class ConfigError(UsageError):
    """An unknown configuration key, or an invalid value."""

    code = "config"


def single(error: BaseException) -> BaseException:
    """Return the only error in an exception group, even if nested; return any other exception unchanged.

    trio's nurseries wrap every exception in a group, even the KeyboardInterrupt of Ctrl-C.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def answer_of(error: RumiError) -> dict[str, Any]:
    """Return an error as the fields of a response to another process, which reads them with `error_of`."""
    answer = {"error": error.message, "advice": error.advice, "code": error.exit_code}
    return answer | ({"kind": error.code} if error.code else {})


def error_of(answer: Mapping[str, Any]) -> RumiError:
    """Return the error in another process's response: its `error`, its exit `code`, and its `kind`."""
    # An unknown `kind` of a newer process falls back to the class of its exit code.
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
