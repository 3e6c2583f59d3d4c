"""The client of one mailbox: searches, reads and stores mails by IMAP, and sends them by SMTP.

Each call opens a connection of its own and closes it, so an idle mailbox costs nothing, and no server can
drop a connection that waits. What only reads is tried once more if its connection breaks.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

import trio

from rumi.platform.config.schema import MailSection
from rumi.platform.http import Tls
from rumi.platform.threads import Offload, Threads
from rumi.services.mail.connection import Connect, MailLine, open_line, timed_out
from rumi.services.mail.errors import MailError
from rumi.services.mail.folders import Folder
from rumi.services.mail.imap import ImapSession
from rumi.services.mail.messages import FoundMail, Health, MailQuery, MailsFound, SentMail
from rumi.services.mail.operations import fetch, folder_in, has_message, new_since
from rumi.services.mail.searching import search_in
from rumi.services.mail.smtp import SmtpSession, unknown_outcome
from rumi.services.mail.writing import Outgoing
from rumi.store.journal.mail_positions import MailPosition

T = TypeVar("T")

HandOver = Callable[[], Awaitable[None]]
"""Stores that a mail is handed over; awaited right before the line that ends its text."""

Settle = Callable[[SentMail | MailError], Awaitable[None]]
"""Stores how a mail ended."""

_AT_ONCE: Final = 2
_TIMES: Final = 4
"""How many times its timeout an operation may last in all, with all of its reads and writes."""

_ANSWER_S: Final = 3.0
"""How long a cancelled call waits for the answer to a mail that is handed over, in seconds."""

_CLOSE_S: Final = 2.0


class Mailbox:
    """A mailbox of the configuration. Several calls may run at the same time, each with its connection.

    All methods raise `MailError`. On cancellation they leave no connection and no thread.
    """

    def __init__(
        self,
        name: str,
        section: MailSection,
        password: str,
        *,
        tls: Tls | None = None,
        offload: Offload | None = None,
        connect: Connect = trio.open_tcp_stream,
    ) -> None:
        self.name = name
        self.section = section
        self._password = password
        self._tls = tls or Tls()
        self._offload = offload or Threads(_AT_ONCE)
        self._connect = connect
        self.last_used = 0.0
        self.last_error = ""

    async def search(self, query: MailQuery) -> MailsFound:
        """Return the newest mails that match, newest first."""
        return await self._reading(lambda imap: search_in(imap, query))

    async def new_since(
        self, folder: str, position: MailPosition | None, most: int
    ) -> tuple[MailPosition, tuple[FoundMail, ...]]:
        """Return the mails that arrived in a folder after a position, oldest first, and the new position.

        At most `most` are returned. Without a position, or if the server has numbered the folder anew, it is
        the present end, and no mail is returned.
        """
        return await self._reading(partial(new_since, folder=folder, position=position, most=most))

    async def fetch(self, folder: str, uid: int, validity: int | None = None) -> bytes:
        """Return a mail as it is stored. With `validity`, the folder must still have that UIDVALIDITY."""
        return await self._reading(
            partial(fetch, folder=folder, uid=uid, validity=validity, most=self.section.max_bytes)
        )

    async def folders(self) -> tuple[Folder, ...]:
        """Return the folders."""
        return await self._reading(ImapSession.folders)

    async def append(self, folder: str, raw: bytes, flags: Sequence[str] = ()) -> None:
        """Store a mail in the folder with this name or for this use (`drafts`, `sent`); never done twice."""
        chosen = {"drafts": self.section.drafts, "sent": self.section.sent}.get(folder, "") or folder

        def work(imap: ImapSession) -> None:
            imap.append(folder_in(imap, chosen), raw, flags)

        await self._with_imap(work)

    async def has_sent(self, message_id: str) -> bool | None:
        """Return True if the folder of sent mails has a mail with this Message-ID; None without a folder."""
        named = self.section.sent
        return await self._reading(partial(has_message, use="sent", named=named, message_id=message_id))

    async def has_draft(self, message_id: str) -> bool | None:
        """Return True if the folder of drafts has a mail with this Message-ID; None without a folder."""
        named = self.section.drafts
        return await self._reading(partial(has_message, use="drafts", named=named, message_id=message_id))

    async def send(self, mail: Outgoing, *, hand_over: HandOver, settle: Settle | None = None) -> SentMail:
        """Send a mail. `hand_over` is awaited before the line that ends its text; if it fails, nothing is
        sent.

        After that line, a cancelled call still waits a few seconds for the answer. `settle` gets the answer
        even then.

        Raises:
            MailError: It was not sent, or its `kind` is `unknown`: then nobody knows.
        """
        if self.section.smtp is None:
            raise MailError(
                "refused",
                "The mailbox {name} cannot send: it has no SMTP server.",
                "Set mail.{name}.smtp.",
                name=self.name,
            )
        async with self._smtp(self.section.smtp) as (line, smtp):
            await self._bounded(line, partial(smtp.begin, mail))
            await hand_over()
            ended = await _answer(partial(self._bounded, line, smtp.end), settle)
            await self._leave(line, smtp.quit)
            if isinstance(ended, MailError):
                raise ended
            return ended

    async def check(self) -> Health:
        """Log in at both servers, and list the folders. Nothing is read or sent."""
        folders = await self.folders()
        if self.section.smtp is None:
            return Health(folders, sends=False)
        async with self._smtp(self.section.smtp) as (line, smtp):
            await self._bounded(line, smtp.check)
        return Health(folders, sends=True)

    async def _reading(self, work: Callable[[ImapSession], T]) -> T:
        """Run work that only reads; once more if the connection breaks."""
        try:
            return await self._with_imap(work)
        except MailError as error:
            if error.kind != "unreachable":
                raise
        return await self._with_imap(work)

    async def _with_imap(self, work: Callable[[ImapSession], T]) -> T:
        with self._used():
            async with self._line(self.section.imap) as line:
                imap = ImapSession(line, self.section.max_bytes)
                with closing(imap):

                    def run() -> T:
                        imap.log_in(self.section.login, self._password)
                        return work(imap)

                    result = await self._bounded(line, run)
                    await self._leave(line, imap.log_out)
            return result

    @asynccontextmanager
    async def _smtp(self, address: str) -> AsyncIterator[tuple[MailLine, SmtpSession]]:
        """Log in at the SMTP server for a block; note the use, and the error that it ends with."""
        with self._used():
            async with self._line(address) as line:
                smtp = SmtpSession(line, self.section.timeout_s)
                with closing(smtp):
                    await self._bounded(line, partial(smtp.log_in, self.section.login, self._password))
                    yield line, smtp

    @asynccontextmanager
    async def _line(self, address: str) -> AsyncIterator[MailLine]:
        line = await open_line(address, await self._tls.context(), self.section.timeout_s, self._connect)
        try:
            yield line
        finally:
            line.close()

    async def _leave(self, line: MailLine, goodbye: Callable[[], None]) -> None:
        """Say goodbye within a short time; a server that does not answer is left all the same."""
        with suppress(MailError), trio.move_on_after(_CLOSE_S):
            await line.run(self._offload, goodbye)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Note the use of the mailbox, and the error that it ends with."""
        self.last_used = time.time()
        try:
            yield
        except MailError as error:
            self.last_error = error.message
            raise
        self.last_error = ""

    async def _bounded(self, line: MailLine, work: Callable[[], T]) -> T:
        """Run work in a thread, for a bounded time in all: a server could send one byte at a time."""
        try:
            with trio.fail_after(_TIMES * self.section.timeout_s):
                return await line.run(self._offload, work)
        except trio.TooSlowError:
            raise timed_out(f"{line.host}:{line.port}") from None


async def _answer(ask: Callable[[], Awaitable[SentMail]], settle: Settle | None) -> SentMail | MailError:
    """Return the answer to a mail that is handed over, after `settle` has stored it.

    If the call is cancelled, the answer has a few seconds to come.
    """
    answers: list[SentMail | MailError] = []
    failed: list[Exception] = []
    done = trio.Event()

    async def run(scope: trio.CancelScope) -> None:
        with scope:
            try:
                answers.append(await ask())
            except MailError as error:
                # Whatever broke the connection now: the server may have the mail.
                answers.append(error if error.kind == "refused" else unknown_outcome())
            try:
                if settle is not None:
                    await settle(answers[0])
            except Exception as error:  # noqa: BLE001 - raised again outside of the nursery
                failed.append(error)
        done.set()

    scope = trio.CancelScope(shield=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, scope)
        try:
            await done.wait()
        finally:
            scope.deadline = trio.current_time() + _ANSWER_S
    if failed:
        raise failed[0]
    return answers[0]
