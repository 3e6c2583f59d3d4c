"""Recall: the chat command `/recall`, and the control call `recall` for other processes."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Literal

import trio

from rumi.chats.commands import ChatCommand
from rumi.errors import RumiError
from rumi.memory.recall.actor import AskRecall
from rumi.memory.recall.presenting import shown
from rumi.memory.recall.request import Query, Since, Tokens, Until, search_of
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts import recall as recall_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.timestamps import utc
from rumi.store.journal.records import Incoming
from rumi.tasks.services import unknown_zone
from rumi.texts import Language, gettext

RECALL_S = 10.0
"""Maximum time that a chat waits for the index, in seconds."""


class RecallCommands:
    """Serves `/recall QUERY`, and the control call `recall`."""

    def __init__(
        self,
        ask: AskRecall,
        ids: ChatIds,
        now: Callable[[], float],
        zone_of: Callable[[str], Awaitable[str]] = unknown_zone,
    ) -> None:
        """Create the commands. `zone_of` returns an owner's time zone, empty if it is unknown."""
        self._ask = ask
        self._ids = ids
        self._now = now
        self._zone_of = zone_of

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Search the chats of the message's owner; return the reply."""
        if not command.rest:
            await trio.lowlevel.checkpoint()
            return gettext(
                language,
                "`/recall QUERY` finds what was said before, for example `/recall the boiler in March`.",
            )
        try:
            with trio.move_on_after(RECALL_S):
                owner = self._ids.owner_of(message.chat)
                zone = await self._zone_of(owner)
                found = await self._ask(search_of(owner, {"query": command.rest}, self._now(), zone))
                return (
                    f"```\n{shown(language, found, zone).replace('```', '´´´')}\n```"
                    if found
                    else recall_texts.nothing_recalled(language)
                )
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        return f"❌ {gettext(language, 'The recall does not answer. Try again in a moment.')}"

    @call("recall")
    async def recall(
        self,
        caller: Caller,
        *,
        query: Query,
        owner: str | None = None,
        since: Since = "",
        until: Until = "",
        who: Literal["", "user", "assistant"] = "",
        tokens: Tokens = 0,
    ) -> object:
        """Return the passages of earlier conversations that match a `query`, best match first.

        Days are like 2026-11-23, yesterday or march. `who` selects one side.

        Raises:
            UsageError: The request is invalid.
            RecallUnavailable: The index cannot be used.
        """
        of = caller.owner_in(None if owner is None else self._ids.owner(owner))
        zone = await self._zone_of(of)
        request = {"query": query, "since": since, "until": until, "who": who, "tokens": tokens}
        return [
            {**asdict(passage), "at": utc(passage.at), "score": round(passage.score, 3)}
            for passage in await self._ask(search_of(of, request, self._now(), zone))
        ]
