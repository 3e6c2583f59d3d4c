"""Parts of tools for tests."""

from collections.abc import Collection, Mapping

import trio

from rumi.agent.tool import Progress, Question, ToolResult
from rumi.models.model import ToolSpec


class Unasked:
    """A tool that needs nothing made ready, runs alone and asks nobody."""

    concurrent = False

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return None


class Reporting(Unasked):
    """A tool that shows steps: texts, seconds to wait between them, and an error to end with.

    `report` is what it shows steps with, as long as it lives.
    """

    concurrent = True

    def __init__(self, *steps: str | float | Exception, name: str = "dig") -> None:
        self.spec = ToolSpec(name, "Digs.", {"type": "object", "properties": {}})
        self.steps = steps
        self.report: Progress = str

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        raise AssertionError("it shows its steps")

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        self.report = progress
        for step in self.steps:
            match step:
                case str():
                    progress(step)
                case Exception():
                    raise step
                case _:
                    await trio.sleep(step)
        return ToolResult(True, "dug")
