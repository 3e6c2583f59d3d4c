"""The events of a running turn, which the chat, the terminal, the journal and the audit log read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from rumi.agent.todo_list import done_of, todo_items
from rumi.agent.tool import ToolResult
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Used, Waiting
from rumi.platform.texts.questions import Verdict
from rumi.store.journal.records import Reason
from rumi.store.journal.shown import SAID_CHARS, CallFigures, ShownCall

BY_HAND: Final = "by-hand"
"""The id of the call whose command a person typed. Views show its output with the reply."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model call starts. Text emitted before this event belongs to an earlier message.

    `call` is the number of the model call; 0 if a breaker has tripped and the call only requests a closing
    answer.
    """

    call: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call starts. `arguments` are the parsed arguments; empty if they are not a JSON object."""

    call: ToolCall
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A step of a running tool call. `text` describes the step for users in one short line.

    `call` is the id of the call. `step` counts the steps of the call from 1.
    """

    call: str
    text: str
    step: int


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The next output of a running command, for users. Of much output at once, only the end is published.

    `call` is the id of the call.
    """

    call: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has ended. `steps` is the number of progress steps that were published for the call."""

    call: ToolCall
    result: ToolResult
    steps: int = 0

    @property
    def shown(self) -> ShownCall:
        """What people see of the call that has ended; the journal stores the same."""
        result = self.result
        return ShownCall(
            result.ok,
            str(result.content[:SAID_CHARS]),
            len(result.content) > SAID_CHARS or result.truncated,
            result.exit_code,
            result.duration_ms,
            result.refused,
            result.diff,
            result.shows,
            self.steps,
        )


@dataclass(frozen=True, slots=True)
class ConfirmationAsked:
    """The turn waits for the user's yes or no to the question `text`.

    `whole` is the same question with every value in full; it is empty if `text` shortens no value. A channel
    shows `text` and `whole`. `call` is the id of the tool call that waits; empty if a command asks.
    """

    id: str
    text: str
    whole: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmationEnded:
    """The question `id` was answered, or the turn was stopped. Later answers to the question are ignored."""

    id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn has ended. `answer` is the text for the user, including the warning of a tripped breaker.

    `nothing_new` means that the turn has nothing to tell the user; `answer` says why. `failed` are the tools
    whose last call in such a turn failed, each with its result.
    """

    reason: Reason
    answer: str
    usage: Usage = field(default_factory=Usage)
    nothing_new: bool = False
    failed: tuple[str, ...] = ()


TurnEvent: TypeAlias = (
    Thinking
    | TextDelta
    | Discarded
    | Waiting
    | Used
    | CallFigures
    | ToolStarted
    | ToolProgress
    | ToolOutput
    | ToolFinished
    | ConfirmationAsked
    | ConfirmationEnded
    | TurnFinished
)


def within(call: str, watch: Callable[[TurnEvent], None]) -> Callable[[TurnEvent], None]:
    """Return a callback for the events of a turn that runs within the tool call `call`.

    It forwards tool calls, their ids prefixed with `call`, and the usage of model calls. Text and the end of
    the inner turn are not the outer turn's. The gate of both publishes its questions itself.
    """

    def forward(event: TurnEvent) -> None:
        match event:
            case ToolStarted() | ToolFinished():
                watch(replace(event, call=replace(event.call, id=f"{call}.{event.call.id}")))
            case ToolProgress():
                watch(replace(event, call=f"{call}.{event.call}"))
            case Used():
                watch(event)

    return forward


def title_of(started: ToolStarted, clean: Callable[[str], str]) -> str:
    """Return a short title for a tool call, such as `$ ls -la` or `web_fetch https://…`.

    All text from the model is passed through `clean`.
    """

    def get(name: str) -> str:
        return clean(str(started.arguments.get(name, "")))

    path = get("path") or get("file_path")

    match started.call.name:
        case name if not started.arguments:  # not a JSON object, or the arguments were not published
            return f"{clean(name)} {clean(started.call.arguments)}".strip()
        case "bash":
            stdin = str(started.arguments.get("stdin", "") or "")
            suffix = f"  ← {len(stdin.encode('utf-8', 'replace'))} B" if stdin else ""
            behind = " &" if started.arguments.get("background") else ""
            return f"$ {get('command')}{behind}{suffix}"
        case "bash_output" | "bash_stop" as name:
            return f"{name} {get('id')}"
        case "web_fetch":
            method = get("method").upper()
            to = f" → {get('save')}" if get("save") else ""
            return f"web_fetch {get('url')}" + (f" ({method})" if method not in ("", "GET") else to)
        case "browser_open":
            return f"browser_open {get('url')}"
        case "web_search":
            return f"web_search “{get('query')}”"
        case "grep" | "find" as name:
            return f"{name} “{get('pattern')}” {get('path')}".rstrip()
        case "read" | "ls" as name:
            return f"{name} {get('path')}".rstrip()
        case "note":
            return f"note {get('text')}"
        case "mail_search":
            wanted = " ".join(filter(None, (get("query"), get("from"), get("subject"), get("folder"))))
            return f"mail_search “{wanted}”"
        case "mail_read" | "mail_save" as name:
            return f"{name} {get('id')}"
        case "mail_send" | "mail_draft" as name:
            return f"{name} “{get('subject')}”"
        case "calendar_read" | "calendar_free" as name:
            return f"{name} {get('from')} – {get('to')}".rstrip(" –")
        case "calendar_write":
            words = (get("action"), f"“{get('title')}”" if get("title") else "", get("start"))
            return f"calendar_write {' '.join(filter(None, words))}"
        case "make_image":
            return f"make_image “{get('prompt')}”"
        case "delegate":
            return f"delegate “{get('goal')}”"
        case "research":
            return f"research “{get('question')}”"
        case "research_repo":
            return f"research_repo {get('uri')} “{get('question')}”"
        case "remember":
            return f"remember {get('key')} = {get('value')}"
        case "remind":
            when = get("at") or get("cron") or (f"{get('in_minutes')} min" if get("in_minutes") else "")
            return f"remind {when}: {get('text')}"
        case "forget":
            return f"forget {get('key')}"
        case "use_skill":
            return f"use_skill {get('name')}: {get('input')}"
        case "write_file" if isinstance(text := started.arguments.get("content"), str):
            return f"write_file {path}  ← {len(text.encode('utf-8', 'replace'))} B"
        case "read_file" if started.arguments.get("offset"):
            return f"read_file {path}:{get('offset')}"
        case "read_file" | "edit_file" | "write_file" | "send_file" as name:
            return f"{name} {path}"
        case "todo" if (items := todo_items(started.arguments)) is not None:
            return f"todo {done_of(items)}".rstrip()
        case "ask_user":
            return f"ask_user “{get('question')}”"
        case "propose_plan":
            return "propose_plan"
        case "nothing_new":
            return f"nothing_new “{get('why')}”"
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
