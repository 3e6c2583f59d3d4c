"""The calls with side effects that a user's message asks for.

They are declared without influence from untrusted content.

The model declares these calls with `declare_changes` while its turn is untainted. If the model has declared
none, or if the conversation was already tainted, a separate model call declares them before the first
question; it sees only the message and the tools. A call may run as many times as it was declared; runs before
the declaration count too.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import trio

from rumi.agent.permissions.consent import Words
from rumi.agent.permissions.declare import DECLARE, Declaration, DeclareTool, declarations_in, destinations_of
from rumi.agent.tool import Claims, Tool, claims_of
from rumi.models.model import Message, Model, ModelError, ModelRequest, ToolSpec

logger = logging.getLogger(__name__)

DECLARE_S: Final = 30.0
"""Maximum time for the model call that declares changes, in seconds."""

MOST_WORDS_CHARS: Final = 8_000

DeclareFor: TypeAlias = Callable[[str, Sequence[ToolSpec]], Awaitable[Sequence[Declaration]]]
"""Returns the changing calls that a message asks for, derived only from the message and the tools."""


class Intent:
    """The calls with side effects that one turn's message asks for. `tools` returns the available tools."""

    def __init__(
        self, words: Words, tools: Callable[[], Iterable[Tool]], declare_for: DeclareFor | None = None
    ) -> None:
        self._words = words
        self._tools = tools
        self._declare_for = self._declarer = declare_for
        self._made: list[tuple[str, Mapping[str, object], Claims]] = []
        self._declared: list[Declaration] = []
        self._counted = 0
        self._uncounted: list[tuple[str, Mapping[str, object], Claims]] = []
        self._approved: set[tuple[str, str | None]] = set()

    def renew(self) -> None:
        """Forget what was declared and approved, because the user has said more; calls that ran still count.

        What the user says may also take back a part of the request.
        """
        self._take_declared()
        self._declared.clear()
        self._approved.clear()
        self._counted, self._uncounted = 0, list(self._made)
        self._declare_for = self._declarer

    async def covers(self, name: str, arguments: Mapping[str, object], claims: Claims) -> bool:
        """Return True if the message asks for this call, or the user has approved the call's destinations."""
        if (name, destinations_of(arguments, claims)) in self._approved:
            return True
        if self._find(name, arguments, claims) is not None:
            return True
        if self._declare_for is None or not self._words.text.strip():
            return False
        # Once per turn. Taken before the await, so that a concurrent call does not start it a second time.
        declare_for, self._declare_for = self._declare_for, None
        specs = [tool.spec for tool in self._tools() if _changes(tool)]
        self._declared += await declare_for(self._words.text[:MOST_WORDS_CHARS], specs)
        return self._find(name, arguments, claims) is not None

    def note_made(self, name: str, arguments: Mapping[str, object], claims: Claims) -> None:
        """Count a call with side effects that is about to run, with or without a question to the user."""
        found = self._find(name, arguments, claims)
        self._made.append((name, arguments, claims))
        if found is not None:
            found.times -= 1
        else:
            self._uncounted.append((name, arguments, claims))

    def approve(self, name: str, arguments: Mapping[str, object], claims: Claims) -> None:
        """Record an approval of a call.

        It also covers later calls of the turn that differ only in their content.
        """
        where = destinations_of(arguments, claims)
        if where is not None:
            self._approved.add((name, where))

    def _find(self, name: str, arguments: Mapping[str, object], claims: Claims) -> Declaration | None:
        self._take_declared()
        fitting = (
            declaration
            for declaration in self._declared
            if declaration.fits(name, arguments, claims, self._words)
        )
        return next(fitting, None)

    def _take_declared(self) -> None:
        """Move new declarations from the tool to this intent, and count calls that ran before them."""
        for tool in self._tools():
            if isinstance(tool, DeclareTool):
                self._declared += tool.declarations
                tool.declarations.clear()
        for declared in self._declared[self._counted :]:
            for made in self._uncounted[:]:
                if declared.fits(*made, self._words):
                    declared.times -= 1
                    self._uncounted.remove(made)
        self._counted = len(self._declared)


def _changes(tool: Tool) -> bool:
    claims = claims_of(tool)
    return claims is not None and not claims.reads


def declaring(model: Model, instructions: str) -> DeclareFor:
    """Return a function that asks `model` for the declarations, with only the user's message and the tools.

    If the model fails or takes longer than `DECLARE_S`, nothing is declared.
    """

    async def declare_for(words: str, tools: Sequence[ToolSpec]) -> Sequence[Declaration]:
        listed = "\n".join(
            json.dumps({"tool": tool.name, "description": tool.description, "parameters": tool.parameters})
            for tool in tools
        )
        request = ModelRequest(
            (Message("system", f"{instructions}\n\n{listed}"), Message("user", words)), (DECLARE,)
        )
        try:
            with trio.move_on_after(DECLARE_S):
                reply = await model.reply(request, lambda event: None)
                calls = [call.arguments for call in reply.tool_calls if call.name == DECLARE.name]
                return [declaration for call in calls for declaration in _parsed(call)]
            logger.info("the changes of a message were not declared in time")
        except ModelError as error:
            logger.info("the changes of a message could not be declared: %s", error)
        return ()

    return declare_for


def _parsed(arguments: str) -> list[Declaration]:
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    found = declarations_in(parsed) if isinstance(parsed, dict) else []
    return [] if isinstance(found, str) else found
