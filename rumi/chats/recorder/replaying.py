"""Replays a recorded turn with all recorded replies, or continues it with another model from a given step.

Code, prompts and tool descriptions are the current ones; history, replies, results and the clock are the
recorded ones. So unchanged code produces the same requests, byte for byte.
"""

import difflib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import trio
from typing_extensions import override

from rumi.agent.events import TurnEvent, TurnFinished
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput
from rumi.chats.recorder.recording import Json, RecordedTurn, dump_request, in_bytes, load_message
from rumi.errors import single
from rumi.models.model import Emit, Message, Model, ModelError, ModelRequest, Reply, ToolSpec
from rumi.models.token_budget import context_of
from rumi.platform.redact import Redactor
from rumi.texts import Text

NOT_RECORDED: Final = ToolResult(
    False,
    Text("not recorded: this turn runs again, and nothing is done that was not done then. Go on without it"),
)
DIFF_LINES: Final = 60


@dataclass(frozen=True, slots=True)
class Now:
    """The current instructions, and the current specifications of each tool name, in all their variants."""

    instructions: str | None = None
    specs: Mapping[str, Sequence[ToolSpec]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """The first request that differs from the recorded one: its number, the part that differs, and a diff."""

    request: int
    where: str
    diff: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay: the number of equal requests and of tool calls, and the first difference."""

    requests: int
    calls: int
    difference: ReplayDifference | None = None


@dataclass(frozen=True, slots=True)
class Forked:
    """The result of a fork: the turn's end, and its tool calls, each with True if its result was recorded."""

    finished: TurnFinished
    calls: tuple[tuple[str, bool], ...]


class _Over(Exception):
    """Raised when a replay cannot continue: a request differs, or the recorded turn was stopped here."""


async def replay(turn: RecordedTurn, now: Now, redact: Redactor | None = None) -> Replayed:
    """Replay a turn with all recorded replies and results; return the first difference, if any.

    Replies and results take as long as they did in the recorded turn, so callers run the replay on a clock
    that skips idle time.
    """
    model = _Replaying(turn, redact or Redactor([]))
    tools = _tools(turn, now)
    with suppress(_Over):
        try:
            await _run(turn, now, model, tools.all)
        except ExceptionGroup as group:
            raise single(group) from None
    if model.difference is not None:
        return Replayed(model.asked - 1, tools.made, model.difference)
    if model.asked < len(turn.model_calls):
        missing = ReplayDifference(model.asked + 1, "request", ("- a request that is not made now",))
        return Replayed(model.asked, tools.made, missing)
    return Replayed(model.asked, tools.made)


async def fork(turn: RecordedTurn, now: Now, step: int, model: Model) -> Forked:
    """Run a turn again: use recorded replies before the model call `step`, and another model from then on.

    The tools change nothing: a recorded call returns its recorded result, any other call is refused.
    """
    tools = _tools(turn, now)
    finished = await _run(turn, now, _Forking(turn, step, model), tools.all)
    return Forked(finished, tuple(tools.log))


async def _run(turn: RecordedTurn, now: Now, model: Model, tools: Sequence[Tool]) -> TurnFinished:
    head = turn.head
    instructions, base = head["instructions"], head["base"]
    if now.instructions is not None and base and instructions.startswith(base):
        instructions = now.instructions + instructions[len(base) :]
    turn_input = TurnInput(
        instructions=instructions,
        history=turn.history,
        model=model,
        tools=tools,
        limits=turn.limits,
        language=head["language"],
        context_tokens=head["context_tokens"],
        tainted=head["tainted"],
        known_urls=frozenset(head["given"]),
        checks=head.get("checks"),
        look=_looking(turn),
    )

    async def store(_: object) -> None:
        await trio.lowlevel.checkpoint()

    def watch(_: TurnEvent) -> None:
        pass

    return await run_turn(turn_input, watch, store)


def _looking(turn: RecordedTurn) -> Callable[[Sequence[Message]], Awaitable[Sequence[Message]]]:
    """Return a function that adds the recorded image data to the pictures of messages."""
    messages = (load_message(dumped) for made in turn.model_calls for dumped in made.request["messages"])
    known = {picture.path: picture.data for message in messages for picture in message.pictures}

    async def look(messages: Sequence[Message]) -> Sequence[Message]:
        await trio.lowlevel.checkpoint()
        return [
            replace(
                message,
                pictures=tuple(replace(one, data=known.get(one.path, b"")) for one in message.pictures),
            )
            if message.pictures
            else message
            for message in messages
        ]

    return look


class _Replaying:
    """A model that returns the recorded replies, as long as the requests are the recorded ones."""

    def __init__(self, turn: RecordedTurn, redact: Redactor) -> None:
        self._turn = turn
        self._redact = redact
        self.asked = 0
        self.difference: ReplayDifference | None = None

    @property
    def name(self) -> str:
        """The recorded model's name."""
        return str(self._turn.head["model"])

    @property
    def context_tokens(self) -> int:
        """The model's recorded token budget at the next request."""
        model_calls = self._turn.model_calls
        index = min(self.asked, len(model_calls) - 1)
        return model_calls[index].context_tokens if model_calls else int(self._turn.head["context_tokens"])

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Compare the request with the recorded one, then do what the recorded model did.

        The recorded model either replied, or failed, or was stopped before it replied.
        """
        await trio.lowlevel.checkpoint()
        self.asked += 1
        model_calls = self._turn.model_calls
        # The recording contains no secrets, so the request must be redacted before the comparison.
        made = self._redact.json(dump_request(request))
        if self.asked > len(model_calls):
            self.difference = ReplayDifference(self.asked, "request", ("+ a request that was not made then",))
            raise _Over
        model_call = model_calls[self.asked - 1]
        if in_bytes(made) != in_bytes(model_call.request):
            self.difference = _difference(self.asked, model_call.request, made)
            raise _Over
        if model_call.reply is None and model_call.failure is None:
            if self.asked == len(model_calls):
                raise _Over
            await trio.sleep_forever()  # until the turn's time limit, as the recorded call did
        await trio.sleep(model_call.took)
        if model_call.failure is not None:
            failure = model_call.failure
            raise ModelError(
                failure["kind"],
                "{message}",
                "{advice}" if failure["advice"] else "",
                message=failure["message"],
                advice=failure["advice"],
            )
        assert model_call.reply is not None
        return model_call.reply


class _Forking:
    """A model that returns recorded replies before a step, and another model's replies from then on."""

    def __init__(self, turn: RecordedTurn, step: int, model: Model) -> None:
        self._turn = turn
        self._step = step
        self._model = model
        self._asked = 0
        self.name = model.name
        self.context_tokens = context_of(model, int(turn.head["context_tokens"]))

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Return the recorded reply before the step, or ask the other model."""
        await trio.lowlevel.checkpoint()
        self._asked += 1
        if self._asked < self._step and self._asked <= len(self._turn.model_calls):
            recorded = self._turn.model_calls[self._asked - 1].reply
            if recorded is not None:
                return recorded
        return await self._model.reply(request, emit)


class _Tools:
    def __init__(self, turn: RecordedTurn, specs: Sequence[ToolSpec]) -> None:
        self.made = 0
        self.log: list[tuple[str, bool]] = []
        self._results: dict[str, deque[tuple[ToolResult, float]]] = {}
        for recorded_call in turn.calls:
            key = _key(recorded_call.call.name, recorded_call.call.parsed_arguments)
            self._results.setdefault(key, deque()).append((recorded_call.result, recorded_call.took))
        concurrent = turn.head["concurrent"]
        self.all = tuple(_RecordedTool(spec, spec.name in concurrent, self.call) for spec in specs)

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Return the recorded result of a call with these arguments; a refusal if no result was recorded."""
        await trio.lowlevel.checkpoint()
        self.made += 1
        found = self._results.get(_key(name, arguments))
        self.log.append((f"{name} {json.dumps(arguments, ensure_ascii=False)}", bool(found)))
        if not found:
            return NOT_RECORDED
        # Equal calls get their results in order; a fork that calls more often gets the last one again.
        result, took = found.popleft() if len(found) > 1 else found[0]
        await trio.sleep(took)
        return result


class _RecordedTool(Tool):
    """A tool that returns recorded results and asks no questions."""

    def __init__(self, spec: ToolSpec, concurrent: bool, made: Callable[..., Any]) -> None:
        self.spec = spec
        self.concurrent = concurrent  # when the turn was recorded
        self._made = made

    @override
    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: the recorded result already reflects the person's answer."""
        return None

    @override
    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Return the recorded result of the call."""
        result: ToolResult = await self._made(self.spec.name, arguments)
        return result


def _tools(turn: RecordedTurn, now: Now) -> _Tools:
    return _Tools(turn, [_spec_now(spec, now.specs.get(spec.name, ())) for spec in turn.tools])


def _spec_now(then: ToolSpec, now: Sequence[ToolSpec]) -> ToolSpec:
    """Return the current variant of a tool that is most similar to its recorded specification.

    For a tool that no longer exists, return the recorded specification.
    """
    near = difflib.SequenceMatcher(None, "", then.description + then.schema, autojunk=False)

    def likeness(spec: ToolSpec) -> float:
        near.set_seq1(spec.description + spec.schema)
        return near.ratio()

    return max(now, key=likeness, default=then)


def _key(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def _difference(number: int, then: Json, now: Json) -> ReplayDifference:
    """Return the first difference between two requests."""
    for index, (theirs, ours) in enumerate(zip(then["messages"], now["messages"], strict=False)):
        if theirs != ours:
            return ReplayDifference(number, f"message {index} ({ours['role']})", _diff(theirs, ours))
    if (many := len(then["messages"])) != (count := len(now["messages"])):
        return ReplayDifference(number, "messages", (f"- {many} messages", f"+ {count} messages"))
    tools = {tool["name"]: tool for tool in then["tools"]}
    for ours in now["tools"]:
        if tools.get(ours["name"]) != ours:
            return ReplayDifference(number, f"tool {ours['name']}", _diff(tools.get(ours["name"], {}), ours))
    return ReplayDifference(number, "the rest of the request", _diff(then, now))


def _diff(then: Json, now: Json) -> tuple[str, ...]:
    lines = difflib.unified_diff(_lines(then), _lines(now), "then", "now", lineterm="", n=1)
    return tuple(lines)[:DIFF_LINES]


def _lines(value: Json) -> list[str]:
    """Return a JSON object as lines of text; texts in it are split into lines, too."""
    lines = list[str]()
    for name, item in value.items():
        text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, indent=1)
        lines += [f"{name}:", *text.splitlines()]
    return lines
