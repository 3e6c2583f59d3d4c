"""Telegram as a channel: its connections, its two actors, and its services for chats."""

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

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.agent.tool import Tool
from rumi.agent.tools.send_file import SendFile as SendFileTool
from rumi.channels.channel import Channel, Process, RoutedPort
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
from rumi.channels.telegram.moves import Moves
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
from rumi.store.journal.inbox import MOST_MOVED, MovedGroups
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)

FILES_AT_ONCE: Final = 4
"""The maximum number of files that are read or written at once, and that are in memory."""

DELIVERIES: Final = 256
"""The maximum number of deliveries that wait; further ones wait for a place."""

FIRST_LOOK_S: Final = 5.0
"""How long Telegram may take to identify the bot before serving begins without the answer."""

POLLER = "telegram poller"
"""The worker that serves this place polls for all: Telegram answers one poll at a time."""

MOVES_S = 5.0
"""So old may be what a worker knows of the moves that others have stored."""

LEAVE_S = 5.0
"""How long replies that wait are sent before another worker serves their chats."""


class Telegram(Channel):
    """The bot as a channel, and the data that it needs."""

    name = "telegram"
    prefix = TELEGRAM

    def __init__(self, webhook: str | None = None, bot_name: str = "") -> None:
        """`webhook` is the address at which Telegram reaches the listener; without one it is polled.

        `bot_name` is the name that the configuration has for the bot, empty for the first one.
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
        self._moves_until = inf  # until then the moves are known: alone, this process knows all
        self._met: set[int] = set()  # groups whose messages came while the moves were known
        self.statistics = Statistics()
        self._serves: Callable[[str], bool] = lambda chat: True
        self._sender: ActorRef[SenderMessage] | None = None
        self._receiver: ActorRef[StopPolling] | None = None
        self._webhook = None if webhook is None else with_path(webhook, bot_name)
        self.deliveries = Deliveries(bot_name)

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Have the connections until the block ends. Telegram is asked nothing yet.

        Raises:
            ConfigError: There is no token, or it has an invalid form.
        """
        self._serves, self._part = process.serves, process.part
        home, settings, secrets = process.home, process.loaded.settings, process.loaded.secrets
        token = process.loaded.bots().get(self._bot_name)
        if token is None:
            raise ConfigError(
                f"{self._variable} is missing.",
                f"Get one from @BotFather and put {self._variable}=… into {home.root / '.env'}.",
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
                with trio.move_on_after(5, shield=True):
                    await files.aclose()
                    if transcriber is not None:
                        await transcriber.aclose()

    def connect(self, bot: Bot, who: Who, files: TelegramFiles, home: Home, *, voice: bool) -> None:
        """Use these connections: those of `open`, or others. `voice`: recordings can be transcribed."""
        self._bot = bot
        self._who = who
        self._files = files
        self._workspaces = home.workspaces
        self._voice = voice
        self.deliveries.secret = secret_of(bot.token)

    # The tree

    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        """Add the sender."""
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

    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        """Add the poller, or the webhook."""
        assert self._sender is not None
        strangers = Strangers(self._sender)
        presses = Presses(inbox, self._sender, strangers)
        self._moves.works = inbox.works
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
        """Return True if this process polls: one of several that share a database does, for each bot."""
        return self._serves(f"{POLLER} {self._bot_name}" if self._bot_name else POLLER)

    def _named(self, actor: str) -> str:
        """Return the name of the bot's own actor: those of further bots have the bot's name in theirs."""
        return f"{actor}-{self._bot_name}" if self._bot_name else actor

    def among_workers(self, reached: Callable[[str], RoutedPort]) -> None:
        """Take note that other workers receive messages too, and learn of moves."""
        self._moves_until = -inf

    async def _know_moves(self, journal: ActorRef[JournalMessage], groups: frozenset[int]) -> None:
        """Read the moves that other workers have stored: before the first messages of a group that come here,
        otherwise at most every `MOVES_S`.

        Telegram delivers a group's messages in order, and the first one under a new number is the move. So it
        is stored before this worker gets any other message of that number.
        """
        now = trio.current_time()
        if self._moves_until == inf or (groups <= self._met and now < self._moves_until):
            return
        try:
            self._moves.load(await journal.ask(MovedGroups()))
        except ActorError:  # then the messages cannot be stored either
            return
        if len(self._met) > MOST_MOVED:
            self._met.clear()
        self._met |= groups
        self._moves_until = now + MOVES_S

    def _say(self, words: Say) -> None:
        assert self._sender is not None
        with suppress(MailboxFull, ActorStopped):
            self._sender.tell_nowait(words)

    # Services for chats

    def owns(self, chat: str) -> bool:
        """Return True if the chat is one with this bot."""
        return self._moves.address_of(chat) is not None

    def tools_for(self, chat: str) -> tuple[Tool, ...]:
        """Return the tools that a chat has because its user is on Telegram."""
        return (self._sends_files(chat),)

    async def show(self, chat: str, paths: Sequence[str]) -> None:
        """Send the files; one that cannot be sent is logged."""
        for path in paths:
            sent = await self._sends_files(chat).call({"path": path})
            if not sent.ok:
                logger.warning("chat %s: %s", chat, sent.content)

    def _sends_files(self, chat: str) -> SendFileTool:
        send = partial(self._send_file, chat)
        return SendFileTool(self._workspaces / chat, send, self._reading, in_memory=self._in_memory)

    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Fetch an attachment; return the text about it for the model."""
        return await self._files.bring(chat, attachment)

    async def _send_file(self, chat: str, name: str, content: bytes) -> None:
        assert self._sender is not None
        await self._sender.ask(DeliverFile(chat, name, content))

    # The process

    async def introduce(self, say: Callable[[str], None]) -> None:
        """Say who the bot is, if Telegram answers soon.

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
            say(telegram_texts.nobody_allowed(self._who.default, self.account))

    async def stop_receiving(self) -> None:
        """Take no more updates; return when those that came are stored."""
        assert self._receiver is not None
        await self._receiver.ask(StopPolling())

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Send what waits in the chats of these partitions."""
        assert self._sender is not None
        await self._sender.ask(TakeChats(numbers))

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Send nothing more in the chats of these partitions."""
        assert self._sender is not None
        await self._sender.ask(LeaveChats(numbers, LEAVE_S))

    @property
    def limited(self) -> int:
        """Return how often Telegram asked this process to wait."""
        return self.statistics.limited

    def slow_down(self) -> None:
        """Send more slowly for a while."""
        self._limits.slow_down()

    def look(self, chats: Sequence[str]) -> None:
        """Send what waits in these chats."""
        assert self._sender is not None
        with suppress(MailboxFull, ActorStopped):
            self._sender.tell_nowait(LookFor(tuple(chats)))
        self.deliveries.albums_came()

    async def flush(self) -> None:
        """Return when no reply waits that could be sent now."""
        assert self._sender is not None
        await self._sender.ask(Flush())
