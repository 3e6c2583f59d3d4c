"""The Telegram channel: its connections, its sender and receiver, and the services that it offers chats."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from random import Random
from typing import Final

import trio
from telegram import Bot
from telegram.error import TelegramError
from typing_extensions import override

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.agent.tool import Tool
from rumi.agent.tools.send_file import SendFile as SendFileTool
from rumi.channels.channel import Process, RoutedPort
from rumi.channels.sending import DeliverFile
from rumi.channels.sending_channel import SendingChannel
from rumi.channels.spoken import speakable
from rumi.channels.takers import Taker
from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import introduce, open_bot
from rumi.channels.telegram.files.bring import TelegramFiles
from rumi.channels.telegram.messages import Say, SenderMessage, StopPolling
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.poller import Poller
from rumi.channels.telegram.receiving.presses import Presses
from rumi.channels.telegram.receiving.reading import Who
from rumi.channels.telegram.receiving.receiver import ReceiverMemory
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.webhook import Deliveries, Webhook, secret_of, with_path
from rumi.channels.telegram.sending.destination import Statistics
from rumi.channels.telegram.sending.limits import SendLimits
from rumi.channels.telegram.sending.quiet import QuietGroups
from rumi.channels.telegram.sending.sender import Sender
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import ConfigError, RumiError
from rumi.models.speech import Speaks
from rumi.platform.chat_ids import TELEGRAM
from rumi.platform.config.groups import Groups
from rumi.platform.config.people import listed
from rumi.platform.config.schema import TelegramBotSection, VoiceSection
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts import voice as voice_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.threads import Threads
from rumi.sandbox.chat_files import ChatFiles
from rumi.store.journal.inbox import MOST_MOVED, moved_groups
from rumi.store.journal.records import Attachment
from rumi.store.journal.schedules import zone_of
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language, gettext, translate

logger = logging.getLogger(__name__)

FILES_AT_ONCE: Final = 4
"""Maximum number of files that are read, written or held in memory at the same time."""

DELIVERIES: Final = 256
"""Mailbox capacity of the webhook actor. Deliveries above it wait for a free slot."""

SPOKEN_AT_ONCE: Final = 4
"""Maximum number of answers of all chats that are spoken and sent at the same time."""

QUICKLY_READ: Final = 2_000
"""Length of an answer, in characters, up to which its spoken part is chosen in the event loop."""

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


class Telegram(SendingChannel):
    """The channel of one Telegram bot. Holds the state that the bot's actors share."""

    name = "telegram"
    prefix = TELEGRAM

    def __init__(
        self, webhook: str | None = None, bot_name: str = "", now: Callable[[], float] = time.time
    ) -> None:
        """Create the channel of one bot.

        `webhook` is the public URL at which Telegram reaches the listener; without it, the channel polls.
        `bot_name` is the bot's name in the configuration, empty for the first bot. `now` returns the time in
        seconds since 1970.
        """
        self._now = now
        self._bot_name = bot_name
        self._variable = TelegramBotSection.variable(bot_name)
        self.account = TelegramBotSection.section(bot_name)
        self._bot: Bot
        self._who: Who
        self._files: TelegramFiles
        self._workspaces: ChatFiles
        self._voice: bool
        self._speaker: Speaks | None = None
        self._speech_chars = VoiceSection().speech_chars
        self._speaking = trio.CapacityLimiter(SPOKEN_AT_ONCE)
        self._choosing = Threads(1)
        self._told_silent: set[str] = set()  # chats that know that speech fails
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

    @override
    def deliveries_taken(self) -> Sequence[Taker]:
        return () if self._webhook is None else (self.deliveries,)

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
        groups = Groups(settings.groups)
        who = Who(frozenset(people), admins, settings.language, process.language, groups)

        async with open_bot(token.reveal(), secrets.telegram_base_url, variable=self._variable) as bot:
            transcriber = None if process.media is None else process.media.transcriber
            speaker = None if process.media is None else process.media.speaker
            self._speech_chars = settings.voice.speech_chars
            files = TelegramFiles(
                bot,
                workspace=process.files.ready,
                user=process.user,
                limits=process.limits,
                spool=home.run,
                offload=Threads(FILES_AT_ONCE),
                transcriber=transcriber,
                in_memory=trio.CapacityLimiter(FILES_AT_ONCE),
            )
            of_chats = process.files
            self.connect(bot, who, files, of_chats, voice=transcriber is not None, speaker=speaker)
            try:
                yield
            finally:
                # Shielded, because the block usually ends by cancellation; bounded, so that a stuck
                # connection cannot delay the shutdown.
                with trio.move_on_after(5, shield=True):
                    await files.aclose()

    def connect(
        self,
        bot: Bot,
        who: Who,
        files: TelegramFiles,
        of_chats: ChatFiles,
        *,
        voice: bool,
        speaker: Speaks | None = None,
    ) -> None:
        """Use the given connections, which `open` or another caller has opened.

        `voice` is True if voice recordings can be transcribed. `speaker` speaks answers, None if nothing can.
        """
        self._bot = bot
        self._who = who
        self._files = files
        self._workspaces = of_chats
        self._voice = voice
        self._speaker = speaker
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

        async def zone_in_journal(owner: str) -> str:
            return await journal.ask(zone_of(owner))

        quiet = QuietGroups(self._who.groups, self._moves, zone_in_journal, self._now)
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
                    quiet=quiet,
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
    def names_of(self, chat: str) -> tuple[str, ...]:
        """Return the ids that the group's numbers give the chat: a group that moves gets another number."""
        address = self._moves.address_of(chat)
        return (chat,) if address is None else self._moves.names_of(address)

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
    def speaks(self, chat: str) -> bool:
        return self._speaker is not None

    @override
    async def speak(self, chat: str, text: str, language: Language) -> None:
        """Send an answer as a voice message. The first failure is told in the chat, the next ones are not."""
        if self._speaker is None:
            return
        choose = partial(speakable, text, self._speech_chars, language)
        # In a thread, as for a long reply: a hostile text takes half a second.
        spoken = choose() if len(text) <= QUICKLY_READ else await self._choosing(choose)
        if not spoken:
            return
        assert self._sender is not None
        try:
            async with self._speaking:  # held until the speech is sent, because it is in memory until then
                speech = await self._speaker.speak(spoken)
                await self._sender.ask(
                    DeliverFile(chat, f"answer.{speech.format}", speech.content, spoken=True)
                )
        except RumiError as error:
            if chat not in self._told_silent:
                self._told_silent.add(chat)
                self._say(Say(chat, voice_texts.not_spoken(language, error_text(language, error))))
            raise
        self._told_silent.discard(chat)

    def _sends_files(self, chat: str) -> SendFileTool:
        send = partial(self._send_file, chat)
        return SendFileTool(
            partial(self._workspaces.shown, chat), send, self._reading, in_memory=self._in_memory
        )

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
        language = self._who.default
        say(telegram_texts.serving(language, me.username if me is not None else "", users))
        if me is not None and not me.reads_groups and self._who.groups.any_hears_all:
            deaf, hear = telegram_texts.deaf_in_groups(me.username), telegram_texts.HEAR_ALL
            say(f"⚠️ {translate(language, deaf)}. {translate(language, hear)}")
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
        super().look(chats)
        self.deliveries.albums_came()
