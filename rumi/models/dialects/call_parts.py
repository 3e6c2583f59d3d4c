"""Tool calls from their parts, as the servers' streams send them.

OpenAI sends a call's id and name once, and its arguments in pieces with the call's index. Others send calls
without ids or with one index for all, change the id with each piece, repeat the name, send the name in
pieces, or send the arguments as an object, as a whole in each piece, or as a Python literal.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from rumi.models.dialects.events import BadStreamError
from rumi.models.dialects.failed_calls import clean_name
from rumi.models.dialects.values import arguments_in, dumped, json_value
from rumi.models.model import ToolCall

MAX_CALLS: Final = 128
"""Maximum number of calls in one reply."""

_NOTHING: Final = frozenset({"null", "None", '""', "[]"})
"""What servers send as the arguments of a call that has none."""

NAMELESS: Final = "unnamed"
"""Name of a call that has arguments and no name, beside calls with names: the model gets an error for it."""


def new_id() -> str:
    """Return an id for a call without one."""
    return f"call_{uuid4().hex[:12]}"


@dataclass(slots=True)
class PartialCall:
    """The parts of a tool call that have arrived so far.

    `ids` are the ids of its parts. `announced` is True if the call's name was emitted.
    """

    number: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    signature: str = ""
    ids: set[str] = field(default_factory=set)
    announced: bool = False

    @property
    def whole(self) -> bool:
        """True if the arguments that have arrived are a complete JSON object."""
        text = "".join(self.arguments).rstrip()
        return text.endswith("}") and isinstance(json_value(text), dict)


class CallParts:
    """Builder of a reply's tool calls from their parts. `tools` are the names of the offered tools."""

    def __init__(self, tools: Collection[str] = ()) -> None:
        self._tools = tools
        self._calls: list[PartialCall] = []
        self._open: dict[int | None, PartialCall] = {}
        """The last call of each index; that of None is the last call of all."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, part: Mapping[str, object]) -> tuple[PartialCall, str]:
        """Process a part; return its call, and the piece of the arguments.

        Raises:
            BadStreamError: There are too many calls.
        """
        function = part.get("function")
        function = function if isinstance(function, dict) else part
        name, call_id = _text(function.get("name")), _text(part.get("id"))
        arguments = function.get("arguments", function.get("parameters"))
        piece = _text(arguments) if arguments is None or isinstance(arguments, str) else dumped(arguments)
        index = _index(part.get("index"))
        call = self._call_of(index, call_id, name, piece)
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                raise BadStreamError("its reply has too many tool calls")
            call = PartialCall(call_id)
            self._calls.append(call)
        if name and not (call.name and (call.arguments or _named(call, name))):
            call.name = clean_name(call.name + name)
        call.number = call.number or call_id
        call.ids |= {call_id} - {""}
        self._open[index] = self._open[None] = call
        if piece:
            call.arguments.append(piece)
        return call, piece

    def _call_of(self, index: int | None, call_id: str, name: str, piece: str) -> PartialCall | None:
        """Return the call that a part belongs to; None if the part begins a new call.

        The index decides, and the id where calls share an index or have none. A part with a name begins a
        call, unless the name is only repeated, or is a further piece of the name.
        """
        call = self._open.get(index)
        known = call is not None and call_id in call.ids
        if not name:
            if call_id and not known:
                return next((other for other in reversed(self._calls) if call_id in other.ids), call)
            return call
        if call is None or not call.name:
            return call
        if call.arguments:
            return call if _named(call, name) and self._goes_on(call, piece, call_id) else None
        # With one index and one name, only the id has changed if the first part had no arguments yet.
        if call_id and call.ids and not known and not (piece and index is not None and _named(call, name)):
            return None
        return call if _named(call, name) or self._continues(call, name) else None

    def _goes_on(self, call: PartialCall, piece: str, call_id: str) -> bool:
        """Return True if a part with the name of a call that has arguments belongs to this call."""
        if not call.whole:
            return True
        if call_id not in call.ids:
            return not (call_id or piece)
        text = "".join(call.arguments)
        return not piece or piece == text or _grows(text, piece)

    def _continues(self, call: PartialCall, name: str) -> bool:
        """Return True if a name is the next piece of the call's name, rather than a name of its own."""
        if call.name in self._tools or clean_name(name) in self._tools:
            return clean_name(call.name + name) in self._tools
        return True

    def may_grow(self, name: str) -> bool:
        """Return True if a call's name may be only the first piece of the name of an offered tool."""
        return name not in self._tools and any(tool.startswith(name) for tool in self._tools)

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls, with ids, and with arguments as JSON where they can be read.

        Raises:
            BadStreamError: The only call has no name.
        """
        found: list[PartialCall] = []
        for call in self._calls:
            if call.name:
                found.append(call)
            elif "".join(call.arguments).strip() in ("", "{}", "null"):
                continue
            elif found and json_value("".join(found[-1].arguments)) is None:
                found[-1].arguments += call.arguments  # its pieces came with another index
            else:
                found.append(call)
        if self._calls and not any(call.name for call in found):
            raise BadStreamError("a tool call has no name")
        return tuple(
            ToolCall(call.number or new_id(), call.name or NAMELESS, joined(call.arguments), call.signature)
            for call in found
        )


def _named(call: PartialCall, name: str) -> bool:
    return clean_name(name) == call.name


def joined(pieces: list[str]) -> str:
    """Return a call's arguments from their pieces: JSON if it can be read, otherwise the text as it came.

    Some servers send the whole arguments with each piece, or once more at the end, or an empty object before
    the pieces.
    """
    text = "".join(pieces)
    if _is_json_object(text) or not text.strip():
        return text
    if text.strip() in _NOTHING:
        return "{}"
    candidates = [text]
    if len(pieces) > 1:
        before, last = "".join(pieces[:-1]), pieces[-1]
        if pieces[0].strip() in ("{}", "null"):
            candidates.append("".join(pieces[1:]))
        if last.startswith(pieces[-2]) or last.strip() == before.strip() or _grows(pieces[-2], last):
            candidates.append(last)
    for candidate in candidates:
        found = arguments_in(candidate)
        if found is not None:
            return dumped(found)
    return text


def _is_json_object(text: str) -> bool:
    """Return True if a text is strict JSON: without line breaks in strings, which other readers refuse."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _grows(before: str, last: str) -> bool:
    """Return True if `last` is an object with all that the object `before` has."""
    old, new = json_value(before), json_value(last)
    return isinstance(old, dict) and isinstance(new, dict) and old.items() <= new.items()


def parts_in(value: object) -> Iterator[Mapping[str, object]]:
    """Yield the parts of calls in a chunk's field, which is a list, or only one part.

    Raises:
        BadStreamError: A part is not an object.
    """
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            yield part
        elif part is not None:
            raise BadStreamError("a tool call is not an object")


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _index(value: object) -> int | None:
    """Return a part's index as a number; None if there is none."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        return int(value)
    return int(value) if isinstance(value, int | float) and abs(value) < 1e9 else None
