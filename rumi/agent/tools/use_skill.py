"""The `use_skill` tool: returns a skill's instructions, one of its files, or the result of its code."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import trio

from rumi.agent.skills.actor import AskSkills
from rumi.agent.skills.messages import (
    CallReply,
    FileOf,
    Opened,
    OwnResult,
    ReadInstructions,
    Skill,
    SkillError,
    SkillFailed,
)
from rumi.agent.skills.running import AskModel, CodeRunner, SkillResult, SkillRun
from rumi.agent.tool import Calls, Question, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.texts import Language, Text
from rumi.web.links import links_in

MOST_CHARS: Final = 60_000
"""Maximum number of characters of a skill's text, or of the result of its code, in a tool result."""

FILE_PREFIX: Final = "file:"

SPEC = ToolSpec(
    name="use_skill",
    description=(
        "Get a skill's instructions and follow them, or the result of a skill that is a program. `name`: a "
        "listed skill, or words about the task, to find one. Input `file: reference.md` reads its file."
    ),
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "input": {"type": "string", "description": "What to work on"},
        },
        "required": ["name"],
    },
)


class UseSkill(Tool):
    """The `use_skill` tool, bound to one chat. `ask` queries the skills.

    `tools` returns the names of the chat's tools. `model` calls the chat's model without tools. `tainted`
    returns True if the chat's files may contain untrusted content, which a skill's code may read. `touches`
    is called before the code runs, and each time the code has read untrusted content, because the code may
    write that content to the chat's files. `brings` is called before the code runs if the code itself may
    fetch untrusted content and write it to the files. `prepares` creates the folder `workspace`, or returns
    the one to use instead.
    """

    spec = SPEC
    concurrent = False

    def __init__(
        self,
        ask: AskSkills,
        runner: CodeRunner,
        *,
        chat: str,
        workspace: Path,
        language: Callable[[], Language],
        tools: Callable[[], Collection[str]],
        model: AskModel,
        tainted: Callable[[], bool] = lambda: False,
        touches: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        brings: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        project: Callable[[], str] = lambda: "",
        prepares: Callable[[], Awaitable[Path | None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._ask = ask
        self._runner = runner
        self._chat = chat
        self._workspace = workspace
        self._language = language
        self._tools = tools
        self._model = model
        self._tainted = tainted
        self._touches = touches
        self._brings = brings
        self._project = project
        self._prepares = prepares

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed. Each tool call by a skill's code is checked separately."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Use a skill. Its code gets no tools; `call_within` offers them."""
        return await self.call_within(arguments, _no_tools)

    async def call_within(self, arguments: Mapping[str, object], calls: Calls) -> ToolResult:
        """Use a skill. Tool calls of its code go through `calls`. On cancellation, the code is stopped."""
        name, skill_input = arguments.get("name"), arguments.get("input")
        if skill_input is None:  # many models write null for arguments that they omit
            skill_input = ""
        if not isinstance(name, str) or not name.strip():
            return ToolResult(False, Text("use_skill needs `name`, a string"))
        if not isinstance(skill_input, str):
            return ToolResult(False, Text("use_skill takes `input` as a string"))
        try:
            if skill_input.lstrip().startswith(FILE_PREFIX):
                return await self._read(name, skill_input.lstrip().removeprefix(FILE_PREFIX).strip())
            opened = await self._ask(ReadInstructions(name, skill_input, self._project()))
            if isinstance(opened, SkillError):
                raise opened
            self._check_tools(opened.skill)
            if opened.skill.has_code:
                return await self._run(opened.skill, skill_input, calls)
        except SkillError as error:
            return ToolResult(False, error.for_model, advice=error.for_people)
        return instructions(opened, skill_input)

    async def _read(self, name: str, path: str) -> ToolResult:
        read = await self._ask(FileOf(name, path, self._project()))
        if isinstance(read, SkillError):
            raise read
        cut = f" (its last {read.cut_bytes} bytes are left out)" if read.cut_bytes else ""
        # Trusting a project's skill pins SKILL.md and code only. Its other files may change at any time, so
        # they stay untrusted.
        return ToolResult(
            True,
            f"{read.path} of the skill {read.skill.name}{cut}:\n\n{read.text}",
            truncated=bool(cut),
            same_as=f"{read.path}\n{read.text}",
            tainted=read.skill.source.kind == "project",
            links=links_in(read.text),
        )

    def _check_tools(self, skill: Skill) -> None:
        there = {tool.casefold() for tool in self._tools()}
        missing = [tool for tool in skill.header.tools_required if tool.casefold() not in there]
        if missing:
            raise SkillError(
                "The skill {name} needs tools that this chat does not have: {missing}.",
                name=skill.name,
                missing=", ".join(missing),
            )

    async def _run(self, skill: Skill, skill_input: str, calls: Calls) -> ToolResult:
        # The code runs on the host with network access, so its result is untrusted unless SKILL.md declares
        # it as its own. For a project's skill that declaration counts only if the user trusts the skill.
        owns: OwnResult = skill.header.own_result if skill.vouched else ""
        tainted = False

        async def call(name: str, arguments: Mapping[str, object]) -> CallReply:
            nonlocal tainted
            if name == SPEC.name:
                return CallReply(False, "a skill cannot use skills")
            try:
                result = await calls(name, arguments)
            except RumiError as error:
                return CallReply(False, str(error))
            if result.tainted:
                tainted = True
                # Before the code gets the result: it may write it to a file and be interrupted afterwards.
                await self._touches()
            return CallReply(result.ok, result.content, result.exit_code)

        workspace = await self._prepares() or self._workspace
        job = SkillRun(skill, skill_input, self._chat, workspace, self._language())
        await self._touches()
        if not owns:
            await self._brings()
        try:
            result = await self._runner.run(job, call, self._model)
        except SkillFailed as error:  # the message comes from the skill's code
            own = owns == "all"
            if owns == "parts":
                await self._brings()
            return ToolResult(False, one_line(str(error)), tainted=not own or tainted or self._tainted())
        # A run that returns nothing marks nothing: it may have saved what it has fetched.
        made = bool(result.parts) and all(part.made for part in result.parts)
        own = owns == "all" or (owns == "parts" and made)
        if owns == "parts" and not own:
            await self._brings()  # it has read something from outside, which it may have written to a file
        # Checked after the run: the code may have read the chat's files itself.
        tainted = not own or tainted or self._tainted()
        text = result.text
        body = _shown(skill.name, result, owns) or "(it returned nothing)"
        if len(text) > MOST_CHARS:
            body += f"\n(the last {len(text) - MOST_CHARS} characters are left out)"
        content = f"The skill {skill.name} has run:\n{body}"
        return ToolResult(True, content, truncated=len(text) > MOST_CHARS, same_as=content, tainted=tainted)


def _shown(name: str, result: SkillResult, owns: OwnResult) -> str:
    """Return the beginning of a result; what a skill does not own stands in blocks of untrusted text."""
    shown, left, outside = list[str](), MOST_CHARS, list[str]()

    def close() -> None:
        if text := "\n".join(outside).strip():
            shown.append(untrusted_block(f"the skill {name}", text))
        outside.clear()

    for part in result.parts:
        text, left = part.text[:left], max(0, left - len(part.text) - 1)
        if owns == "all" or (owns == "parts" and part.made):
            close()
            shown.append(text)
        else:
            outside.append(text)
    close()
    return "\n".join(shown).strip()


def instructions(opened: Opened, skill_input: str) -> ToolResult:
    """Return a tool result with a skill's instructions and the input to apply them to.

    The result is tainted if the skill belongs to an untrusted project. Links in the instructions become known
    URLs. Links in the input do not, because the model wrote the input.
    """
    name = opened.skill.name
    body = opened.body[:MOST_CHARS].strip() or "(it says nothing but its description)"
    parts = [f"Instructions of the skill {name}. Follow them for this task.\n\n{body}"]
    if len(opened.body) > MOST_CHARS:
        parts.append(f"(the last {len(opened.body) - MOST_CHARS} characters are left out)")
    if opened.files or opened.sandbox_folder:
        parts.append(_files(opened))
    if skill_input.strip():
        parts.append(f"Input: {skill_input.strip()}")
    content = "\n\n".join(parts)
    return ToolResult(
        True,
        content,
        truncated=len(opened.body) > MOST_CHARS,
        same_as=content,
        tainted=not opened.skill.vouched,
        links=links_in(opened.body),
    )


def _files(opened: Opened) -> str:
    lines = [f"- {file.path} ({file.bytes} bytes)" for file in opened.files]
    if opened.more_files:
        lines.append(f"- and {opened.more_files} more")
    if not lines:
        return f"Its folder in the sandbox is {opened.sandbox_folder} (read-only)."
    if opened.sandbox_folder:
        folder = opened.sandbox_folder
        return (
            f"Its folder in the sandbox is {folder} (read-only). Paths in the instructions are "
            f"relative to it: `scripts/x.py` is run with `python3 {folder}/scripts/x.py`. Write "
            "results to /workspace. Files there (bash reads them, and use_skill with the input "
            "`file: PATH`):\n" + "\n".join(lines)
        )
    why = f" ({opened.why_not})" if opened.why_not else ""
    return (
        f"Files beside it, which are not in the sandbox{why}. Read one with use_skill, name "
        f"{opened.skill.name} and input `file: PATH`; to use it in the sandbox, write it there.\n"
        + "\n".join(lines)
    )


async def _no_tools(name: str, arguments: Mapping[str, object]) -> ToolResult:
    await trio.lowlevel.checkpoint()
    return ToolResult(False, Text("{name} cannot be called here", name=name))
