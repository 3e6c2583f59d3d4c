"""The Telegram channel: its connections, its sender and receiver, and the services that it offers chats."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from typing import Final

import trio
from telegram import Bot
from telegram.error import TelegramError
from typing_extensions import override

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.agent.tool import Tool
from rumi.agent.tools.send_file import SendFile as SendFileTool
from rumi.channels.channel import Channel, Process, RoutedPort
from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import introduce, open_bot
from rumi.channels.telegram.files.bring import TelegramFiles
from rumi.channels.telegram.messages import (
    DeliverFile,
    Flush,
    LeaveChats,
    LookFor,
    Say,
    SenderMessage,
    StopPolling,
    TakeChats,
)
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.poller import Poller
from rumi.channels.telegram.receiving.presses import Presses
from rumi.channels.telegram.receiving.reading import Who
from rumi.channels.telegram.receiving.receiver import ReceiverMemory
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.webhook import Deliveries, Webhook, secret_of, with_path
from rumi.channels.telegram.sending.destination import Statistics
from rumi.channels.telegram.sending.limits import SendLimits
from rumi.channels.telegram.sending.sender import Sender
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import ConfigError
from rumi.models.transcription import Transcriber
from rumi.platform.chat_ids import TELEGRAM
from rumi.platform.config.people import listed
from rumi.platform.config.schema import TelegramBotSection
from rumi.platform.home import Home
from rumi.platform.redact import Redactor
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.threads import Threads
from rumi.sandbox.workspace import prepare_workspace
from rumi.store.journal.inbox import MOST_MOVED, moved_groups
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import gettext

logger = logging.getLogger(__name__)

FILES_AT_ONCE: Final = 4
"""Maximum number of files that are read, written or held in memory at the same time."""

DELIVERIES: Final = 256
"""Mailbox capacity of the webhook actor. Deliveries above it wait for a free slot."""

FIRST_LOOK_S: Final = 5.0
"""Maximum time for Telegram to identify the bot at startup, in seconds. After that, serving begins without
the bot's identity.
"""

POLLER = "telegram poller"
"""Partition key of polling. The worker that serves this key polls for all workers, because Telegram answers
only one poll at a time.
"""

MOVES_S = 5.0
"""Maximum age of a worker's knowledge of moves that other workers stored, in seconds."""

LEAVE_S = 5.0
"""Maximum time for sending queued replies before another worker takes over their chats, in seconds."""


