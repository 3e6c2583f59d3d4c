"""The guard around a plugin's channel: whatever it raises is noted, and the process runs on."""

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import trio
from typing_extensions import override

from actors import ActorRef, Supervisor, TreeEvent
from rumi.agent.plugin_tools import checked_tools
from rumi.agent.tool import Tool
from rumi.channels.channel import Channel, Process, RoutedPort
from rumi.channels.counters import Counts
from rumi.channels.takers import Taker
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChannelPrefix
from rumi.platform.config.plugins import is_fault
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

T = TypeVar("T")

HOOK_S: Final = 30.0
"""Maximum time for a plugin's channel to open, to take chats over, and to stop, in seconds."""

INTRODUCE_S: Final = 5.0
"""Maximum time for a plugin's channel to introduce itself, in seconds: the next channel waits for it."""

CLOSE_S: Final = 5.0
"""Maximum time for a plugin's channel to close, in seconds."""


class GuardedChannel(Channel):
    """A plugin's channel. Errors of its methods are noted by `note`; its actors crash alone.

    Each of its groups of actors is below a supervisor that isolates them, so that no number of crashes ends
    the tree. A channel that cannot be opened stays without actors, and its chats keep their messages.
    """

    def __init__(
        self, inner: Channel, prefix: ChannelPrefix, note: Callable[[str, BaseException], None]
    ) -> None:
        self.name = prefix.text.rstrip("-")
        self.prefix = prefix
        self._inner = inner
        self._note = note
        self._open = False
        self._language: Language = "en"

    def _failed(self, what: str, error: BaseException) -> None:
        """Note what the channel has raised; raise it again if it is not the channel's."""
        if not is_fault(error):
            raise error
        logger.warning("the channel %s failed in %s", self.name, what, exc_info=error)
        self._note(f"{self.name} {what}", error)

    def _call(self, what: str, call: Callable[[], T], default: T) -> T:
        """Return the result of a method; `default` if it raises, or returns another type than `default`."""
        if not self._open:
            return default
        try:
            found = call()
            if default is not None and not isinstance(found, type(default)):
                raise TypeError(f"it returned {type(found).__name__}, not {type(default).__name__}")
        except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
            self._failed(what, error)
            return default
        return found

    def _names(self, what: str, call: Callable[[], Sequence[str]]) -> tuple[str, ...]:
        """Return the names that a method returns; none if it raises, or returns anything else."""

        def checked() -> tuple[str, ...]:
            found: object = call()
            if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
                raise TypeError("it returned no list or tuple of str")
            return tuple(found)

        return self._call(what, checked, ())

    async def _await(self, what: str, call: Callable[[], Awaitable[None]], most_s: float = math.inf) -> None:
        """Await a method for at most `most_s` seconds."""
        await trio.lowlevel.checkpoint()
        if not self._open:
            return
        try:
            with trio.fail_after(most_s):
                await call()
        except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
            self._failed(what, error)

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Open the channel in a task of its own: a crash of what it runs there does not reach the block."""
        closing = trio.Event()
        scope = trio.CancelScope(deadline=trio.current_time() + HOOK_S)

        async def host(task_status: trio.TaskStatus[None]) -> None:
            with scope:
                try:
                    async with self._inner.open(process):
                        self._open, scope.deadline, scope.shield = True, math.inf, True
                        self._language = process.language
                        task_status.started()
                        await closing.wait()
                except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
                    self._failed("open", error)
            if scope.cancelled_caught:
                late = TimeoutError(f"no answer in {CLOSE_S if self._open else HOOK_S:g} s")
                self._note(f"{self.name} open", late)
            if not self._open:
                task_status.started()

        async with trio.open_nursery() as nursery:
            await nursery.start(host)
            try:
                yield
            finally:
                closing.set()
                scope.deadline = trio.current_time() + CLOSE_S

    @property
    @override
    def limited(self) -> int:
        return self._call("limited", lambda: self._inner.limited, 0)

    @override
    def admin_chats(self) -> Sequence[str]:
        return self._names("admin_chats", self._inner.admin_chats)

    def _place(self, root: Supervisor, what: str) -> Supervisor:
        return root.add_supervisor(Supervisor(f"{self.name}-{what}", isolates=True))

    @override
    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        place = self._place(root, "out")
        self._call("add_sender", lambda: self._inner.add_sender(place, journal, hub, ended), None)

    @override
    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        place = self._place(root, "in")
        self._call("add_receiver", lambda: self._inner.add_receiver(place, inbox, journal, hub), None)

    @override
    def among_workers(self, reached: Callable[[str], RoutedPort]) -> None:
        self._call("among_workers", lambda: self._inner.among_workers(reached), None)

    @override
    def deliveries_taken(self) -> Sequence[Taker]:
        try:
            return tuple(self._inner.deliveries_taken())
        except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
            self._failed("deliveries_taken", error)
            return ()

    @override
    def calls(self) -> tuple[object, ...]:
        return ()  # a plugin adds none to the control socket

    @override
    def add_view(
        self,
        root: Supervisor,
        inbox: Inbox,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        status: Callable[[], Mapping[str, object]],
        counts: Counts,
    ) -> None:
        place = self._place(root, "view")
        self._call("add_view", lambda: self._inner.add_view(place, inbox, journal, hub, status, counts), None)

    @override
    def tree_happened(self, event: TreeEvent) -> None:
        self._call("tree_happened", lambda: self._inner.tree_happened(event), None)

    @override
    def names_of(self, chat: str) -> tuple[str, ...]:
        return self._names("names_of", lambda: self._inner.names_of(chat)) or (chat,)

    @override
    def tools_for(self, chat: str) -> tuple[Tool, ...]:
        def checked() -> list[Tool]:
            return checked_tools(self._inner.tools_for(chat), (), partial(self._failed, "tools_for"))

        return tuple(self._call("tools_for", checked, []))

    @override
    async def bring(self, chat: str, attachment: Attachment) -> str:
        try:
            found: object = await self._inner.bring(chat, attachment)
            if not isinstance(found, str):
                raise TypeError(f"it returned {type(found).__name__}, not str")
            return found
        except RumiError:
            raise
        except BaseException as error:
            self._failed("bring", error)
            raise RumiError("{name} could not be fetched.", name=attachment.name) from error

    @override
    async def show(self, chat: str, paths: Sequence[str]) -> None:
        await self._await("show", lambda: self._inner.show(chat, paths))

    @override
    def speaks(self, chat: str) -> bool:
        return self._call("speaks", lambda: self._inner.speaks(chat), False)

    @override
    async def speak(self, chat: str, text: str, language: Language) -> None:
        await self._await("speak", lambda: self._inner.speak(chat, text, language))

    @override
    async def introduce(self, say: Callable[[str], None]) -> None:
        await self._await("introduce", lambda: self._inner.introduce(say), INTRODUCE_S)
        if self._open:
            assert self.prefix is not None
            say(gettext(self._language, "Serving {channel}.", channel=self.prefix.channel))

    @override
    async def take_over(self, numbers: frozenset[int]) -> None:
        await self._await("take_over", lambda: self._inner.take_over(numbers), HOOK_S)

    @override
    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        await self._await(
            "hand_over", lambda: self._inner.hand_over(numbers, patience_s), patience_s + HOOK_S
        )

    @override
    def slow_down(self) -> None:
        self._call("slow_down", self._inner.slow_down, None)

    @override
    def look(self, chats: Sequence[str]) -> None:
        self._call("look", lambda: self._inner.look(chats), None)

    @override
    async def stop_receiving(self) -> None:
        await self._await("stop_receiving", self._inner.stop_receiving, HOOK_S)

    @override
    async def flush(self) -> None:
        await self._await("flush", self._inner.flush, HOOK_S)
