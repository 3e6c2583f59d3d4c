"""One IMAP connection, used in a thread: `imaplib` with bounds, and the commands that mailboxes need.

Folders are only opened for reading (EXAMINE), and bodies are fetched with BODY.PEEK: no mail is marked as
read.
"""

import imaplib
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rumi.services.mail.bounded_imap import OVERHEAD_BYTES, BoundedImap, last_of
from rumi.services.mail.connection import (
    MailLine,
    login_refused,
    not_encrypted,
    timed_out,
    tls_reason,
    unreachable,
)
from rumi.services.mail.errors import MailError, said
from rumi.services.mail.folders import Folder, folder_from
from rumi.services.mail.queries import Part
from rumi.services.mail.responses import Value, fields_of, responses_in, text_of

_MOST_FOLDERS: Final = 2000
_CODE: Final = re.compile(r"\[([A-Z-]+)[^\]]*\]")
_TEMPORARY: Final = ("UNAVAILABLE", "INUSE", "LIMIT", "SERVERBUG", "CONTACTADMIN", "THROTTLED")
_MOST_ALERTS: Final = 3
_QUOTABLE: Final = re.compile(rb"[\x20-\x7e]{0,200}")
HEADERS: Final = "FROM TO CC SUBJECT DATE MESSAGE-ID"
HEADER_BYTES: Final = 16_384


class ImapSession:
    """A connection to an IMAP server, after the login. All methods block, and raise `MailError`."""

    def __init__(self, line: MailLine, max_bytes: int) -> None:
        self._line = line
        self._max_bytes = max_bytes
        self._imap: BoundedImap | None = None
        self._address = f"{line.host}:{line.port}"
        self._alerts: list[str] = []
        self.folder: Folder | None = None
        self.validity = 0
        self.next_uid = 0
        self.exists = 0

    @property
    def alerts(self) -> tuple[str, ...]:
        """What the server wants people to be told."""
        return tuple(self._alerts[:_MOST_ALERTS])

    def can(self, capability: str) -> bool:
        """Return True if the server announces a capability."""
        return self._imap is not None and capability in self._imap.capabilities

    def log_in(self, user: str, password: str) -> None:
        """Encrypt the connection, and log in.

        Raises:
            MailError: The connection cannot be encrypted, or the server does not accept the login.
        """
        line = self._line
        with _errors(self._address):
            if line.begins_with_tls:
                line.wrap()
            imap = self._imap = BoundedImap(line, self._max_bytes + OVERHEAD_BYTES)
            if not line.begins_with_tls and not line.stays_here:
                if "STARTTLS" not in imap.capabilities or imap.state != "NONAUTH":
                    raise not_encrypted(self._address, "the server does not offer STARTTLS")
                imap.secure()
            if imap.state == "AUTH":  # the server knows who connects
                return
            try:
                if "AUTH=PLAIN" in imap.capabilities:
                    secret = f"\0{user}\0{password}".encode()
                    imap.authenticate("PLAIN", lambda _: secret)
                else:
                    imap.login(user, password)
            except imaplib.IMAP4.abort:
                raise
            except imaplib.IMAP4.error as error:
                raise _login_refused(self._address, error) from None
            except UnicodeEncodeError:
                raise _login_refused(self._address, "the password has other than ASCII characters") from None
            imap.refresh()  # many servers can do more after a login

    def log_out(self) -> None:
        """Say goodbye, if the server still listens."""
        if self._imap is not None:
            with _errors(self._address):
                self._imap.logout()

    def close(self) -> None:
        """Close the file through which the connection is read."""
        if self._imap is not None:
            self._imap.file.close()

    def folders(self) -> tuple[Folder, ...]:
        """Return the folders of the mailbox."""
        data = self._do("LIST", '""', '"*"', kind="LIST")
        found: list[Folder] = []
        for values in responses_in(data):
            if len(values) < 3 or not isinstance(values[0], list):
                continue
            raw = values[2]
            name = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
            found.append(folder_from(name, [str(flag) for flag in values[0]]))
        return tuple(found[:_MOST_FOLDERS])

    def open(self, folder: Folder) -> None:
        """Open a folder for reading only (EXAMINE).

        Raises:
            MailError: There is no such folder, or the server does not let it be read.
        """
        imap = self._live
        imap.untagged_responses.pop("UIDVALIDITY", None)
        imap.untagged_responses.pop("UIDNEXT", None)
        with _errors(self._address):
            kind, data = imap.select(_quoted(folder.raw), readonly=True)
        if kind != "OK":
            raise MailError(
                "folder",
                "The folder {folder} cannot be opened: {words}",
                folder=folder.name,
                words=said(last_of(data)),
            )
        self.folder = folder
        self.exists = _number(last_of(data))
        self.validity = _number(last_of(imap.response("UIDVALIDITY")[1]))
        self.next_uid = _number(last_of(imap.response("UIDNEXT")[1]))

    def search(self, parts: Sequence[Part]) -> tuple[int, ...]:
        """Return the UIDs of the mails that match all parts, in ascending order.

        Raises:
            MailError: The server refuses the search; `kind` is `refused`.
        """
        chunks = _chunks(parts)
        imap = self._live
        if len(chunks) > 1:
            # imaplib asks this method for what follows each continuation.
            imap.literal = _Rest(iter(chunks[1:])).next  # type: ignore[assignment]
        data = self._do("UID", "SEARCH", chunks[0], kind="SEARCH")
        words = (word for item in data if isinstance(item, bytes) for word in item.split())
        return tuple(sorted({int(word) for word in words if word.isdigit()}))

    def fetch(self, uids: Sequence[int], items: str) -> dict[int, dict[str, Value]]:
        """Return the fields of mails by their UIDs. Mails that are not there any more are missing."""
        if not uids:
            return {}
        data = self._do("UID", "FETCH", ",".join(map(str, uids)), f"({items})", kind="FETCH")
        found: dict[int, dict[str, Value]] = {}
        for values in responses_in(data):
            fields = fields_of(values)
            if (uid := _number(fields.get("UID"))) in uids:
                found[uid] = found.get(uid, {}) | fields
        return found

    def append(self, folder: Folder, raw: bytes, flags: Sequence[str]) -> None:
        """Store a mail in a folder. Each flag is one of the system's, such as `\\Seen`.

        Raises:
            MailError: The server does not take it.
        """
        with _errors(self._address):
            kind, data = self._live.append(_quoted(folder.raw), f"({' '.join(flags)})", "", raw)
        if kind != "OK":
            raise _refused(self._address, last_of(data))

    def _do(self, name: str, *args: str | bytes, kind: str) -> list[object]:
        """Run a command, and return what came for the untagged responses of a kind."""
        imap = self._live
        imap.untagged_responses.pop(kind, None)
        with _errors(self._address):
            answer, data = imap.run(name, *args)
        told = map(said, imap.untagged_responses.get("OK", []))
        self._alerts += [words.removeprefix("[ALERT] ") for words in told if words.startswith("[ALERT]")]
        if answer != "OK":
            raise _refused(self._address, last_of(data))
        return list(imap.untagged_responses.pop(kind, []))

    @property
    def _live(self) -> BoundedImap:
        if self._imap is None:
            raise RuntimeError("log in first")
        return self._imap


