"""Errors for users: one clear sentence, and what to do next.

Every exception that Rumi raises on purpose derives from `RumiError`. `rumi.cli` prints it in one place and
exits with its exit code. Any other exception that reaches the command line is a bug.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from rumi.texts import Text, json_of, text_of


class RumiError(Exception):
    """An expected error. `message` describes it in one sentence; `advice` says what the user can do next.

    Both are English sentences, in which `{name}` stands for the field of that name:
    `RumiError("Unknown task {id}.", id=7)`. Logs and programs get them in English; a front end translates
    them for its reader.

    If this error ends the process, `exit_code` is the process's exit code. `code` tells programs the kind of
    the error; it is empty for most errors.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = ""
    advises_models: ClassVar[bool] = False
    """True if a model can follow the advice. Otherwise the advice is for people: it names settings, commands
    of Rumi or programs of the host."""

    def __init__(self, message: str, advice: str = "", /, **fields: object) -> None:
        self.message: Text = _text(message, fields)
        self.advice: Text = _text(advice, fields)
        super().__init__(self.message)

    def __str__(self) -> str:
        return str(self.text)

    @property
    def text(self) -> Text:
        """The message and the advice."""
        if not self.advice:
            return self.message
        return Text("{message} {advice}", message=self.message, advice=self.advice)

    @property
    def for_model(self) -> Text:
        """The text for a model: the message, and the advice if a model can follow it."""
        return self.text if self.advises_models else self.message

    @property
    def for_people(self) -> str:
        """The advice that `for_model` leaves out."""
        return "" if self.advises_models else self.advice

    def to_json(self) -> dict[str, str]:
        """Return the error as a JSON object for programs, in English."""
        return {"code": self.code, "message": self.message, "advice": self.advice}


def _text(text: str, fields: Mapping[str, object]) -> Text:
    return (
        text
        if isinstance(text, Text) and (text.fields or not fields)
        else Text(getattr(text, "key", text), **cast("dict[str, Any]", fields))
    )


class UsageError(RumiError):
    """Wrong usage or configuration, or a home that another process has locked."""

    exit_code = 2
    code = "tool_input"


class NotTaken(RumiError):
    """A message was refused and not stored; it may be accepted later. `trouble` is the reason."""

    def __init__(self, message: str, advice: str = "", /, trouble: str = "", **fields: object) -> None:
        super().__init__(message, advice, **fields)
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
    texts = [json_of(error.message), json_of(error.advice)]
    answer = {"error": error.message, "advice": error.advice, "code": error.exit_code, "texts": texts}
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
    if texts := answer.get("texts"):
        return kind(*map(text_of, texts))
    # An older process sends only the English sentences, without their keys.
    advice = answer.get("advice", "")
    return kind("{error}", "{advice}" if advice else "", error=answer["error"], advice=advice)


class FileError(RumiError):
    """A file could not be fetched or stored."""
