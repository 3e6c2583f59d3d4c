"""The status of a chat: its job, phase and metrics, with short descriptions of tool calls for people."""

from collections.abc import Mapping

from rumi.agent.todo_list import done_of
from rumi.chats.events import TurnState
from rumi.chats.jobs import Job
from rumi.chats.session import ChatSession

SHOWN_CHARS = 120
"""Maximum number of characters shown of a tool call's main argument."""

PHASE_CHARS = 80

_MAIN_ARGUMENTS = ("command", "url", "query", "path", "key", "name", "question", "prompt")


def gist(arguments: Mapping[str, object]) -> str:
    """Return the main argument of a tool call; empty if the call has none."""
    values = (arguments.get(name) for name in _MAIN_ARGUMENTS)
    return next((value for value in values if isinstance(value, str) and value), "")


def phase_of(job: Job, state: TurnState) -> str:
    """Return what a job does, in a few words: the job's stage, or the phase in the turn's `state`."""
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


def metrics_of(
    chat_session: ChatSession, container: str, job: Job | None, state: TurnState, now: float, queued: int
) -> Mapping[str, object]:
    """Return a chat's metrics as documented in docs/status.md; ages are in seconds.

    `job` is the running job, `state` the state of its turn; `container` is the id of the sandbox; empty if
    there is none.
    """
    metrics: dict[str, object] = {
        "history": chat_session.said,
        "session": chat_session.session,
        "tainted": chat_session.tainted,
        "container": container or None,
    }
    if job is None:
        return metrics
    return metrics | {
        "job": job.kind,
        "turn": job.turn,
        "phase": phase_of(job, state),
        "age_s": round(now - job.since, 3),
        "tools": [
            {
                "name": called.what.call.name,
                "what": " ".join(gist(called.what.arguments).split())[:SHOWN_CHARS],
                "age_s": round(now - called.time, 3),
                "step": state.step(called.what.call.id),
            }
            for called in state.calls.values()
        ],
        "todo": done_of(state.todo),
        "question": job.asked is not None,
        "queued": queued,
    }
