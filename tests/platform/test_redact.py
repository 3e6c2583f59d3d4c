"""Secrets are taken out of text in every form that they take in logs."""

import base64
import json
import time
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.platform.redact import HIDDEN, Redactor

SECRET = 'p@ss w/ö+rd"\\%&=1'
TOKEN = "123456789:AAH-abcdefghijklmnopqrstuvwxyz_0123"


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"a{SECRET}b",
        f"https://h/?q={quote(SECRET)}",
        f"https://h/?q={quote(SECRET, safe='')}",
        f"https://h/?q={quote(SECRET, safe='').lower()}",
        f"https://h/?q={quote_plus(SECRET)}",
        f"https://h/?{urlencode({'x': SECRET})}",
        f"https://h/?u={quote(quote(SECRET, safe=''), safe='')}",
        json.dumps({"a": SECRET}),
        json.dumps({"a": SECRET}, ensure_ascii=False),
        json.dumps(json.dumps({"a": SECRET})),
        repr([SECRET]),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        base64.b64encode(f"use:{SECRET} and more".encode()).decode(),
        base64.urlsafe_b64encode(f"us:{SECRET}".encode()).decode(),
    ],
)
def test_a_known_secret_is_hidden_in_every_form(text: str) -> None:
    hidden = Redactor([SECRET]).text(text)
    assert HIDDEN in hidden
    assert "ss" not in hidden.replace(HIDDEN, "").replace("https", "")
    assert base64.b64encode(SECRET.encode()).decode()[6:12] not in hidden


@given(
    st.text(min_size=6, max_size=30).filter(lambda s: len(s.strip()) >= 12),
    st.binary(max_size=9),
    st.binary(max_size=9),
)
def test_a_known_secret_is_hidden_wherever_it_begins_in_base64(
    secret: str, before: bytes, after: bytes
) -> None:
    encoded = base64.b64encode(before + secret.encode("utf-8", "surrogatepass") + after).decode()
    assert HIDDEN in Redactor([secret]).text(encoded)


@given(
    st.text(min_size=6).filter(lambda s: len(s.strip()) >= 6 and s.strip() not in HIDDEN),
    st.text(),
    st.text(),
)
def test_a_known_secret_is_hidden_wherever_it_stands(secret: str, before: str, after: str) -> None:
    assert secret.strip() not in Redactor([secret]).text(before + secret + after).replace(HIDDEN, "\0")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("key gsk_abcdefghij0123 used", f"key {HIDDEN} used"),
        ("Authorization: Bearer abcdefgh.123", f"Authorization: Bearer {HIDDEN}"),
        ("{'authorization': 'Bearer sk-abcdefgh'}", f"{{'authorization': 'Bearer {HIDDEN}'}}"),
        ("authorization: Bot abc123", f"authorization: Bot {HIDDEN}"),
        (
            f"POST https://api.telegram.org/bot{TOKEN}/getUpdates",
            f"POST https://api.telegram.org/bot{HIDDEN}/getUpdates",
        ),
        (f"https://x/file/bot{TOKEN.replace(':', '%3A')}/a", f"https://x/file/bot{HIDDEN}/a"),
        ("https://h/?key=abc&q=1", f"https://h/?key={HIDDEN}&q=1"),
        ("https://h/?q=1&api_key=abc", f"https://h/?q=1&api_key={HIDDEN}"),
        ("https://h/?access_token=a.b.c#x", f"https://h/?access_token={HIDDEN}"),
        ('{"api_key": "tvly-abcdefgh"}', f'{{"api_key": "{HIDDEN}"}}'),
        ("tvly-dev-abcdefgh", HIDDEN),
        ("sk-proj-abcdefghijklmnop", HIDDEN),
        ("http://user:sesame@host/x", f"http://{HIDDEN}@host/x"),
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str, hidden: str) -> None:
    assert Redactor([]).text(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the bearer of news",
        "key = value",
        'api_key = "$MY_KEY_NAME"',
        "sha256:" + "0123456789abcdef" * 4,
        "12:34:56 2026-01-01T00:00:00.000Z",
        "http://host:8080/a@b?x=1&monkey=2",
        "mail me@example.org: hello",
        "task-force-of-seventeen-people",
        "echo 'a:b' | sort",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor(["", "a", "short"]).text(text) == text


@given(st.text())
def test_redaction_is_idempotent(text: str) -> None:
    redact = Redactor([SECRET, "Bearer"])
    once = redact.text(f"{text} Bearer {text} ?key={text} {SECRET}{text} ://{text}:x@y")
    assert redact.text(once) == once


def test_a_secret_that_contains_another_is_hidden_whole() -> None:
    assert Redactor(["sesame", "sesame-open"]).text("x sesame-open y") == f"x {HIDDEN} y"


def test_the_redactor_shows_no_secret() -> None:
    assert SECRET not in repr(Redactor([SECRET]))


@pytest.mark.parametrize(
    "filler", ["a", "1", "a:", "://@", "@://", "Bearer ", "api_key ", "?key=", "Authorization:", " ", ":1"]
)
def test_long_text_takes_no_long_time(filler: str) -> None:
    long = filler * (200_000 // len(filler))
    redact = Redactor([f"secret-number-{n}" for n in range(10)])
    began = time.process_time()
    redact.text(long)
    assert time.process_time() - began < 2
