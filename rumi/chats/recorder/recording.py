"""A recording: a file of JSON lines, first the turn's input, then requests, replies and tool results.

A request is stored without the leading messages that it shares with the previous request. A crash can leave
the last line incomplete; readers ignore that line.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

from rumi.agent.breakers import TurnLimits
from rumi.agent.tool import ToolResult
from rumi.errors import RumiError, UsageError
from rumi.models.model import Message, ModelRequest, Picture, Reply, ToolCall, ToolSpec, Usage
from rumi.platform.openat import read_foreign
from rumi.platform.redact import Encoded
from rumi.texts import Text, os_error

VERSION: Final = 1
MOST_BYTES: Final = 256 * 1024 * 1024
TURN: Final = re.compile(r"t[0-9]{1,18}")

Json: TypeAlias = dict[str, Any]


class RecordingError(RumiError):
    """Raised when a recording cannot be read."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, its result, and its duration in seconds."""

    call: ToolCall
    result: ToolResult
    took: float


@dataclass(slots=True)
class ModelCall:
    """A model request as JSON, the model's token budget at that time, and the reply or failure.

    Both `reply` and `failure` are None if the recording ends with this request. `took` is in seconds.
    """

    request: Json
    context_tokens: int
    reply: Reply | None = None
    failure: Json | None = None
    took: float = 0.0


@dataclass(slots=True)
class RecordedTurn:
    """A recorded turn: its input, and everything external, such as model replies and tool results."""

    head: Json
    model_calls: list[ModelCall] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    end: Json = field(default_factory=dict)

    @property
    def limits(self) -> TurnLimits:
        """The turn's limits, except those that this version of Rumi does not know."""
        known = {dataclass_field.name for dataclass_field in fields(TurnLimits)}
        return TurnLimits(**{name: value for name, value in self.head["limits"].items() if name in known})

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages that the turn began with."""
        return tuple(load_message(message) for message in self.head["history"])

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The specifications of the tools that the model got."""
        return tuple(ToolSpec(**spec) for spec in self.head["tools"])


def dump_call(call: ToolCall) -> Json:
    """Return a call as JSON; omit an empty signature, since earlier recordings have none."""
    fields = asdict(call)
    if not call.signature:
        del fields["signature"]
    return fields


def dump_picture(picture: Picture) -> Json:
    """Return a picture as JSON, its bytes in base64."""
    data = Encoded(base64.b64encode(picture.data).decode())
    return {"path": picture.path, "media_type": picture.media_type, "data": data}


def load_picture(record: Json) -> Picture:
    """Restore a picture from the JSON that `dump_picture` returned."""
    return Picture(record["path"], record["media_type"], base64.b64decode(record["data"]))


