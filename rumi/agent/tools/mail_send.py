"""The tools `mail_send` and `mail_draft`: send a mail, and store one in the folder of drafts."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Collection, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rumi.agent.tool import Question, Reach, Tool, ToolResult
from rumi.agent.tools.mail_access import MailAccess, failed
from rumi.agent.tools.mail_arguments import AskedMail, asked_mail, report_of, told_recipient
from rumi.agent.tools.send_file import path_in_workspace, read_to_send
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.texts.operating import short_size
from rumi.platform.texts.questions import ActionKind, Detail, Value
from rumi.platform.untrusted_text import one_line
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.services.mail.sending import EffectOfMail
    from rumi.services.mail.writing import Attached, Draft, Outgoing

_ADDRESSES: Final = {"type": "array", "items": {"type": "string"}}
_PROPERTIES: Final = {
    "to": _ADDRESSES,
    "cc": _ADDRESSES,
    "bcc": _ADDRESSES,
    "subject": {"type": "string"},
    "text": {"type": "string", "description": "Plain text, complete"},
    "reply_to_id": {"type": "string", "description": "The id of the mail that it answers"},
    "attachments": {"type": "array", "items": {"type": "string"}, "description": "Paths in /workspace"},
}

SEND_SPEC = ToolSpec(
    name="mail_send",
    description="Send a mail from the user's mailbox, only if they want it sent. They see it whole before.",
    parameters={"type": "object", "properties": _PROPERTIES, "required": ["to", "subject", "text"]},
)

DRAFT_SPEC = ToolSpec(
    name="mail_draft",
    description="Store a mail in the folder of drafts of the user's mailbox. Nothing is sent.",
    parameters={"type": "object", "properties": _PROPERTIES, "required": ["subject", "text"]},
)


class _Writes(Tool):
    """What both tools share: their arguments, their question, and the mail that comes from them."""

    concurrent = False
    action: ActionKind

    def __init__(self, access: MailAccess) -> None:
        self._access = access
        self._shown: dict[str, str] = {}  # the files that a question has shown, as they were

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question with the whole mail, its recipients first, each complete."""
        asked = asked_mail(arguments)
        if isinstance(asked, str):
            return None
        details: dict[str, Detail] = {}
        for name, people in (("to", asked.to), ("cc", asked.cc), ("bcc", asked.bcc)):
            if people:
                values = (Value(str(number), told_recipient(one)) for number, one in enumerate(people, 1))
                details[name] = tuple(values)
        details["sender"] = f"{self._access.section.address} ({self._access.name})"
        if asked.reply_to:
            details["reply_to"] = self._access.known.shown(asked.reply_to)
        details["subject"] = asked.subject
        details["mail_text"] = asked.text
        state = ""
        if asked.attachments:
            files = [(path, self._size(path)) for path in asked.attachments]
            details["attachments"] = tuple(Value(path, size) for path, size in files)
            shown = "\n".join(self._shown[path] for path in asked.attachments)
            state = f"attachments {sha256(shown.encode()).hexdigest()[:16]}"
        return Question(self.action, details, self._consent(asked), reach=self._reach(asked), state=state)

    def _consent(self, asked: AskedMail) -> tuple[str, ...]:
        raise NotImplementedError

    def _reach(self, asked: AskedMail) -> Reach | None:
        """Return the exact recipients. A standing approval covers them without attachments.

        It covers texts that lead nowhere: mails of strangers could bring the addresses and accounts in them.
        """
        everyone = (("to", asked.to), ("cc", asked.cc), ("bcc", asked.bcc))
        to = tuple((name, one.address) for name, people in everyone for one in people)
        if asked.attachments or not to:
            return None
        names = (one.name for _, people in everyone for one in people if one.name)
        texts = (asked.subject, asked.text, *names)
        return Reach(self.spec.name, to=(*to, ("from", self._access.section.address)), texts=texts)

    def _size(self, path: str) -> str:
        """Return the size of a file of the workspace as people read it, or `-` if there is none.

        Which file it is, and when it changed last, is kept: no command can set that time (ctime).
        """
        from rumi.platform.openat import opened
        from rumi.sandbox.workspace import WorkspaceError, open_beneath

        self._shown[path] = "-"
        relative = path_in_workspace(path)
        try:
            with opened(open_beneath(self._access.workspace(), relative or path)) as file:
                found = os.fstat(file)
        except (WorkspaceError, OSError):
            return "-"
        self._shown[path] = f"{found.st_ino} {found.st_size} {found.st_ctime_ns}"
        return short_size(found.st_size)

    async def _draft(self, asked: AskedMail) -> Draft:
        """Return the mail, with its attachments and the headers of an answer.

        Raises:
            RumiError: A file cannot be read, or the answered mail is not there.
        """
        from rumi.services.mail.writing import Draft, Recipient

        section = self._access.section
        attached, left = [], section.max_bytes
        for path in asked.attachments:
            file = await self._attached(path, left)
            attached.append(file)
            left -= len(file.data)
        in_reply_to, references = "", tuple[str, ...]()
        if asked.reply_to:
            answered = await self._access.read(self._access.place(asked.reply_to))
            in_reply_to, references = answered.message_id, answered.references
        return Draft(
            Recipient(section.address, section.name),
            asked.to,
            asked.cc,
            asked.bcc,
            asked.subject,
            asked.text,
            tuple(attached),
            in_reply_to,
            references,
        )

    async def _attached(self, path: str, most: int) -> Attached:
        from rumi.services.mail.errors import MailError
        from rumi.services.mail.writing import Attached

        relative = path_in_workspace(path)
        if relative is None:
            raise MailError("invalid", "{path} is not in /workspace.", path=one_line(path, 200))
        data = await self._access.offload(
            lambda: read_to_send(self._access.workspace(), relative, max(0, most))
        )
        shown = self._shown.get(path)
        self._size(path)  # after the file was read: a change in the meantime counts
        if shown is not None and shown != self._shown[path]:
            raise MailError("invalid", "{path} has changed since the user saw it.", path=one_line(path, 200))
        kind = mimetypes.guess_type(relative)[0] or "application/octet-stream"
        return Attached(relative.rpartition("/")[2], kind, data)

    def _key(self, asked: AskedMail) -> str:
        from rumi.services.mail.sending import key_of

        values: dict[str, object] = {
            "do": self.spec.name,
            "to": [[str(one) for one in people] for people in (asked.to, asked.cc, asked.bcc)],
            "subject": asked.subject,
            "text": asked.text,
            "reply_to": asked.reply_to,
            "attachments": asked.attachments,
        }
        return key_of(self._access.name, values)

    def _effect(self, asked: AskedMail) -> EffectOfMail:
        from rumi.services.mail.sending import EffectOfMail

        people = ", ".join(one.address for one in (*asked.to, *asked.cc, *asked.bcc))
        return EffectOfMail(
            self._access.chat,
            self._access.turn,
            self._key(asked),
            one_line(f"{people}: {asked.subject}", 500),
        )

    def _message_id(self, effect: EffectOfMail) -> str:
        from rumi.services.mail.writing import message_id

        return message_id(effect.message_key, self._access.section.address)

    def _outgoing(self, draft: Draft, effect: EffectOfMail, *, keep_bcc: bool = False) -> Outgoing:
        from rumi.services.mail.writing import written

        return written(draft, effect.message_key, self._access.now(), keep_bcc=keep_bcc)


