"""The text of an error, for people."""

from typing import Final

from rumi.errors import RumiError, single
from rumi.platform.redact import Redactor
from rumi.texts import Language

MOST_ERROR_CHARS: Final = 300
"""Maximum length of the text that is shown for an error that is not a `RumiError`."""


def error_text(language: Language, error: BaseException) -> str:
    """Return the text of an error in the reader's language. All code that shows errors uses this function.

    The text of a `RumiError` is the message and the advice. Any other error is a bug: its text is the type
    and the message, on one line of at most `MOST_ERROR_CHARS` characters. A group of one error is shown as
    that error. The crash of an actor is shown as the cause of the crash.
    """
    error = single(error)
    if isinstance(error, RumiError):
        return error.text.in_language(language)
    from actors import ActorError  # imported here: the start of a command line must not load it

    if isinstance(error, ActorError) and error.__cause__ is not None:
        return error_text(language, error.__cause__)
    # The text is from a library or a server, so it may contain a secret.
    text = Redactor(()).text(" ".join(str(error).split()))
    return f"{type(error).__name__}: {text}"[:MOST_ERROR_CHARS] if text else type(error).__name__
