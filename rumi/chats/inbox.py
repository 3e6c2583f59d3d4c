"""How a message gets from a front end to its chat: stored first, then delivered."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import trio

from actors import ActorError, ActorRef, ActorStopped, DynamicSupervisor, MailboxFull
from rumi import texts
from rumi.chats.chat import Answer, ChatMessage, Deliver, EndTurn
from rumi.chats.commands import ChatCommand, parse_chat_command
from rumi.chats.delivery import Delivery
from rumi.chats.events import Replied
from rumi.chats.hub import reply_to
from rumi.chats.ids import DEFAULT_CHAT
from rumi.chats.jobs import EndedBy
from rumi.chats.learning import learn_now, learn_of, look
from rumi.chats.means import Means
from rumi.chats.orphans import ChatGaveUp, Stray
from rumi.chats.outside import bounded
from rumi.chats.telling import tell_reply
from rumi.errors import NotTaken, RumiError, UsageError
from rumi.grace import with_grace
from rumi.journal import (
    Accept,
    AcceptAll,
    AskToLearn,
    Enclosure,
    Incoming,
    Knows,
    NewSession,
    NotStored,
    ToLearn,
)
from rumi.texts import Language

R = TypeVar("R")

WRITE_S = 5.0
"""How long whoever leaves still waits for the journal to write what they brought."""

END_TURN_S = 20.0
"""How long a chat that can be reached by nobody may take to stop its turns."""

NEXT_TURN_S = 0.5
"""How often it is looked whether another one has begun meanwhile."""

COMMAND_REPLY_S = 60.0
"""How long a command from outside waits for its reply."""

STOP_S = 0.5
"""How long a `/stop` waits to be stored before it stops the turn all the same."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a front end took from a source that repeats things when in doubt, known by the number `update`.

    Without a `chat` only that number is kept. `origin` is what the source calls the message, `user` its
    sender. An `answer` is its final reply, stored with it: then no chat hears of it. `moved` is a group's
    number and the one that it has since.
    """

    update: int
    chat: str = ""
    text: str = ""
    language: Language = "en"
    admin: bool = False
    origin: int | None = None
    enclosures: tuple[Enclosure, ...] = ()
    answer: str | None = None
    user: int | None = None
    moved: tuple[int, int] | None = None


class Inbox:
    """Accepts messages for all chats, and starts a chat's actor where it is needed."""

    def __init__(
        self,
        means: Means,
        chats: DynamicSupervisor[ChatMessage],
        settler: ActorRef[ChatGaveUp | Stray],
    ) -> None:
        self._means = means
        self._chats = chats
        self._settler = settler
        self._delivery = Delivery(means.in_hand, chats, settler)

    async def accept(
        self,
        chat: str,
        text: str,
        language: Language | None = None,
        enclosures: Sequence[Enclosure] = (),
        *,
        unattended: bool = False,
    ) -> int:
        """Store a message and deliver it; its number. From here on it will have exactly one final reply.

        It is answered in the `language`, or in the configuration's. `unattended`: no front end shows the
        reply; a caller that listens hears it.

        Cancelled, it has stored the message or has not; what is stored is delivered all the same.

        Raises:
            NotTaken: nothing can be stored now. The turn that a `/stop` was for is stopped nevertheless.
            RumiError: it could not be stored, or the chat does not start.
        """
        in_hand = self._means.in_hand
        await trio.lowlevel.checkpoint_if_cancelled()
        number = in_hand.accept(chat)
        language = language or self._means.language
        kept = bounded(enclosures, self._means.limits.handed_chars)
        message = Deliver(number, text, language, kept)
        stored: list[None] = []
        storing = self._means.journal.ask(Accept(number, chat, text, kept, unattended))
        stops = () if kept else _stops((chat, text))
        try:
            await self._store(storing, {number: chat}, stored.append, stops, language)
        except NotTaken as error:
            if stops:
                said = f"{texts.stopped(language)} {error.message}"
                raise NotTaken(said, error.advice, error.trouble) from None
            raise
        except trio.Cancelled:
            if stored:
                self._delivery.forward(chat, message)
            raise
        try:
            await self._delivery.deliver(chat, message)
        except trio.Cancelled:
            self._delivery.forward(chat, message)
            raise
        except Exception as error:
            in_hand.abandon(number)
            raise RumiError(f"The chat {chat} does not start.", "Look at: rumi status") from error
        return number

    async def accept_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Store a batch in one transaction and hand the new messages to their chats, waiting for none.

        For each, whether it is new. Cancelled, it has stored the batch or has not; what is stored is
        delivered all the same.

        Raises:
            NotTaken: nothing can be stored now; what is to be stopped is stopped nevertheless.
            RumiError: nothing of it was stored.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        in_hand = self._means.in_hand
        batch = tuple(
            Incoming(
                update=arrival.update,
                id=in_hand.accept(arrival.chat) if arrival.chat else 0,
                chat=arrival.chat,
                text=arrival.text,
                language=arrival.language,
                origin=arrival.origin,
                enclosures=bounded(arrival.enclosures, self._means.limits.handed_chars),
                answer=arrival.answer,
                moved=arrival.moved,
            )
            for arrival in arrivals
        )
        numbers = {incoming.id: incoming.chat for incoming in batch if incoming.id}
        new: list[bool] = []

        def hand_on(stored: Sequence[int | None]) -> None:
            for arrival, incoming, delivery in zip(arrivals, batch, stored, strict=True):
                if incoming.id:
                    self._hand_on(arrival, incoming, delivery)
                new.append(delivery is not None)

        stops = _stops(*((each.chat, each.text) for each in arrivals if not each.enclosures))
        language = self._means.language
        await self._store(self._means.journal.ask(AcceptAll(batch)), numbers, hand_on, stops, language)
        return new

    async def _store(
        self,
        asking: Awaitable[R | NotStored],
        numbers: Mapping[int, str],
        then: Callable[[R], object],
        stops: Collection[str],
        language: Language,
    ) -> None:
        """Have the journal store messages by these numbers, and do `then` in the step in which it has.

        A write cannot be called back, only waited for; but not for ever, when the caller is to leave: a
        journal that crashed comes back only after those have ended that stand below it. The chats in `stops`
        do not wait for it: no disk and no lock keeps a `/stop` from stopping.
        """
        stored = False
        refused: NotStored | None = None
        failed: Exception | None = None

        async def stop_meanwhile() -> None:
            await trio.sleep(STOP_S)
            await self._stop_turns(stops)

        async def write() -> None:
            nonlocal stored, refused, failed
            async with trio.open_nursery() as nursery:
                if stops:
                    nursery.start_soon(stop_meanwhile)
                try:
                    reply = await asking
                except Exception as error:  # noqa: BLE001  # raised below: a nursery would wrap it
                    failed = error
                else:
                    if isinstance(reply, NotStored):
                        refused = reply
                    else:
                        stored = True
                        then(reply)
                nursery.cancel_scope.cancel()

        try:
            await with_grace(write, WRITE_S)
        finally:
            if not stored:
                for number, chat in numbers.items():
                    self._means.in_hand.refuse(chat, number)
        if refused is not None:
            await self._stop_turns(stops)
            trouble = refused.trouble
            advice = self._means.how_to_make_room(trouble, language)
            raise NotTaken(texts.not_stored(language, trouble), advice, trouble)
        if isinstance(failed, ActorError):
            why = failed.__cause__
            if isinstance(why, RumiError):  # what the journal itself says
                raise RumiError(f"The message could not be stored. {why.message}", why.advice) from failed
            raise RumiError("The message could not be stored.", "Send it again.") from failed
        if failed is not None:
            raise failed

    async def _stop_turns(self, chats: Collection[str]) -> None:
        for chat in chats:
            await self._end_turn(chat, "stopped")

    def works(self, chat: str) -> bool:
        """Whether a message of the chat has no final reply yet."""
        return chat in self._means.in_hand.untold

    def _hand_on(self, arrival: Arrival, incoming: Incoming, delivery: int | None) -> None:
        """Give a stored message to its chat, tell its answer where it brought one, forget a repetition."""
        number = incoming.id
        if delivery is None:
            self._means.in_hand.refuse(arrival.chat, number)
        elif arrival.answer is not None:
            self._means.in_hand.abandon(number)
            tell_reply(self._means, arrival.chat, "", Replied(delivery, (number,), arrival.answer))
        else:
            message = Deliver(
                number,
                arrival.text,
                arrival.language,
                incoming.enclosures,
                arrival.admin,
                arrival.origin,
                arrival.user,
            )
            self._delivery.forward(arrival.chat, message)

    async def command(self, chat: str, text: str, language: Language | None = None) -> str:
        """Send a chat command, as a front end would, and return its reply.

        Raises:
            RumiError: no reply within `COMMAND_REPLY_S`; the chat goes on.
        """
        with self._means.hub.listening(chat) as events, trio.move_on_after(COMMAND_REPLY_S):
            number = await self.accept(chat, text, language, unattended=True)
            return (await reply_to(events, number)).text
        raise RumiError("The chat has not answered yet.", "It goes on; look at: rumi status")

    async def reset(self, chat: str, language: Language | None = None) -> str:
        """Reset a chat from outside; the reply.

        Raises:
            UsageError: there is no such chat.
            RumiError: see `command`.
        """
        known = chat == DEFAULT_CHAT or self.lookup(chat) is not None
        if not (
            known or (self._means.workspaces / chat).exists() or await self._means.journal.ask(Knows(chat))
        ):
            raise UsageError(f"There is no chat {chat}.", "Check its name: rumi logs shows the chats.")
        return await self.command(chat, "/reset", language)

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        """Answer the question that a chat's turn asks; False where it waits for none of theirs.

        It is not stored: a question does not outlive its process.
        """
        actor = self._chats.lookup(chat)
        if actor is None:
            return False
        try:
            return await actor.ask(Answer(id, yes, user))
        except ActorError:
            return False

    async def open(self, chat: str) -> None:
        """Start the chat's actor, which settles what earlier processes left open."""
        await self._delivery.start(chat)

    def lookup(self, chat: str) -> ActorRef[ChatMessage] | None:
        """The chat's actor, if it is in memory."""
        return self._chats.lookup(chat)

    async def end(self, chat: str) -> None:
        """The chat can be reached by nobody any more: stop its turns, and take its actor out of memory.

        What has no reply by then gets one all the same, from the chat's next start.
        """
        in_hand = self._means.in_hand
        with trio.move_on_after(END_TURN_S):
            while chat in in_hand.untold:
                await self._end_turn(chat, "stopped")
                with trio.move_on_after(NEXT_TURN_S):  # a message behind it may have become another
                    await in_hand.all_told(chat)
        await self._chats.stop(chat)
        in_hand.lose(chat)
        if chat in in_hand.untold:
            with suppress(ActorStopped, MailboxFull):
                self._settler.tell_nowait(ChatGaveUp(chat))

    async def withdraw(self, chat: str, numbers: Collection[int]) -> None:
        """Whoever sent these messages is gone: stop the turns that they began or are about to begin.

        Returns at once; their replies come behind. Nobody else's turn is touched.
        """
        mine = frozenset(numbers) & self._means.in_hand.untold.get(chat, set())
        actor = self._chats.lookup(chat)
        if mine and actor is not None:
            with suppress(ActorStopped):
                await actor.tell(EndTurn("stopped", mine))

    async def wind_down(self, patience_s: float, then_s: float) -> None:
        """The program is about to end: let what runs finish, then end the turns that are left, and say so.

        Nothing may be accepted any more. Returns when all has been replied to, or after both times.
        """
        with trio.move_on_after(patience_s):
            await self._means.in_hand.all_told()
        with trio.move_on_after(then_s):
            for chat in self._chats.keys():  # noqa: SIM118  # a supervisor, no mapping
                await self._end_turn(chat, "interrupted")
            await self._means.in_hand.all_told()

    async def _end_turn(self, chat: str, by: EndedBy) -> None:
        actor = self._chats.lookup(chat)
        if actor is not None:
            with suppress(ActorStopped):
                await actor.tell(EndTurn(by))

    async def begin_anew(self, chat: str) -> None:
        """Begin a new session; the old history stays stored, out of the prompt.

        A chat in memory is ended first, with what it does: it knows the old session.
        """
        await self._chats.stop(chat)
        self._means.in_hand.lose(chat)
        await self._means.journal.ask(NewSession(chat))
        look(self._means)

    async def ask_to_learn(self, chat: str | None = None) -> bool:
        """Have the session of the chat, or of all chats, learned from although it goes on; whether there is
        anything to learn. What is not done when the program ends is done at the next start."""
        if self._means.learns:
            await self._means.journal.ask(AskToLearn(chat))
        return await self.has_to_learn(chat)

    async def has_to_learn(self, chat: str | None = None) -> bool:
        """Whether there is anything to learn now, from the chat or from any."""
        return self._means.learns and bool((await self._means.journal.ask(ToLearn(chat))).now)

    async def learn_now(self, chat: str | None = None) -> int:
        """Wait for what is due to be learned from; how many facts are new. It goes on behind."""
        return await learn_now(self._means, chat)

    async def learn_of(self, owner: str) -> int:
        """The same, of all that an owner has said so far, due or not."""
        return await learn_of(self._means, owner)


def _stops(*messages: tuple[str, str]) -> tuple[str, ...]:
    """The chats in which one of these messages is a `/stop`; one that brings something along is none."""
    found = ((chat, parse_chat_command(text)) for chat, text in messages if chat)
    return tuple(chat for chat, what in found if isinstance(what, ChatCommand) and what.name == "stop")
