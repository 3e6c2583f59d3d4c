"""Test support for skills: loads a skill from its folder, and runs its code with the test's tools."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import trio

from rumi.agent.skills.catalogue import Catalogue
from rumi.agent.skills.format import FILE
from rumi.agent.skills.messages import CallReply, Skill, SkillError, SkillSource
from rumi.agent.skills.opening import open_skill
from rumi.agent.skills.running import CodeRunner, SkillRun
from rumi.agent.skills.trust import TrustedSkills
from rumi.texts import Text

T = TypeVar("T")


class Trial:
    """A skill under test.

    `tools` maps tool names to functions that answer the skill's tool calls. Each function gets the arguments
    and returns the tool's text, or raises `ToolFailed`. `model` answers the skill's prompts. `calls` and
    `prompts` record the skill's tool calls and prompts.

    Raises:
        SkillError: There is no skill in the folder, or it cannot be loaded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        tools: Mapping[str, Callable[[Mapping[str, object]], str]] | None = None,
        model: Callable[[str], str] = lambda prompt: "",
    ) -> None:
        self.skill = _load(folder)
        self.body = open_skill(self.skill).body
        self.calls: list[tuple[str, Mapping[str, object]]] = []
        self.prompts: list[str] = []
        self._tools = tools or {}
        self._model = model

    def run(self, input: str = "", *, workspace: Path = Path("/nonexistent"), language: str = "en") -> str:
        """Run the skill's code in a separate process, as Rumi does, and return its text.

        Raises:
            SkillError: The skill failed.
        """
        runner = CodeRunner(TrustedSkills(self.skill.folder / ".trusted"), _inline)
        job = SkillRun(self.skill, input, "trial", workspace, language)
        return trio.run(runner.run, job, self._call, self._ask).text

    async def _call(self, name: str, arguments: Mapping[str, object]) -> CallReply:
        from rumi.agent.skills.context import ToolFailed

        await trio.lowlevel.checkpoint()
        self.calls.append((name, arguments))
        if name not in self._tools:
            return CallReply(False, f"there is no tool {name!r}; there are: {', '.join(self._tools)}")
        try:
            return CallReply(True, self._tools[name](arguments), 0)
        except ToolFailed as error:
            return CallReply(False, str(error))

    async def _ask(self, prompt: str) -> str:
        await trio.lowlevel.checkpoint()
        self.prompts.append(prompt)
        return self._model(prompt)


def _load(folder: Path) -> Skill:
    listed = Catalogue([SkillSource("home", folder.resolve())]).look().listed
    for entry in listed.entries:
        if entry.skill.folder == folder.resolve():
            return entry.skill
    wrong = [line for line in listed.problems if line.startswith(str(folder.resolve() / FILE))]
    raise SkillError(
        Text("{problem}", problem=wrong[0]) if wrong else Text("{folder} has no SKILL.md.", folder=folder)
    )


async def _inline(work: Callable[[], T]) -> T:
    await trio.lowlevel.checkpoint()
    return work()


def run_tests(found: Mapping[str, object]) -> None:
    """Run all functions whose names start with "test_", and print their names.

    A test file that is run as a program calls this function.
    """
    for name, test in list(found.items()):
        if name.startswith("test_") and callable(test):
            test()
            sys.stdout.write(f"{name}: passed\n")
