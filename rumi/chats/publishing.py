"""Publishes a chat's events: to subscribers, and to the audit log."""

import json
from typing import Any

from rumi.agent import ToolFinished, ToolStarted, TurnFinished
from rumi.audit import AuditLog
from rumi.chats.events import ChatEvent, Happening, Replied, picked
from rumi.chats.services import ChatServices
from rumi.sandbox import CommandRefused, parse_command
from rumi.tools import ToolResult

_OUTCOME = "result.ok result.exit_code result.duration_ms result.truncated"

RECORDED = {
    "turn_started": "turn_started message outside",
    "waiting": "waiting seconds why",
    "tool_call": "tool_started call.id tool=call.name call.arguments",
    "tool_result": f"tool call.id tool=call.name {_OUTCOME}",
    "confirm": "confirm id text",
    "confirmed": "confirmed id verdict",
    "turn_finished": "turn_finished stopped_reason=reason"
    " usage.prompt_tokens usage.completion_tokens usage.cached_tokens",
    "reply": "replied messages",
}
"""What the audit log and live events have of each kind of event, as `picked` reads it."""


def publish(services: ChatServices, chat: str, turn: str, what: Happening) -> None:
    """Write the audit line and give the event to those who listen. Never waits for anyone."""
    event = ChatEvent(chat, turn, services.now(), what)
    _write(services.audit, event, services.sandboxes.container_id(chat))
    services.hub.publish(event)


def publish_reply(
    services: ChatServices, chat: str, turn: str, replied: Replied, finished: TurnFinished | None = None
) -> None:
    """Tell a final reply that is stored, behind the end of the turn that it belongs to. Only once.

    A turn's end is told with its reply and not before, so that no crash in between can end it twice.
    """
    if not services.pending.told(chat, replied.messages):
        return
    if finished is not None:
        publish(services, chat, turn, finished)
    publish(services, chat, turn, replied)


def recorded(event: ChatEvent) -> dict[str, Any] | None:
    """Return what records have of an event; None for what they leave out."""
    record = picked(event, RECORDED)
    if isinstance(event.what, ToolFinished) and record is not None and record["tool"] == "bash":
        record["event"] = "command"
    return record


def _write(audit: AuditLog, event: ChatEvent, container_id: str) -> None:
    """Write the audit line of an event, if it has one."""
    record = recorded(event)
    match event.what:
        case ToolStarted():
            return
        case Replied() if event.turn:
            return
        case ToolFinished(call, result) if record is not None:
            record |= {"argv": _argv(call.arguments, result), "command": _command(call.arguments)}
            container_id = result.trace.container_id if result.trace else container_id
    if record is not None:
        del record["time"]
        audit.write(record.pop("event"), chat_id=record.pop("chat"), container_id=container_id, **record)


def _command(arguments: str) -> str:
    """The command of a bash call as the model wrote it; of other tools their arguments."""
    try:
        command = json.loads(arguments)["command"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return arguments
    return str(command)


def _argv(arguments: str, result: ToolResult) -> list[str] | None:
    """Return what ran, also where it was cut off; None for what was refused and never ran."""
    if result.trace is not None:
        return list(result.trace.argv)
    try:
        return list(parse_command(_command(arguments)))
    except CommandRefused:
        return None
