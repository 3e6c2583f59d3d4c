"""Mailboxes of Dovecot, and mails that Postfix takes: what is searched, read, stored and sent."""

import base64
import time
from collections.abc import Sequence
from datetime import date

import pytest
import trio

from rumi.services.mail.client import Mailbox
from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import MailQuery, SentMail
from rumi.services.mail.writing import Attached, Draft, Outgoing, recipient_of, recipients_of, written
from rumi.store.journal.mail_positions import MailPosition
from tests.mail_servers import DOMAIN, PASSWORD, MailServers


def mail(subject: str, text: str = "Hello", sender: str = "Leo <leo@example.org>", **headers: str) -> bytes:
    lines = [f"From: {sender}", "To: ana@example.test", f"Subject: {subject}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += ["MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", "", text, ""]
    return "\r\n".join(lines).encode()


def outgoing(key: str, to: Sequence[str] = ("bob@example.test",), **more: object) -> Outgoing:
    fields = {"subject": "Grüße", "text": "Hallo,\n.ein Punkt\n\nJö"} | more
    draft = Draft(recipient_of(f"Ana <ana@{DOMAIN}>"), recipients_of(list(to)), **fields)  # type: ignore[arg-type]
    return written(draft, key, 1_790_000_000.0)


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


async def subjects(box: Mailbox, **query: object) -> list[str]:
    found = await box.search(MailQuery(**query))  # type: ignore[arg-type]
    return [one.subject for one in found.mails]


async def arrived(box: Mailbox, message_id: str) -> bytes:
    """Wait until a mail was delivered, and return it."""
    with trio.fail_after(20):
        while True:
            for one in (await box.search(MailQuery(most=50))).mails:
                if one.message_id == message_id:
                    return await box.fetch(one.folder, one.uid, one.validity)
            await trio.sleep(0.05)


async def test_what_is_searched_and_read_stays_unread(mail_servers: MailServers) -> None:
    box = mail_servers.mailbox("ana")
    encoded = f"=?utf-8?B?{base64.b64encode('Rechnung für März'.encode()).decode()}?="
    mail_servers.put("ana", mail("First", "the cat"))
    mail_servers.put("ana", mail(encoded, "Grüße aus Köln", "=?iso-8859-1?Q?Jos=E9?= <jose@example.org>"))
    mail_servers.put("ana", mail("Third", "the dog"), seen=True)
    before = list(mail_servers.stored("ana"))
    assert await subjects(box) == ["Third", "Rechnung für März", "First"]
    assert await subjects(box, text="Köln") == ["Rechnung für März"]
    assert await subjects(box, subject="für märz") == ["Rechnung für März"]
    assert await subjects(box, sender="José", subject="März", text="Grüße") == ["Rechnung für März"]
    assert await subjects(box, text='say "cat" \\ or') == []
    assert await subjects(box, unread=True, text="the") == ["First"]
    assert await subjects(box, since=date(2023, 1, 1), before=date(2023, 1, 2)) == []
    assert await subjects(box, most=1) == ["Third"]
    assert (await box.search(MailQuery(most=1))).more
    found = (await box.search(MailQuery(text="Köln"))).mails[0]
    assert found.unread
    assert found.sender == "José <jose@example.org>"
    assert "Grüße aus Köln" in (await box.fetch(found.folder, found.uid, found.validity)).decode()
    assert [path.name.rpartition(",")[2] for path in mail_servers.stored("ana")] == ["", "", "S"]
    assert [path.name for path in mail_servers.stored("ana")] == [path.name for path in before]


async def test_a_mail_that_is_gone_or_numbered_anew_is_told(mail_servers: MailServers) -> None:
    box = mail_servers.mailbox("bob")
    mail_servers.put("bob", mail("Here"))
    found = (await box.search(MailQuery())).mails[0]
    for uid, validity in ((found.uid + 9, found.validity), (found.uid, found.validity + 1)):
        with pytest.raises(MailError) as failed:
            await box.fetch("INBOX", uid, validity)
        assert failed.value.kind == "gone"
    with pytest.raises(MailError) as failed:
        await box.search(MailQuery(folder="Reisen"))
    assert failed.value.kind == "folder"
    assert "Entwürfe" in str(failed.value.text)
    small = Mailbox("bob", box.section.model_copy(update={"max_mb": 0}), PASSWORD)
    with pytest.raises(MailError) as failed:
        await small.fetch("INBOX", found.uid, found.validity)
    assert failed.value.kind == "too_large"


async def test_new_mails_are_found_after_a_position(mail_servers: MailServers) -> None:
    box = mail_servers.mailbox("carla")
    mail_servers.put("carla", mail("Old"))
    end, mails = await box.new_since("INBOX", None, 10)
    assert mails == ()
    assert await box.new_since("INBOX", end, 10) == (end, ())
    for number in range(3):
        mail_servers.put("carla", mail(f"New {number}"))
    position, mails = await box.new_since("INBOX", end, 2)
    assert [one.subject for one in mails] == ["New 0", "New 1"]
    position, mails = await box.new_since("INBOX", position, 2)
    assert [one.subject for one in mails] == ["New 2"]
    assert await box.new_since("INBOX", position, 2) == (position, ())
    renumbered = MailPosition(position.validity + 1, 1)
    assert await box.new_since("INBOX", renumbered, 2) == (position, ())


async def test_a_mail_is_sent_stored_and_found_again(mail_servers: MailServers) -> None:
    box = mail_servers.mailbox("ana")
    file = Attached("Plan für März.pdf", "application/pdf", bytes(range(256)) * 20)
    sent = outgoing("k1", attached=(file,))
    steps: list[str] = []

    async def hand_over() -> None:
        assert await box.has_sent(sent.message_id) is False
        steps.append("handed over")

    async def settle(answer: object) -> None:
        await trio.lowlevel.checkpoint()
        assert isinstance(answer, SentMail)
        steps.append("settled")

    answer = await box.send(sent, hand_over=hand_over, settle=settle)
    assert steps == ["handed over", "settled"]
    assert (answer.refused, "queued" in answer.answer) == ((), True)
    await box.append("sent", sent.raw, ("\\Seen",))
    await box.append("drafts", outgoing("k2").raw, ("\\Draft",))
    assert await box.has_sent(sent.message_id) is True
    assert await box.has_draft(outgoing("k2").message_id) is True
    raw = await arrived(mail_servers.mailbox("bob"), sent.message_id)
    assert sent.raw.partition(b"\r\n\r\n")[2] in raw
    assert await subjects(box, folder="Entwürfe") == ["Grüße"]
    assert (await subjects(box, folder="all", has_attachment=True)) == ["Grüße"]


async def test_refused_recipients_are_named_and_the_others_get_the_mail(mail_servers: MailServers) -> None:
    box = mail_servers.mailbox("ana")
    some = outgoing("k3", ("nobody@example.test", "bob@example.test"))
    answer = await box.send(some, hand_over=nothing)
    assert [who for who, _ in answer.refused] == ["nobody@example.test"]
    assert "unknown" in answer.refused[0][1].casefold()
    await arrived(mail_servers.mailbox("bob"), some.message_id)
    for refused, kind in (
        (outgoing("k4", ("nobody@example.test",)), "refused"),
        (outgoing("k5", attached=(Attached("a", "text/plain", bytes(6_000_000)),)), "too_large"),
    ):
        with pytest.raises(MailError) as failed:
            await box.send(refused, hand_over=lambda: pytest.fail("it is handed over"))
        assert failed.value.kind == kind
    utf8 = outgoing("k6", ("jörg@example.test", "bob@example.test"))
    assert utf8.needs_utf8
    assert [who for who, _ in (await box.send(utf8, hand_over=nothing)).refused] == ["jörg@example.test"]


@pytest.mark.parametrize(("imap", "smtp"), [(993, 465), (143, 587)])
async def test_connections_are_encrypted_and_certificates_checked(
    mail_servers: MailServers, imap: int, smtp: int
) -> None:
    box = mail_servers.encrypted("dora", imap=imap, smtp=smtp)
    health = await box.check()
    assert (health.sends, {folder.use for folder in health.folders}) == (True, {"inbox", "sent", "drafts"})
    wrong = mail_servers.encrypted("dora", imap=imap, smtp=smtp)
    wrong.section = wrong.section.model_copy(
        update={"imap": f"other.example.test:{imap}", "smtp": f"other.example.test:{smtp}"}
    )
    for use in (wrong.folders(), wrong.send(outgoing("k7"), hand_over=nothing)):
        with pytest.raises(MailError) as failed:
            await use
        assert failed.value.kind == "tls"
    with pytest.raises(MailError) as failed:
        await Mailbox("x", mail_servers.section(), "wrong").check()
    assert failed.value.kind == "login"
    assert "wrong" not in str(failed.value.text).replace("wrong password", "")


async def test_a_cancelled_call_leaves_no_connection(mail_servers: MailServers) -> None:
    box = mail_servers.mailbox("ana")
    reached = trio.Event()

    async def wait() -> None:
        reached.set()
        await trio.sleep_forever()

    began = time.monotonic()
    with trio.move_on_after(20) as scope:
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                await box.send(outgoing("k8"), hand_over=wait)

            nursery.start_soon(send)
            await reached.wait()
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert time.monotonic() - began < 10
    bob = await mail_servers.mailbox("bob").search(MailQuery(most=50))
    assert outgoing("k8").message_id not in {one.message_id for one in bob.mails}
