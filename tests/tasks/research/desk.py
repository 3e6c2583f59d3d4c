"""A task's sandbox, its sources, and its tools by name."""

from dataclasses import dataclass
from pathlib import Path

from rumi.agent.tool import Tool, ToolResult
from rumi.tasks.research.sources import Source, Sources
from rumi.tasks.research.workspace import workspace_tools
from tests.sandbox.desk import SandboxDesk


@dataclass
class Desk(SandboxDesk):
    """With the sources of a research."""

    sources: Sources
    tainted: bool = True

    async def noted(self, path: str, text: str) -> Source | None:
        return await self.sources.add("file", path, path, text)

    def tools(self) -> dict[str, Tool]:
        return {tool.spec.name: tool for tool in workspace_tools(self, self.noted)}

    async def call(self, tool: str, **arguments: object) -> ToolResult:
        return await self.tools()[tool].call(arguments)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        for folder in reversed(path.relative_to(self.workspace).parents):
            (self.workspace / folder).mkdir(exist_ok=True)
            self.owned(self.workspace / folder)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self.owned(path)
