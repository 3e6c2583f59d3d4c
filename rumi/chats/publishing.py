"""Publishes chats' events, to subscribers and to the audit log; knows which messages have no reply yet."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from rumi.agent import ToolFinished, ToolProgress, ToolStarted, TurnFinished
from rumi.audit import AuditLog
from rumi.chats.events import ChatEvent, Happening, Replied, picked
from rumi.chats.hub import Hub
from rumi.models import ToolCall
from rumi.sandbox import STRICT, CommandPolicy, CommandRefused
from rumi.tools import FILE_TOOLS, ToolResult

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
    "confirm": "confirm id text",
    "confirmed": "confirmed id verdict",
    "turn_finished": f"turn_finished stopped_reason=reason {_USAGE}",
    "reply": "replied messages",
}
"""What the audit log and live events have of each kind of event, as `picked` reads it."""


@dataclass(slots=True)
class Cursor:
    """How far a chat is with its messages. It outlives the chat's incarnations.

    The chat has judged its messages up to `judged`: those of them that are open and that no incarnation works
    on get their reply from recovery. Of one up to `missed` it may not know; if that is more, it reads the
    journal.
    """

    judged: int
    missed: int = 0


@dataclass(slots=True)
class PendingMessages:
    """The messages whose final reply was not told yet, by chat, and the chats' cursors.

    Messages up to `boot` are earlier processes'.
    """

    boot: int | None = None
    untold: dict[str, set[int]] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    changed: trio.Event = field(default_factory=trio.Event)

    def begin(self, last: int) -> None:
        """Messages up to `last` are earlier processes'. Only the first time counts."""
        if self.boot is None:
            self.boot = last

    def cursor(self, chat: str) -> Cursor:
        """The chat's cursor."""
        return self.cursors.setdefault(chat, Cursor(self.boot or 0))

    def leave(self, chat: str) -> None:
        """Forget the cursor of a chat that is not there any more, if every message has its reply."""
        if chat not in self.untold:
            self.cursors.pop(chat, None)

    def add(self, chat: str, number: int) -> None:
        """The message is stored, and its reply will be told."""
        self.untold.setdefault(chat, set()).add(number)

    def told(self, chat: str, messages: Sequence[int]) -> bool:
        """Note that the final reply to these is told now; False if it was told before."""
        untold = self.untold.get(chat, set())
        first = not untold.isdisjoint(messages)
        untold.difference_update(messages)
        if first and not untold:
            del self.untold[chat]
        self.changed.set()
        self.changed = trio.Event()
        return first

    async def all_told(self, chat: str | None = None) -> None:
        """Return when every message of the chat, or of all chats, has its final reply."""
        while self.untold if chat is None else chat in self.untold:
            await self.changed.wait()


@dataclass(frozen=True, slots=True)
class Publisher:
    """Tells what happens in chats. `container_id` returns the id of a chat's sandbox, empty without one;
    `policy_of` which commands it may run. `count` gets each event, and never waits.
    """

    hub: Hub
    audit: AuditLog
    pending: PendingMessages
    now: Callable[[], float]
    container_id: Callable[[str], str]
    policy_of: Callable[[str], CommandPolicy] = lambda chat: STRICT
    count: Callable[[ChatEvent], object] = lambda event: None

    def publish(self, chat: str, turn: str, what: Happening) -> None:
        """Write the audit line and give the event to those who listen. Never waits for anyone."""
        event = ChatEvent(chat, turn, self.now(), what)
        _write(self.audit, event, self.container_id(chat), self.policy_of(chat))
        self.count(event)
        self.hub.publish(event)

    def reply(self, chat: str, turn: str, replied: Replied, finished: TurnFinished | None = None) -> None:
        """Tell a final reply that is stored, behind the end of the turn that it belongs to. Only once.

        A turn's end is told with its reply and not before, so that no crash in between can end it twice.
        """
        if not self.pending.told(chat, replied.messages):
            return
        if finished is not None:
            self.publish(chat, turn, finished)
        self.publish(chat, turn, replied)


def recorded(event: ChatEvent) -> dict[str, Any] | None:
    """Return what records have of an event; None for what they leave out."""
    record = picked(event, RECORDED)
    if isinstance(event.what, ToolFinished) and record is not None and record["tool"] == "bash":
        record["event"] = "command"
    return record


def _write(audit: AuditLog, event: ChatEvent, container_id: str, policy: CommandPolicy) -> None:
    """Write the audit line of an event, if it has one."""
    record = recorded(event)
    match event.what:
        case ToolStarted() | ToolProgress():
            return
        case Replied() if event.turn:
            return
        case ToolFinished(call, result) if record is not None:
            record |= {"argv": _argv(call, result, policy), "command": _command(call)}
            container_id = result.trace.container_id if result.trace else container_id
    if record is not None:
        del record["time"]
        audit.write(record.pop("event"), chat_id=record.pop("chat"), container_id=container_id, **record)


def _command(call: ToolCall) -> str:
    """The command of a bash call as the model wrote it, the path of a file tool's; of others their arguments.

    So the audit log has no content of files, whichever tool wrote it.
    """
    try:
        return str(json.loads(call.arguments)["path" if call.name in FILE_TOOLS else "command"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "" if call.name in FILE_TOOLS else call.arguments


def _argv(call: ToolCall, result: ToolResult, policy: CommandPolicy) -> list[str] | None:
    """Return what ran, also where it was cut off; None for what was refused and never ran."""
    if result.trace is not None:
        return list(result.trace.argv)
    try:
        return None if call.name in FILE_TOOLS else list(policy.parse(_command(call)))
    except CommandRefused:
        return None
