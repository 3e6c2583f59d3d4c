"""Control calls about triggers, and the actor that reports their figures."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Never, Protocol

import trio
from typing_extensions import override

from actors import Actor, ActorError
from rumi.channels.triggers.triggers import Triggers, unreachable
from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.texts.translation import error_text
from rumi.platform.timestamps import utc
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.deliveries import forget_deliveries, received_events
from rumi.store.journal.inbox import knows_chat
from rumi.store.journal.unreachable import why_unreachable
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

FORGET_S: Final = 3600.0
"""Interval between searches for old delivery ids, in seconds."""

SLICE_PAUSE_S: Final = 0.05
"""Pause between two slices of a deletion, in seconds, in which other requests come first."""

MOST_WAIT_S: Final = 3600.0


class WaitForReply(Protocol):
    """Returns the final reply to a message of a chat, or an empty text after some seconds."""

    async def __call__(self, chat: str, number: int, wait_s: float) -> str:
        """Return the reply."""
        ...


@dataclass(frozen=True, slots=True)
class TriggerCalls:
    """The control calls about triggers."""

    triggers: Triggers
    ask: AskJournal
    ids: ChatIds
    reply: WaitForReply | None = None

    @call("triggers.list", rights="all")
    async def list(self, caller: Caller, *, language: Language | None = None) -> object:
        """Return the triggers: chat, form, path, address, last delivery, and what became of requests.

        `counts` and `flaws` (why requests were refused) are those of the process that answers. `problem` is
        what keeps the trigger from working.
        """
        return [await self._row(name, language or "en") for name in self.triggers.triggers]

    @call("triggers.fire", rights="all")
    async def fire(
        self, caller: Caller, *, name: str, text: str = "", id: str = "", wait_s: float = 0.0
    ) -> object:
        """Hand a text to the trigger `name` as an event. An `id` that was used before is not taken again.

        With `wait_s`, the answer has the final `reply` of the event's turn, unless it takes longer than that.
        """
        if not 0 <= wait_s <= MOST_WAIT_S:
            raise UsageError("The longest wait for an answer is {most:.0f} s.", most=MOST_WAIT_S)
        delivery, taken = await self.triggers.fire(name, text, id)
        chat, reply = self.triggers.named(name).section.chat, ""
        if wait_s and taken.number and self.reply is not None:
            reply = await self.reply(chat, taken.number, wait_s)
        return {
            "trigger": name,
            "chat": chat,
            "delivery": delivery,
            "status": "repeated" if taken.repeated else "accepted",
            "message": taken.number,
            "reply": reply,
        }

    async def _row(self, name: str, language: Language) -> dict[str, Any]:
        trigger = self.triggers.named(name)
        section, flaw = trigger.section, trigger.flaw
        received = await self.ask(received_events(name))
        problem = "" if flaw is None else error_text(language, flaw)
        if not problem and (why := await self.ask(why_unreachable(section.chat))):
            problem = error_text(language, unreachable(section.chat, why))
        if (
            not problem
            and self.ids.owner_of(section.chat) != LOCAL
            and not await self.ask(knows_chat(section.chat))
        ):
            problem = gettext(
                language, "The chat {chat} is unknown: somebody has to write there first.", chat=section.chat
            )
        has_door = section.secret is not None
        return {
            "name": name,
            "chat": section.chat,
            "form": section.form if has_door else "",
            "path": trigger.path if has_door else "",
            "url": f"{self.triggers.url}{trigger.path}" if has_door and self.triggers.url else "",
            "most_per_hour": section.most_per_hour,
            "last": received.last,
            "last_at": utc(received.at) if received.at else "",
            "today": received.today,
            "counts": {name: trigger.counts[name] for name in trigger.counts},
            "flaws": {name: trigger.flaws[name] for name in trigger.flaws},
            "problem": problem,
        }


class TriggerFigures(Actor[Never]):
    """Reports what became of events, and deletes old delivery ids."""

    def __init__(self, triggers: Triggers, ask: AskJournal) -> None:
        self._triggers = triggers
        self._ask = ask

    async def started(self) -> None:
        """Start to delete old delivery ids, at intervals."""
        self.start_soon(self._forget)

    @override
    def metrics(self) -> Mapping[str, object]:
        """Return the number of triggers, and what became of the requests to all of them."""
        return {"triggers": len(self._triggers.triggers), **self._triggers.counts()}

    async def _forget(self) -> None:
        while True:
            try:
                while await self._ask(forget_deliveries()):  # noqa: ASYNC110  # it waits for nothing
                    await trio.sleep(SLICE_PAUSE_S)
            except ActorError as error:
                logger.warning("old delivery ids are not deleted now: %s", error)
            await trio.sleep(FORGET_S)
