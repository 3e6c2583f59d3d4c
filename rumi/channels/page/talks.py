"""A `Talk` is a chat that a browser has opened and whose events the page follows."""

from contextlib import suppress
from functools import partial

import trio

from actors import ActorError
from rumi.channels.channel import RoutedPort
from rumi.channels.page.transcript import MESSAGES, Transcript
from rumi.chats.events import Moved
from rumi.chats.local import LocalChat
from rumi.chats.port import ChatSubscription
from rumi.errors import RumiError
from rumi.platform.threads import Offload
from rumi.store.journal.reading import last_model
from rumi.store.journal.transcript import read_messages, read_transcript

RENDER_PAUSE_S = 0.05
"""Pause between two renderings of a growing text, in seconds."""


class Talk:
    """A chat on the page. The page follows its events once a browser has opened it."""

    def __init__(self, chat: LocalChat, offload: Offload, reached: RoutedPort | None = None) -> None:
        """Create the talk.

        `offload` runs the rendering of Markdown in a thread. If there are several workers, `reached` is the
        connection to the worker that serves the chat.
        """
        self.chat = chat
        self.transcript = Transcript()
        self._offload = offload
        self._reached = reached
        self._events: ChatSubscription = chat.subscribe() if reached is None else reached.subscribe()
        self._following = trio.CancelScope()
        self._begun = False

    @property
    def in_use(self) -> bool:
        """Return True while a browser views the chat, or a turn runs in it."""
        return bool(self.transcript.watchers) or self.transcript.working

    async def begin(self) -> None:
        """Load what is stored.

        Raises:
            ActorError: The chat or the journal is unreachable.
        """
        if self._begun:
            return
        await self.chat.inbox.chats.open(self.chat.chat)  # goes on with what an earlier process left
        stored = await self.chat.journal.ask(read_transcript(self.chat.chat, limit=MESSAGES))
        model = await self.chat.journal.ask(last_model(self.chat.chat, self.chat.channel))
        if not self._begun and not self.chat.chosen:
            with suppress(RumiError):  # a model that is not configured any more
                await self.chat.use_model(model or self.chat.model)
        if not self._begun:  # another view may have loaded it meanwhile
            self._begun = True
            self.transcript.begin(stored, len(stored) >= MESSAGES)

    async def follow(self) -> None:
        """Follow the chat until `forget` is called.

        The subscription outlives a crash of the page's server, so no event is lost.
        """
        with trio.CancelScope() as self._following:
            async with trio.open_nursery() as nursery:
                if self._reached is not None:
                    nursery.start_soon(self._reached.keep_attached)
                nursery.start_soon(self._complete)
                while True:
                    event = await self._events.receive()
                    if isinstance(event.what, Moved):
                        if event.what.back:
                            self.transcript.interrupted()
                    else:
                        self.transcript.happened(event)

    async def _complete(self) -> None:
        """Render texts that grow, and read from the journal what events only name."""
        transcript = self.transcript
        while True:
            await transcript.stirred.wait()
            transcript.stirred = trio.Event()
            for part in transcript.growing():
                growing = part.growing
                if growing is not None:
                    text, ended = part.raw, part.ended
                    await self._offload(partial(growing.advance, text, ended=ended))
                    transcript.rendered(part, growing, ended=ended)
            if transcript.wanted:
                await self._read()
            await trio.sleep(RENDER_PAUSE_S)

    async def _read(self) -> None:
        wanted = tuple(sorted(self.transcript.wanted)[-MESSAGES:])
        self.transcript.wanted.difference_update(wanted)
        # If the journal cannot be read now, the page shows what the events said until it is opened again.
        with suppress(ActorError):
            self.transcript.stored(await self.chat.journal.ask(read_messages(self.chat.chat, numbers=wanted)))

    def shown(self, question: str) -> None:
        """Report that a person can read the chat's pending question."""
        (self._reached or self.chat).shown(question)

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the pending question of the chat's turn; return False if no question is pending.

        Raises:
            RumiError: The worker that serves the chat is unreachable.
        """
        if self._reached is not None:
            return await self._reached.answer(question, yes)
        return await self.chat.inbox.chats.answer(self.chat.chat, question, yes)

    def forget(self) -> None:
        """Stop following the chat."""
        self._events.close()
        self._following.cancel()
