"""Undoes a chat's last turn: restores files, facts, schedules and questions to their state before it.

One transaction of the journal decides whether an undo happens. Before this transaction, the restored files
are built in a staging folder. After the transaction, the files are committed and the facts restored; if this
step is interrupted, the chat's next start completes the undo.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from rumi.agent.tool_names import BASH_TOOLS, FILE_TOOLS
from rumi.chats.services import ChatServices, Undo
from rumi.chats.session import ChatSession
from rumi.chats.undo.snapshots import Unrestorable
from rumi.errors import RumiError
from rumi.memory.rows import take_facts_back
from rumi.models.model import ToolCall
from rumi.platform.texts import undo as undo_texts
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import Incoming, Undone
from rumi.store.journal.undo import end_undo, find_last_turn, find_undo, take_back
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

MOST_CALLS: Final = 10
CALL_CHARS: Final = 100

TAKEN_BACK: Final = frozenset(
    {*BASH_TOOLS, *FILE_TOOLS, "remember", "forget", "recall", "find_tools", "todo"}
    | {"remind", "schedule", "list_schedules", "cancel_schedule", "shared_list"}
)
"""Tools without effects, or with effects that an undo reverts completely."""


class Undoing:
    """Undoes turns of one chat, one at a time, while no turn runs."""

    def __init__(self, services: ChatServices, chat_session: ChatSession) -> None:
        self._services = services
        self._journal = services.journal
        self._chat = chat_session.chat
        self._session = chat_session

    async def take_back(self, message: Incoming, language: Language) -> str:
        """Undo the last turn on behalf of a `/undo` message; return the reply.

        Idempotent: a second call for the same message does not undo another turn.

        Raises:
            SandboxError: the sandbox cannot be stopped. Nothing has changed.
        """
        undo = self._services.undo
        if undo is None or not undo.snapshots.limits.turns:
            return gettext(language, "Nothing can be undone here: it is off (`[undo] turns = 0`).")
        done = await self._journal.ask(find_undo(self._chat, message.id))
        if done is None:
            last = await self._journal.ask(find_last_turn(self._chat))
            if last is None:
                return gettext(language, "There is nothing to undo.")
            if last.behind >= undo.snapshots.limits.turns:
                return gettext(
                    language,
                    "I have undone {count} turns in a row; I can't go back further.",
                    count=last.behind,
                )
            asker, mine = last.user, message.user
            if None not in (asker, mine) and asker != mine and not message.admin:
                return gettext(
                    language, "Somebody else asked for that turn: only they or an admin can undo it."
                )
            calls = tuple(_remaining(last.calls))
            done = await self._decide(undo, Undone(message.id, last.turn, last.text, calls=calls))
        if not done.done:
            done = await self.complete(done)
        return undo_reply(done, language)

    async def _decide(self, undo: Undo, undone: Undone) -> Undone:
        """Build the restored files in a staging folder, then store the decision in the journal."""
        files, clean = "untouched", False
        try:
            before = await undo.offload(partial(undo.restoring.build, self._chat, undone.turn))
        except Unrestorable as error:
            files = error.cause
        else:
            if before is not None:
                files, clean = "restored", not before.tainted
                # No process may use the files while they are replaced. Before the decision: if the sandbox
                # cannot be stopped, nothing has changed yet.
                await self._services.sandboxes.stop(self._chat)
        return await self._journal.ask(take_back(self._chat, replace(undone, files=files), clean))

    async def complete(self, undone: Undone) -> Undone:
        """Complete an undo stored in the journal, even one from an earlier process; return the result."""
        # Every step may run twice: until `end_undo` is stored, the chat's next start begins here again.
        undo = self._services.undo
        if undo is not None:
            if undone.files == "restored":
                await undo.offload(partial(undo.restoring.commit, self._chat))
            await undo.offload(partial(undo.snapshots.drop, self._chat, undone.turn))
            await undo.stop_tasks(undone.tasks)
        memory = self._services.context.memory
        if memory is not None:
            try:
                facts = await memory(take_facts_back(undone.turn))
            except RumiError as error:
                logger.warning("chat %s: its facts are not taken back: %s", self._chat, error)
            else:
                undone = replace(undone, facts=facts.restored, facts_kept=facts.kept)
        await self._journal.ask(end_undo(undone))
        audit = self._services.publisher.audit
        audit.write("undo", chat_id=self._chat, turn=undone.turn, files=undone.files)
        await self._session.load()
        return replace(undone, done=True)


def undo_reply(undone: Undone, language: Language) -> str:
    """Return the reply to an undo, which says what was restored and what was not."""
    return undo_texts.undone(
        language,
        one_line(undone.text, CALL_CHARS),
        files=undone.files,
        facts=undone.facts,
        facts_kept=undone.facts_kept,
        schedules=undone.schedules,
        schedules_kept=undone.schedules_kept,
        items=undone.items,
        items_kept=undone.items_kept,
        approvals=undone.approvals,
        parked=undone.parked,
        tasks=undone.tasks,
        sent=not undone.withdrawn,
        calls=undone.calls[:MOST_CALLS],
        more=max(0, len(undone.calls) - MOST_CALLS),
    )


def _remaining(calls: Iterable[ToolCall]) -> Iterable[str]:
    """Yield the calls whose effects an undo cannot revert, each on one line."""
    for call in calls:
        if call.name not in TAKEN_BACK:
            words = " ".join(str(argument) for argument in call.parsed_arguments.values())
            yield one_line(f"{call.name} {words}", CALL_CHARS)
