"""What proves the sender of a mail, with real signatures and a real DNS server."""

import base64
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from dnslib import QTYPE, RR, TXT, DNSRecord

from rumi.channels.mail.keys import DnsKeys, KeyUnknown
from rumi.channels.mail.senders import author_of, automatic
from rumi.channels.mail.signatures import FRESH_S, OLDEST_S, Flaw, Mail, MailProof, headers_of, proof_of
from tests.channels.mail.letters import ANA, RUMI, key_record, keys, letter, private_key, signed
from tests.chats.house import InlineOffload

NOW = time.time()


async def judged(
    raw: bytes, *, arrived: float = NOW, now: float = NOW, signed_by: tuple[str, ...] = (), author: str = ANA
) -> MailProof:
    headers = headers_of(raw)
    if headers is None:
        return MailProof("unreadable")
    assert author_of(headers) == author
    return await proof_of(Mail(raw, headers, author, arrived, RUMI), keys, InlineOffload(), now, signed_by)


async def test_a_signature_of_the_senders_domain_proves_a_mail() -> None:
    raw = signed(letter("Hello"))
    proof = await judged(raw)
    assert proof.flaw is None
    assert proof.marks == (await judged(raw)).marks
    assert proof.marks != (await judged(signed(letter("Hello")))).marks
    # Servers on the way add headers, and sign for themselves.
    on_the_way = signed(
        b"Received: from a by b\r\nReturn-Path: <ana@example.test>\r\n" + raw, domain="b.test"
    )
    assert await judged(on_the_way) == proof
    assert (await judged(signed(letter("Grüße, 你好 👋", files=[("a", b"\0\1")])))).flaw is None


COVER = (b"from", b"to", b"subject", b"date", b"message-id")
FLAWS: tuple[tuple[Flaw, bytes], ...] = (
    ("unsigned", letter("x")),
    ("unaligned", signed(letter("x"), domain="evil.test")),
    ("unaligned", signed(letter("x"), domain="test")),
    ("unaligned", signed(letter("x"), domain="mail.example.test")),
    ("partial", signed(letter("x"), length=True)),
    ("uncovered", signed(letter("x"), cover=(b"from", b"date"))),
    ("uncovered", signed(letter("x"), cover=(b"from", b"subject"))),
    ("elsewhere", signed(letter("x", to="eve@evil.test"))),
    ("elsewhere", signed(letter("x", to=f'"{RUMI}" <eve@evil.test>'))),
    ("elsewhere", signed(letter("x"), cover=(b"from", b"subject", b"date"))),
    ("invalid", signed(letter("x")).replace(b"\r\n\r\nx", b"\r\n\r\ny")),
    ("invalid", signed(letter("x")).replace(b"Subject: Today", b"Subject: Now")),
    ("invalid", signed(letter("x")) + b"more\r\n"),
    ("repeated", b"Subject: Other\r\n" + signed(letter("x"))),
    ("repeated", signed(letter("x")).replace(b"\r\nTo:", b"\r\nReply-To: <a@b.test>\r\nReply-To: x\r\nTo:")),
    ("no_key", re.sub(rb"s=s1;", b"s=s2;", signed(letter("x")))),
    ("invalid", re.sub(rb"s=s1;", b"s=../x;", signed(letter("x")))),
    ("invalid", re.sub(rb"a=rsa-sha256", b"a=rsa-sha1", signed(letter("x")))),
    ("unreadable", signed(letter("x")).replace(b"Subject: Today", b"Subject: Today\nFrom: eve@evil.test")),
    ("unreadable", signed(letter("x")).replace(b"Subject: Today", b"Subject: Today\r\nFrom x: y")),
    ("unreadable", b"From : eve@evil.test\r\n" + signed(letter("x"))),
)


@pytest.mark.parametrize(("flaw", "raw"), FLAWS)
async def test_what_is_not_proved_says_why(flaw: Flaw, raw: bytes) -> None:
    assert (await judged(raw)).flaw == flaw


async def test_a_mail_may_name_others_beside_the_mailbox() -> None:
    for to in (f"Eve <eve@evil.test>, {RUMI.upper()}", "bob+notes@example.test"):
        assert (await judged(signed(letter("x", to=to)))).flaw is None
    cover = (b"from", b"to", b"cc", b"subject", b"date")
    copied = letter("x", to="eve@evil.test", headers=[("Cc", RUMI)])
    assert (await judged(signed(copied, cover=cover))).flaw is None
    assert (await judged(signed(copied))).flaw == "elsewhere"


async def test_a_signature_that_is_written_in_another_way_is_known() -> None:
    raw = signed(letter("x"), cover=(b"from", b"to", b"subject", b"date"))
    proof = await judged(raw)
    assert proof.flaw is None
    signature = re.search(rb" b=([^;]+?)\r\n(?=\S)", raw)
    assert signature is not None
    plain = base64.b64decode(b"".join(signature[1].split()))
    number = int.from_bytes(plain) + private_key().public_key().public_numbers().n
    for form in (b"\0" * 3 + plain, number.to_bytes(132)):
        again = raw.replace(signature[1], base64.b64encode(form)).replace(b"Message-ID: <", b"Message-ID: <9")
        assert again != raw
        assert await judged(again) == proof
    spaced = raw.replace(b"Subject: Today", b"subject:  Today ")
    assert await judged(spaced) == proof