def dump_message(message: Message) -> Json:
    """Return a message as JSON."""
    return {
        "role": message.role,
        "content": message.content,
        "tool_calls": [dump_call(call) for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "reasoning": message.reasoning,
        "pictures": [dump_picture(picture) for picture in message.pictures],
    }


def load_message(record: Json) -> Message:
    """Restore a message from the JSON that `dump_message` returned."""
    return Message(
        record["role"],
        record["content"],
        tuple(ToolCall(**call) for call in record["tool_calls"]),
        record["tool_call_id"],
        record["reasoning"],
        tuple(load_picture(picture) for picture in record["pictures"]),
    )


def dump_spec(spec: ToolSpec) -> Json:
    """Return the specification of a tool as JSON."""
    return {"name": spec.name, "description": spec.description, "parameters": spec.parsed}


def dump_request(request: ModelRequest) -> Json:
    """Return a model request as JSON, with everything that the model gets."""
    return {
        "messages": [dump_message(message) for message in request.messages],
        "tools": [dump_spec(tool) for tool in request.tools],
        "temperature": request.temperature,
        "words_only": request.words_only,
        "effort": request.effort,
        "schema": None if request.schema is None else json.loads(json.dumps(request.schema, default=dict)),
        "max_output_tokens": request.max_output_tokens,
    }


def in_bytes(request: Json) -> bytes:
    """Return a model request as bytes, so that equal requests have equal bytes."""
    return json.dumps(request, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def dump_reply(reply: Reply) -> Json:
    """Return a reply as JSON."""
    return asdict(reply)


def dump_result(result: ToolResult) -> Json:
    """Return the part of a tool result that the model and the turn get, as JSON."""
    names = ("ok", "content", "exit_code", "duration_ms", "truncated", "same_as", "tainted", "links", "diff")
    pictures = [dump_picture(picture) for picture in result.pictures]
    ends = {"ends_turn": True} if result.ends_turn else {}
    return {**{name: getattr(result, name) for name in names}, "pictures": pictures, **ends}


def load_result(record: Json) -> ToolResult:
    """Restore a tool result from the JSON that `dump_result` returned."""
    pictures = tuple(load_picture(picture) for picture in record.get("pictures", ()))
    return ToolResult(**{**record, "links": tuple(record["links"]), "pictures": pictures})


def read_recording(path: Path) -> RecordedTurn:
    """Read a recording from a file.

    Raises:
        RecordingError: the file cannot be read, is not a recording, or comes from a newer version.
    """
    try:
        return _read(read_lines(path), path)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RecordingError(
            "{path} is not a recording, or is damaged.", "Name another file.", path=path
        ) from error


def read_lines(path: Path) -> list[Json]:
    """Return the lines of a recording, without an incomplete last line.

    Raises:
        RecordingError: the file cannot be read.
        ValueError: a line other than the last one is not JSON.
    """
    try:
        lines = read_foreign(path, MOST_BYTES).splitlines()
    except OSError as error:
        raise RecordingError(
            "{path} cannot be read: {reason}.", "Name another file.", path=path, reason=os_error(error)
        ) from error
    entries: list[Json] = []
    for index, line in enumerate(lines):
        try:
            entries.append(json.loads(line))
        except ValueError:
            if index < len(lines) - 1:
                raise
    return entries


def _read(entries: Sequence[Json], path: Path) -> RecordedTurn:
    turn: RecordedTurn | None = None
    before: Json = {}
    for entry in entries:
        if turn is None:
            if entry["kind"] != "turn" or entry["version"] > VERSION:
                raise RecordingError("{path} is a recording of a newer Rumi.", "Use that one.", path=path)
            turn = RecordedTurn(entry)
            continue
        match entry["kind"]:
            case "request":
                request = dict(entry["request"])
                request["messages"] = [*before.get("messages", [])[: entry["same"]], *request["messages"]]
                if request["tools"] is None:
                    request["tools"] = before.get("tools", [])
                before = request
                turn.model_calls.append(ModelCall(request, entry["room"]))
            case "reply":
                model_call = turn.model_calls[-1]
                model_call.reply, model_call.took = _reply(entry["reply"]), entry["took"]
            case "failure":
                turn.model_calls[-1].failure, turn.model_calls[-1].took = entry["failure"], entry["took"]
            case "tool":
                turn.calls.append(
                    Call(ToolCall(**entry["call"]), load_result(entry["result"]), entry["took"])
                )
            case "end":
                turn.end = entry
    if turn is None:
        raise RecordingError("{path} is empty.", "Name another file.", path=path)
    return turn


def _reply(record: Mapping[str, Any]) -> Reply:
    calls = tuple(ToolCall(**call) for call in record["tool_calls"])
    return Reply(**{**record, "tool_calls": calls, "usage": Usage(**record["usage"])})


def find_recording(home: Path, named: str, turns: int = 20) -> Path:
    """Return the file of a recorded turn, by its id or its path; of the last turn if the name is empty.

    `turns` is the number of turns that are recorded, for the error.

    Raises:
        UsageError: the recording does not exist.
    """
    advice: str = Text("Recording is off. Turn it on with: rumi config set record.turns 20")
    if turns:
        advice = Text("The last {turns} turns of each chat are recorded.", turns=turns)
    if not named:
        recordings = list((home / "recordings").glob("*/*.jsonl"))
        if recordings:
            return max(recordings, key=lambda path: path.stat().st_mtime)
        raise UsageError("No turn is recorded.", advice)
    if TURN.fullmatch(named):
        found = sorted((home / "recordings").glob(f"*/{named}.jsonl"))
        if found:
            return found[0]
        raise UsageError("The turn {named} is not recorded.", advice, named=named)
    path = Path(named)
    if not path.is_file():
        raise UsageError(
            "{named} is neither a turn nor a file.",
            "A turn looks like t12: rumi debug logs shows them.",
            named=named,
        )
    return path
