"""Proofs that a request's sender knows a trigger's secret. All comparisons take constant time.

- `github`: HMAC-SHA256 of the raw body, in hexadecimal digits, as GitHub, Gitea, Forgejo, Gogs, Bitbucket,
  Sentry and Grafana send it. Grafana can also sign the time.
- `standard`: Standard Webhooks, which Svix and GitLab use too: HMAC-SHA256 of id, time and body, in Base64.
- `plain`: the secret itself, as a bearer token, a password or in a header, for senders that cannot sign.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Form: TypeAlias = Literal["github", "standard", "plain"]

Flaw: TypeAlias = Literal["", "unsigned", "wrong", "old"]
"""Why a request proves nothing: no signature, a wrong one, or one that is too old. Empty if it proves all."""

TOLERANCE_S: Final = 300.0
"""Maximum difference between a signed time and this machine's clock, in seconds."""

_HEX_HEADERS: Final = (
    "x-hub-signature-256",
    "x-gitea-signature",
    "x-forgejo-signature",
    "x-gogs-signature",
    "x-hub-signature",
    "sentry-hook-signature",
)
_GRAFANA: Final = "x-grafana-alerting-signature"
# Grafana has no default name for the header with the time; its documentation uses the first one.
_GRAFANA_TIMES: Final = ("x-grafana-alerting-signature-timestamp", "x-grafana-alerting-timestamp")
_HEX: Final = re.compile(r"(?:sha256=)?([0-9a-fA-F]{64})")
_TIME: Final = re.compile(r"[0-9]{1,12}")

_STANDARD_NAMES: Final = ("webhook", "svix")
_STANDARD_SECRET: Final = "whsec_"  # noqa: S105  # the prefix of secrets

SECRET_HEADERS: Final = ("x-rumi-secret", "x-gitlab-token")
"""Headers that may hold the secret itself, besides `Authorization`."""


class SecretForm(ValueError):
    """The secret does not have the form that the trigger's signatures need."""


def check_secret(form: Form, secret: str) -> None:
    """Check that signatures of this form can be made with the secret.

    Raises:
        SecretForm: It begins with `whsec_` and is not Base64. The error does not show it.
    """
    if form == "standard":
        _standard_keys(secret)


def flaw_of_head(form: Form, secret: str, headers: Mapping[str, str], now: float) -> Flaw:
    """Check what the headers alone prove: all of `plain`, and for the others that there is a signature."""
    match form:
        case "plain":
            given = _plain_secrets(headers)
            if not given:
                return "unsigned"
            return "" if _any_equal(given, secret.encode()) else "wrong"
        case "github":
            return "" if any(headers.get(name) for name in (*_HEX_HEADERS, _GRAFANA)) else "unsigned"
        case "standard":
            found = _standard_headers(headers)
            if found is None:
                return "unsigned"
            return "" if _is_now(found[1], now) else "old"


