"""How a chat stands: what it works on, since when, and what it has; tool calls in few words, for people."""

from collections.abc import Callable, Mapping

from rumi.agent.events import ToolStarted
from rumi.chats.events import TurnState
from rumi.chats.jobs import Job
from rumi.chats.session import ChatSession

SHOWN_CHARS = 120
"""How much of a tool call's most telling argument is shown."""

PHASE_CHARS = 80

_MAIN_ARGUMENTS = ("command", "url", "query", "path", "key", "name", "question")


def gist(arguments: Mapping[str, object]) -> str:
    """Return the argument that tells most about a call; empty where none does."""
    values = (arguments.get(name) for name in _MAIN_ARGUMENTS)
    return next((value for value in values if isinstance(value, str) and value), "")


def title_of(started: ToolStarted, clean: Callable[[str], str]) -> str:
    """Return the call as a person would write it: `$ ls -la`, `web_fetch https://…`.

    What the model wrote is passed through `clean`.
    """

    def get(name: str) -> str:
        return clean(str(started.arguments.get(name, "")))

    match started.call.name:
        case name if not started.arguments:  # what the model wrote was no JSON object, or was not told
            return f"{clean(name)} {clean(started.call.arguments)}".strip()
        case "bash":
            stdin = str(started.arguments.get("stdin", "") or "")
            suffix = f"  ← {len(stdin.encode('utf-8', 'replace'))} B" if stdin else ""
            return f"$ {get('command')}{suffix}"
        case "web_fetch":
            method = get("method").upper()
            return f"web_fetch {get('url')}" + (f" ({method})" if method not in ("", "GET") else "")
        case "web_search":
            return f"web_search “{get('query')}”"
        case "grep" | "find" as name:
            return f"{name} “{get('pattern')}” {get('path')}".rstrip()
        case "read" | "ls" as name:
            return f"{name} {get('path')}".rstrip()
        case "note":
            return f"note {get('text')}"
        case "research":
            return f"research “{get('question')}”"
        case "research_repo":
            return f"research_repo {get('uri')} “{get('question')}”"
        case "remember":
            return f"remember {get('key')} = {get('value')}"
        case "forget":
            return f"forget {get('key')}"
        case "use_skill":
            return f"use_skill {get('name')}: {get('input')}"
        case "write_file" if isinstance(text := started.arguments.get("content"), str):
            return f"write_file {get('path')}  ← {len(text.encode('utf-8', 'replace'))} B"
        case "read_file" if started.arguments.get("offset"):
            return f"read_file {get('path')}:{get('offset')}"
        case "read_file" | "edit_file" | "write_file" | "send_file" as name:
            return f"{name} {get('path')}"
        case "ask_user":
            return f"ask_user “{get('question')}”"
        case "propose_plan":
            return "propose_plan"
        case "session_complete":
            return f"session_complete “{get('summary')}”"
        case "sleep":
            return f"sleep {get('seconds')} s: {get('reason')}"
        case "write_skill":
            return f"write_skill {get('name')}: {get('description')}"
        case name if name.startswith("git_"):
            return " ".join([name, *(clean(str(argument)) for argument in started.arguments.values())])
        case name:
            return f"{clean(name)} {clean(started.call.arguments)}".strip()


def phase_of(job: Job, state: TurnState) -> str:
    """Return what a job does, in a few words: its own stage, or what its turn is at, the `state`."""
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
    """A chat's figures as docs/status.md has them; ages in seconds. `job` is what it works on.

    `state` is what the job's turn is at; `container` is the id of the sandbox, empty without one.
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
        "question": job.asked is not None,
        "queued": queued,
    }