async def test_a_second_sender_is_none() -> None:
    raw = b"From: <eve@evil.test>\r\n" + signed(letter("x"))
    headers = headers_of(raw)
    assert headers is not None
    assert author_of(headers) == ""


async def test_a_domain_above_counts_only_if_it_is_listed() -> None:
    raw = signed(letter("x", sender="ana@home.example.test"))
    author = "ana@home.example.test"
    assert (await judged(raw, author=author)).flaw == "unaligned"
    assert (await judged(raw, author=author, signed_by=("example.test",))).flaw is None
    raw = signed(letter("x", sender="ana@notexample.test"))
    assert (await judged(raw, author="ana@notexample.test", signed_by=("example.test",))).flaw == "unaligned"


async def test_an_old_signature_proves_nothing() -> None:
    raw, day = signed(letter("x")), 86_400.0
    assert (await judged(raw, arrived=NOW + FRESH_S - day, now=NOW + FRESH_S)).flaw is None
    assert (await judged(raw, arrived=NOW + FRESH_S + day, now=NOW + FRESH_S + day)).flaw == "old"
    assert (await judged(raw, arrived=NOW + day, now=NOW + OLDEST_S + day)).flaw == "old"
    assert (await judged(raw, arrived=NOW - day)).flaw == "old"
    expired = re.sub(rb"t=\d+;", b"t=%d; x=%d;" % (NOW - 9000, NOW - 8000), raw)
    assert (await judged(expired)).flaw == "old"


@pytest.mark.parametrize(
    ("value", "author"),
    [
        ("ana@example.test", ANA),
        ("Ana <ANA@Example.test>", ANA),
        ('"Ana, B." <ana@example.test>', ANA),
        ('"eve@evil.test" <ana@example.test>', ANA),
        ("=?utf-8?q?A=C3=B1a?= <ana@example.test>", ANA),
        ("ana@example.test <eve@evil.test>", ""),
        ("eve@evil.test, ana@example.test", ""),
        ("<eve@evil.test> <ana@example.test>", ""),
        ("Friends: ana@example.test;", ""),
        ("ana@example.test (eve@evil.test)", ""),
        ("<@evil.test:ana@example.test>", ""),
        ("аna@example.test", ""),
        ("Ana <ana@example.test", ""),
        ("A" * 2000 + " <ana@example.test>", ""),
        ('"' + '\\"' * 400 + "<ana@example.test>", ""),
    ],
)
def test_the_author_is_the_one_address_of_the_from_header(value: str, author: str) -> None:
    assert author_of([("from", value)]) == author
    assert author_of([("from", value), ("from", value)]) == ""


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (("subject", "Hello"), ""),
        (("auto-submitted", "no"), ""),
        (("auto-submitted", "auto-generated; x=y"), "automatic"),
        (("precedence", "bulk"), "list"),
        (("list-id", "<a.b>"), "list"),
        (("return-path", "<>"), "bounce"),
        (("content-type", "multipart/report; report-type=delivery-status"), "bounce"),
        (("x-rumi", "reply"), "own"),
        (("x-autoreply", "yes"), "automatic"),
    ],
)
def test_programs_lists_and_bounces_are_nobodys_word(header: tuple[str, str], kind: str) -> None:
    assert automatic([("from", ANA), header], ANA, RUMI) == kind
    assert automatic([], RUMI.upper().lower(), RUMI) == "own"
    assert automatic([], "no-reply@example.test", RUMI) == "automatic"
    assert automatic([], "noreplyana@example.test", RUMI) == ""


@contextmanager
def dns(records: dict[str, list[bytes]]) -> Iterator[tuple[str, int]]:
    """A DNS server with text records; it does not answer for names with `silent`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                data, sender = server.recvfrom(4096)
                if not data:
                    return
                asked = DNSRecord.parse(data)
                name = str(asked.q.qname).rstrip(".")
                if "silent" in name:
                    continue
                answer = asked.reply()
                if name in records:
                    answer.add_answer(RR(asked.q.qname, QTYPE.TXT, rdata=TXT(records[name]), ttl=1))
                else:
                    answer.header.rcode = 3
                server.sendto(answer.pack(), sender)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.sendto(b"", server.getsockname())
            thread.join()


async def test_keys_come_from_the_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    record = key_record()
    with dns({"s1._domainkey.example.test": [record[:100], record[100:]]}) as server:
        lookup = DnsKeys(server)
        assert await lookup("s1._domainkey.example.test") == record
        assert await lookup("s2._domainkey.example.test") is None
        for impossible in ("a" * 64, ".".join(["a" * 60] * 4), "a..b"):
            assert await lookup(f"{impossible}._domainkey.example.test") is None
        monkeypatch.setattr("rumi.channels.mail.keys.LOOKUP_S", 0.05)
        with pytest.raises(KeyUnknown):
            await lookup("s1._domainkey.silent.test")
        monkeypatch.undo()
        with trio.move_on_after(0.05) as moved:
            await lookup("s3._domainkey.silent.test")
        assert moved.cancelled_caught
