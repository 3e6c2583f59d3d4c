"""Operations on folders that only read, in threads: new mails, one mail, and a search for a Message-ID."""

from rumi.services.mail.errors import MailError
from rumi.services.mail.folders import Folder, Use, folder_for, folder_named
from rumi.services.mail.found import mails_from
from rumi.services.mail.imap import ImapSession
from rumi.services.mail.messages import FoundMail
from rumi.services.mail.searching import no_folder
from rumi.store.journal.mail_positions import MailPosition


def new_since(
    imap: ImapSession, *, folder: str, position: MailPosition | None, most: int
) -> tuple[MailPosition, tuple[FoundMail, ...]]:
    """Return the mails after a position, oldest first, and the new position; see `Mailbox.new_since`."""
    chosen = folder_in(imap, folder)
    imap.open(chosen)
    end = imap.next_uid - 1 if imap.next_uid else max(imap.search((("UID", "*"),)), default=0)
    if position is None or position.validity != imap.validity:
        return MailPosition(imap.validity, end), ()
    if end <= position.upto:
        return position, ()
    # In `5:*`, the star is the last mail even if its number is lower.
    uids = [uid for uid in imap.search((("UID", f"{position.upto + 1}:*"),)) if uid > position.upto]
    chosen_uids = uids[:most]
    mails = mails_from(imap, chosen_uids)
    upto = chosen_uids[-1] if chosen_uids else end
    return MailPosition(imap.validity, max(upto, position.upto)), mails


def fetch(imap: ImapSession, *, folder: str, uid: int, validity: int | None, most: int) -> bytes:
    """Return a mail of at most `most` bytes as it is stored; see `Mailbox.fetch`."""
    imap.open(folder_in(imap, folder))
    if validity is not None and validity != imap.validity:
        raise _gone()
    sizes = imap.fetch([uid], "UID RFC822.SIZE")
    if uid not in sizes:
        raise _gone()
    if (size := int(sizes[uid].get("RFC822.SIZE") or 0)) > most:
        raise MailError(
            "too_large",
            "The mail has {mb} MB; mail.NAME.max_mb allows {most}.",
            mb=size // 1_000_000,
            most=most // 1_000_000,
        )
    raw = imap.fetch([uid], "UID BODY.PEEK[]").get(uid, {}).get("BODY[]")
    if not isinstance(raw, bytes):
        raise _gone()
    return raw


def has_message(imap: ImapSession, *, use: Use, named: str, message_id: str) -> bool | None:
    """Return True if a folder has a mail with this Message-ID; None without such a folder."""
    folders = imap.folders()
    folder = folder_named(named, folders) if named else folder_for(use, folders)
    if folder is None:
        return None
    imap.open(folder)
    return bool(imap.search((("HEADER", "Message-ID", message_id.encode()),)))


def folder_in(imap: ImapSession, name: str) -> Folder:
    """Return a folder by its name or its use.

    Raises:
        MailError: The mailbox has no such folder.
    """
    if name.casefold() == "inbox":
        return Folder("INBOX", "INBOX", "inbox")
    folders = imap.folders()
    found = folder_named(name, folders)
    if found is None:
        raise no_folder(name, folders)
    return found


def _gone() -> MailError:
    return MailError("gone", "This mail is not in its folder any more.", "Search for it again.")
