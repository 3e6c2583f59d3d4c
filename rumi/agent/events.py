"""The events of a running turn. Chat, terminal, journal and audit log all read them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rumi.agent.tool import ToolResult
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Used, Waiting
from rumi.platform.texts.questions import Verdict
from rumi.store.journal.records import Reason


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model call begins; the words so far are a separate message. 0 is a breaker's closing call."""

    call: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins. `arguments` is what the model wrote, parsed; empty if it was not a JSON object."""

    call: ToolCall
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool call has reached a step, which `text` tells people on one short line.

    `call` is the id of the call. `step` counts its steps from 1.
    """

    call: str
    text: str
    step: int


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended, after so many `steps`."""

    call: ToolCall
    result: ToolResult
    steps: int = 0


@dataclass(frozen=True, slots=True)
class ConfirmationAsked:
    """The turn waits for the user's yes or no to `text`.

    `whole` is the same question with every value whole; it is empty where `text` shortens none. A channel
    shows it too.
    """

    id: str
    text: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmationEnded:
    """The question `id` is answered, or void because the turn was stopped; later answers do not count."""

    id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn has ended. `answer` is the text that the user reads, including a breaker's warning."""

    reason: Reason
    answer: str
    usage: Usage = field(default_factory=Usage)


TurnEvent: TypeAlias = (
    Thinking
    | TextDelta
    | Discarded
    | Waiting
    | Used
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ConfirmationAsked
    | ConfirmationEnded
    | TurnFinished
)


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
