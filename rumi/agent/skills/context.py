"""The programming interface of code skills: the input, and the chat's tools and model."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rumi.agent.skills.messages import CallReply

_OUTPUT = re.compile(r"(?:^|\n)output(?: \([^\n]*\))?:\n")
_ERROR_OUTPUT = re.compile(r"\nerror output(?: \([^\n]*\))?:\n")


class ToolFailed(Exception):
    """A tool refused a call or failed; the error's text is the reason.

    A command that ends with a non-zero exit code is not a failure.
    """


class Made(str):
    """A part of a skill's result that the skill has made itself; made by `Context.made`.

    A text that is joined or formatted from it is a plain text again, which counts as from outside.
    """

    __slots__ = ()


class CannotDo(Exception):
    """A skill raises this error if it cannot do its work. Its text is one sentence with the reason."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The result of a tool call. `content` is the text that a model would read."""

    content: str
    exit_code: int | None = None

    @property
    def output(self) -> str:
        """The standard output of the command that the tool ran."""
        # The last "error output" heading is the real one: the output itself may contain such a line.
        begin = _OUTPUT.search(self.content)
        if begin is None:
            return ""
        ends = [match.start() for match in _ERROR_OUTPUT.finditer(self.content, begin.end() - 1)]
        return self.content[begin.end() : max([begin.end(), *ends[-1:]]) if ends else None]


Send = Callable[[Mapping[str, Any]], Awaitable[CallReply]]
"""Sends a request to the process that runs the chat, and returns its reply."""


class Context:
    """The chat for which a code skill works.

    `input` is the text to work on. `chat` is the chat's id. `language` is `es` or `en`. `workspace` is the
    folder with the chat's files on this machine. Do not follow links in it, because sandboxed commands may
    have created them. `await context.tool("bash", command=…)` sees the same files at /workspace.
    """

    def __init__(self, *, input: str, chat: str, workspace: Path, language: str, send: Send) -> None:
        self.input = input
        self.chat = chat
        self.workspace = workspace
        self.language = language
        self._send = send

    async def tool(self, name: str, /, **arguments: Any) -> ToolReply:
        """Call one of the chat's tools, just as the chat's model can.

        Raises:
            ToolFailed: The tool does not exist or refused, or the user refused.
        """
        reply = await self._send({"tool": name, "arguments": arguments})
        if not reply.ok:
            raise ToolFailed(reply.content)
        return ToolReply(reply.content, reply.exit_code)

    async def model(self, prompt: str) -> str:
        """Ask the chat's model, which gets neither tools nor the chat's history, and return its answer.

        Raises:
            ToolFailed: The model did not answer.
        """
        reply = await self._send({"model": prompt})
        if not reply.ok:
            raise ToolFailed(reply.content)
        return reply.content

    @staticmethod
    def made(text: str) -> Made:
        """Mark a part of the result that the skill has made itself, with nothing from outside in it.

        `run` returns such a part, or a list of parts. The mark counts if the skill's `SKILL.md` has the line
        `own_result: parts` and is trusted. All other parts count as read from outside.
        """
        return Made(text)

    async def log(self, text: str) -> None:
        """Write a line to Rumi's log."""
        await self._send({"log": text})
