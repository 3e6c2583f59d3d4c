"""The mail channel: its mailbox, its receiver and its sender, and the services that it offers chats."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Final

import trio
from typing_extensions import override

from actors import ActorRef, ChildSpec, Supervisor
from rumi.agent.tool import Tool
from rumi.agent.tools.send_file import SendFile as SendFileTool
from rumi.channels.channel import Process
from rumi.channels.mail.content import HtmlToText
from rumi.channels.mail.delivery import Office
from rumi.channels.mail.files import ChannelMailbox, MailFiles
from rumi.channels.mail.intake import IntakeFigures, MailIntake, MailPerson, MailSenders
from rumi.channels.mail.keys import DnsKeys
from rumi.channels.mail.sender import MailSender
from rumi.channels.mail.signatures import Keys
from rumi.channels.mail.watcher import MailWatcher, StopWatching, WatchedMailbox, WatchMemory
from rumi.channels.sending_channel import SendingChannel
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import ConfigError
from rumi.platform.chat_ids import MAIL
from rumi.platform.config.people import channel_mailbox
from rumi.platform.config.schema import MailSection
from rumi.platform.config.secrets import mail_key
from rumi.platform.texts import mail as mail_texts
from rumi.platform.threads import Offload, Threads
from rumi.services.mail.client import Mailbox
from rumi.services.mail.messages import FoundMail
from rumi.services.mail.writing import Recipient
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.unreachable import mark_unreachable
from rumi.texts import Language
from rumi.web.readers.files.reading import Looks as DocumentReader
from rumi.web.readers.files.reading import ViewLimits

logger = logging.getLogger(__name__)

FOLDER: Final = "INBOX"

MOST_FILE_BYTES: Final = 15_000_000
"""Maximum size of a file that is sent, in bytes. Encoded, it is a third larger; many servers take 20 MB."""

WATCHER: Final = "mail watcher"
"""Partition key of watching a mailbox: the worker that serves it watches for all workers."""


class MailChannel(SendingChannel):
    """The channel of Rumi's own mailbox."""

    name = "mail"
    prefix = MAIL

    def __init__(
        self,
        box: ChannelMailbox | None = None,
        keys: Keys | None = None,
        now: Callable[[], float] = time.time,
        *,
        html: HtmlToText | None = None,
        poll_s: float | None = None,
        random: Random | None = None,
        offload: Offload | None = None,
    ) -> None:
        """Create the channel. By default it uses the configured mailbox and the machine's name servers.

        `now` returns the time in seconds since 1970. `poll_s` overrides the configured interval.
        """
        self._box = box
        self._keys = keys or DnsKeys()
        self._documents = DocumentReader(ViewLimits())
        self._html = html or self._html_to_text
        self._now = now
        self._poll_s = poll_s
        self._random = random or Random()
        self._offload = offload or Threads(2)
        self._process: Process
        self._section: MailSection
        self._files: MailFiles
        self._language: Language = "en"
        self._people: dict[str, MailPerson] = {}
        self._figures = IntakeFigures()
        self._memory = WatchMemory()
        self._reading = Threads(2)
        self._in_memory = trio.CapacityLimiter(2)
        self._watcher: ActorRef[StopWatching] | None = None

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Read the configuration. Opening makes no connection.

        Raises:
            ConfigError: No mailbox is Rumi's own, or its password is missing.
        """
        settings = process.loaded.settings
        found = channel_mailbox(settings)
        if found is None:
            raise ConfigError("No mailbox is Rumi's own.", "Set mail.NAME.channel = true for one.")
        name, self._section = found
        self._process, self._language = process, process.language
        self.account = f"mail.{name}"
        self._people = {
            address.lower(): MailPerson(person, section.role == "admin")
            for person, section in settings.people.items()
            for address in section.mail
        }
        if self._box is None:
            self._box = Mailbox(name, self._section, password_of(process, name))
        most = self._section.max_bytes
        self._files = MailFiles(self._box, process, self._reading, self._in_memory, most)
        yield

    # The tree

    @override
    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        assert self._box is not None
        section = self._section
        office = Office(
            self._box,
            Recipient(section.address, section.name or "Rumi"),
            self._address_of,
            self._now,
            save_sent=section.save_sent,
            language=self._language,
        )
        self._ended = ended
        self._sender = root.add(
            ChildSpec(
                "mail-sender",
                lambda: MailSender(
                    office,
                    journal,
                    hub,
                    ended,
                    owns=self.owns,
                    serves=self._process.serves,
                    random=self._random,
                ),
                capacity=1024,
                shutdown=MailSender.SHUTDOWN_S,
            )
        )

    @override
    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        assert self._box is not None
        box, section = self._box, self._section

        async def fetch(found: FoundMail) -> bytes:
            return await box.fetch(found.folder, found.uid, found.validity)

        async def unreachable(chat: str, why: str) -> None:
            await journal.ask(mark_unreachable(chat, why))
            await self._ended(chat)

        intake = MailIntake(
            MailSenders(self._people, section.address, section.signed_by, self._language),
            accept=inbox.accept_mail,
            fetch=fetch,
            unreachable=unreachable,
            ask=journal.ask,
            keys=self._keys,
            html=self._html,
            offload=self._offload,
            now=self._now,
            figures=self._figures,
        )
        poll_s = section.poll_s if self._poll_s is None else self._poll_s
        account = account_of(section)
        watched = WatchedMailbox(self.account, account, box, {FOLDER: intake.take_all}, poll_s, self._memory)
        self._watcher = root.add(
            ChildSpec(
                "mail",
                lambda: MailWatcher(
                    watched,
                    journal.ask,
                    serves=lambda: self._process.serves(f"{WATCHER} {account}"),
                    figures=self.figures,
                    random=self._random,
                ),
            )
        )

    @property
    def looked(self) -> bool:
        """True if the mailbox was read once: mails that come from then on are taken."""
        return self._memory.looked

    def figures(self) -> Mapping[str, object]:
        """Return what became of mails since the process began, and why mails of people were not accepted."""
        flaws = {f"unproved: {flaw}": count for flaw, count in self._figures.flaws.items()}
        return {**self._figures.counts, **flaws}

    async def _html_to_text(self, html: str) -> str:
        async with self._documents.slots:
            return await self._documents.html(html)

    # Services for chats

    @override
    def tools_for(self, chat: str) -> tuple[Tool, ...]:
        """Return the tool with which the model sends files to the chat."""
        return (self._sends_files(chat),)

    @override
    async def show(self, chat: str, paths: Sequence[str]) -> None:
        """Send the files to the chat; log each file that cannot be sent."""
        for path in paths:
            sent = await self._sends_files(chat).call({"path": path})
            if not sent.ok:
                logger.warning("chat %s: %s", chat, sent.content)

    @override
    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Fetch a file of a mail again, and store it in the chat's workspace."""
        return await self._files.bring(chat, attachment)

    def _sends_files(self, chat: str) -> SendFileTool:
        return SendFileTool(
            partial(self._process.files.shown, chat),
            partial(self._send_file, chat),
            self._reading,
            in_memory=self._in_memory,
            max_bytes=MOST_FILE_BYTES,
        )

    def _address_of(self, chat: str) -> str:
        """Return an address of the chat's person, for replies to which no mail is known."""
        name = chat.removeprefix(MAIL.text).partition("_")[0]
        return next((address for address, person in self._people.items() if person.name == name), "")

    # The process

    @override
    async def introduce(self, say: Callable[[str], None]) -> None:
        await trio.lowlevel.checkpoint()
        people = len({person.name for person in self._people.values()})
        say(mail_texts.serving(self._language, self._section.address, people))

    @override
    async def stop_receiving(self) -> None:
        assert self._watcher is not None
        await self._watcher.ask(StopWatching())


def account_of(section: MailSection) -> str:
    """Return the name under which positions in a mailbox are stored."""
    return f"{section.login}@{section.imap}"


def password_of(process: Process, name: str) -> str:
    """Return the password of a mailbox.

    Raises:
        ConfigError: It is missing, or the command that prints it failed.
    """
    secrets, key = process.loaded.secrets, mail_key(name)
    if (fault := secrets.faults.get(key)) is not None:
        raise fault
    secret = secrets.keys.get(key)
    if secret is None:
        raise ConfigError("The mailbox {name} has no password.", "Set it with: rumi setup", name=name)
    return secret.reveal()