def flaw_of(form: Form, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> Flaw:
    """Check the proof of a whole request; `body` are its raw bytes, `now` is in seconds since 1970."""
    flaw = flaw_of_head(form, secret, headers, now)
    if flaw or form == "plain":
        return flaw
    return _github(secret, headers, body, now) if form == "github" else _standard(secret, headers, body)


def signed_id(form: Form, headers: Mapping[str, str]) -> str | None:
    """Return the delivery id that the proof covers; empty if the sender has none.

    Return None if no proof of this form covers an id. Then any header may name it.
    """
    if form == "standard":
        found = _standard_headers(headers)
        return "" if found is None else found[0]
    # With a time, Grafana's proof cannot be sent again later, unless a header could give it another id.
    return "" if form == "github" and headers.get(_GRAFANA) else None


def signed(form: Form, secret: str, body: bytes, id: str, now: float) -> dict[str, str]:
    """Return the headers with which a sender proves that it knows the secret."""
    match form:
        case "plain":
            return {"Authorization": f"Bearer {secret}"}
        case "github":
            return {"X-Hub-Signature-256": f"sha256={_hex_hmac(secret.encode(), body)}"}
        case "standard":
            time = str(int(now))
            digest = hmac.digest(_standard_keys(secret)[0], f"{id}.{time}.".encode() + body, hashlib.sha256)
            signature = f"v1,{base64.b64encode(digest).decode()}"
            return {"webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature}


def _github(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> Flaw:
    key = secret.encode()
    expected = _hex_hmac(key, body).encode()
    if _any_equal([digits for name in _HEX_HEADERS if (digits := _hex_digits(headers, name))], expected):
        return ""
    if not (digits := _hex_digits(headers, _GRAFANA)):
        return "wrong"
    time = next((headers[name] for name in _GRAFANA_TIMES if name in headers), None)
    if time is None:
        return "" if _any_equal([digits], expected) else "wrong"
    expected = _hex_hmac(key, time.encode("latin-1", "replace") + b":" + body).encode()
    if not _any_equal([digits], expected):
        return "wrong"
    return "" if _is_now(time, now) else "old"


def _standard(secret: str, headers: Mapping[str, str], body: bytes) -> Flaw:
    found = _standard_headers(headers)
    if found is None:
        return "unsigned"
    id, time, signatures = found
    # A sender signs with the old and the new secret while it changes secrets; other versions are skipped.
    given = [one[3:].encode("latin-1", "replace") for one in signatures.split() if one.startswith("v1,")]
    content = f"{id}.{time}.".encode("latin-1", "replace") + body
    right = False
    for key in _standard_keys(secret):
        expected = base64.b64encode(hmac.digest(key, content, hashlib.sha256))
        right |= _any_equal(given, expected)
    return "" if right else "wrong"


def _standard_headers(headers: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return id, time and signatures of a request; None if one of them is missing."""
    for name in _STANDARD_NAMES:
        id, time, signatures = (
            headers.get(f"{name}-{part}", "") for part in ("id", "timestamp", "signature")
        )
        if id and time and signatures:
            return id, time, signatures
    return None


def _standard_keys(secret: str) -> tuple[bytes, ...]:
    """Return the keys that a secret may stand for.

    Libraries decode every secret as Base64. Some senders use a secret without prefix as it is.
    """
    text = secret.removeprefix(_STANDARD_SECRET)
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if text != secret:
        if not decoded:
            raise SecretForm("after whsec_, a secret of Standard Webhooks is Base64")
        return (decoded,)
    return (decoded, secret.encode()) if decoded else (secret.encode(),)


def _plain_secrets(headers: Mapping[str, str]) -> list[bytes]:
    """Return the secrets that a request's headers give: a bearer token, a password, a header of its own."""
    # Headers are decoded as Latin-1; the original bytes may be UTF-8.
    given = [headers[name].encode("latin-1", "replace") for name in SECRET_HEADERS if headers.get(name)]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    value = value.strip()
    if scheme.lower() in ("bearer", "token") and value:
        given.append(value.encode("latin-1", "replace"))
    if scheme.lower() == "basic":
        try:
            _, colon, password = base64.b64decode(value, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            colon, password = b"", b""
        if colon:
            given.append(password)
    return given


def _hex_digits(headers: Mapping[str, str], name: str) -> bytes:
    found = _HEX.fullmatch(headers.get(name, "").strip())
    return b"" if found is None else found[1].lower().encode()


def _hex_hmac(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _any_equal(given: list[bytes], expected: bytes) -> bool:
    """Return True if one of the values is the expected one. Compare all of them, each in constant time."""
    right = False
    for one in given:
        right |= hmac.compare_digest(one, expected)
    return right and bool(expected)


def _is_now(time: str, now: float) -> bool:
    return bool(_TIME.fullmatch(time)) and abs(now - int(time)) <= TOLERANCE_S