class Telegram(Channel):
    """The channel of one Telegram bot. Holds the state that the bot's actors share."""

    name = "telegram"
    prefix = TELEGRAM

    def __init__(self, webhook: str | None = None, bot_name: str = "") -> None:
        """Create the channel of one bot.

        `webhook` is the public URL at which Telegram reaches the listener; without it, the channel polls.
        `bot_name` is the bot's name in the configuration, empty for the first bot.
        """
        self._bot_name = bot_name
        self._variable = TelegramBotSection.variable(bot_name)
        self.account = TelegramBotSection.section(bot_name)
        self._bot: Bot
        self._who: Who
        self._files: TelegramFiles
        self._workspaces: Path
        self._voice: bool
        self._reading = Threads(FILES_AT_ONCE)
        self._in_memory = trio.CapacityLimiter(FILES_AT_ONCE)
        self._part: Callable[[], float] = lambda: 1.0
        self._limits = SendLimits(part=lambda: self._part())
        self._memory = ReceiverMemory(variable=self._variable)
        self._moves = Moves(bot_name)
        self._moves_until = inf  # when moves must be read again; never for a single process
        self._met: set[int] = set()  # groups that had messages since the moves were first read
        self.statistics = Statistics()
        self._serves: Callable[[str], bool] = lambda chat: True
        self._sender: ActorRef[SenderMessage] | None = None
        self._receiver: ActorRef[StopPolling] | None = None
        self._webhook = None if webhook is None else with_path(webhook, bot_name)
        self.deliveries = Deliveries(bot_name)

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Open the connections, and close them when the block ends. Opening sends no request to Telegram.

        Raises:
            ConfigError: The token is missing or malformed.
        """
        self._serves, self._part = process.serves, process.part
        home, settings, secrets = process.home, process.loaded.settings, process.loaded.secrets
        token = process.loaded.bots().get(self._bot_name)
        if token is None:
            raise ConfigError(
                "{variable} is missing.",
                "Get one from @BotFather and put {variable}=… into {root}.",
                variable=self._variable,
                root=home.root / ".env",
            )
        people = listed(settings, self._bot_name)
        admins = frozenset(id for id, (_, role) in people.items() if role == "admin")
        who = Who(frozenset(people), admins, settings.language, process.language)

        def workspace(chat: str) -> Path:
            return prepare_workspace(home.root, chat, *process.user)

        async with open_bot(token.reveal(), secrets.telegram_base_url, variable=self._variable) as bot:
            key = secrets.groq_api_key
            transcriber = None
            if key is not None:
                redact = Redactor(secrets.values())
                transcriber = Transcriber(key.reveal(), secrets.groq_base_url, redact=redact)
            files = TelegramFiles(
                bot,
                workspace=workspace,
                user=process.user,
                limits=process.limits,
                spool=home.run,
                offload=Threads(FILES_AT_ONCE),
                transcriber=transcriber,
                in_memory=trio.CapacityLimiter(FILES_AT_ONCE),
            )
            self.connect(bot, who, files, home, voice=transcriber is not None)
            try:
                yield
            finally:
                # Shielded, because the block usually ends by cancellation; bounded, so that a stuck
                # connection cannot delay the shutdown.
                with trio.move_on_after(5, shield=True):
                    await files.aclose()
                    if transcriber is not None:
                        await transcriber.aclose()

    def connect(self, bot: Bot, who: Who, files: TelegramFiles, home: Home, *, voice: bool) -> None:
        """Use the given connections, which `open` or another caller has opened.

        `voice` is True if voice recordings can be transcribed.
        """
        self._bot = bot
        self._who = who
        self._files = files
        self._workspaces = home.workspaces
        self._voice = voice
        self.deliveries.secret = secret_of(bot.token)

    @override
    def admin_chats(self) -> Sequence[str]:
        return tuple(self._moves.chat_of(admin) for admin in sorted(self._who.admins))

    # The tree

    @override
    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        self._sender = root.add(
            ChildSpec(
                self._named("sender"),
                lambda: Sender(
                    self._bot,
                    journal,
                    hub,
                    ended,
                    moves=self._moves,
                    limits=self._limits,
                    statistics=self.statistics,
                    serves=self._serves,
                ),
                capacity=1024,
                shutdown=Sender.SHUTDOWN_S,
            )
        )

    @override
    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        """Add the webhook actor if a webhook URL is configured; otherwise add the poller."""
        assert self._sender is not None
        strangers = Strangers(self._sender)
        presses = Presses(inbox.chats, self._sender, strangers)
        self._moves.works = inbox.chats.works
        intake = Intake(
            inbox,
            strangers,
            presses,
            self._who,
            moves=self._moves,
            hears=self._voice,
            know_moves=partial(self._know_moves, journal),
            say=self._say,
        )
        memory, url = self._memory, self._webhook
        if url is None:
            self._receiver = root.add(
                ChildSpec(
                    self._named("poller"),
                    lambda: Poller(self._bot, intake, memory, random=Random(), polls=self._polls),
                )
            )
            return
        secret = self.deliveries.secret
        self._receiver = self.deliveries.actor = root.add(
            ChildSpec(
                self._named("webhook"),
                lambda: Webhook(self._bot, intake, memory, url=url, secret=secret, random=Random()),
                capacity=DELIVERIES,
            )
        )

    def _polls(self) -> bool:
        """Return True if this process polls.

        If several worker processes share a database, only one of them polls for each bot.
        """
        return self._serves(f"{POLLER} {self._bot_name}" if self._bot_name else POLLER)

    def _named(self, actor: str) -> str:
        """Return the id for one of this bot's actors. An additional bot's name is appended to the id."""
        return f"{actor}-{self._bot_name}" if self._bot_name else actor

    @override
    def among_workers(self, reached: Callable[[str], RoutedPort]) -> None:
        """From now on, read groups' new numbers from the journal, because other workers store some there."""
        self._moves_until = -inf

    async def _know_moves(self, journal: ActorRef[JournalMessage], groups: frozenset[int]) -> None:
        """Read the moves that other workers stored. A move gives a group a new Telegram number.

        Moves are always read before this process handles the first messages of a group, and otherwise at
        most once in `MOVES_S` seconds. Telegram delivers a group's messages in order, and the first message
        under a new number announces the move. So the move is stored before this worker gets any other message
        with that number.
        """
        now = trio.current_time()
        if self._moves_until == inf or (groups <= self._met and now < self._moves_until):
            return
        try:
            self._moves.load(await journal.ask(moved_groups()))
        except ActorError:  # then the messages cannot be stored either
            return
        if len(self._met) > MOST_MOVED:
            # A bound on memory. Forgetting a group only costs one more query for its next message.
            self._met.clear()
        self._met |= groups
        self._moves_until = now + MOVES_S

    def _say(self, words: Say) -> None:
        assert self._sender is not None
        with suppress(MailboxFull, ActorStopped):
            self._sender.tell_nowait(words)

    # Services for chats

    @override
    def owns(self, chat: str) -> bool:
        """Return True if the chat belongs to this bot."""
        return self._moves.address_of(chat) is not None

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

    def _sends_files(self, chat: str) -> SendFileTool:
        send = partial(self._send_file, chat)
        return SendFileTool(self._workspaces / chat, send, self._reading, in_memory=self._in_memory)

    @override
    async def bring(self, chat: str, attachment: Attachment) -> str:
        return await self._files.bring(chat, attachment)

    async def _send_file(self, chat: str, name: str, content: bytes) -> None:
        assert self._sender is not None
        await self._sender.ask(DeliverFile(chat, name, content))

    # The process

    @override
    async def introduce(self, say: Callable[[str], None]) -> None:
        """Print the number of allowed users, and the bot's name if Telegram answers in time.

        Raises:
            TokenRefused: Telegram does not know the token.
        """
        with trio.move_on_after(FIRST_LOOK_S):
            try:
                self._memory.me = await introduce(self._bot, self._variable)
            except TelegramError:
                logger.info("Telegram cannot be reached yet")
        me, users = self._memory.me, len(self._who.allowed | self._who.admins)
        say(telegram_texts.serving(self._who.default, me.username if me is not None else "", users))
        if not users:
            say(
                gettext(
                    self._who.default,
                    "Nobody may talk to it yet. Write to the bot: it tells you your id. Put that "
                    "into config.toml: [{section}] allowed_users = [YOUR_ID]",
                    section=self.account,
                )
            )

    @override
    async def stop_receiving(self) -> None:
        assert self._receiver is not None
        await self._receiver.ask(StopPolling())

    @override
    async def take_over(self, numbers: frozenset[int]) -> None:
        assert self._sender is not None
        await self._sender.ask(TakeChats(numbers))

    @override
    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        assert self._sender is not None
        await self._sender.ask(LeaveChats(numbers, LEAVE_S))

    @property
    @override
    def limited(self) -> int:
        return self.statistics.limited

    @override
    def slow_down(self) -> None:
        self._limits.slow_down()

    @override
    def look(self, chats: Sequence[str]) -> None:
        """Send the undelivered replies of these chats, and check for album parts that other workers stored.

        If an actor's mailbox is full, the request to that actor is dropped.
        """
        assert self._sender is not None
        with suppress(MailboxFull, ActorStopped):
            self._sender.tell_nowait(LookFor(tuple(chats)))
        self.deliveries.albums_came()

    @override
    async def flush(self) -> None:
        assert self._sender is not None
        await self._sender.ask(Flush())
