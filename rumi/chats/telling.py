"""How a chat tells what happens: to whoever listens, and to the audit log."""

from rumi.agent import ToolFinished, TurnFinished
from rumi.audit import AuditLog
from rumi.chats.events import ChatEvent, Happening, Replied, TurnStarted
from rumi.chats.means import Means


def tell(means: Means, chat: str, turn: str, what: Happening) -> None:
    """Write the audit line and give the event to those who listen. Never waits for anyone."""
    event = ChatEvent(chat, turn, means.now(), what)
    _write(means.audit, event, means.sandboxes.container_id(chat))
    means.hub.publish(event)


def _write(audit: AuditLog, event: ChatEvent, container_id: str) -> None:
    """Write the audit line of an event, if it has one."""
    chat, turn = event.chat, event.turn
    match event.what:
        case TurnStarted():
            audit.write("turn_started", chat_id=chat, turn=turn, container_id=container_id)
        case ToolFinished(call, result):
            trace = result.trace
            audit.write(
                "command" if trace else "tool",
                chat_id=chat,
                turn=turn,
                container_id=trace.container_id if trace else None,
                argv=list(trace.argv) if trace else None,
                command=call.arguments,
                exit_code=result.exit_code,
                duration_ms=result.duration_ms,
                truncated=result.truncated,
                tool=call.name,
                ok=result.ok,
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
            )
        case Replied(_, messages, _) if not turn:
            audit.write("replied", chat_id=chat, messages=list(messages))
        case _:
            pass
