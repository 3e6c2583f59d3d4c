"""The tools `mail_read` and `mail_save`: show a mail, and save one of its attachments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.mail_access import ID, MailAccess, failed
from rumi.agent.tools.mail_search import local_time
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.texts.operating import short_size
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.services.mail.reading import ReadMail

PART_CHARS: Final = 20_000
"""Maximum number of characters of a mail's text in one result."""

_MOST_ADDRESSES: Final = 30

READ_SPEC = ToolSpec(
    name="mail_read",
    description="Read a mail of the user's mailbox: headers, text and names of attachments. It stays unread.",
    parameters={
        "type": "object",
        "properties": {
            "id": ID,
            "part": {"type": "integer", "description": "Of a long text: 1, 2, …"},
            "html": {"type": "boolean", "description": "Its text in HTML, if it has two"},
        },
        "required": ["id"],
    },
)

SAVE_SPEC = ToolSpec(
    name="mail_save",
    description="Save an attachment of a mail in /workspace, unread.",
    parameters={
        "type": "object",
        "properties": {
            "id": ID,
            "attachment": {"type": "integer", "description": "Its number in mail_read"},
            "path": {"type": "string", "description": "Path, or folder/"},
        },
        "required": ["id", "attachment"],
    },
)


class MailRead(Tool):
    """The `mail_read` tool. It only reads, and marks nothing as read.

    The links of a mail are not given to other tools: many of them confirm or cancel something as soon as they
    are opened. So opening one needs the user's yes.
    """

    spec = READ_SPEC
    concurrent = True
    looks_outside = True
    only_reads = True

    def __init__(self, access: MailAccess) -> None:
        self._access = access

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: reading changes nothing."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Fetch and show the mail. On cancellation, no connection and no process stays."""
        part = arguments.get("part") or 1
        if not isinstance(part, int) or isinstance(part, bool) or part < 1:
            return ToolResult(False, Text("mail_read takes `part` as a number from 1"))
        try:
            place = self._access.place(arguments.get("id"))
            mail = await self._access.read(place)
            as_html = bool(mail.html) and (arguments.get("html") is True or mail.prefers_html)
            text, note = mail.text, ""
            if as_html:
                text, note = await self._html(mail)
        except RumiError as error:
            return failed("not read", error)
        parts = max(1, -(-len(text) // PART_CHARS))
        if part > parts:
            return ToolResult(False, Text("the mail has {parts} parts", parts=parts))
        shown = text[(part - 1) * PART_CHARS : part * PART_CHARS]
        facts = [f"mail {place}", f"part {part} of {parts}" if parts > 1 else "", note]
        if mail.html and not as_html and mail.text.strip():
            facts.append("it also has a text in HTML, which may differ: html=true")
        if mail.warnings:
            facts.append("BEWARE of its sender, see below")
        inside = "\n".join((*_head(mail, self._access.zone(), brief=part > 1), "", shown or "(no text)"))
        block = untrusted_block(f"mail {place}", inside)
        return ToolResult(
            True, f"{' · '.join(filter(None, facts))}\n{block}", tainted=True, truncated=part < parts
        )

    async def _html(self, mail: ReadMail) -> tuple[str, str]:
        """Return the text in HTML as Markdown; the plain text, and a note, if it cannot be read."""
        from rumi.web.readers.files.reading import ViewRefused

        try:
            return await self._access.html_to_text(mail.html), "its text in HTML"
        except ViewRefused as error:
            return mail.text, f"its text in HTML cannot be read: {one_line(str(error.message), 200)}"


class MailSave(Tool):
    """The `mail_save` tool. The file is marked as untrusted, as all files from outside."""

    spec = SAVE_SPEC
    concurrent = False

    def __init__(self, access: MailAccess) -> None:
        self._access = access

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: the file stays in the workspace of the chat."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Save the attachment. On cancellation, a part of the file is never left."""
        number, path = arguments.get("attachment"), arguments.get("path") or "."
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(path, str):
            return ToolResult(False, Text("mail_save needs `attachment`, a number, and `path`, a text"))
        relative = path.removeprefix("/workspace/") if path != "/workspace" else "."
        try:
            place = self._access.place(arguments.get("id"))
            mail = await self._access.read(place)
            chosen = next((one for one in mail.attachments if one.number == number), None)
            if chosen is None:
                return ToolResult(
                    False, Text("the mail has {count} attachments", count=len(mail.attachments)), tainted=True
                )
            placed = await self._access.save(relative, chosen.data, chosen.name or "attachment")
        except RumiError as error:
            return failed("not saved", error)
        facts = [f"{chosen.size:,} bytes", "replaced the file that was there" if placed.replaced else ""]
        named = f"saved as /workspace/{placed.path}"
        content = f"saved: {' · '.join(filter(None, facts))}\n{untrusted_block(f'mail {place}', named)}"
        return ToolResult(True, content, tainted=True)


def _head(mail: ReadMail, zone: str, *, brief: bool) -> Iterator[str]:
    """Yield the lines about a mail above its text; only the first ones if `brief`."""
    date = local_time(mail.sent_at, zone)
    yield f"From: {_addresses(mail.sender) or '(nobody)'}"
    yield f"Subject: {one_line(mail.subject, 500)}"
    if brief:
        return
    for name, addresses in (("To", mail.to), ("Cc", mail.cc), ("Reply-To", mail.reply_to)):
        if addresses:
            yield f"{name}: {_addresses(addresses)}"
    yield f"Date: {one_line(mail.date, 100)}{f' ({date})' if date else ''}"
    for warning in mail.warnings:
        yield f"Beware: {one_line(warning, 400)}"
    if mail.checked:
        yield f"The receiving server is said to have checked the sender: {one_line(mail.checked, 600)}"
    for file in mail.attachments:
        about = f"{one_line(file.media_type, 80)}, {short_size(file.size)}"
        yield f"Attachment {file.number}: {one_line(file.name, 200) or 'without a name'} ({about})"
    for lost in mail.left_out:
        yield f"Left out: {one_line(lost, 300)}"


def _addresses(addresses: tuple[object, ...]) -> str:
    shown = ", ".join(one_line(str(address), 300) for address in addresses[:_MOST_ADDRESSES])
    left = len(addresses) - _MOST_ADDRESSES
    return f"{shown} and {left} more" if left > 0 else shown
