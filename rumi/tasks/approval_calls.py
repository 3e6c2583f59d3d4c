"""Approvals: the control calls about all that waits for a person's yes."""

import builtins
from dataclasses import dataclass
from typing import Final

from rumi.agent.permissions.standing import DAYS, offer_in
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import UsageError
from rumi.platform.caller import Caller, NotAllowed
from rumi.platform.calls import CHAT, call
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts.bots import asks_in_words
from rumi.platform.timestamps import utc
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.approvals import BotMessage, WaitingCall, bot_messages, waiting_calls
from rumi.store.journal.records import Parked
from rumi.tasks.bots.bots import Bots
from rumi.tasks.bots.plans import PROPOSE
from rumi.texts import Language

ALWAYS: Final = "always"
"""The word of an answer that approves a call for all runs of its schedule."""


@dataclass(frozen=True, slots=True)
class ApprovalCalls:
    """The control calls about questions, parked calls, plans and questions of bots.

    A caller sees and answers only what waits in the chats of its own owner, whatever its rights: a yes is
    given by the person who was asked.
    """

    ask: AskJournal
    hub: Hub
    inbox: Inbox
    ids: ChatIds
    bots: Bots

    @call("approvals.list")
    async def list(self, caller: Caller) -> object:
        """Return all that waits for a yes in the caller's own chats.

        Each has a `kind`: `question` (of a running turn of this worker; answer it by its `id`), `call` (a
        parked call, by its `number`), `plan` (a bot's, by its `number` and its `bot`), or `bot` (a question
        of a bot in words: answer it with `bots.wake`). `whole` is the question with every value in full.
        `always` is what an approval for all runs of a schedule would cover, or null.
        """
        calls = [
            _call(waiting)
            for waiting in await self.ask(waiting_calls())
            if caller.owner == (waiting.owner or self.ids.owner_of(waiting.chat))
        ]
        bots = [
            _bot(message)
            for message in await self.ask(bot_messages())
            if caller.owner == message.owner and asks_in_words(message.text)
        ]
        return [*calls, *bots, *self._questions(caller)]

    @call("approvals.answer", rights="all", key=CHAT)
    async def answer(
        self,
        caller: Caller,
        *,
        chat: str,
        yes: bool,
        id: str = "",
        number: int = 0,
        bot: str = "",
        always: bool = False,
        language: Language | None = None,
    ) -> object:
        """Answer what waits for a yes: a question by its `id`, a parked call or a plan by its `number`.

        `answered` says whether it was still open. With `always`, a yes holds for all runs of the schedule.
        An answer to a parked call is a message of the person, such as `/yes 2`; `message` is its number.

        Raises:
            UsageError: Neither an `id` nor a `number` is given, or the call waits no longer.
            NotAllowed: The chat belongs to another owner than the caller's.
        """
        if caller.owner != self.ids.owner_of(chat):
            raise NotAllowed
        if id:
            return {"answered": await self.inbox.chats.answer(chat, id, yes), "message": None}
        waiting = await self._waiting(caller, chat, number, bot)
        answer = f"{'yes' if yes else 'no'} {waiting.number}"
        if bot:
            await self.bots.say(bot, caller.owner, answer)
            return {"answered": True, "message": None}
        if always and yes:
            answer = f"{answer} {ALWAYS}"
        # As a message, and not as a change of the row: the chat reads answers in the order of its messages,
        # and its turn begins with this one.
        message = await self.inbox.accept(chat, f"/{answer}", language, channel=caller.channel)
        return {"answered": True, "message": message}

    async def _waiting(self, caller: Caller, chat: str, number: int, bot: str) -> Parked:
        """Return a parked call that a message has asked about and that has no answer yet."""
        for waiting in await self.ask(waiting_calls()):
            owner = waiting.owner or self.ids.owner_of(waiting.chat)
            if (waiting.chat, waiting.bot, waiting.parked.number, owner) == (
                chat, bot, number, caller.owner,
            ):  # fmt: skip
                return waiting.parked
        raise UsageError("This question is no longer open: {which}.", which=number)

    def _questions(self, caller: Caller) -> builtins.list[dict[str, object]]:
        """Return the questions of the running turns of this process."""
        found = []
        for chat, state in self.hub.turns.items():
            if state.question is not None and caller.owner == self.ids.owner_of(chat):
                asked = state.question.what
                found.append(
                    {
                        **_EMPTY,
                        "kind": "question",
                        "chat": chat,
                        "id": asked.id,
                        "text": asked.text,
                        "whole": asked.whole or asked.text,
                        "at": utc(state.question.time),
                    }
                )
        return found


_EMPTY: Final[dict[str, object]] = {
    "id": None,
    "number": None,
    "bot": None,
    "session": None,
    "schedule": None,
    "always": None,
    "options": [],
}
"""The fields that only some kinds have."""


def _call(waiting: WaitingCall) -> dict[str, object]:
    parked = waiting.parked
    offer = offer_in(parked.offer)
    always = None
    if offer is not None:
        grant = offer.grant
        always = {
            "tool": grant.tool,
            "host": grant.host,
            "addresses": [*grant.addresses],
            "to": [[*pair] for pair in grant.to],
            "per_run": grant.most,
            "days": DAYS,
        }
    return {
        **_EMPTY,
        "kind": "plan" if parked.call.startswith(f"{PROPOSE} ") else "call",
        "chat": waiting.chat,
        "number": parked.number,
        "bot": waiting.bot or None,
        "session": waiting.session or None,
        "schedule": parked.schedule or None,
        "text": parked.text,
        "whole": parked.text,
        "at": utc(parked.at) if parked.at else None,
        "always": always,
    }


def _bot(message: BotMessage) -> dict[str, object]:
    return {
        **_EMPTY,
        "kind": "bot",
        "chat": message.chat,
        "bot": message.bot,
        "session": message.session,
        "text": message.text,
        "whole": message.text,
        "at": utc(message.at),
        "options": [button.label for button in message.buttons],
    }
