"""A yes to a mail holds for the files that the question has shown, also if it comes after the turn."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from rumi.agent.permissions.gate import Gate
from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.tools.mail_send import MailSend
from rumi.chats.context import ChatView
from rumi.platform.config.schema import MailSection
from rumi.platform.texts.questions import question
from rumi.services.mail.client import Mailbox
from rumi.services.mail.errors import MailError
from rumi.store.journal.records import Parked
from tests.services.mail.in_turns import access

SECTION = MailSection(address="ana@example.test", imap="imap.example.test:993", smtp="smtp.example.test:465")
MAIL = {"to": ["bob@example.test"], "subject": "x", "text": "x", "attachments": ["menu.txt"]}


def mail_send(workspace: Path) -> MailSend:
    view = ChatView("cli", lambda: True, lambda: "en", turn="t1")
    return MailSend(access(Mailbox("ana", SECTION, "x"), view, None, workspace))


def gate(parking: ParkedCalls) -> Gate:
    return Gate(
        tainted=True,
        known_urls=(),
        words="",
        history=(),
        language="en",
        watch=lambda event: None,
        confirm=None,
        parking=parking,
        deadline=trio.CancelScope(),
    )


@pytest.mark.parametrize("to", ["сосо@example.test", "bob@аррӏе.test", "b\u043eb@example.test"])
def test_a_question_says_that_an_address_has_other_letters(tmp_path: Path, to: str) -> None:
    asked = mail_send(tmp_path).question({**MAIL, "to": [to], "attachments": []}, ())
    assert asked is not None
    text = question("en", asked.action, asked.details).text
    assert "other than plain letters" in text or "look like those of other names" in text
    plain = mail_send(tmp_path).question({**MAIL, "attachments": []}, ())
    assert plain is not None
    assert "letters" not in question("en", plain.action, plain.details).text


async def stored(calls: Sequence[Parked]) -> None:
    await trio.lowlevel.checkpoint()


async def test_a_late_yes_is_not_for_a_file_that_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "menu.txt"
    file.write_text("soup")
    calls = ParkedCalls((), stored)
    assert await gate(calls).refusal(mail_send(tmp_path), MAIL) is not None
    allowed = replace(calls.all[0], state="allowed")
    assert await gate(ParkedCalls([allowed], stored)).refusal(mail_send(tmp_path), MAIL) is None
    before = file.stat()
    file.write_text("keys")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused = await gate(ParkedCalls([allowed], stored)).refusal(mail_send(tmp_path), MAIL)
    assert refused is not None
    assert refused.parked


@pytest.mark.parametrize("before", ["soup", None])
async def test_a_file_is_sent_as_the_question_has_shown_it(tmp_path: Path, before: str | None) -> None:
    file, tool = tmp_path / "menu.txt", mail_send(tmp_path)
    if before is not None:
        file.write_text(before)
    assert tool.question(MAIL, ()) is not None
    file.write_text("keys")
    with pytest.raises(MailError, match="has changed"):
        await tool._attached("menu.txt", 1000)
    assert tool.question(MAIL, ()) is not None
    assert (await tool._attached("menu.txt", 1000)).data == b"keys"
