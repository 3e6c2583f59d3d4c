"""Servers that break off, are slow, refuse, know little or lie: each gives a clear error, in bounds."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from rumi.platform.config.schema import MailSection
from rumi.platform.http import Tls
from rumi.services.mail.client import Mailbox
from rumi.services.mail.errors import MailError
from rumi.services.mail.folders import decode_name, encode_name, folder_for, folder_from
from rumi.services.mail.messages import MailQuery
from rumi.services.mail.writing import Draft, Outgoing, recipient_of, recipients_of, written

INBOX = ("* 3 EXISTS", "* OK [UIDVALIDITY 7] x", "* OK [UIDNEXT 9] x", "OK [READ-ONLY] x")


class Script:
    """A server that answers each command by its first word; `*` goes on, others end with the tag."""

    def __init__(self, greeting: str, answers: dict[str, Sequence[str]], cut: str = "") -> None:
        self.greeting = greeting
        self.answers = answers
        self.cut = cut
        self.heard: list[str] = []
        self.connections = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        buffer, tag, rest, waits = b"", "", "", False
        with trio.move_on_after(20):
            try:
                if self.greeting:
                    await stream.send_all(self.greeting.encode() + b"\r\n")
                while True:
                    while b"\r\n" not in buffer:
                        piece = await stream.receive_some()
                        if not piece:
                            return
                        buffer += piece
                    line, _, buffer = buffer.partition(b"\r\n")
                    text = line.decode("utf-8", "replace")
                    self.heard.append(text)
                    if not waits:
                        tag, _, rest = text.partition(" ")
                    command = rest.upper().replace("UID ", "UID-").split(" ")[0]
                    if self.cut and command == self.cut:
                        return
                    if waits := text.endswith("}"):
                        await stream.send_all(b"+ go on\r\n")
                        continue
                    command = "LITERAL" if "{" in rest else command
                    for answer in self.answers.get(command, ("OK",)):
                        said = f"{tag} OK done" if answer == "OK" else f"{tag} {answer}"
                        said = answer if answer.startswith("*") else said
                        await stream.send_all(said.encode() + b"\r\n")
            except trio.BrokenResourceError:
                return


@asynccontextmanager
async def scripted(script: Script, **more: object) -> AsyncIterator[Mailbox]:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, script.serve, 0)
        port = listeners[0].socket.getsockname()[1]
        fields = {"address": "a@b.example", "imap": f"localhost:{port}", "smtp": f"localhost:{port}"}
        section = MailSection.model_validate(fields | {"timeout_s": 1} | more)
        yield Mailbox("x", section, "secret-password", tls=Tls(ssl.create_default_context()))
        nursery.cancel_scope.cancel()


def imap(**answers: Sequence[str]) -> dict[str, Sequence[str]]:
    usual = {
        "CAPABILITY": ("* CAPABILITY IMAP4rev1", "OK"),
        "EXAMINE": INBOX,
        "LOGOUT": ("* BYE x", "OK"),
    }
    return usual | {name.replace("_", "-"): answer for name, answer in answers.items()}


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (Script("* BYE too many connections", imap()), "refused", "too many connections"),
        (Script("garbage", imap()), "unreachable", "garbage"),
        (Script("", imap()), "timeout", "in time"),
        (Script("* OK x", imap(LOGIN=("NO [AUTHENTICATIONFAILED] Wrong.",))), "login", "Wrong."),
        (Script("* OK x", imap(LOGIN=("NO [UNAVAILABLE] Later.",))), "refused", "Later."),
        (Script("* OK x", imap(LOGIN=("NO [INUSE] Locked.",))), "refused", "Locked."),
        (Script("* OK x", imap(LOGIN=("NO [PRIVACYREQUIRED] TLS.",))), "tls", "TLS."),
        (Script("* OK x", imap(EXAMINE=("NO no such folder",))), "folder", "no such folder"),
        (Script("* OK x", imap(UID_SEARCH=("BAD what",))), "refused", "what"),
        (Script("* OK x", imap(UID_SEARCH=("* BYE Idle for too long",))), "unreachable", "Idle"),
        (Script("* OK x", imap(UID_SEARCH=("* SEARCH " + "1 " * 600_000, "OK"))), "refused", "1000000"),
        (Script("* OK x", imap(), cut="UID-SEARCH"), "unreachable", "EOF"),
    ],
)
async def test_an_odd_imap_server_gives_a_clear_error(script: Script, kind: str, words: str) -> None:
    async with scripted(script) as box:
        with trio.fail_after(15), pytest.raises(MailError) as failed:
            await box.search(MailQuery())
    assert failed.value.kind == kind, failed.value
    assert words in str(failed.value.text)
    assert "secret-password" not in str(failed.value.text)
    assert box.last_error == str(failed.value.message)
    assert script.connections == (2 if kind == "unreachable" else 1)


async def test_a_mail_larger_than_it_claims_is_cut_off() -> None:
    huge = "* 1 FETCH (UID 1 BODY[] {99000000}"
    sizes = ("* 1 FETCH (UID 1 RFC822.SIZE 5)", huge, "OK")
    async with scripted(Script("* OK x", imap(UID_FETCH=sizes)), max_mb=1) as box:
        with pytest.raises(MailError) as failed:
            await box.fetch("INBOX", 1)
    assert failed.value.kind == "too_large"


async def test_folders_are_only_examined_and_bodies_only_peeked_at() -> None:
    script = Script(
        "* OK x", imap(UID_SEARCH=("* SEARCH 4", "OK"), UID_FETCH=("* 1 FETCH (UID 4 FLAGS ())", "OK"))
    )
    async with scripted(script) as box:
        await box.search(MailQuery())
        with pytest.raises(MailError):
            await box.fetch("INBOX", 4)
        script.answers = {**script.answers, "UID-FETCH": ("* 1 FETCH (UID 4 RFC822.SIZE 1 BODY[] x)", "OK")}
        with pytest.raises(MailError):
            await box.fetch("INBOX", 4)
    asked = [line.partition(" ")[2] for line in script.heard]
    assert {line.split()[0] for line in asked} == {"CAPABILITY", "LOGIN", "EXAMINE", "UID", "LOGOUT"}
    bodies = [line for line in asked if "BODY" in line.replace("BODYSTRUCTURE", "")]
    assert len(bodies) == 3
    assert all("BODY.PEEK[" in line and "BODY[" not in line for line in bodies)


async def test_a_search_goes_on_without_the_characters_that_a_server_does_not_know() -> None:
    head = "From: Jos=?utf-8?Q?=C3=A9?= <j@x.example>\r\nSubject: =?utf-8?Q?M=C3=A4rz?=\r\n\r\n"
    fetched = (
        f"* 1 FETCH (UID 4 FLAGS (\\Seen) BODY[HEADER.FIELDS (FROM)]<0> {{{len(head)}}}\r\n{head})",
        '* 2 FETCH (UID 5 FLAGS () RFC822.SIZE 7 BODY[HEADER.FIELDS (FROM)]<0> "Subject: other\\"s")',
        "* OK [ALERT] Maintenance tonight",
        "OK",
    )

    answers = imap(UID_FETCH=fetched, UID_SEARCH=("* SEARCH 4 5", "OK"), LITERAL=("NO [BADCHARSET] no",))
    async with scripted(Script("* OK x", answers)) as box:
        found = await box.search(MailQuery(subject="März"))
    assert [(mail.uid, mail.subject) for mail in found.mails] == [(4, "März")]
    assert any("cannot search for these characters" in note for note in found.notes)
    assert any("Maintenance" in note for note in found.notes)


def mail() -> Outgoing:
    draft = Draft(recipient_of("a@b.example"), recipients_of(["c@d.example"]), subject="x", text="x")
    return written(draft, "k", 1.0)


class SmtpScript(Script):
    """Answers SMTP commands by their first word."""

    async def serve(self, stream: trio.SocketStream) -> None:
        buffer = b""
        in_text = False
        await stream.send_all(b"220 x\r\n")
        with trio.move_on_after(20):
            while True:
                while b"\r\n" not in buffer:
                    piece = await stream.receive_some()
                    if not piece:
                        return
                    buffer += piece
                line, _, buffer = buffer.partition(b"\r\n")
                word = "DOT" if in_text and line == b"." else line.decode().split(" ")[0].upper()
                if in_text and word != "DOT":
                    continue
                in_text = word == "DATA"
                if word == self.cut:
                    return
                usual = {"DATA": ("354 go",), "EHLO": ("250-x", "250 AUTH PLAIN"), "AUTH": ("235 ok",)}
                for answer in self.answers.get(word, usual.get(word, ("250 ok",))):
                    await stream.send_all(answer.encode() + b"\r\n")


@pytest.mark.parametrize(
    ("answers", "cut", "kind", "handed"),
    [
        ({"AUTH": ("535 no",)}, "", "login", False),
        ({"MAIL": ("550 not you",)}, "", "refused", False),
        ({"RCPT": ("450 later",)}, "", "refused", False),
        ({"DATA": ("554 no",)}, "", "refused", False),
        ({"EHLO": ("250-x", "250 AUTH LOGIN"), "AUTH": ("535 no",)}, "", "login", False),
        ({"EHLO": ("250-x", "250-SIZE 10", "250 AUTH PLAIN")}, "", "too_large", False),
        ({}, "DATA", "unreachable", False),
        ({"DOT": ("550 spam",)}, "", "refused", True),
        ({"DOT": ("421 closing",)}, "", "refused", True),
        ({"DOT": ("what?",)}, "", "unknown", True),
        ({"DOT": ()}, "", "unknown", True),
        ({}, "DOT", "unknown", True),
    ],
)
async def test_an_odd_smtp_server_gives_a_clear_outcome(
    answers: dict[str, Sequence[str]], cut: str, kind: str, handed: bool
) -> None:
    steps: list[str] = []

    async def hand_over() -> None:
        steps.append("handed")

    async def settle(answer: object) -> None:
        assert isinstance(answer, MailError)
        steps.append(answer.kind)

    async with scripted(SmtpScript("", answers, cut)) as box:
        with trio.fail_after(15), pytest.raises(MailError) as failed:
            await box.send(mail(), hand_over=hand_over, settle=settle)
    assert failed.value.kind == kind, failed.value
    assert steps == (["handed", kind] if handed else [])


async def test_no_plain_connection_leaves_this_machine() -> None:
    script = Script("* OK x", imap())
    async with scripted(script) as box:

        async def connect(host: str, port: int) -> trio.SocketStream:
            return await trio.open_tcp_stream("127.0.0.1", int(box.section.imap.rpartition(":")[2]))

        for address in ("mail.example.org:143", "mail.example.org:587"):
            section = box.section.model_copy(update={"imap": address, "smtp": address})
            far = Mailbox(
                "x", section, "secret-password", tls=Tls(ssl.create_default_context()), connect=connect
            )
            with pytest.raises(MailError) as failed:
                await far.folders()
            assert failed.value.kind == "tls"
    assert not any("secret" in line or "LOGIN" in line for line in script.heard)


@pytest.mark.parametrize("name", ["Entwürfe", "日本語", "R&D", "a/b.c", "~peter/mail", "emoji 😀"])
def test_a_folder_is_named_in_utf7_and_back(name: str) -> None:
    assert encode_name(name).isascii()
    assert decode_name(encode_name(name)) == name
    assert decode_name("&broken") == "&broken"
    assert decode_name("&AAAA*-") == "&AAAA*-"


def test_folders_are_found_by_their_use_or_usual_names() -> None:
    marked = [folder_from("INBOX", []), folder_from("Sent", []), folder_from("Gesendet", ["\\Sent"])]
    assert (found := folder_for("sent", marked)) is not None
    assert found.name == "Gesendet"
    usual = [folder_from(encode_name(name), []) for name in ("INBOX", "INBOX.Enviados", "Rascunhos")]
    assert getattr(folder_for("sent", usual), "name", "") == "INBOX.Enviados"
    assert getattr(folder_for("drafts", usual), "name", "") == "Rascunhos"
    assert folder_for("sent", [folder_from("Sent", ["\\Noselect"])]) is None
