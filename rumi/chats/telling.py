"""How a chat tells what happens: to whoever listens, and to the audit log."""

import json

from rumi.agent import ConfirmationAsked, ConfirmationEnded, ToolFinished, TurnFinished
from rumi.audit import AuditLog
from rumi.chats.events import ChatEvent, Happening, Replied, TurnStarted
from rumi.chats.means import Means
from rumi.models import Waiting
from rumi.sandbox import Refused, parse_command
from rumi.tools import ToolResult


def tell(means: Means, chat: str, turn: str, what: Happening) -> None:
    """Write the audit line and give the event to those who listen. Never waits for anyone."""
    event = ChatEvent(chat, turn, means.now(), what)
    _write(means.audit, event, means.sandboxes.container_id(chat))
    means.hub.publish(event)


def tell_reply(
    means: Means, chat: str, turn: str, replied: Replied, finished: TurnFinished | None = None
) -> None:
    """Tell a final reply that is stored, behind the end of the turn that it belongs to. Only once.

    A turn's end is told with its reply and not before, so that no crash in between can end it twice.
    """
    if not means.in_hand.told(chat, replied.messages):
        return
    if finished is not None:
        tell(means, chat, turn, finished)
    tell(means, chat, turn, replied)


def _write(audit: AuditLog, event: ChatEvent, container_id: str) -> None:
    """Write the audit line of an event, if it has one."""
    chat, turn = event.chat, event.turn
    match event.what:
        case TurnStarted(outside=outside):
            audit.write("turn_started", chat_id=chat, turn=turn, container_id=container_id, outside=outside)
        case ToolFinished(call, result):
            audit.write(
                "command" if call.name == "bash" else "tool",
                chat_id=chat,
                turn=turn,
                container_id=result.trace.container_id if result.trace else container_id or None,
                argv=_argv(call.arguments, result),
                command=_command(call.arguments),
                exit_code=result.exit_code,
                duration_ms=result.duration_ms,
                truncated=result.truncated,
                tool=call.name,
                ok=result.ok,
            )
        case ConfirmationAsked(id, text):
            audit.write("confirm", chat_id=chat, turn=turn, container_id=container_id, id=id, text=text)
        case ConfirmationEnded(id, verdict):
            audit.write(
                "confirmed", chat_id=chat, turn=turn, container_id=container_id, id=id, verdict=verdict
            )
        case Waiting(seconds, why):
            audit.write(
                "waiting", chat_id=chat, turn=turn, container_id=container_id, seconds=seconds, why=why
            )
        case TurnFinished(reason, _, usage):
            audit.write(
                "turn_finished",
                chat_id=chat,
                turn=turn,
                container_id=container_id,
                stopped_reason=reason,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
            )
        case Replied(_, messages, _) if not turn:
            audit.write("replied", chat_id=chat, messages=list(messages))
        case _:
            pass


def _command(arguments: str) -> str:
    """The command of a bash call as the model wrote it; of other tools their arguments."""
    try:
        command = json.loads(arguments)["command"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return arguments
    return str(command)


def _argv(arguments: str, result: ToolResult) -> list[str] | None:
    """What ran, also where it was cut off; None for what was refused and never ran."""
    if result.trace is not None:
        return list(result.trace.argv)
    try:
        return list(parse_command(_command(arguments)))
    except Refused:
        return None
