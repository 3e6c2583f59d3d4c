"""How a chat stands: what it works on, since when, and what it has. For the status, which asks nobody."""

from collections.abc import Mapping

from rumi.chats.calls import gist
from rumi.chats.events import TurnState
from rumi.chats.hub import NOTHING_RUNS
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices
from rumi.chats.session import ChatSession

SHOWN_CHARS = 120
"""How much of a tool call's most telling argument is shown."""

PHASE_CHARS = 80


def phase_of(services: ChatServices, chat: str, job: Job) -> str:
    """Return what a job does, in a few words: its own stage, or what its turn is at."""
    state = _state_of(services, chat, job)
    match state.phase:
        case _ if job.stage:
            return job.stage
        case "acting":
            started = next(reversed(state.calls.values())).what
            return " ".join(f"{started.call.name} {gist(started.arguments)}".split())[:PHASE_CHARS]
        case "waiting" if state.waiting is not None:
            return f"waiting: {state.waiting.what.why}"
        case "asking":
            return "waiting for a yes or a no"
        case phase:
            return phase


def _state_of(services: ChatServices, chat: str, job: Job) -> TurnState:
    state = services.hub.turn(chat)
    return state if state.turn == job.turn else NOTHING_RUNS


def metrics_of(
    services: ChatServices, chat: str, chat_session: ChatSession, job: Job | None
) -> Mapping[str, object]:
    """A chat's figures as docs/status.md has them; ages in seconds. `job` is what it works on."""
    metrics: dict[str, object] = {
        "history": chat_session.said,
        "session": chat_session.session,
        "tainted": chat_session.tainted,
        "container": services.sandboxes.container_id(chat) or None,
    }
    if job is None:
        return metrics
    now = services.now()
    return metrics | {
        "job": job.kind,
        "turn": job.turn,
        "phase": phase_of(services, chat, job),
        "age_s": round(now - job.since, 3),
        "tools": [
            {
                "name": called.what.call.name,
                "what": " ".join(gist(called.what.arguments).split())[:SHOWN_CHARS],
                "age_s": round(now - called.time, 3),
            }
            for called in _state_of(services, chat, job).calls.values()
        ],
        "question": job.asked is not None,
    }
