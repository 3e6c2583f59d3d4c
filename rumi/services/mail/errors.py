"""Errors of mailboxes and their servers."""

from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError
from rumi.platform.untrusted_text import one_line

Kind: TypeAlias = Literal[
    "login", "unreachable", "tls", "refused", "too_large", "timeout", "folder", "gone", "invalid", "unknown"
]
"""The kind of a failure.

`login`: the server does not accept the user or the password. `unreachable`: there is no connection, or it
broke. `tls`: the connection cannot be encrypted, or the certificate is not valid. `refused`: the server
refuses this. `too_large`: a mail is larger than allowed. `timeout`: the server did not answer in time.
`folder`: there is no such folder. `gone`: the mail is not there any more. `invalid`: an argument cannot be
used. `unknown`: the mail was handed over, and the server's answer never came.
"""

_MOST_WORDS: Final = 300


class MailError(RumiError):
    """A mailbox or its server failed. `kind` says how; `words` are those of the server, if it said any."""

    code = "mail"
    advises_models = True

    def __init__(
        self, kind: Kind, message: str, advice: str = "", /, *, words: str = "", **fields: object
    ) -> None:
        super().__init__(message, advice, **fields, **({"words": words} if words else {}))
        self.kind: Kind = kind
        self.words = words


def said(words: object) -> str:
    """Return the words of a server on one line and short; a server is not trusted with more."""
    text = words.decode("utf-8", "replace") if isinstance(words, bytes | bytearray) else str(words or "")
    return one_line(text, _MOST_WORDS)
