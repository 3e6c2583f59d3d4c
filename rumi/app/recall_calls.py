"""Recall: the chat command `/recall`, and the control call `recall` for other processes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict

import trio

from rumi.chats.commands import ChatCommand
from rumi.errors import RumiError
from rumi.memory.recall.actor import AskRecall
from rumi.memory.recall.presenting import shown
from rumi.memory.recall.request import search_of
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts import recall as recall_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.timestamps import utc
from rumi.store.journal.records import Incoming
from rumi.texts import Language, gettext

RECALL_S = 10.0
"""Maximum time that a chat waits for the index, in seconds."""


class RecallCommands:
    """Serves `/recall QUERY`."""

    def __init__(self, ask: AskRecall, ids: ChatIds, now: Callable[[], float]) -> None:
        self._ask = ask
        self._ids = ids
        self._now = now

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Search the chats of the message's owner; return the reply."""
        if not command.rest:
            await trio.lowlevel.checkpoint()
            return recall_texts.recall_usage(language)
        try:
            with trio.move_on_after(RECALL_S):
                request = {"query": command.rest}
                found = await self._ask(search_of(self._ids.owner_of(message.chat), request, self._now()))
                return (
                    f"```\n{shown(language, found).replace('```', '´´´')}\n```"
                    if found
                    else recall_texts.nothing_recalled(language)
                )
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        return f"❌ {gettext(language, 'The recall does not answer. Try again in a moment.')}"


def recall_call(ask: AskRecall, ids: ChatIds, now: Callable[[], float]) -> ControlCall:
    """Return the function that serves the control call `recall`.

    A request has a `query` and an `owner`, and may have `since`, `until`, `who` and `limit`.
    """

    async def answer(caller: Caller, request: Mapping[str, object]) -> object:
        """Return the matching passages, best match first; times use the RFC 3339 format.

        Raises:
            UsageError: The request is invalid.
            RecallUnavailable: The index cannot be used.
        """
        owner = caller.owner_in(ids.owner(request["owner"]) if "owner" in request else None)
        return [
            {**asdict(passage), "at": utc(passage.at), "score": round(passage.score, 3)}
            for passage in await ask(search_of(owner, request, now()))
        ]

    return answer