class MailSend(_Writes):
    """The `mail_send` tool. Each mail is asked for, whole, and is sent at most once in a turn."""

    spec = SEND_SPEC
    always_asks = True
    action = "mail_send"

    def _consent(self, asked: AskedMail) -> tuple[str, ...]:
        return ()  # a message can ask for a mail, but nobody knows the text that the model writes

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Send the mail. On cancellation before the final line, nothing is sent."""
        from rumi.services.mail.errors import MailError
        from rumi.services.mail.sending import deliver

        asked = asked_mail(arguments)
        if isinstance(asked, str):
            return ToolResult(False, asked)
        if not (asked.to or asked.cc or asked.bcc):
            return ToolResult(False, Text("mail_send needs `to`, a list of addresses"))
        effect = self._effect(asked)
        try:
            draft = await self._draft(asked)
            mail = await self._access.offload(partial(self._outgoing, draft, effect))
            done = await deliver(self._access.ask, self._access.open(), mail, effect, self._access.now())
        except MailError as error:
            return failed("not known if it was sent" if error.kind == "unknown" else "not sent", error)
        except RumiError as error:
            return failed("not sent", error)
        return ToolResult(True, report_of(done, asked), tainted=bool(done.sent.refused or done.copy_failed))

    async def outcome(self, arguments: Mapping[str, object]) -> ToolResult | None:
        """Return how an interrupted call ended; None if nobody knows."""
        from rumi.services.mail.sending import how_it_ended

        asked = asked_mail(arguments)
        if isinstance(asked, str):
            return ToolResult(False, asked)
        effect = self._effect(asked)
        ended, note = await how_it_ended(
            self._access.ask, self._access.open(), effect, self._message_id(effect)
        )
        if ended == "unknown":
            return None
        if ended == "sent":
            told = "sent before a restart interrupted the turn; do not send it again"
            said = f"{told} ({one_line(note, 200)})" if note else told
            return ToolResult(True, said, tainted=bool(note))
        return ToolResult(False, "not sent: a restart interrupted the call before the mail was handed over")


class MailDraft(_Writes):
    """The `mail_draft` tool: a program of the user's shows the draft, and they send it or not."""

    spec = DRAFT_SPEC
    action = "mail_draft"

    def _consent(self, asked: AskedMail) -> tuple[str, ...]:
        return tuple(one.address for one in (*asked.to, *asked.cc, *asked.bcc))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Store the draft. On cancellation, it is stored completely or not."""
        asked = asked_mail(arguments)
        if isinstance(asked, str):
            return ToolResult(False, asked)
        try:
            draft = await self._draft(asked)
            effect = self._effect(asked)
            mail = await self._access.offload(partial(self._outgoing, draft, effect, keep_bcc=True))
            await self._access.open().append("drafts", mail.raw, ("\\Draft", "\\Seen"))
        except RumiError as error:
            return failed("no draft was stored", error)
        return ToolResult(True, "stored in the folder of drafts; nothing was sent")

    async def outcome(self, arguments: Mapping[str, object]) -> ToolResult | None:
        """Return how an interrupted call ended: the draft is in its folder or not."""
        asked = asked_mail(arguments)
        if isinstance(asked, str):
            return ToolResult(False, asked)
        if await self._access.open().has_draft(self._message_id(self._effect(asked))):
            return ToolResult(True, "stored in the folder of drafts before a restart; nothing was sent")
        return ToolResult(False, "no draft was stored: a restart interrupted the call")
