"""The `declare_changes` tool: before it reads, a model says which changing calls the user's message asks for.

Nothing from outside can have chosen what the model says then. So the calls need no yes later, when their
texts come from what was read (`rumi.agent.permissions.intent`).
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
                        "fixed": {"type": "object"},
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
    """A call that may be made so many `times`: `fixed` arguments as they are, content in the `free` ones."""

    tool: str
    fixed: Mapping[str, object] = field(default_factory=dict)
    free: Collection[str] = ()
    times: int = 1

    def fits(self, tool: str, arguments: Mapping[str, object], claims: Claims, words: Words) -> bool:
        """Return True if the call is this one, and the user's message has each of its destinations."""
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
        """Return True if the message has each destination, and one of them as a word.

        A number beside such a word may be an amount or an id; alone it says nothing. A call without such an
        argument, which adds to the user's calendar for example, has something fixed, or no argument at all.
        """
        schemas = _schemas(claims)
        goes = {name: value for name, value in self.fixed.items() if _goes(name, value, schemas)}
        found = [argument for argument in argument_values(goes, claims.schema) if not argument.is_plain]
        if not found:
            return any(self.fixed.values()) or not self.free
        anchored = any(words.consent_to(argument.value) for argument in found)
        return anchored and all(_is_users_word(argument, words) for argument in found)


def _leads(value: object, words: Words) -> bool:
    """Return True if a free text would lead its readers to an address that is not the user's word."""
    texts = [str(argument.value) for argument in argument_values({"": value}, {})]
    return any(not words.have(lead) for text in texts for lead in leads_in(text))


def _is_users_word(argument: ArgumentValue, words: Words) -> bool:
    if isinstance(argument.value, bool) or argument.listed:
        return True
    return words.consent_to(argument.value) or (not chooses(argument.value) and words.have(argument.value))


class DeclareTool(Tool):
    """Declares the changing calls of one turn. `tainted` says that it has read something from outside."""

    spec = DECLARE
    concurrent = False

    def __init__(self, tainted: Callable[[], bool]) -> None:
        self._tainted = tainted
        self.declarations: list[Declaration] = []

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: it changes nothing, and after reading it declares nothing."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Note the calls. What was read could have chosen them afterwards, so then none is noted."""
        await trio.lowlevel.checkpoint()
        if self._tainted():
            return ToolResult(False, "not noted: this turn has read from outside. Go on without it")
        found = declarations_in(arguments)
        if isinstance(found, str):
            return ToolResult(False, found)
        self.declarations += found[: MOST_CALLS - len(self.declarations)]
        return ToolResult(True, "noted. Now do the task")


def declarations_in(arguments: Mapping[str, object]) -> list[Declaration] | str:
    """Return the declared calls in the tool's arguments, or what is wrong with them."""
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
    """Return one form of a value, however a model writes it: blanks, the order of a list, whole numbers."""
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
    """Return one form of the destinations of a call that also has content; None if they are no plain words.

    With a number or a yes or no among them, a second call with the same destinations may be a second payment.
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
