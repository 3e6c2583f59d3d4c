"""Publishes chat events to subscribers and the audit log, and tracks messages without a final reply."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from rumi.agent.events import ToolFinished, ToolProgress, ToolStarted, TurnFinished
from rumi.agent.tool_names import FILE_TOOLS
from rumi.agent.tools.file_access import path_in
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
    "turn_restarted": "turn_restarted messages outside",
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
"""The fields of each kind of event in the audit log and in live events, in the format of `picked`."""


@dataclass(slots=True)
class Cursor:
    """Numbers that show which of its messages a chat has handled. They survive restarts of the chat's actor.

    The chat has judged all messages up to `judged`, that is, decided what to do with them. Recovery replies
    to judged messages that have no reply and that no running chat actor handles. An earlier process judged
    the messages up to `earlier`. Messages up to `missed` were stored but may not have reached the mailbox; if
    `missed` is greater than `judged`, the chat reads the journal. If workers share a database, `adopted`
    becomes true when the journal has shown which messages an earlier worker judged.
    """

    judged: int
    earlier: int
    missed: int = 0
    adopted: bool = False


@dataclass(slots=True)
class PendingMessages:
    """The messages whose final reply is not published yet, by chat, and the chats' cursors.

    Messages with numbers up to `boot` were accepted by earlier processes. If workers share a database, this
    `worker` serves the chats of the partitions in `served`; partitions in `closing` are being handed over.
    """

    boot: int | None = None
    worker: str | None = None
    served: set[int] = field(default_factory=set)
    closing: set[int] = field(default_factory=set)
    unreplied: dict[str, set[int]] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    changed: trio.Event = field(default_factory=trio.Event)

    def begin(self, last: int) -> None:
        """Record that earlier processes accepted the messages up to `last`. Only the first call counts."""
        if self.boot is None:
            self.boot = last
            for cursor in self.cursors.values() if self.worker is None else ():
                # A chat may have been woken before this call, because a task of an earlier process has ended.
                cursor.judged = max(cursor.judged, last)
                cursor.earlier = last

    def serve_as(self, worker: str) -> None:
        """Serve chats as the worker of this name; if the name changes, forget all state."""
        if worker != self.worker:
            self.worker = worker
            for numbers in (self.served, self.closing, self.unreplied, self.cursors):
                numbers.clear()
            self._has_changed()

    def takes(self, chat: str) -> bool:
        """Return True if this process serves the chat and may begin new work in it."""
        number = partition_of(chat) if self.worker is not None else 0
        return self.worker is None or (number in self.served and number not in self.closing)

    def cursor(self, chat: str) -> Cursor:
        """Return the chat's cursor; create it if there is none."""
        # Among workers the number of the last message at start means nothing: others have accepted messages
        # since. `adopt` sets the cursor then.
        boot = 0 if self.worker is not None else self.boot or 0
        return self.cursors.setdefault(chat, Cursor(boot, earlier=boot))

    def adopt(self, chat: str, open_messages: Sequence[Incoming]) -> None:
        """Determine which of a chat's open messages an earlier worker judged, and set the cursor after them.

        The earlier worker judged the messages that became a turn, and the yes or no answers directly after
        them. The chat judges all other open messages as new.
        """
        cursor = self.cursor(chat)
        if self.worker is None or cursor.adopted:
            return
        cursor.adopted = True
        begun = max((message.id for message in open_messages if message.turn or message.part_of), default=0)
        for message in open_messages:
            answers = message.by_hand and not message.turn and yes_or_no(message.text) is not None
            if begun and message.id > begun:
                if not answers:
                    break
                begun = message.id
        cursor.earlier = begun
        cursor.judged = max(cursor.judged, begun)

    def forget(self, chat: str) -> None:
        """Forget the chat's messages and cursor: another worker serves the chat and publishes the replies."""
        self.unreplied.pop(chat, None)
        self.cursors.pop(chat, None)
        self._has_changed()

    def _has_changed(self) -> None:
        # A trio event cannot be cleared: each change wakes its waiters and leaves a new event for the next.
        self.changed.set()
        self.changed = trio.Event()

    def leave(self, chat: str) -> None:
        """If every message of a stopped chat has its reply, forget the chat's cursor."""
        if chat not in self.unreplied:
            self.cursors.pop(chat, None)

    def add(self, chat: str, number: int) -> None:
        """Add a stored message that has no reply yet."""
        self.unreplied.setdefault(chat, set()).add(number)

    def mark_replied(self, chat: str, messages: Sequence[int]) -> bool:
        """Mark these messages as replied to; return False if all of them were marked already."""
        unreplied = self.unreplied.get(chat, set())
        first = not unreplied.isdisjoint(messages)
        unreplied.difference_update(messages)
        if first and not unreplied:
            del self.unreplied[chat]
        self._has_changed()
        return first

    async def all_replied(self, chat: str | None = None) -> None:
        """Wait until every message of the chat, or of all chats, has its final reply."""
        while self.unreplied if chat is None else chat in self.unreplied:
            await self.changed.wait()


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes the events of chats.

    `container_id` returns the id of a chat's sandbox, empty without one. `count` is called with each event,
    to count it for metrics; it must not block.
    """

    hub: Hub
    audit: AuditLog
    pending: PendingMessages
    now: Callable[[], float]
    container_id: Callable[[str], str]
    count: Callable[[ChatEvent], object] = lambda event: None

    def publish(self, chat: str, turn: str, what: Happening) -> None:
        """Write an event to the audit log and pass the event to subscribers. Never waits."""
        event = ChatEvent(chat, turn, self.now(), what)
        self._write(event)
        self.count(event)
        self.hub.publish(event)

    def reply(self, chat: str, turn: str, replied: Replied, finished: TurnFinished | None = None) -> None:
        """Publish a stored final reply once, after the end of its turn.

        The end of a turn is published together with its reply: if the end was published first and the chat
        crashed then, recovery would publish the end a second time.
        """
        if not self.pending.mark_replied(chat, replied.messages):
            return
        if finished is not None:
            self.publish(chat, turn, finished)
        self.publish(chat, turn, replied)

    def _write(self, event: ChatEvent) -> None:
        """Write an event to the audit log, if events of its kind are recorded there."""
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
        record.pop("whole", None)  # it may contain the content of files
        kind, chat = record.pop("event"), record.pop("chat")
        self.audit.write(kind, chat_id=chat, container_id=container_id, **record)


def recorded(event: ChatEvent) -> dict[str, Any] | None:
    """Return an event's record for the audit log and live events; None for events not recorded there.

    A record is named "command" if a bash call ran a command in the sandbox, and "refused" if a tool call had
    no effect.
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
    """Return a bash call's command as the model wrote it, a file tool's path, or another tool's arguments.

    The content that a file tool writes is omitted, so that the audit log does not contain it.
    """
    if call.name not in (*FILE_TOOLS, "bash"):
        return call.arguments
    try:
        arguments = json.loads(call.arguments)
        return str(arguments["command"] if call.name == "bash" else path_in(arguments) or "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "" if call.name in FILE_TOOLS else call.arguments
