"""The gate of a turn in front of tools of servers, without the servers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from rumi.agent.events import ConfirmationAsked
from rumi.agent.mcp.messages import RemoteTool
from rumi.agent.mcp.tool import McpTool
from rumi.agent.permissions.gate import Gate
from rumi.agent.permissions.intent import DeclareFor
from rumi.agent.tool import Tool, ToolResult
from rumi.models.model import Message
from rumi.platform.texts.questions import Verdict

FREE: Mapping[str, object] = {"type": "object", "properties": {}}


def bound(tool: RemoteTool, siblings: Collection[str] = ()) -> McpTool:
    """Return a tool of the server `s` as models get it; it is never called."""

    async def never(*_: object) -> Any:
        raise AssertionError

    name = f"s__{tool.name}"
    return McpTool("s", name, tool, never, never, siblings=siblings or (name,), trusted=False)


def schema_of(arguments: Mapping[str, object]) -> Mapping[str, object]:
    """Return a schema that knows the names of these arguments, and nothing else of them."""
    return {"type": "object", "properties": {name: {} for name in arguments}}


@dataclass
class Asking:
    """The gate of a tainted turn whose user wrote `words`, and always answers with `verdict`."""

    words: str = ""
    verdict: Verdict = "no"
    known_urls: Collection[str] = ()
    history: Sequence[Message] = ()
    tools: Sequence[Tool] = ()
    tainted: bool = True
    declare_for: DeclareFor | None = None
    questions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = Gate(
            tainted=self.tainted,
            known_urls=self.known_urls,
            words=self.words,
            history=self.history,
            declare_for=self.declare_for,
            tools=lambda: self.tools,
            language="en",
            watch=lambda event: None,
            confirm=self._confirm,
            parking=None,
            deadline=trio.CancelScope(),
        )

    async def _confirm(self, asked: ConfirmationAsked) -> Verdict:
        await trio.lowlevel.checkpoint()
        self.questions.append(asked.text)
        return self.verdict

    async def runs(self, tool: Tool, arguments: Mapping[str, object]) -> bool:
        """Return True if the call runs, with or without a question."""
        return await self.gate.refusal(tool, arguments) is None

    async def asks(self, tool: Tool, arguments: Mapping[str, object]) -> bool:
        """Return True if the user is asked."""
        before = len(self.questions)
        await self.gate.refusal(tool, arguments)
        return len(self.questions) > before

    def read(self, name: str, content: str) -> None:
        """Have a tool return something from outside."""
        self.gate.note_result(name, ToolResult(True, content, tainted=True))
