"""A task's sandbox, its sources, and its tools by name."""

import os
from dataclasses import dataclass
from pathlib import Path

from rumi.research import Source, Sources, workspace_tools
from rumi.sandbox import Command, CommandResult, Sandboxes
from rumi.tools import Tool, ToolResult


@dataclass
class Desk:
    """`workspace` is the one that the host sees."""

    sandboxes: Sandboxes
    workspace: Path
    sources: Sources
    tainted: bool = True

    async def prepare(self) -> None:
        await self.sandboxes.prepare("one")

    async def run(self, command: Command) -> CommandResult:
        return await self.sandboxes.run("one", command)

    async def sh(self, script: str) -> str:
        result = await self.run(Command(("sh", "-c", script)))
        assert (result.ended, result.exit_code) == ("exited", 0), result
        return result.stdout.text()

    async def noted(self, path: str, text: str) -> Source | None:
        return await self.sources.add("file", path, path, text)

    def tools(self) -> dict[str, Tool]:
        return {tool.spec.name: tool for tool in workspace_tools(self, self.noted)}

    async def call(self, tool: str, **arguments: object) -> ToolResult:
        return await self.tools()[tool].call(arguments)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        owner = self.workspace.stat()
        for folder in reversed(path.relative_to(self.workspace).parents):
            (self.workspace / folder).mkdir(exist_ok=True)
            os.chown(self.workspace / folder, owner.st_uid, owner.st_gid)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.chown(path, owner.st_uid, owner.st_gid)
        return path
