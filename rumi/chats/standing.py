"""How a chat stands: what it works on, since when, and what it has. For the status, which asks nobody."""

from collections.abc import Mapping

from rumi.agent import Thinking, ToolFinished, ToolStarted
from rumi.chats.conversation import Conversation
from rumi.chats.events import Happening
from rumi.chats.jobs import Job, Running
from rumi.chats.means import Means
from rumi.chats.worker import SHOWN
from rumi.models import Discarded, TextDelta

SHOWN_CHARS = 120
"""How much of a tool call's most telling argument is kept."""


def note(job: Job, what: Happening, now: float) -> None:
    """Follow which tool calls run, and what was said of an answer."""
    match what:
        case TextDelta(text):
            job.said += text
        case Thinking() | Discarded():
            job.said = ""
        case ToolStarted(call, arguments):
            telling = next((str(arguments[name]) for name in SHOWN if arguments.get(name)), "")
            job.tools[call.id] = Running(call.name, " ".join(telling.split())[:SHOWN_CHARS], now)
        case ToolFinished(call, _):
            job.tools.pop(call.id, None)
        case _:
            pass


def figures_of(means: Means, chat: str, conversation: Conversation, job: Job | None) -> Mapping[str, object]:
    """A chat's figures as docs/status.md has them; ages in seconds. `job` is what it works on."""
    figures: dict[str, object] = {
        "history": conversation.said,
        "session": conversation.session,
        "tainted": conversation.tainted,
        "container": means.sandboxes.container_id(chat) or None,
    }
    if job is None:
        return figures
    now = means.now()
    return figures | {
        "job": job.kind,
        "turn": job.turn,
        "phase": job.phase,
        "age_s": round(now - job.since, 3),
        "tools": [
            {"name": tool.name, "what": tool.what, "age_s": round(now - tool.since, 3)}
            for tool in job.tools.values()
        ],
        "question": job.asked is not None,
    }
