"""Messages of the mail client: what is looked for, what was found, and what was sent."""

from dataclasses import dataclass
from datetime import date

from rumi.services.mail.folders import Folder


@dataclass(frozen=True, slots=True)
class MailQuery:
    """What to look for in a mailbox; empty fields do not matter.

    `text` is looked for in headers and bodies; at Gmail it may be a search as in its search box. `folder` is
    a name or a use, such as `sent`; `all` stands for every folder but those of junk and trash. `since` and
    `before` are days of arrival, of which `before` does not count. At most `most` mails are returned.
    """

    text: str = ""
    sender: str = ""
    to: str = ""
    subject: str = ""
    since: date | None = None
    before: date | None = None
    unread: bool = False
    has_attachment: bool = False
    folder: str = ""
    most: int = 20


@dataclass(frozen=True, slots=True)
class FoundMail:
    """A mail in a folder, by its headers, which are decoded but not trusted.

    `uid` counts under the folder's UIDVALIDITY `validity`. `arrived` is the time of arrival, in seconds since
    1970, or 0 if the server does not say it. `date` is the text of the header. `size` is in bytes.
    """

    folder: str
    validity: int
    uid: int
    sender: str
    to: str
    subject: str
    date: str
    arrived: float
    size: int
    unread: bool
    attachments: bool
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class MailsFound:
    """The newest mails that were found, newest first.

    `more` is True if the folders have more mails than these. `notes` say what the server could not do, and
    what it announced.
    """

    mails: tuple[FoundMail, ...]
    more: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SentMail:
    """The answer of a server that took a mail. `refused` are the recipients it refused, with its words."""

    answer: str
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a check of both servers, in which no mail is read or sent.

    `folders` are those of the mailbox, and `sends` is True if the SMTP server has accepted the login.
    """

    folders: tuple[Folder, ...]
    sends: bool
