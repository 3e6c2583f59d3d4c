"""Tools of MCP servers, bound to one chat."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, TypeAlias

from rumi.agent.mcp.described import DescriptionChange, schema_for_models, values_of
from rumi.agent.mcp.messages import CallOutcome, McpError, RemoteTool
from rumi.agent.mcp.pins import digest_of
from rumi.agent.mcp.results import Look, SaveFile, nowhere, result_of
from rumi.agent.permissions.action_words import destroys_by_name
from rumi.agent.tool import Claims, Progress, Question, Reach, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.platform.texts.questions import Value
from rumi.platform.untrusted_text import harmless, one_line, untrusted_block
from rumi.texts import Text

MOST_NAME_CHARS: Final = 64
MOST_DESCRIPTION_CHARS: Final = 4000
BETWEEN: Final = "__"
DIGEST_CHARS: Final = 12
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST: Final = re.compile(rf"_[0-9a-f]{{{DIGEST_CHARS}}}\Z")

Ask: TypeAlias = Callable[[str, str, Mapping[str, object], Progress], Awaitable[CallOutcome]]
"""Calls a tool, given server name, tool name, arguments and progress callback. Raises `McpError`."""


class McpTool(Tool):
    """One tool of a server, bound to one chat.

    `siblings` are the names of all tools of the server. Results are untrusted unless `trusted` is set.
    """

    concurrent = True
    looks_outside = True

    def __init__(
        self,
        server: str,
        name: str,
        tool: RemoteTool,
        ask: Ask,
        look: Look,
        *,
        siblings: Collection[str],
        trusted: bool,
        save_file: SaveFile = nowhere,
    ) -> None:
        self._sent = schema_for_models(tool.parameters)
        self.spec = ToolSpec(name, harmless(tool.description)[:MOST_DESCRIPTION_CHARS], self._sent.schema)
        self.concurrent = tool.read_only  # the order of calls that change something matters
        self._server = server
        self._tool = tool
        self._ask = ask
        self._look = look
        self._save_file = save_file
        self.claims = Claims(self._sent.renaming(tool.parameters), tool.read_only, tool.destroys, siblings)
        self._trusted = trusted

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question for a call that could change something or leak data.

        A read-only tool that accesses only its server's own data can neither change something nor leak data,
        so its calls need no question.
        """
        if self._tool.read_only and not self._tool.open_world:
            return None
        values = values_of(self._sent.original(arguments), self._tool.parameters)
        return Question("mcp", {"tool": self.spec.name, "arguments": values}, reach=self._reach(values))

    def _reach(self, values: Sequence[Value]) -> Reach | None:
        """Return what a call reaches; None if no approval may cover it, because it may destroy something."""
        if not may_stand(self._tool):
            return None
        reads = self._tool.read_only
        return Reach(
            self.spec.name,
            # A text that a reading tool gets is no mail to somebody, but what its server is told.
            to=tuple((value.path, value.text) for value in values if reads or not value.content),
            texts=tuple(value.text for value in values if value.content and not reads),
            version=digest_of(self._tool),
            reads=reads,
        )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Call the tool. On cancellation, notifies the server."""
        return await self.call_reporting(arguments, lambda step: None)

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Call the tool, and report the progress that the server sends."""
        try:
            sent = self._sent.original(arguments)
            outcome = await self._ask(self._server, self._tool.name, sent, progress)
        except McpError as error:
            words = getattr(error, "words", "")
            if not words:
                name, why = self.spec.name, error.for_model
                told = (
                    Text(
                        "{name} was called, and may have had its effect, but there is no result: {error}",
                        name=name,
                        error=why,
                    )
                    if error.called
                    else Text("{name} was not called: {error}", name=name, error=why)
                )
                return self._with(ToolResult(False, told, advice=error.for_people), error.refused)
            said = untrusted_block(self._server, one_line(words))
            failed = ToolResult(False, Text("the server refused\n{said}", said=said), tainted=True)
            return self._with(failed, error.refused)
        result = await result_of(self.spec.name, outcome, self._look, self._save_file, trusted=self._trusted)
        return self._with(result, outcome.refused)

    def _with(self, result: ToolResult, refused: Sequence[Text]) -> ToolResult:
        """Return a result that says, after what the server says, which hosts it did not reach."""
        if not refused:
            return result
        said = "\n".join(refused)
        content = f"{result.content}\n\n{said}"
        # The author of what the server has read may have chosen the host's name.
        tainted = result.tainted or not self._trusted
        return replace(result, content=content, tainted=tainted)


def may_stand(tool: RemoteTool) -> bool:
    """Return True if a person may approve calls of the tool for all runs of a schedule.

    The server must deny that the tool destroys something, and the tool's name must not say so either.
    """
    return tool.read_only or not (tool.destroys or destroys_by_name(tool.name))


class WithheldTool(Tool):
    """A tool whose description has changed since the user accepted it.

    The model is told only that the description has changed. It does not get the new description, because that
    could contain malicious instructions.

    With `accept`, a call asks the user, who sees the changes. After a yes, this is the tool as its server
    describes it now.
    """

    concurrent = False

    def __init__(
        self,
        server: str,
        tool: McpTool,
        changes: Sequence[DescriptionChange] = (),
        accept: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._said = (
            f"This tool's description has changed since the user accepted it, so it cannot be called. If it "
            f"is needed, tell the user to look at the change with: rumi mcp test {server} --accept"
        )
        asks = (
            "This tool's description has changed since the user accepted it. If it is needed, call it "
            "without arguments: then the user sees the change and is asked to accept it."
        )
        self.spec = ToolSpec(
            tool.spec.name, self._said if accept is None else asks, {"type": "object", "properties": {}}
        )
        self._tool = tool
        self._changes = changes
        self._accept = accept
        self._accepted = False
        if accept is not None:
            self.always_asks = True

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question that shows the changes, or None if they cannot be accepted here."""
        if self._accepted:
            return self._tool.question(arguments, known_urls)
        if self._accept is None:
            return None
        values = [
            Value(f"{change.path} {mark}", text, content=True)
            for change in self._changes
            for mark, text in (("-", change.before), ("+", change.now))
            if text is not None
        ]
        return Question("accept_tool", {"tool": self.spec.name, "changes": values})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Refuse the call, or accept the new description: the gate has asked the user before."""
        if self._accepted:
            return await self._tool.call(arguments)
        if self._accept is None:
            return ToolResult(False, self._said)
        await self._accept()
        self._accepted = True
        self.spec, self.claims = self._tool.spec, self._tool.claims
        del self.always_asks
        return ToolResult(
            True, "The user has accepted the tool's new description, which you have from your next reply on."
        )


def names_for(server: str, tools: Collection[str]) -> dict[str, str]:
    """Return the name of each tool for models: `SERVER__tool`, with only characters that model servers allow.

    A name that had to be changed or cut ends with a digest of the tool's original name. So the result depends
    only on the original name: a different order of tools or an added tool can never give one tool another
    tool's name.
    """
    return {tool: _name_of(server, tool) for tool in tools}


def _name_of(server: str, tool: str) -> str:
    whole = f"{server}{BETWEEN}{tool}"
    plain = _NOT_IN_NAMES.sub("_", whole)
    if plain == whole and len(whole) <= MOST_NAME_CHARS and not _DIGEST.search(tool):
        return whole
    ending = f"_{sha256(tool.encode('utf-8', 'surrogatepass')).hexdigest()[:DIGEST_CHARS]}"
    return plain[: MOST_NAME_CHARS - len(ending)] + ending
