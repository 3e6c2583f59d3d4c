"""The `mail_search` tool: finds mails in the mailbox of the chat's person."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.mail_access import MailAccess, failed
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.texts.operating import short_size
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.services.mail.messages import FoundMail, MailQuery
    from rumi.services.mail.places import MailPlace

MOST: Final = 50
_MOST_FIELD: Final = 200
_DAY: Final = {"type": "string", "description": "YYYY-MM-DD"}

SPEC = ToolSpec(
    name="mail_search",
    description=(
        "Find mails in the user's mailbox, newest first, by any of the fields. Without fields: the newest in "
        "the inbox. It shows headers only; read one with mail_read."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words in headers or text"},
            "from": {"type": "string"},
            "to": {"type": "string"},
            "subject": {"type": "string"},
            "since": _DAY,
            "before": _DAY,
            "unread": {"type": "boolean"},
            "has_attachment": {"type": "boolean"},
            "folder": {
                "type": "string",
                "description": "Name, or sent, drafts, archive, all; inbox if empty",
            },
            "most": {"type": "integer", "description": f"1 to {MOST}, 20 if empty"},
        },
    },
)


class MailSearch(Tool):
    """The `mail_search` tool. It only reads, and marks nothing as read."""

    spec = SPEC
    concurrent = True
    looks_outside = True
    only_reads = True

    def __init__(self, access: MailAccess) -> None:
        self._access = access

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: only the user's own mail server gets the words."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Search. On cancellation, no connection stays open."""
        query = _query(arguments)
        if isinstance(query, str):
            return ToolResult(False, query)
        try:
            found = await self._access.open().search(query)
        except RumiError as error:
            return failed("not searched", error)
        zone = self._access.zone()
        lines = [_line(mail, self._place(mail), zone) for mail in found.mails]
        count = len(lines)
        facts = [f"{count} mail{'s' * (count != 1)}{', and more: narrow the search' if found.more else ''}"]
        facts += [one_line(note, 300) for note in found.notes]
        if not lines:
            return ToolResult(True, "\n".join(["No mail was found.", *facts[1:]]), tainted=bool(found.notes))
        block = untrusted_block(f"mailbox {self._access.name}", "\n".join(lines))
        return ToolResult(True, f"{' · '.join(facts)}\n{block}", tainted=True, truncated=found.more)

    def _place(self, mail: FoundMail) -> MailPlace:
        """Return where a mail is. The questions about it name its subject and its sender."""
        from rumi.services.mail.places import MailPlace

        place = MailPlace(self._access.name, mail.folder, mail.validity, mail.uid)
        self._access.known.note(place, mail.subject, mail.sender)
        return place


def _query(arguments: Mapping[str, object]) -> MailQuery | str:
    """Return the search, or the text that says which argument is not valid."""
    from rumi.services.mail.messages import MailQuery

    texts: dict[str, str] = {}
    for name in ("query", "from", "to", "subject", "folder"):
        value = arguments.get(name) or ""
        if not isinstance(value, str):
            return Text("mail_search takes `{name}` as a text", name=name)
        texts[name] = value
    days: dict[str, date | None] = {}
    for name in ("since", "before"):
        try:
            days[name] = date.fromisoformat(str(arguments[name])[:10]) if arguments.get(name) else None
        except ValueError:
            return Text("mail_search takes `{name}` as YYYY-MM-DD", name=name)
    most = arguments.get("most")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool)):
        return Text("mail_search takes `{name}` as a whole number", name="most")
    return MailQuery(
        texts["query"],
        texts["from"],
        texts["to"],
        texts["subject"],
        days["since"],
        days["before"],
        arguments.get("unread") is True,
        arguments.get("has_attachment") is True,
        texts["folder"],
        max(1, min(most or 20, MOST)),
    )


def _line(mail: FoundMail, place: MailPlace, zone: str) -> str:
    fields = (
        f"- id {place}",
        local_time(mail.arrived, zone) or one_line(mail.date, 60),
        "unread" if mail.unread else "",
        f"from {one_line(mail.sender, _MOST_FIELD)}",
        f"to {one_line(mail.to, _MOST_FIELD)}" if mail.to else "",
        f"subject {one_line(mail.subject, _MOST_FIELD)}",
        "with attachments" if mail.attachments else "",
        short_size(mail.size),
    )
    return " · ".join(filter(None, fields))


def local_time(at: float | None, zone: str) -> str:
    """Return a time in a time zone, UTC if it is unknown; empty for no time."""
    if not at:
        return ""
    try:
        there = ZoneInfo(zone) if zone else UTC
        return datetime.fromtimestamp(at, there).strftime("%Y-%m-%d %H:%M %Z")
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return ""
