"""Removes secrets from text before it is written to a log, a recording, an error or a reply."""

import base64
import html
import json
import re
import threading
from collections.abc import Iterable
from copy import copy
from typing import Any, Final
from urllib.parse import quote, quote_plus

from rumi.platform.secret_forms import HIDDEN, TABLE

__all__ = ["HIDDEN", "LEARNED", "Redactor", "StreamRedactor"]

_LEAST_LENGTH = 6
"""Minimum length of a known secret.

Shorter values occur in ordinary text by chance, so hiding them there would reveal the secret.
"""

_PERCENT = re.compile("%[0-9A-F]{2}")
_FLAG: Final = re.compile(
    r"--(?:[a-z]{1,20}-){0,5}(?:password|passwd|passphrase|token|secret|api-?key)", re.IGNORECASE
)
"""Pattern of a command-line option whose value, the next word, is secret."""
_NAME: Final = re.compile(r"[\w .-]{1,60}")
_WRAPPED: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{4,}+(?:\r?\n|\\r\\n|\\n)[A-Za-z0-9+/_-]{4}"
)
"""Pattern of base64 that is broken into lines, as in mail or in the output of the program `base64`."""
_UNENDED: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}+(?:(?:\r?\n|\\r\\n|\\n)[A-Za-z0-9+/_-]*+)*\r?\Z"
)
_ENTRY_CHARS: Final = 64
"""What a remembered text counts in addition to its characters: the memory of its entry."""
MOST_REMEMBERED: Final = 4_000_000
"""Maximum number of characters of the texts that a remembering redactor holds."""
_LEAST_LINE: Final = 20
_MOST_PENDING: Final = 4096
"""Maximum length of unfinished base64 lines that a stream holds back at its end."""
_LINE_END: Final = r"(?:\r?\n|\\r\\n|\\n)?"


class Encoded(str):
    """A text that is a picture in base64. It is not searched for secrets, which would take long."""


