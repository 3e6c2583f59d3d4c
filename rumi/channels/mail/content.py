"""The content of a mail of a person: their own words, and words of others and files as attachments."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from rumi.channels.mail.words import OwnWords, own_subject, words_of
from rumi.services.mail.messages import FoundMail
from rumi.services.mail.reading import ReadMail
from rumi.store.journal.records import Attachment
from rumi.web.readers.files.reading import ViewRefused

MOST_FILES: Final = 20
"""Maximum number of a mail's attachments that become files of the chat."""

HtmlToText: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the visible text of a mail in HTML. Raises `ViewRefused` if it cannot be read."""


async def visible_text(read: ReadMail, html: HtmlToText) -> str:
    """Return the text of a mail; of one in HTML, what is visible. Empty if it cannot be read."""
    if not read.prefers_html:
        return read.text
    try:
        return await html(read.html)
    except ViewRefused:
        return read.text


@dataclass(frozen=True, slots=True)
class MailContent:
    """What a mail says: its sender's own words, their first line without the subject, and the rest."""

    words: str
    first_line: str
    attachments: tuple[Attachment, ...]


def content_of(read: ReadMail, text: str, found: FoundMail, *, in_thread: bool) -> MailContent:
    """Return a mail's own words in its `text`, and the words of others and the files in it. Blocks.

    `in_thread` means that the mail belongs to a chat that is known.
    """
    words = words_of(text)
    subject = own_subject(read.subject, answers=bool(read.references))
    if (read.references or (read.subject and not subject)) and not in_thread and not words.rest:
        # An answer to somebody else, or a mail that is handed on, without a mark where its text begins.
        words = OwnWords("", words.own)
    own = words.own
    if subject and subject.casefold() not in own.casefold():
        own = f"{subject}\n\n{own}".strip()
    rest = words.rest if subject or not read.subject else f"Subject: {read.subject}\n\n{words.rest}".strip()
    others = (Attachment("words", source="quoted or handed on in the mail", text=rest),) if words.rest else ()
    where = f"{found.folder}/{found.validity}/{found.uid}"
    files = tuple(
        Attachment("file", f"{where}/{one.number}", one.name, one.media_type, one.size)
        for one in read.attachments[:MOST_FILES]
    )
    return MailContent(own, words.own.partition("\n")[0].strip(), (*others, *files))
