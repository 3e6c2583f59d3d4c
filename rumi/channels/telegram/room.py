"""Telegram's part of the process: its two actors, its services for chats, and its shutdown."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import trio
from telegram import Bot
from telegram.error import TelegramError

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.channels.telegram.api.bot import Me, introduce, open_bot
from rumi.channels.telegram.files import TelegramFiles
from rumi.channels.telegram.messages import Flush, PollerMessage, Say, SenderMessage, SendFile, StopPolling
from rumi.channels.telegram.moves import Moves
from rumi.channels.telegram.polling.content import Intake
from rumi.channels.telegram.polling.poller import Poller, PollerMemory
from rumi.channels.telegram.polling.presses import Presses
from rumi.channels.telegram.polling.reading import Who
from rumi.channels.telegram.polling.strangers import Strangers
from rumi.channels.telegram.sending.destination import Statistics
from rumi.channels.telegram.sending.limits import Limits
from rumi.channels.telegram.sending.sender import Sender
from rumi.chats import Hub, Inbox
from rumi.config import Loaded
from rumi.errors import ConfigError
from rumi.home import Home
from rumi.journal import Enclosure, JournalMessage, Threads
from rumi.models import Transcriber
from rumi.sandbox import Limits as SandboxLimits
from rumi.sandbox import prepare_workspace
from rumi.texts import Language
from rumi.tools import SendFile as SendFileTool
from rumi.tools import Tool

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 20.0
"""How long running turns may continue after a signal."""

REPORT_S: Final = 15.0
"""How long ending and reporting the remaining turns may then take."""

FLUSH_S: Final = 10.0
"""How long the last replies may take to reach Telegram; the next process sends the rest."""

FILES_AT_ONCE: Final = 4
"""The maximum number of files that are read or written at once, and that are in memory."""

LEARN_S: Final = 5.0
"""How long the extraction of facts from open sessions may then take."""

FIRST_LOOK_S: Final = 5.0
"""How long Telegram may take to identify the bot before serving begins without the answer."""


class Telegram:
    """The bot, and the data that it needs. `users` is how many people may talk to it."""

    def __init__(self, bot: Bot, who: Who, files: TelegramFiles, home: Home, *, voice: bool) -> None:
        self.users = len(who.allowed | who.admins)
        self._bot = bot
        self._who = who
        self._files = files
        self._workspaces = home.workspaces
        self._reading = Threads(FILES_AT_ONCE)
        self._in_memory = trio.CapacityLimiter(FILES_AT_ONCE)
        self._voice = voice
        self._memory = PollerMemory()
        self._limits = Limits()
        self._moves = Moves()
        self.statistics = Statistics()
        self._sender: ActorRef[SenderMessage] | None = None
        self._poller: ActorRef[PollerMessage] | None = None

    async def introduce(self) -> Me | None:
        """Return the bot's identity; None if Telegram does not answer soon.

        Raises:
            TokenRefused: Telegram does not know the token.
        """
        with trio.move_on_after(FIRST_LOOK_S):
            try:
                self._memory.me = await introduce(self._bot)
            except TelegramError:
                logger.info("Telegram cannot be reached yet")
        return self._memory.me

    # The tree

    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        """Add the sender, above the chats: their last replies still reach it."""
        self._sender = root.add(
            ChildSpec(
                "sender",
                lambda: Sender(
                    self._bot,
                    journal,
                    hub,
                    ended,
                    moves=self._moves,
                    limits=self._limits,
                    statistics=self.statistics,
                ),
                capacity=1024,
                shutdown=Sender.SHUTDOWN_S,
            )
        )

    def add_poller(self, root: Supervisor, inbox: Inbox) -> None:
        """Add the poller, below the chats: it ends first."""
        assert self._sender is not None
        strangers = Strangers(self._sender)
        presses = Presses(inbox, self._sender, strangers)
        intake = Intake(voice=self._voice)
        self._moves.works = inbox.works
        self._poller = root.add(
            ChildSpec(
                "poller",
                lambda: Poller(
                    self._bot,
                    inbox,
                    strangers,
                    presses,
                    self._who,
                    self._memory,
                    intake=intake,
                    random=Random(),
                    moves=self._moves,
                    say=self._say,
                ),
            )
        )

    def _say(self, words: Say) -> None:
        assert self._sender is not None
        with suppress(MailboxFull, ActorStopped):
            self._sender.tell_nowait(words)

    # Services for chats

    def tools_for(self, chat: str) -> tuple[Tool, ...]:
        """Return the tools that a chat has because its user is on Telegram."""
        workspace = self._workspaces / chat
        return (
            SendFileTool(workspace, partial(self._send_file, chat), self._reading, in_memory=self._in_memory),
        )

    async def bring(self, chat: str, enclosure: Enclosure) -> str:
        """Fetch an attachment; return the text about it for the model."""
        return await self._files.bring(chat, enclosure)

    async def _send_file(self, chat: str, name: str, content: bytes) -> None:
        assert self._sender is not None
        await self._sender.ask(SendFile(chat, name, content))

    # The end

    async def wind_down(self, inbox: Inbox) -> None:
        """Take no more updates, let turns finish or report them, send the last replies, extract facts. All
        bounded.

        Cancelled, it leaves the rest to the end of the tree and to the next process.
        """
        assert self._poller is not None
        assert self._sender is not None
        with _as_far_as_possible(FLUSH_S):
            await self._poller.ask(StopPolling())
        with _as_far_as_possible(PATIENCE_S + REPORT_S):
            await inbox.wind_down(PATIENCE_S, REPORT_S)
        with _as_far_as_possible(FLUSH_S):
            await self._sender.ask(Flush())
        with _as_far_as_possible(LEARN_S):  # the rest at the next start
            if await inbox.ask_to_learn():
                await inbox.learn_now()


@contextmanager
def _as_far_as_possible(seconds: float) -> Iterator[None]:
    """A step of the shutdown. If an actor fails in it, the next step still runs."""
    try:
        with trio.move_on_after(seconds):
            yield
    except ActorError as error:
        logger.warning("the end was not orderly: %r", error)


@asynccontextmanager
async def open_telegram(
    home: Home, loaded: Loaded, limits: SandboxLimits, user: tuple[int, int], default: Language
) -> AsyncIterator[Telegram]:
    """Telegram's part, with its connections until the block ends. It asks Telegram nothing yet.

    Users' files will belong to the sandbox's `user`, a uid and a gid. `default` is the language of people
    whose Telegram does not report theirs.

    Raises:
        ConfigError: There is no token, or it has an invalid form.
    """
    given, secrets = loaded.settings.telegram, loaded.secrets
    if secrets.telegram_token is None:
        raise ConfigError(
            "TELEGRAM_TOKEN is missing.",
            f"Get one from @BotFather and put TELEGRAM_TOKEN=… into {home.root / '.env'}.",
        )
    who = Who(frozenset(given.allowed_users), frozenset(given.admins), loaded.settings.language, default)

    def workspace(chat: str) -> Path:
        return prepare_workspace(home.root, chat, *user)

    async with open_bot(secrets.telegram_token.reveal(), secrets.telegram_base_url) as bot:
        key = secrets.groq_api_key
        transcriber = Transcriber(key.reveal(), secrets.groq_base_url) if key is not None else None
        files = TelegramFiles(
            bot,
            workspace=workspace,
            user=user,
            limits=limits,
            spool=home.run,
            offload=Threads(FILES_AT_ONCE),
            transcriber=transcriber,
            in_memory=trio.CapacityLimiter(FILES_AT_ONCE),
        )
        try:
            yield Telegram(bot, who, files, home, voice=transcriber is not None)
        finally:
            with trio.move_on_after(5, shield=True):
                await files.aclose()
                if transcriber is not None:
                    await transcriber.aclose()
