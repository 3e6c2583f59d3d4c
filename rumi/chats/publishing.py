"""Publishes chats' events, to subscribers and to the audit log; knows which messages have no reply yet."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from rumi.agent.events import ToolFinished, ToolProgress, ToolStarted, TurnFinished
from rumi.agent.tools.file_access import FILE_TOOLS
from rumi.chats.events import ChatEvent, Happening, Replied, picked
from rumi.chats.hub import Hub
from rumi.models.model import ToolCall
from rumi.platform.logs.audit import AuditLog
from rumi.platform.texts.questions import yes_or_no
from rumi.store.journal.records import Incoming
from rumi.store.ownership import partition_of

_USAGE = "usage.prompt_tokens usage.completion_tokens usage.cached_tokens usage.nano_usd"
_OUTCOME = "result.ok result.exit_code result.duration_ms result.truncated"

RECORDED = {
    "turn_started": "turn_started message outside",
    "queued": "queued message place",
    "waiting": "waiting seconds why",
    "usage": f"model_call model {_USAGE}",
    "tool_call": "tool_started call.id tool=call.name call.arguments",
    "tool_progress": "progress id=call step text",
    "tool_result": f"tool call.id tool=call.name {_OUTCOME} steps",
    "confirm": "confirm id text whole",
    "confirmed": "confirmed id verdict",
    "turn_finished": f"turn_finished stopped_reason=reason {_USAGE}",
    "reply": "replied messages",
}
"""What the audit log and live events have of each kind of event, as `picked` reads it."""


@dataclass(slots=True)
class Cursor:
    """How far a chat is with its messages. It outlives the chat's incarnations.

    The chat has judged its messages up to `judged`: those of them that are open and that no incarnation works
    on get their reply from recovery. Those up to `earlier` were judged by an earlier process. Of one up to
    `missed` it may not know; if that is more, it reads the journal. `adopted`: what an earlier worker has
    judged was found out from the journal, where several share one.
    """

    judged: int
    earlier: int
    missed: int = 0
    adopted: bool = False


@dataclass(slots=True)
class PendingMessages:
    """The messages whose final reply was not told yet, by chat, and the chats' cursors.

    Messages up to `boot` are earlier processes'. Where several workers share a database, this `worker` serves
    the chats of the partitions in `served`; those that are `closing` are being handed over.
    """

    boot: int | None = None
    worker: str | None = None
    served: set[int] = field(default_factory=set)
    closing: set[int] = field(default_factory=set)
    unreplied: dict[str, set[int]] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    changed: trio.Event = field(default_factory=trio.Event)

    def begin(self, last: int) -> None:
        """Messages up to `last` are earlier processes'. Only the first time counts."""
        if self.boot is None:
            self.boot = last
            for cursor in self.cursors.values() if self.worker is None else ():
                # Of a chat that was woken before this: a task that an earlier process left has ended.
                cursor.judged = max(cursor.judged, last)
                cursor.earlier = last

    def serve_as(self, worker: str) -> None:
        """Be a worker among others. A new one knows nothing of what an earlier one has done."""
        if worker != self.worker:
            self.worker = worker
            for numbers in (self.served, self.closing, self.unreplied, self.cursors):
                numbers.clear()
            self._has_changed()

    def takes(self, chat: str) -> bool:
        """Return True if this process serves the chat, and begins something new in it."""
        number = partition_of(chat) if self.worker is not None else 0
        return self.worker is None or (number in self.served and number not in self.closing)

    def cursor(self, chat: str) -> Cursor:
        """The chat's cursor."""
        boot = 0 if self.worker is not None else self.boot or 0
        return self.cursors.setdefault(chat, Cursor(boot, earlier=boot))

    def adopt(self, chat: str, open_messages: Sequence[Incoming]) -> None:
        """Find out what an earlier worker has judged of a chat's open messages: what became a turn, and what
        was said to it. The others begin as if they came now."""
        cursor = self.cursor(chat)
        if self.worker is None or cursor.adopted:
            return
        cursor.adopted = True
        begun = max((message.id for message in open_messages if message.turn), default=0)
        for message in open_messages:
            answers = message.by_hand and not message.turn and yes_or_no(message.text) is not None
            if begun and message.id > begun:
                if not answers:
                    break
                begun = message.id
        cursor.earlier = begun
        cursor.judged = max(cursor.judged, begun)

    def forget(self, chat: str) -> None:
        """Another worker serves the chat: it tells the replies."""
        self.unreplied.pop(chat, None)
        self.cursors.pop(chat, None)
        self._has_changed()

    def _has_changed(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def leave(self, chat: str) -> None:
        """Forget the cursor of a chat that is not there any more, if every message has its reply."""
        if chat not in self.unreplied:
            self.cursors.pop(chat, None)

    def add(self, chat: str, number: int) -> None:
        """The message is stored, and its reply will be told."""
        self.unreplied.setdefault(chat, set()).add(number)

    def mark_replied(self, chat: str, messages: Sequence[int]) -> bool:
        """Note that the final reply to these is told now; False if it was told before."""
        unreplied = self.unreplied.get(chat, set())
        first = not unreplied.isdisjoint(messages)
        unreplied.difference_update(messages)
        if first and not unreplied:
            del self.unreplied[chat]
        self._has_changed()
        return first

    async def all_replied(self, chat: str | None = None) -> None:
        """Return when every message of the chat, or of all chats, has its final reply."""
        while self.unreplied if chat is None else chat in self.unreplied:
            await self.changed.wait()


@dataclass(frozen=True, slots=True)
class Publisher:
    """Tells what happens in chats. `container_id` returns the id of a chat's sandbox, empty without one.
    `count` gets each event, and never waits.
    """

    hub: Hub
    audit: AuditLog
    pending: PendingMessages
    now: Callable[[], float]
    container_id: Callable[[str], str]
    count: Callable[[ChatEvent], object] = lambda event: None

    def publish(self, chat: str, turn: str, what: Happening) -> None:
        """Write the audit line and give the event to those who listen. Never waits for anyone."""
        event = ChatEvent(chat, turn, self.now(), what)
        self._write(event)
        self.count(event)
        self.hub.publish(event)

    def reply(self, chat: str, turn: str, replied: Replied, finished: TurnFinished | None = None) -> None:
        """Tell a final reply that is stored, behind the end of the turn that it belongs to. Only once.

        A turn's end is told with its reply and not before, so that no crash in between can end it twice.
        """
        if not self.pending.mark_replied(chat, replied.messages):
            return
        if finished is not None:
            self.publish(chat, turn, finished)
        self.publish(chat, turn, replied)

    def _write(self, event: ChatEvent) -> None:
        """Write the audit line of an event, if it has one."""
        match event.what:
            case ToolStarted() | ToolProgress():
                return
            case Replied() if event.turn:
                return
        record = recorded(event)
        if record is None:
            return
        container_id = self.container_id(event.chat)
        match event.what:
            case ToolFinished(call, result):
                argv = None if result.trace is None else list(result.trace.argv)
                record |= {"argv": argv, "command": _command(call)}
                container_id = result.trace.container_id if result.trace else ""
        del record["time"]
        record.pop("whole", None)  # it may have the content of files
        kind, chat = record.pop("event"), record.pop("chat")
        self.audit.write(kind, chat_id=chat, container_id=container_id, **record)


def recorded(event: ChatEvent) -> dict[str, Any] | None:
    """Return what records have of an event; None for what they leave out.

    A call is a `command` only if one ran in the sandbox, and `refused` if nothing was done.
    """
    record = picked(event, RECORDED)
    match event.what:
        case ToolFinished(_, result) if record is not None and result.refused:
            record["event"] = "refused"
        case ToolFinished(call, result) if record is not None and call.name == "bash" and result.trace:
            record["event"] = "command"
    if record is not None and not record.get("whole", True):
        del record["whole"]
    return record


def _command(call: ToolCall) -> str:
    """The command of a bash call as the model wrote it, the path of a file tool's; of others their arguments.

    So the audit log has no content of files, whichever tool wrote it.
    """
    name = "path" if call.name in FILE_TOOLS else "command" if call.name == "bash" else ""
    if not name:
        return call.arguments
    try:
        return str(json.loads(call.arguments)[name])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "" if call.name in FILE_TOOLS else call.arguments
