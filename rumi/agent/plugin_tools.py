"""Tools of plugins: their registration, what they get of a chat, and tools made from functions."""

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, get_type_hints

from typing_extensions import override

from actors import Supervisor
from rumi.agent.mcp.described import schema_for_models, values_of
from rumi.agent.tool import Claims, Question, Reach, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.config.plugins import PluginContext, Registration
from rumi.platform.untrusted_text import untrusted_block
from rumi.texts import Language

if TYPE_CHECKING:
    from pydantic import BaseModel

MOST_TOOLS: Final = 128
"""Maximum number of tools of one registration."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

SHOWN_CHARS: Final = 20_000
"""Maximum length of a result that a model reads, in characters."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a plugin's tools get of one turn of a chat.

    `actors` is what the registration's `add_actors` returned. `owner` is the person or the group to whom the
    chat belongs, `language` the language of the turn's message. `tainted` returns True if the session has
    read untrusted content. `save_file` stores a file in the chat's workspace and returns its path there; it
    counts as untrusted, and a `RumiError` says that there is no room.
    """

    plugin: PluginContext
    actors: object
    chat: str
    owner: str
    language: Language
    tainted: Callable[[], bool]
    save_file: Callable[[bytes, str], Awaitable[str]]


def checked_tools(
    found: object, taken: Collection[str], failed: Callable[[BaseException], object]
) -> list[Tool]:
    """Return the tools of a plugin that models can use; call `failed` for each of the others.

    Providers refuse a whole request for one odd tool, so none is passed on.

    Raises:
        RumiError: It is no list or tuple of tools, or there are too many.
    """
    if not isinstance(found, list | tuple) or len(found) > MOST_TOOLS:
        raise RumiError("The tools of a turn are a list or a tuple of up to {count} tools.", count=MOST_TOOLS)
    names, tools = set(taken), list[Tool]()
    for tool in found:
        try:
            _check_tool(tool, names)
        except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
            failed(error)
        else:
            names.add(tool.spec.name)
            tools.append(tool)
    return tools


def _check_tool(tool: object, taken: Collection[str]) -> None:
    spec = getattr(tool, "spec", None)
    if not isinstance(spec, ToolSpec) or not callable(getattr(tool, "call", None)):
        raise RumiError("{what} is no tool.", what=type(tool).__name__)
    if not isinstance(spec.name, str) or _NAME.fullmatch(spec.name) is None:
        raise RumiError(
            "{name} is no name for a tool: it has up to 64 letters, digits, - and _.",
            name=f"{spec.name!r}"[:100],
        )
    if spec.name in taken:
        raise RumiError("There is another tool {name}.", name=spec.name)
    if not isinstance(spec.description, str) or not isinstance(spec.parameters, Mapping):
        raise RumiError("The tool {name} has no description, or no schema.", name=spec.name)
    schema_for_models(spec.parameters)


def _no_actors(root: Supervisor, plugin: PluginContext) -> object:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlugin(Registration):
    """The registration of tools, for the group `rumi.tools`.

    `tools` returns the tools of one turn; it is called for each turn, so it must be quick. `add_actors` adds
    actors that live as long as the process, below a supervisor that isolates them from the rest.
    """

    group: ClassVar[str] = "rumi.tools"

    tools: Callable[[ToolContext], Sequence[Tool]]
    add_actors: Callable[[Supervisor, PluginContext], object] = _no_actors


Function: TypeAlias = Callable[..., Awaitable[str | ToolResult]]


class FunctionTool(Tool):
    """A tool made from an async function: its parameters are the tool's, its docstring is the description.

    Parameters need annotations that pydantic knows. `reads` says that a call changes nothing, and `destroys`
    that it may destroy something. A result that is a text is untrusted unless `trusted` is set: a turn that
    has read it asks before it acts. In such a turn, a call asks as those of other programs' tools do, unless
    the user's own words ask for it. With `reaches_out=False`, a call that reads asks nothing: it must not be
    able to tell anything to anybody.
    """

    looks_outside = True

    def __init__(
        self,
        function: Function,
        *,
        reads: bool,
        destroys: bool = False,
        reaches_out: bool = True,
        trusted: bool = False,
        name: str = "",
    ) -> None:
        self._function = function
        self._arguments = _model_of(function)
        schema = self._arguments.model_json_schema()
        schema.pop("title", None)
        self.spec = ToolSpec(
            name or _name_of(function), inspect.cleandoc(inspect.getdoc(_inner(function)) or ""), schema
        )
        self.concurrent = self.only_reads = reads
        self.claims = Claims(schema, reads, destroys, (self.spec.name,))
        self._asks_nothing = reads and not reaches_out
        self._trusted = trusted

    @override
    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that shows all arguments; None for a call that only reads and reaches nobody."""
        if self._asks_nothing:
            return None
        values = values_of(arguments, self.claims.schema)
        reads = self.claims.reads
        reach = Reach(
            self.spec.name,
            to=tuple((value.path, value.text) for value in values if reads or not value.content),
            texts=tuple(value.text for value in values if value.content and not reads),
            reads=reads,
        )
        return Question(
            "mcp",
            {"tool": self.spec.name, "arguments": values},
            reach=None if self.claims.destroys else reach,
        )

    @override
    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Check the arguments, and call the function. Its `RumiError`s become results that have failed."""
        from pydantic import ValidationError

        try:
            checked = self._arguments.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            return ToolResult(False, f"`{where}` is not allowed: {first['msg']}", refused=True)
        values = {name: getattr(checked, name) for name in type(checked).model_fields}
        try:
            result = await self._function(**values)
        except RumiError as error:
            return ToolResult(False, error.for_model, advice=error.for_people)
        if isinstance(result, ToolResult):
            return result
        shown = result[:SHOWN_CHARS]
        return ToolResult(
            True,
            shown if self._trusted else untrusted_block(self.spec.name, shown),
            truncated=len(result) > len(shown),
            whole_output=result.encode("utf-8", "replace") if len(result) > len(shown) else b"",
            tainted=not self._trusted,
            same_as=shown,
        )


def _inner(function: Function) -> Callable[..., object]:
    return _inner(function.func) if isinstance(function, partial) else function


def _name_of(function: Function) -> str:
    return str(getattr(_inner(function), "__name__", "tool"))


def _model_of(function: Function) -> "type[BaseModel]":
    """Return a model of a function's parameters. Arguments that a `partial` gives are none of the tool's."""
    from pydantic import ConfigDict, create_model

    inner = _inner(function)
    hints = get_type_hints(inner if inspect.isroutine(inner) else type(inner).__call__, include_extras=True)
    given = function.keywords if isinstance(function, partial) else {}
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{_name_of(function)}: a tool's parameters have names")
        if parameter.name in given:
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(_name_of(function), __config__=ConfigDict(extra="forbid"), **fields)
