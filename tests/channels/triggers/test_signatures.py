"""What proves that a sender knows a trigger's secret, and what does not."""

import time

import pytest
from starlette.datastructures import Headers

from rumi.channels.triggers.signatures import (
    SECRET_HEADERS,
    TOLERANCE_S,
    Flaw,
    Form,
    SecretForm,
    check_secret,
    flaw_of,
    signed,
)
from tests.channels.triggers.bodies import SAMPLES, SECRET, STANDARD, Sample

NOW = 1_790_000_000.0
GITHUBS = {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
"""The example of GitHub's documentation: the signature of `Hello, World!`."""

SPECIFIED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""The example of the libraries of Standard Webhooks."""


def flaw(form: Form, headers: dict[str, str], body: bytes, secret: str, now: float = NOW) -> Flaw:
    return flaw_of(form, secret, Headers(headers), body, now)


def secret_of(sample: Sample) -> str:
    return STANDARD if sample.form == "standard" else SECRET


def test_the_documented_examples_prove_their_secrets() -> None:
    assert flaw("github", GITHUBS, b"Hello, World!", "It's a Secret to Everybody") == ""
    body, secret = b'{"test": 2432232314}', "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert flaw("standard", SPECIFIED, body, secret, 1614265330) == ""
    assert flaw("standard", SPECIFIED, body, secret.removeprefix("whsec_"), 1614265330) == ""
    assert flaw("standard", SPECIFIED, body + b" ", secret, 1614265330) == "wrong"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_each_sender_proves_its_secret_and_a_changed_byte_nothing(sample: Sample) -> None:
    now, secret = time.time(), secret_of(sample)
    headers = {**sample.headers, **sample.proofs(at=now)}
    assert flaw(sample.form, headers, sample.body, secret, now) == ""
    assert flaw(sample.form, headers, sample.body, f"{secret[:-4]}AAAA", now) == "wrong"
    assert flaw(sample.form, sample.headers, sample.body, secret, now) == "unsigned"
    if sample.form != "plain":
        for at in (0, len(sample.body) // 2, len(sample.body) - 1):
            changed = bytearray(sample.body)
            changed[at] ^= 1
            assert flaw(sample.form, headers, bytes(changed), secret, now) == "wrong"
        assert flaw(sample.form, headers, b"", secret, now) == "wrong"


def test_what_a_proof_looks_like_without_being_one() -> None:
    body, right = b"Hello, World!", GITHUBS["X-Hub-Signature-256"]
    secret = "It's a Secret to Everybody"
    for value in ("", "sha256=", right[:-1], f"{right}0", "sha256=" + "0" * 64, "sha1=" + "a" * 40, "é" * 64):
        assert flaw("github", {"X-Hub-Signature-256": value}, body, secret) in ("wrong", "unsigned")
    # The legacy SHA-1 beside the right one changes nothing; another header alone is no proof.
    assert flaw("github", {"X-Hub-Signature": "sha1=" + "a" * 40, **GITHUBS}, body, secret) == ""
    assert flaw("github", {"Authorization": f"Bearer {secret}"}, body, secret) == "unsigned"
    assert flaw("github", {"X-Hub-Signature-256": right.upper().replace("SHA", "sha")}, body, secret) == ""
    for authorization in ("", "Bearer", "Bearer ", "Basic", "Basic !!", "Basic Og==", "Digest x", secret):
        assert flaw("plain", {"Authorization": authorization}, body, SECRET) in ("wrong", "unsigned")
    for name in SECRET_HEADERS:
        assert flaw("plain", {name: "é"}, body, SECRET) == "wrong"
        assert flaw("plain", {name: SECRET}, body, SECRET) == ""
    umlauts = "schlüssel-wörter-日本"
    assert flaw_of("plain", umlauts, {"x-rumi-secret": umlauts.encode().decode("latin-1")}, b"", NOW) == ""


def test_an_empty_secret_proves_nothing() -> None:
    for form, name in (("plain", "Authorization"), ("github", "X-Hub-Signature-256")):
        assert flaw(form, {name: "Bearer "}, b"", "") != ""  # type: ignore[arg-type]
    assert flaw("plain", {"Authorization": "Basic Og=="}, b"", "") == "wrong"


@pytest.mark.parametrize("name", ["standard webhooks", "svix", "grafana with a time", "gitlab, signed"])
def test_a_signed_time_far_from_now_is_old(name: str) -> None:
    sample = next(sample for sample in SAMPLES if sample.name == name)
    for off, expected in ((TOLERANCE_S - 1, ""), (-TOLERANCE_S + 1, ""), (301, "old"), (-301, "old")):
        headers = {**sample.headers, **sample.proofs(at=NOW + off)}
        assert flaw(sample.form, headers, sample.body, secret_of(sample), NOW) == expected
    time_header = next(name for name in sample.proofs() if "timestamp" in name.lower())
    for odd in ("", "now", "-1", "1e9", "9" * 400, "\xb2\xb2"):
        headers = {**sample.headers, **sample.proofs(at=NOW), time_header: odd}
        assert flaw(sample.form, headers, sample.body, secret_of(sample), NOW) != ""


def test_the_signed_time_cannot_be_left_out_or_changed() -> None:
    sample = next(sample for sample in SAMPLES if sample.name == "grafana with a time")
    headers = sample.proofs(at=NOW)
    later = {**headers, "X-Grafana-Alerting-Signature-Timestamp": str(int(NOW) + 5)}
    assert flaw("github", later, sample.body, SECRET, NOW + 5) == "wrong"
    del headers["X-Grafana-Alerting-Signature-Timestamp"]
    assert flaw("github", headers, sample.body, SECRET, NOW) == "wrong"


def test_a_secret_of_standard_webhooks_has_to_be_base64() -> None:
    for broken in ("whsec_", "whsec_é", "whsec_%%%"):
        with pytest.raises(SecretForm) as raised:
            check_secret("standard", broken)
        assert "%%%" not in str(raised.value)
    for fine in (STANDARD, "not base64!", STANDARD.removeprefix("whsec_")):
        check_secret("standard", fine)


@pytest.mark.parametrize("form", ["github", "standard", "plain"])
def test_what_we_sign_is_accepted(form: Form) -> None:
    secret = STANDARD if form == "standard" else SECRET
    headers = signed(form, secret, b"body", "id-1", NOW)
    assert flaw(form, headers, b"body", secret) == ""
    assert secret not in str(headers) or form == "plain"
