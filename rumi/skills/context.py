"""What a code skill is given: its input, and the tools and the model of the chat that it runs for."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rumi.skills.types import Reply

_OUTPUT = re.compile(r"(?:^|\n)output(?: \([^\n]*\))?:\n")
_ERROR_OUTPUT = re.compile(r"\nerror output(?: \([^\n]*\))?:\n")


class ToolFailed(Exception):
    """A tool that refused or failed; its words say why. A command with an exit code did not fail."""


class CannotDo(Exception):
    """What a skill raises to end with one sentence that says why it cannot do its work."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool returned: `content` is what a model would read."""

    content: str
    exit_code: int | None = None

    @property
    def output(self) -> str:
        """Of a command: what it wrote to its standard output."""
        begin = _OUTPUT.search(self.content)
        if begin is None:
            return ""
        ends = [match.start() for match in _ERROR_OUTPUT.finditer(self.content, begin.end() - 1)]
        return self.content[begin.end() : max([begin.end(), *ends[-1:]]) if ends else None]


Send = Callable[[Mapping[str, Any]], Awaitable[Reply]]
"""Sends a request to the process that runs the chat, and returns what came of it."""


class Context:
    """The chat that a code skill works for.

    `input` is what it is to work on, `chat` the chat's id, `language` `es` or `en`. `workspace` is the
    folder of the chat's files on this machine. Commands in the sandbox wrote them, so follow no links there;
    `await context.tool("bash", command=…)` sees the same files at /workspace.
    """

    def __init__(self, *, input: str, chat: str, workspace: Path, language: str, send: Send) -> None:
        self.input = input
        self.chat = chat
        self.workspace = workspace
        self.language = language
        self._send = send

    async def tool(self, name: str, /, **arguments: Any) -> ToolReply:
        """Call one of the chat's tools, as the model would.

        Raises:
            ToolFailed: there is no such tool, it refused, or the user said no.
        """
        reply = await self._send({"tool": name, "arguments": arguments})
        if not reply.ok:
            raise ToolFailed(reply.content)
        return ToolReply(reply.content, reply.exit_code)

    async def model(self, prompt: str) -> str:
        """Ask the chat's model something, without tools and without the chat's history.

        Raises:
            ToolFailed: it did not answer.
        """
        reply = await self._send({"model": prompt})
        if not reply.ok:
            raise ToolFailed(reply.content)
        return reply.content

    async def log(self, text: str) -> None:
        """Write a line into Rumi's own log."""
        await self._send({"log": text})