class _Rest:
    """The parts of a command after its first literal, each of which the server asks for."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def next(self, _continuation: object) -> bytes:
        return next(self._chunks, b"")


def _chunks(parts: Sequence[Part]) -> list[bytes]:
    """Return a command as pieces, each of which, but the last, ends with the size of a literal."""
    chunks, text = [], bytearray()
    for value in (value for part in parts for value in part):
        text += b" " if text else b""
        if isinstance(value, str):
            text += value.encode("ascii")
        elif _QUOTABLE.fullmatch(value):
            text += b'"' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
        else:
            chunks.append(bytes(text) + b"{%d}" % len(value))
            text = bytearray(value)
    return [*chunks, bytes(text)]


def _quoted(name: str) -> str:
    """Return the name of a folder as a quoted string.

    Raises:
        MailError: The name has characters that no folder has.
    """
    if re.search(r"[\x00-\x1f\x7f]", name):
        raise MailError("invalid", "The name of the folder has control characters.")
    text = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _number(value: object) -> int:
    text = text_of(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _refused(address: str, words: object) -> MailError:
    heard = said(words)
    if "[PRIVACYREQUIRED]" in heard.upper():
        return not_encrypted(address, heard)
    return MailError(
        "refused",
        "The mail server {address} refuses this: {words}",
        address=address,
        words=heard or "without a reason",
    )


def _login_refused(address: str, error: object) -> MailError:
    words = said(error)
    code = _CODE.search(words)
    if code is not None and code[1] in _TEMPORARY:
        return _refused(address, words)
    if code is not None and code[1] == "PRIVACYREQUIRED":
        return not_encrypted(address, words)
    return login_refused(address, words)


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Raise the errors of `imaplib` and of sockets as a `MailError`."""
    try:
        yield
    except TimeoutError:
        raise timed_out(address) from None
    except ssl.SSLError as error:
        raise not_encrypted(address, tls_reason(error)) from None
    except imaplib.IMAP4.abort as error:
        raise unreachable(address, error) from None
    except imaplib.IMAP4.error as error:
        raise _refused(address, error) from None
    except OSError as error:
        raise unreachable(address, error) from None
    except ValueError:  # such as bytes that are not text
        raise _refused(address, "its answer is not valid IMAP") from None
