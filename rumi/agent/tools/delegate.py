"""The `delegate` tool: gives a part of the work to a turn with a separate context; returns its answer."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import trio

from rumi.agent.tool import MaySave, Question, RunSubTurn, SubTurn, SubTurnEnd, Tool, ToolResult, is_turn_only
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import untrusted_block
from rumi.texts import Text

READERS: Final = 3
"""Maximum number of delegates of one turn that read at the same time."""

MOST_CALLS: Final = 30
"""Maximum number of model calls of one delegate."""

ANSWER_CHARS: Final = 4_000

INSTRUCTIONS: Final = (
    "You are a delegate: another instance of you, whose conversation you do not see, gives you a part of "
    "its work. Do only this part, and alone: nobody answers questions. Your last message is all that it "
    f"gets: at most {ANSWER_CHARS} characters, what you found or did, with paths and line numbers or links, "
    "and what is missing; not how you got there."
)


class Delegate(Tool):
    """The `delegate` tool of one turn.

    A delegate has the tools of the turn, except those that act for the whole turn (`is_turn_only`). A reading
    one has only tools that may run at the same time, and `looks`, which search the workspace, if the turn may
    read files. So readers never write, and a delegate that may write runs alone.
    """

    concurrent = True
    turn_only = True
    spec = ToolSpec(
        "delegate",
        "A copy of you, which knows only this call, does a part of the work; you get its short answer. "
        "`reading` (no bash): several in one reply work at once.",
        {
            "type": "object",
            "properties": {
                "goal": {"type": "string"},
                "context": {"type": "string"},
                "tools": {"type": "string", "enum": ["reading", "all"]},
            },
            "required": ["goal", "tools"],
        },
    )

    def __init__(self, looks: Sequence[Tool] = ()) -> None:
        self._looks = tuple(looks)
        self._readers = trio.CapacityLimiter(READERS)

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because each call of the delegate is checked by itself."""
        return None

    def is_concurrent(self, arguments: Mapping[str, object]) -> bool:
        """Return True for a delegate that only reads."""
        return arguments.get("tools") != "all"

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Refuse: only a turn can delegate."""
        await trio.lowlevel.checkpoint()
        return ToolResult(False, Text("{name} cannot be called here", name=self.spec.name), refused=True)

    async def call_delegating(
        self, arguments: Mapping[str, object], tools: Sequence[Tool], run: RunSubTurn
    ) -> ToolResult:
        """Run the delegate and return its answer, shortened to `ANSWER_CHARS` characters.

        The result is tainted if the turn or one of its delegates has read untrusted content. On cancellation,
        nothing of the delegate is left.
        """
        goal, context, kind = (arguments.get(name) for name in ("goal", "context", "tools"))
        if not isinstance(goal, str) or not goal.strip() or not isinstance(context, str | None):
            return ToolResult(False, Text("delegate needs `goal` and `context` as strings"), refused=True)
        if kind not in ("reading", "all", None):
            return ToolResult(False, Text("delegate takes `tools` as reading or all"), refused=True)
        request = f"{goal.strip()}\n\n{context or ''}".strip()
        if kind == "all":
            given = tuple(tool for tool in tools if not is_turn_only(tool))
            return _result(await run(SubTurn(request, INSTRUCTIONS, given, MOST_CALLS)))
        async with self._readers:
            return _result(await run(SubTurn(request, INSTRUCTIONS, self._reading(tools), MOST_CALLS)))

    def _reading(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        given = tuple(tool for tool in tools if tool.concurrent and not is_turn_only(tool))
        given = tuple(tool.reading() if isinstance(tool, MaySave) else tool for tool in given)
        reads_files = any(tool.spec.name == "read_file" for tool in given)
        return (*given, *(self._looks if reads_files else ()))


def _result(end: SubTurnEnd) -> ToolResult:
    answer = end.answer.strip()
    if len(answer) > ANSWER_CHARS:
        answer = f"{answer[:ANSWER_CHARS]}…\n[{len(answer) - ANSWER_CHARS} characters are left out]"
    ok = bool(answer) and end.reason != "model_error"
    if ok and end.tainted:
        answer = untrusted_block("delegate", answer)
    if end.reason not in ("complete", "model_error"):
        answer = f"The delegate was ended before it was done: {end.reason}.\n{answer}".strip()
    return ToolResult(ok, answer or Text("the delegate gave no answer"), tainted=end.tainted, links=end.links)
