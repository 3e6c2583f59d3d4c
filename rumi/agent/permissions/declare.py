"""The `declare_changes` tool: a model declares which calls with side effects the user's message asks for.

The model declares the calls before it reads untrusted content, so such content cannot influence the
declaration. The declared calls then need no approval, even if their texts come from content that was read
later (`rumi.agent.permissions.intent`).
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from rumi.agent.permissions.consent import ArgumentValue, Words, argument_values, chooses
from rumi.agent.permissions.destinations import is_destination, leads_in
from rumi.agent.tool import Claims, Question, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.texts import Text

MOST_CALLS: Final = 20
MOST_TIMES: Final = 10

DECLARE: Final = ToolSpec(
    name="declare_changes",
    description=(
        "Before you read anything: say which calls of other programs' tools that change something the user's "
        "message asks for. Later they need no yes. `fixed`: arguments as the message has them, such as "
        "recipients, paths, amounts. `free`: names of texts and times that you will take from what you read."
    ),
    parameters={
        "type": "object",
        "properties": {
            "calls": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "tool": {"type": "string"},
                        "fixed": {"type": "object", "properties": {}},
                        "free": {"type": "array", "items": {"type": "string"}},
                        "times": {"type": "integer"},
                    },
                    "required": ["tool"],
                },
            }
        },
        "required": ["calls"],
    },
)


@dataclass(slots=True, eq=False)
class Declaration:
    """A call that the model has declared. It may run `times` times.

    `fixed` arguments must have the declared values. `free` arguments may have other values, but these must
    not contain an address that is missing in the user's message.
    """

    tool: str
    fixed: Mapping[str, object] = field(default_factory=dict)
    free: Collection[str] = ()
    times: int = 1

    def fits(self, tool: str, arguments: Mapping[str, object], claims: Claims, words: Words) -> bool:
        """Return True if a call matches this declaration and the user's message contains its destinations."""
        if tool != self.tool or self.times < 1 or not self._is_grounded(claims, words):
            return False
        schemas = _schemas(claims)
        for name, value in arguments.items():
            schema = schemas.get(name, {})
            if name in self.fixed:
                if _canonical(value) != _canonical(self.fixed[name]):
                    return False
            elif _says_nothing(name, value, claims):
                continue
            elif name not in self.free or is_destination(name, schema, value) or _leads(value, words):
                return False
        return all(name in arguments or value is None for name, value in self.fixed.items())

    def _is_grounded(self, claims: Claims, words: Words) -> bool:
        """Return True if the message contains every destination, and at least one of them is not a number.

        A number may be an amount or an id that belongs to another destination; numbers alone do not show that
        the user asked for this call. A call without a destination, for example a call that adds to the user's
        calendar, needs a fixed argument or must have no free arguments.
        """
        schemas = _schemas(claims)
        goes = {name: value for name, value in self.fixed.items() if _goes(name, value, schemas)}
        found = [argument for argument in argument_values(goes, claims.schema) if not argument.is_plain]
        if not found:
            return any(self.fixed.values()) or not self.free
        anchored = any(words.consent_to(argument.value) for argument in found)
        return anchored and all(_is_users_word(argument, words) for argument in found)


def _leads(value: object, words: Words) -> bool:
    """Return True if a free argument's text contains an address that the user's message does not contain."""
    texts = [str(argument.value) for argument in argument_values({"": value}, {})]
    return any(not words.have(lead) for text in texts for lead in leads_in(text))


def _is_users_word(argument: ArgumentValue, words: Words) -> bool:
    if isinstance(argument.value, bool) or argument.listed:
        return True
    return words.consent_to(argument.value) or (not chooses(argument.value) and words.have(argument.value))


class DeclareTool(Tool):
    """The `declare_changes` tool of one turn.

    `tainted` returns True once the turn has read untrusted content.
    """

    spec = DECLARE
    concurrent = False
    only_reads = True

    def __init__(self, tainted: Callable[[], bool]) -> None:
        self._tainted = tainted
        self.declarations: list[Declaration] = []

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: the tool changes nothing, and refuses in a tainted turn, so it needs no approval."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Record the declared calls. Refuse in a tainted turn: untrusted text may have chosen the calls."""
        await trio.lowlevel.checkpoint()
        if self._tainted():
            return ToolResult(False, Text("not noted: this turn has read from outside. Go on without it"))
        found = declarations_in(arguments)
        if isinstance(found, str):
            return ToolResult(False, found)
        self.declarations += found[: MOST_CALLS - len(self.declarations)]
        return ToolResult(True, "noted. Now do the task")


def declarations_in(arguments: Mapping[str, object]) -> list[Declaration] | str:
    """Return the declared calls in the tool's arguments, or an error message for the model."""
    calls = arguments.get("calls")
    if not isinstance(calls, list):
        return "declare_changes needs `calls`, a list"
    found: list[Declaration] = []
    for call in calls[:MOST_CALLS]:
        if not isinstance(call, Mapping) or not isinstance(call.get("tool"), str):
            return "each call needs `tool`, a string"
        fixed, free, times = call.get("fixed") or {}, call.get("free") or [], call.get("times") or 1
        if not isinstance(fixed, Mapping) or not isinstance(free, list) or not isinstance(times, int):
            return "`fixed` is an object, `free` a list of names, `times` a number"
        declared = Declaration(call["tool"], fixed, frozenset(map(str, free)), min(max(times, 1), MOST_TIMES))
        found.append(declared)
    return found


def _schemas(claims: Claims) -> Mapping[str, Mapping[str, object]]:
    known = claims.schema.get("properties")
    named = known.items() if isinstance(known, Mapping) else ()
    return {name: schema for name, schema in named if isinstance(schema, Mapping)}


def _goes(name: str, value: object, schemas: Mapping[str, Mapping[str, object]]) -> bool:
    return is_destination(name, schemas.get(name, {}), value)


def _says_nothing(name: str, value: object, claims: Claims) -> bool:
    return name in _schemas(claims) and all(
        argument.is_plain for argument in argument_values({name: value}, claims.schema)
    )


def _canonical(value: object) -> str:
    """Return a canonical form of a value, for comparison.

    Leading and trailing spaces, the order of lists, and `1.0` versus `1` make no difference.
    """
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return sorted(map(_plain, value), key=lambda item: json.dumps(item, sort_keys=True, default=str))
    return value


def destinations_of(arguments: Mapping[str, object], claims: Claims) -> str | None:
    """Return a canonical form of a call's destinations; None if the call has no content.

    Also return None unless all destinations are texts: if one is a number or a boolean, a second call with
    the same destinations may be a second payment.
    """
    schemas = _schemas(claims)
    goes = {name: value for name, value in arguments.items() if _goes(name, value, schemas)}
    found = [argument for argument in argument_values(goes, claims.schema) if not argument.is_plain]
    content = [
        name for name in arguments if name not in goes and not _says_nothing(name, arguments[name], claims)
    ]
    if not content or not any(chooses(argument.value) for argument in found):
        return None
    if not all(isinstance(argument.value, str) for argument in found):
        return None
    return _canonical(goes)
