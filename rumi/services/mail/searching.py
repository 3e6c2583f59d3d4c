"""Searches: which folders, which mails, and what the server cannot do."""

from dataclasses import replace
from typing import Final

from rumi.services.mail.errors import MailError
from rumi.services.mail.folders import Folder, folder_for, folder_named
from rumi.services.mail.found import mails_from
from rumi.services.mail.imap import ImapSession
from rumi.services.mail.messages import FoundMail, MailQuery, MailsFound
from rumi.services.mail.queries import Part, is_foreign, parts_of

MOST: Final = 100
"""Maximum number of mails that one search returns."""

_WINDOW: Final = 50_000
"""Mails that one command searches: a server lists what it finds on one line, which `imaplib` bounds."""

_MOST_WINDOWS: Final = 20
_MOST_FOLDERS: Final = 50
_MOST_CHECKED: Final = 500
"""Mails whose headers or structure are read, if the server itself cannot look for something."""


def search_in(imap: ImapSession, query: MailQuery) -> MailsFound:
    """Search, in a thread, and return the newest mails first.

    Raises:
        MailError: The search is not valid, there is no such folder, or the server fails.
    """
    most = max(1, min(query.most, MOST))
    found: list[FoundMail] = []
    notes: list[str] = []
    more = False
    folders, left = _folders(imap, query.folder)
    if left:
        notes.append(f"{left} more folders were not searched")
    for folder in folders:
        mails, rest = _in_folder(imap, folder, replace(query, most=most), notes)
        found += mails
        more = more or rest
    found.sort(key=lambda mail: (mail.arrived, mail.uid), reverse=True)
    notes += (f"The server says: {words}" for words in imap.alerts)
    return MailsFound(tuple(found[:most]), more or len(found) > most, tuple(dict.fromkeys(notes)))


def _folders(imap: ImapSession, name: str) -> tuple[tuple[Folder, ...], int]:
    """Return the folders to search, and how many are left out."""
    if not name.strip() or name.strip().casefold() == "inbox":
        return (Folder("INBOX", "INBOX", "inbox"),), 0
    folders = imap.folders()
    if name.strip().casefold() == "all" and folder_named("all", folders) is None:
        skipped = (folder_for("junk", folders), folder_for("trash", folders))
        chosen = [folder for folder in folders if folder.selectable and folder not in skipped]
        return tuple(chosen[:_MOST_FOLDERS]), max(0, len(chosen) - _MOST_FOLDERS)
    found = folder_named(name, folders)
    if found is None:
        raise no_folder(name, folders)
    return (found,), 0


def no_folder(name: str, folders: tuple[Folder, ...]) -> MailError:
    """Return the error for a folder that a mailbox does not have."""
    return MailError(
        "folder",
        "The mailbox has no folder {name}. Its folders: {folders}",
        name=name,
        folders=", ".join(folder.name for folder in folders[:_MOST_FOLDERS]),
    )


def _in_folder(
    imap: ImapSession, folder: Folder, query: MailQuery, notes: list[str]
) -> tuple[tuple[FoundMail, ...], bool]:
    """Return the newest matching mails of a folder, and True if it has more of them."""
    imap.open(folder)
    gmail = imap.can("X-GM-EXT-1")
    parts = parts_of(query, gmail=gmail)
    checks_structure = query.has_attachment and not gmail
    uids: list[int] = []
    wanted = _MOST_CHECKED if checks_structure else query.most + 1
    high = imap.exists
    for _ in range(_MOST_WINDOWS):
        if high <= 0 or len(uids) >= wanted:
            break
        low = max(1, high - _WINDOW + 1)
        uids = [*_window(imap, f"{low}:{high}", parts, query, notes), *uids]
        high = low - 1
    uids = uids[-wanted:][::-1]
    if checks_structure:
        mails = tuple(mail for mail in mails_from(imap, uids) if mail.attachments)
        if len(uids) >= _MOST_CHECKED:
            notes.append(f"only the newest {_MOST_CHECKED} matching mails were checked for attachments")
        return mails[: query.most], len(mails) > query.most or high > 0
    return mails_from(imap, uids[: query.most]), len(uids) > query.most or high > 0


def _window(
    imap: ImapSession, numbers: str, parts: tuple[Part, ...], query: MailQuery, notes: list[str]
) -> list[int]:
    """Search a range of mails.

    A server that does not know UTF-8 searches for the other parts; the rest is checked here, in the headers.
    """
    window: tuple[Part, ...] = ((numbers,),)
    foreign = tuple(filter(is_foreign, parts))
    charset: tuple[Part, ...] = (("CHARSET", "UTF-8"),) if foreign else ()
    try:
        return list(imap.search((*charset, *window, *parts)))
    except MailError as error:
        if error.kind != "refused" or not foreign:
            raise
    plain = tuple(part for part in parts if part not in foreign)
    uids = list(imap.search((*window, *plain)))[-_MOST_CHECKED:]
    notes.append(
        "the server cannot search for these characters, so the senders, receivers and subjects of"
        f" {len(uids)} mails were compared"
    )
    return sorted(mail.uid for mail in mails_from(imap, uids) if _matches(mail, query, foreign))


def _matches(mail: FoundMail, query: MailQuery, foreign: tuple[Part, ...]) -> bool:
    """Return True if the headers of a mail contain each text that the server could not look for."""
    fields = {
        "FROM": (query.sender, mail.sender),
        "TO": (query.to, mail.to),
        "SUBJECT": (query.subject, mail.subject),
    }
    everything = " ".join((mail.sender, mail.to, mail.subject))
    for part in foreign:
        wanted, text = fields.get(str(part[0]), (query.text, everything))
        if wanted.strip().casefold() not in text.casefold():
            return False
    return True
