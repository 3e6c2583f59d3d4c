"""What the mail tools of one chat share: the mailbox, the chat's files, and the form of mails for models.

The mail client is imported at the first call: without a mailbox, nothing of it is loaded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rumi.agent.tool import ToolResult
from rumi.errors import RumiError
from rumi.platform.threads import Offload
from rumi.platform.untrusted_text import one_line
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.platform.config.schema import MailSection
    from rumi.sandbox.incoming import PlacedFile
    from rumi.services.mail.client import Mailbox
    from rumi.services.mail.places import MailPlace
    from rumi.services.mail.reading import ReadMail
    from rumi.store.journal.actor import AskJournal

ID: Final = {"type": "string", "description": "As mail_search gives it"}
"""The schema of an argument that names a mail."""


_MOST_KNOWN: Final = 500


class KnownMails:
    """The subjects and senders of the mails that were found or read last, by their ids.

    Questions name a mail by them, because an id says nothing to a person.
    """

    def __init__(self) -> None:
        self._mails: dict[str, str] = {}

    def note(self, place: MailPlace, subject: str, sender: str) -> None:
        """Remember a mail; the oldest one is dropped."""
        self._mails.pop(str(place), None)
        self._mails[str(place)] = f"“{one_line(subject, 200)}”, {one_line(sender, 200)}"
        if len(self._mails) > _MOST_KNOWN:
            del self._mails[next(iter(self._mails))]

    def shown(self, id: str) -> str:
        """Return what a person knows the mail by, and its id if that is unknown."""
        return self._mails.get(id, id)


@dataclass(frozen=True, slots=True)
class MailAccess:
    """The mailbox of a chat's person, for the tools of one turn.

    `open` returns the client of the mailbox `name`; it raises a `RumiError` if there is no password.
    `html_to_text` returns the visible text of a mail in HTML; it raises `ViewRefused`. `save` stores an
    attachment at a path of the workspace, marked as untrusted. `workspace` returns the folder of the chat's
    files. `known` are the mails that were shown last. `now` returns the time in seconds since 1970, and
    `zone` the time zone of the chat's owner.
    """

    name: str
    section: MailSection
    open: Callable[[], Mailbox]
    ask: AskJournal
    chat: str
    turn: str
    html_to_text: Callable[[str], Awaitable[str]]
    save: Callable[[str, bytes, str], Awaitable[PlacedFile]]
    workspace: Callable[[], Path]
    known: KnownMails
    offload: Offload
    now: Callable[[], float]
    zone: Callable[[], str]

    def place(self, id: object) -> MailPlace:
        """Return where a mail is.

        Raises:
            MailError: The id is not one of this mailbox.
        """
        from rumi.services.mail.errors import MailError
        from rumi.services.mail.places import place_in

        place = place_in(id)
        if place is None or place.account != self.name:
            raise MailError("invalid", "`id` is not the id of a mail of this mailbox.", "Use mail_search.")
        return place

    async def read(self, place: MailPlace) -> ReadMail:
        """Fetch a mail and read it; it is not marked as read.

        Raises:
            MailError: The mail is not there any more, is too large, or the server fails.
        """
        from rumi.services.mail.reading import read_mail

        raw = await self.open().fetch(place.folder, place.uid, place.validity)
        mail = await self.offload(partial(read_mail, raw))
        self.known.note(place, mail.subject, ", ".join(map(str, mail.sender)))
        return mail


def failed(what: str, error: RumiError) -> ToolResult:
    """Return the result of a call that failed. The words of a server may be in it, so it taints."""
    return ToolResult(
        False,
        Text("{what}: {error}", what=what, error=error.for_model),
        tainted=True,
        advice=error.for_people,
    )
