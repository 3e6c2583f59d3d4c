"""The Matrix channel: the connection of one account, its receiver and its sender, and services for chats."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import trio
from typing_extensions import override

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.agent.tool import Tool
from rumi.agent.tools.send_file import SendFile as SendFileTool
from rumi.channels.channel import Process
from rumi.channels.matrix.address import MatrixAccount
from rumi.channels.matrix.api import MatrixApi, MatrixError, open_api
from rumi.channels.matrix.files import MatrixFiles
from rumi.channels.matrix.growing import GrowingTimes
from rumi.channels.matrix.intake import MatrixIntake, MatrixPeople
from rumi.channels.matrix.limits import AccountLimits
from rumi.channels.matrix.rooms import Rooms
from rumi.channels.matrix.sender import MatrixSender, SayInRoom
from rumi.channels.matrix.syncer import POLL_S, MatrixSyncer, MatrixTokenRefused, StopSyncing, SyncMemory
from rumi.channels.matrix.wire import AccountWire
from rumi.channels.sending import DeliverFile
from rumi.channels.sending_channel import SendingChannel
from rumi.channels.spoken import speakable
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import ConfigError, RumiError
from rumi.models.speech import Speaks
from rumi.platform.chat_ids import MATRIX
from rumi.platform.config.people import matrix_users
from rumi.platform.config.schema import VoiceSection
from rumi.platform.config.secrets import matrix_key
from rumi.platform.extras import is_installed
from rumi.platform.texts import matrix as matrix_texts
from rumi.platform.threads import Threads
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.chat_files import ChatFiles
from rumi.store.journal.matrix import RoomPlace
from rumi.store.journal.records import Attachment
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.unreachable import mark_unreachable
from rumi.texts import Language

if TYPE_CHECKING:  # they need the extra `e2e`
    from rumi.channels.matrix.encryption.encryption import RoomEncryption
    from rumi.channels.matrix.encryption.key_store import Device

logger = logging.getLogger(__name__)

FILES_AT_ONCE: Final = 4
FIRST_LOOK_S: Final = 5.0
"""Maximum time for the homeserver to answer at the start, in seconds."""

SYNCER: Final = "matrix sync"
"""Partition key of syncing an account: the worker that serves it syncs for all workers."""


class MatrixChannel(SendingChannel):
    """The channel of one account. Holds the state that its actors share."""

    name = "matrix"
    prefix = MATRIX

    def __init__(
        self,
        account_name: str,
        now: Callable[[], float] = time.time,
        *,
        random: Random | None = None,
        poll_s: float = POLL_S,
        times: GrowingTimes | None = None,
        late_s: float = 120.0,
    ) -> None:
        """Create the channel of the account in `[matrix.ACCOUNT_NAME]`."""
        self.account = f"matrix.{account_name}"
        self._name = account_name
        self._now = now
        self._random = random or Random()
        self._poll_s = poll_s
        self._times = times
        self._late_s = late_s
        self._wire: AccountWire
        self._rooms: Rooms
        self._people: MatrixPeople
        self._files: MatrixFiles | None = None
        self._workspaces: ChatFiles
        self._speaker: Speaks | None = None
        self._speech_chars = VoiceSection().speech_chars
        self._part: Callable[[], float] = lambda: 1.0
        self._limits = AccountLimits(lambda: self._part())
        self._memory = SyncMemory()
        self._reading = Threads(FILES_AT_ONCE)
        self._in_memory = trio.CapacityLimiter(FILES_AT_ONCE)
        self._serves: Callable[[str], bool] = lambda chat: True
        self._ended: Callable[[str], Awaitable[None]]
        self._syncer: ActorRef[StopSyncing] | None = None

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Open the connections, and close them when the block ends. Opening makes no request.

        Raises:
            ConfigError: The token is missing.
        """
        settings, secrets = process.loaded.settings, process.loaded.secrets
        section, key = settings.matrix[self._name], matrix_key(self._name)
        if (fault := secrets.faults.get(key)) is not None:
            raise fault
        token = secrets.keys.get(key)
        if token is None:
            raise ConfigError(
                "The account matrix.{name} has no token.", "Set it with: rumi setup", name=self._name
            )
        self._serves, self._part = process.serves, process.part
        transcriber = None if process.media is None else process.media.transcriber
        self._speaker = None if process.media is None else process.media.speaker
        self._speech_chars = settings.voice.speech_chars
        users = {user: role for user, (_, role) in matrix_users(settings, self._name).items()}
        people = MatrixPeople(users, section, process.language, transcriber is not None)
        async with open_api(section.homeserver, token.reveal(), section.user) as api:
            self.connect(api, people, process.files)
            encryption = self._encryption(process, token.reveal())
            self._files = MatrixFiles(
                api,
                workspace=process.files.ready,
                user=process.user,
                limits=process.limits,
                spool=process.home.run,
                offload=Threads(FILES_AT_ONCE),
                transcriber=transcriber,
                in_memory=trio.CapacityLimiter(FILES_AT_ONCE),
                max_bytes=section.max_bytes,
            )
            try:
                yield
            finally:
                if encryption is not None:
                    await encryption.close()

    def _encryption(self, process: Process, token: str) -> "RoomEncryption | None":
        """Prepare the keys of the account; return None if this process cannot read encrypted rooms."""
        if process.loaded.settings.store.url:
            # One device has one state of its keys, which one process changes; workers share none.
            self._wire.unreadable = matrix_texts.encrypted_workers
            return None
        if not is_installed("e2e"):
            return None
        from rumi.channels.matrix.encryption.encryption import RoomEncryption

        path = process.home.root / "matrix" / f"{self._name}.db"
        encryption = RoomEncryption(
            self._wire.api,
            self._rooms,
            path,
            token,
            self._people.may_talk,
            now=self._now,
            late_s=self._late_s,
        )
        encryption.tell, encryption.unread = self._tell_device, self._tell_unread
        self._wire.encryption = encryption
        return encryption

    def _tell_device(self, room: str, device: "Device") -> None:
        name = one_line(f"{device.id} ({device.name})" if device.name else device.id, 200)
        self._say(room, matrix_texts.new_device(self._people.language, device.user, name))

    def _tell_unread(self, room: str) -> None:
        self._say(room, matrix_texts.unread(self._people.language))

    def _say(self, room: str, text: str) -> None:
        if self._sender is not None:
            with suppress(MailboxFull, ActorStopped):
                self._sender.tell_nowait(SayInRoom(RoomPlace(room), text))

    def connect(self, api: MatrixApi, people: MatrixPeople, files: ChatFiles) -> None:
        """Use this connection, which `open` or another caller has opened."""
        self._people = people
        self._workspaces = files
        self._wire = AccountWire(MatrixAccount(self._name, people.section.user), api, self._limits)
        self._rooms = self._wire.rooms

    # The tree

    @override
    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ended = ended
        self._sender = root.add(
            ChildSpec(
                f"matrix-sender-{self._name}",
                lambda: MatrixSender(
                    self._wire,
                    journal,
                    hub,
                    ended,
                    serves=self._serves,
                    now=self._now,
                    random=self._random,
                    times=self._times,
                ),
                capacity=1024,
                shutdown=MatrixSender.SHUTDOWN_S,
            )
        )

    @override
    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        assert self._sender is not None
        intake = MatrixIntake(self._wire, self._rooms, self._people, inbox, journal.ask, self._sender)

        async def unreachable(chat: str, why: str) -> None:
            try:
                await journal.ask(mark_unreachable(chat, why))
                await self._ended(chat)
            except (ActorError, NotOwner, RumiError):
                logger.warning("%s could not be given up", chat)

        self._syncer = root.add(
            ChildSpec(
                f"matrix-{self._name}",
                lambda: MatrixSyncer(
                    self._wire,
                    self._rooms,
                    self._people,
                    intake,
                    journal.ask,
                    self._memory,
                    serves=lambda: self._serves(f"{SYNCER} {self._name}"),
                    unreachable=unreachable,
                    random=self._random,
                    poll_s=self._poll_s,
                ),
            )
        )

    @property
    def synced(self) -> bool:
        """True if the account was synced once: messages that come from then on are taken."""
        return self._memory.synced

    # Services for chats

    @override
    def owns(self, chat: str) -> bool:
        """Return True if the chat belongs to this account."""
        return chat.startswith(f"{MATRIX.text}{self._name}-")

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
        assert self._files is not None
        return await self._files.bring(chat, attachment)

    @override
    def speaks(self, chat: str) -> bool:
        return self._speaker is not None

    @override
    async def speak(self, chat: str, text: str, language: Language) -> None:
        """Send an answer as a voice message."""
        spoken = speakable(text, self._speech_chars, language)
        if self._speaker is None or not spoken:
            return
        assert self._sender is not None
        speech = await self._speaker.speak(spoken)
        await self._sender.ask(DeliverFile(chat, f"answer.{speech.format}", speech.content, spoken=True))

    def _sends_files(self, chat: str) -> SendFileTool:
        send = partial(self._send_file, chat)
        return SendFileTool(
            partial(self._workspaces.shown, chat), send, self._reading, in_memory=self._in_memory
        )

    # The process

    @override
    async def introduce(self, say: Callable[[str], None]) -> None:
        """Print the account and the number of allowed users.

        Raises:
            MatrixTokenRefused: The homeserver does not know the token.
            ConfigError: The token belongs to another account.
        """
        section, language = self._people.section, self._people.language
        with trio.move_on_after(FIRST_LOOK_S):
            try:
                user, _ = await self._wire.api.whoami()
            except MatrixError as error:
                if error.kind == "token":
                    raise MatrixTokenRefused(self._name) from None
                logger.info("the homeserver cannot be reached yet: %s", error.message)
            else:
                if user != section.user:
                    raise ConfigError(
                        "The token of matrix.{name} belongs to {user}, not to {configured}.",
                        "Set matrix.{name}.user, or make a token with: rumi setup",
                        name=self._name,
                        user=user,
                        configured=section.user,
                    )
                say(matrix_texts.serving(language, section.user, len(self._people.users)))
                return
        say(matrix_texts.unreachable(language, section.user))

    @override
    async def stop_receiving(self) -> None:
        assert self._syncer is not None
        await self._syncer.ask(StopSyncing())

    @property
    @override
    def limited(self) -> int:
        return self._limits.limited

    @override
    def slow_down(self) -> None:
        self._limits.slow_down()
