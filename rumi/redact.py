"""Takes secrets out of text, at the places where text leaves for a log, an error or a reply."""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
_LEAST_LENGTH = 6
"""Shorter values are words that occur anywhere; hiding them would tell more than it hides."""

# What keys look like, for those that nobody told us: each pattern begins with fixed text, so that text
# without any is passed over quickly. What is kept in front is the first group.
_PATTERNS = re.compile(
    r"""
    (?P<kept>
        \b(?:Bearer|Basic)\s+(?=[A-Za-z0-9+/_.~=-]{8})
      | [?&](?:api_?key|key|access_token|token|auth|secret|password|sig|signature)=
      | \b(?:api[-_]key|x-subscription-token)["']?\s*[:=]\s*["']?(?:Bot\s+)?(?=[^\s"'&]{8})
      | \bAuthorization["']?\s*[:=]\s*["']?(?:Bot|Token)\s+
      | ://(?=[^/\s@:"']*:[^/\s@"']*@)
    )
    (?P<value>[^\s"'&,;<>()@\\]+)
    | \bgsk_[A-Za-z0-9]{8,}
    | \btvly-[A-Za-z0-9_-]{8,}
    | \bsk-[A-Za-z0-9_-]{16,}
    | (?<![0-9])[0-9]{5,16}(?::|%3A)[A-Za-z0-9_-]{30,}
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Redactor:
    """Hides known secret values, in the forms that they take in logs, and whatever looks like a key."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """`secrets` are the values themselves; empty and very short ones are left out."""
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first: a form that contains another is hidden whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __repr__(self) -> str:
        return "Redactor()"

    def text(self, text: str) -> str:
        """The text with `[hidden]` in the place of secrets. Idempotent."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        return _PATTERNS.sub(_hide, text)


def _hide(match: "re.Match[str]") -> str:
    return (match["kept"] or "") + HIDDEN


def _forms(secret: str) -> set[str]:
    """The value as it is, in URLs, in JSON and Python literals, and in base64 wherever it begins in it."""
    secret = secret.strip()
    if len(secret) < _LEAST_LENGTH:
        return set()
    forms = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), quote(secret, safe=":")}
    forms |= {form.replace("%", "%25") for form in forms}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    raw = secret.encode("utf-8", "surrogatepass")
    for before in range(3):
        # Base64 works on three bytes at a time: what comes before shifts the text. The characters that
        # also depend on the neighbours are cut off at both ends.
        encoded = base64.b64encode(b"\0" * before + raw).rstrip(b"=").decode()
        whole = encoded[(0, 2, 3)[before] : len(encoded) - (1 if (before + len(raw)) % 3 else 0)]
        if len(whole) >= 2 * _LEAST_LENGTH:
            forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return forms
