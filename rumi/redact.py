"""Removes secrets from text in the places where text leaves for a log, an error or a reply."""

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "[hidden]"
_LEAST_LENGTH = 6
"""Shorter values are words that occur anywhere; hiding them would reveal more than it hides."""

_VALUE = r"""(?P<value>[^\s"'&,;<>()@\\]+)"""
_NAMES = "api_?key|key|access_token|token|auth|secret|password|sig|signature"


def _kind(
    needles: tuple[str, ...], kept: str, value: str = _VALUE
) -> tuple[tuple[str, ...], re.Pattern[str]]:
    return needles, re.compile(f"(?P<kept>{kept}){value}", re.IGNORECASE)


# The forms of keys that are not known as secrets. Each expression is tried only on text that has one of its
# needles (in lower case): searching for those is a hundred times faster. `kept` stays in the text.
_KINDS: Final = (
    _kind(("bearer", "basic"), r"\b(?:Bearer|Basic)\s+(?=[A-Za-z0-9+/_.~=-]{8})"),
    _kind(("=",), rf"[?&;](?:{_NAMES})="),
    _kind(
        ("key", "x-subscription-token"),
        r"""\b(?:api[-_]?key|x-subscription-token)["']?\s{0,9}[:=]\s{0,9}["']?(?!\$)(?=[^\s"'&]{8})""",
    ),
    _kind(("authorization",), r"""\bAuthorization["']?\s{0,9}[:=]\s{0,9}["']?(?:Bot|Token)\s+"""),
    _kind(("@",), r"""://(?=[^/\s@:"']*:[^/\s@"']*@)"""),
    _kind(("gsk_",), r"\b", r"(?P<value>gsk_[A-Za-z0-9]{8,})"),
    _kind(("tvly-",), r"\b", r"(?P<value>tvly-[A-Za-z0-9_-]{8,})"),
    _kind(("xai-",), r"\b", r"(?P<value>xai-[A-Za-z0-9_-]{16,})"),
    _kind(("aiza",), r"\b", r"(?P<value>AIza[A-Za-z0-9_-]{30,})"),  # Google's
    _kind(("sk-",), r"\b", r"(?P<value>sk-[A-Za-z0-9_-]{16,})"),
    _kind((":", "%3a"), r"(?<![0-9])", r"(?P<value>[0-9]{5,16}(?::|%3A)[A-Za-z0-9_-]{30,})"),  # Telegram's
)
_PERCENT = re.compile("%[0-9A-F]{2}")


class Redactor:
    """Hides known secrets, in the forms that they have in logs, and everything that looks like a key."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """`secrets` are the values themselves; very short ones are left out."""
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first, so that a form that contains another is hidden completely.
        self._forms = sorted((form for form in forms if form not in HIDDEN), key=lambda f: (-len(f), f))

    def __repr__(self) -> str:
        return "Redactor()"

    def text(self, text: str) -> str:
        """Return the text with `[hidden]` in place of secrets. Idempotent."""
        # A search for each form is faster than one expression with all of them, which has no fixed start.
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        lowered = text.lower()
        for needles, pattern in _KINDS:
            for needle in needles:
                if needle in lowered:
                    text = pattern.sub(_hide, text)
                    break
        return text

    def json(self, value: Any) -> Any:
        """Return a JSON value with `[hidden]` in place of secrets in all of its strings."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.json(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(each) for each in value]
        return value


def _hide(match: re.Match[str]) -> str:
    return match[0] if match["value"].startswith(HIDDEN) else match["kept"] + HIDDEN


def _forms(secret: str) -> set[str]:
    """Return the value's forms: plain, in URLs, in JSON and Python literals, and in base64 at any offset."""
    secret = secret.strip()
    if len(secret) < _LEAST_LENGTH:
        return set()
    raw = secret.encode("utf-8", "surrogatepass")
    quoted = {quote(raw), quote(raw, safe=""), quote(raw, safe=":"), quote_plus(raw)}
    quoted |= {_PERCENT.sub(lambda match: match[0].lower(), form) for form in quoted}
    forms = {secret, *quoted, *(form.replace("%", "%25") for form in quoted)}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    return forms | _base64_forms(raw)


def _base64_forms(raw: bytes) -> set[str]:
    """Return the base64 of any text that contains `raw`, for each of the three offsets in its groups.

    Characters at both ends that also depend on the neighbours are cut off.
    """
    forms: set[str] = set()
    for before, mixed in ((0, 0), (1, 2), (2, 3)):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        end = len(encoded) - (1 if (before + len(raw)) % 3 else 0)
        if end - mixed >= _LEAST_LENGTH:
            forms |= {encoded[mixed:end], encoded[mixed:end].replace("+", "-").replace("/", "_")}
    return forms