class LearnedSecrets:
    """The secrets of a process besides those of its configuration, by where they are from.

    Each source has its secrets and those before them, because texts may still have these. `generation` counts
    the changes, so that redactors notice them without a lock. Threads may share it.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._current: dict[str, tuple[str, ...]] = {}
        self._before: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def learn(self, source: str, secrets: Iterable[str]) -> None:
        """Have all redactors of this process hide the secrets of a source from now on."""
        found = tuple(secret for secret in secrets if secret)
        with self._lock:
            if found == self._current.get(source, ()):
                return
            self._before[source] = self._current.get(source, ())
            self._current[source] = found
            self.generation += 1

    def state(self) -> tuple[int, tuple[str, ...]]:
        """Return the generation and the secrets that belong to it."""
        with self._lock:
            known = (*self._current.values(), *self._before.values())
            return self.generation, tuple(secret for secrets in known for secret in secrets)


LEARNED: Final = LearnedSecrets()
"""The learned secrets of this process. A secret belongs to the process, so there is one for all redactors."""


class Redactor:
    """Hides known secrets in all of their encodings, and everything that looks like a secret.

    Known are the secrets of this redactor, and those that the process has learned since it runs (`LEARNED`).
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """Prepare the search for `secrets`, which are plain values; values that are too short are ignored."""
        self._own = tuple(secrets)
        self._generation = 0
        self._know(self._own)
        self._memo: dict[str, str] | None = None
        self._memo_chars = 0
        self._lock = threading.Lock()
        self._named_values: dict[tuple[str, str], str] | None = None
        """The results for the values of names, which come again in each description of a tool."""
        self._named_chars = 0

    def _know(self, secrets: Iterable[str]) -> None:
        secrets = [secret.strip() for secret in secrets if len(secret.strip()) >= _LEAST_LENGTH]
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first, so that a form that contains another is hidden completely.
        self._forms = sorted((form for form in forms if form not in HIDDEN), key=lambda f: (-len(f), f))
        self._encoded = {form for secret in secrets for form in _base64_forms(_raw(secret))}
        self._beginnings: frozenset[str] | None = None

    def _keep_up(self) -> None:
        """Take over what the process has learned since the last call."""
        if self._generation == LEARNED.generation:
            return
        generation, learned = LEARNED.state()
        self._know((*self._own, *learned))
        with self._lock:  # remembered results may still have what is a secret now
            if self._memo is not None:
                self._memo.clear()
                self._memo_chars = 0
            if self._named_values is not None:
                self._named_values.clear()
                self._named_chars = 0
        self._generation = generation

    def remembering(self) -> "Redactor":
        """Return a redactor with the same secrets that remembers long texts, for texts that come again.

        It holds texts of at most `MOST_REMEMBERED` characters, the latest ones. Threads may share it.
        """
        other = copy(self)
        other._memo, other._lock = {}, threading.Lock()
        other._named_values = {}
        return other

    def __repr__(self) -> str:
        return "Redactor()"

    def text(self, text: str) -> str:
        """Replace known secrets and everything that looks like a secret with `[hidden]`. Idempotent."""
        self._keep_up()
        if self._memo is None:
            return TABLE.hide(self.known(text))
        with self._lock:
            hidden = self._memo.pop(text, None)
            if hidden is not None:
                self._memo[text] = hidden  # last in the dictionary, whose first entry is dropped
                return hidden
        hidden = TABLE.hide(self.known(text))  # without the lock, because it may take long
        with self._lock:
            if text not in self._memo:
                self._memo_chars += len(text) + _ENTRY_CHARS
            self._memo[text] = hidden
            while self._memo_chars > MOST_REMEMBERED:
                oldest = next(iter(self._memo))
                del self._memo[oldest]
                self._memo_chars -= len(oldest) + _ENTRY_CHARS
        return hidden

    def known(self, text: str) -> str:
        """Replace only known secrets, in all of their encodings, with `[hidden]`."""
        self._keep_up()
        # A search for each form is faster than one expression with all of them: `re` has no literal prefix to
        # search for in that.
        for form in [form for form in self._forms if form in text]:
            text = text.replace(form, HIDDEN)
        if self._encoded and _WRAPPED.search(text) is not None:
            text = self._unwrapped(text)
        return text

    def json(self, value: Any, *, name: str = "") -> Any:
        """Replace secrets with `[hidden]` in all strings and names of a JSON value.

        The context also counts: a string is hidden if its name in an object stands for a secret, or if the
        element before it in a list is an option that takes a secret.
        """
        if isinstance(value, Encoded):
            return value
        if isinstance(value, str):
            return self._named(name, self.text(value)) if name else self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.json(item, name=key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            before = ("", *(word if isinstance(word, str) and word[:2] == "--" else "" for word in value))
            return [
                self.json(item, name=flag if _FLAG.fullmatch(flag) else "")
                for flag, item in zip(before, value, strict=False)
            ]
        return value

    def stream(self) -> "StreamRedactor":
        """Return a redactor for known secrets in a text that arrives in pieces."""
        return StreamRedactor(self)

    def open_end(self, text: str, before: str = "") -> int:
        """Return the index from which the rest of the text may be an incomplete known secret.

        `before` is the end of the preceding text.
        """
        self._keep_up()
        if self._beginnings is None:
            self._beginnings = frozenset(form[:end] for form in self._forms for end in range(1, len(form)))
        longest = len(self._forms[0]) if self._forms else 1
        at = next(
            (at for at in range(max(0, len(text) - longest + 1), len(text)) if text[at:] in self._beginnings),
            len(text),
        )
        if self._encoded and (lines := _UNENDED.search((before + text)[-_MOST_PENDING:])) is not None:
            at = min(at, len(text) - min(len(text), len(lines[0])))
        # The cut must not fall within a secret that the text has completely: move it before such a secret.
        while at < len(text) and (
            crossing := [start for start in map(text.find, self._forms) if 0 <= start < at]
        ):
            whole = [start for start in crossing if self._crosses(text, start, at)]
            if not whole:
                break
            at = min(whole)
        return at

    def _crosses(self, text: str, begin: int, at: int) -> bool:
        return any(text.startswith(form, begin) and begin + len(form) > at for form in self._forms)

    def _named(self, name: str, text: str) -> str:
        """Return `[hidden]` if the name shows that the text is a secret, else the unchanged text."""
        if not text or HIDDEN in text or "\n" in text or _NAME.fullmatch(name) is None:
            return text
        remembered = self._named_values
        if remembered is not None and (known := remembered.get((name, text))) is not None:
            return known
        sign = " " if name.startswith("--") else ": "
        hidden = HIDDEN if HIDDEN in Redactor.text(_FORMS_ONLY, f"{name}{sign}{text}") else text
        if remembered is not None:
            with self._lock:
                self._named_chars += len(text) + _ENTRY_CHARS
                if self._named_chars > MOST_REMEMBERED:
                    self._named_chars = 0
                    remembered.clear()
                remembered[name, text] = hidden
        return hidden

    def _unwrapped(self, text: str) -> str:
        """Hide known secrets in base64 that is broken into lines."""
        joined = re.sub(r"\r?\n|\\r\\n|\\n", "", text)
        for form in self._encoded:
            if form in joined:
                text = re.sub(_LINE_END.join(map(re.escape, form)), HIDDEN, text)
        return text


_FORMS_ONLY: Final = Redactor(())


class StreamRedactor:
    """Hides known secrets in a text that arrives in pieces.

    The last characters are held back as long as they may be the beginning of a secret.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = self._before = ""

    def feed(self, piece: str) -> str:
        """Add a piece of text; return the redacted text up to the point where a secret may begin."""
        text = self._pending + piece
        end = self._redactor.open_end(text, self._before)
        self._pending = text[end:]
        self._before = (self._before + text[:end])[-_LEAST_LINE:]
        return self._redactor.known(text[:end])

    def end(self) -> str:
        """Return the redacted rest of the text, which was held back until now."""
        text, self._pending = self._pending, ""
        return self._redactor.known(text)


def _raw(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogatepass")


def _forms(secret: str) -> set[str]:
    """Return the encodings of a secret: plain, in URLs, HTML, JSON and Python literals, in hex and base64."""
    raw = _raw(secret)
    quoted = {quote(raw), quote(raw, safe=""), quote(raw, safe=":"), quote_plus(raw)}
    quoted |= {_PERCENT.sub(lambda match: match[0].lower(), form) for form in quoted}
    forms = {secret, *quoted, *(form.replace("%", "%25") for form in quoted)}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    forms |= {html.escape(secret), html.escape(secret, quote=False), raw.hex(), raw.hex().upper()}
    encoded = _base64_forms(raw)
    # Also base64 in a URL, and in JSON with escaped slashes, as PHP writes it.
    return (
        forms
        | encoded
        | {quote(form, safe="") for form in encoded}
        | {f.replace("/", "\\/") for f in encoded}
    )


def _base64_forms(raw: bytes) -> set[str]:
    """Return the base64 encodings that `raw` can have within a longer text, one for each offset modulo 3.

    Base64 encodes groups of three bytes. The first and last characters are cut off if they also depend on the
    bytes before or after `raw`.
    """
    forms: set[str] = set()
    for before, mixed in ((0, 0), (1, 2), (2, 3)):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        end = len(encoded) - (1 if (before + len(raw)) % 3 else 0)
        if end - mixed >= _LEAST_LENGTH:
            forms |= {encoded[mixed:end], encoded[mixed:end].replace("+", "-").replace("/", "_")}
    return forms
