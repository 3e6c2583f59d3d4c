"""Tools for bots only: they end a session, let it sleep, ask people, and write skills."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import trio

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import one_line
from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.plans import Approved
from rumi.tasks.bots.receipts import BotClaim, Checked, claims_in
from rumi.texts import Text

MOST_SUMMARY_CHARS: Final = 8_000
MOST_OPTIONS: Final = 6
MOST_SLEEP_S: Final = 30 * 86_400

_TEXT: Final = {"type": "string"}


@dataclass(slots=True)
class Session:
    """The part of a session's state that its tools set: the end, the sleep, and a question for people.

    `returned` is True after false claims were returned to the bot once. `plan` is the approved plan.
    """

    summary: str = ""
    claims: tuple[Checked, ...] = ()
    complete: bool = False
    returned: bool = False
    sleep_s: float | None = None
    question: str = ""
    options: tuple[str, ...] = ()
    plan: Approved | None = None


class _BotTool(Tool):
    """Base class of the bot tools. By default, they run one at a time and need no approval."""

    concurrent = False
    turn_only = True

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: the call needs no approval, because it has no effect outside the bot."""
        return None


class SessionComplete(_BotTool):
    """Tool that ends the session after `check` has checked the bot's claims. `store` stores the session."""

    spec = ToolSpec(
        "session_complete",
        "End the session: the goal is reached. The program checks the claims; what is not true comes back "
        "once.",
        {
            "type": "object",
            "properties": {
                "summary": _TEXT,
                "claims": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "kind": {"type": "string", "enum": ["file", "command", "test", "url"]},
                            "what": {"type": "string", "description": "The path, the command, the address"},
                            "exit_code": {"type": "integer"},
                        },
                        "required": ["kind", "what"],
                    },
                },
            },
            "required": ["summary"],
        },
    )

    def __init__(
        self,
        session: Session,
        check: Callable[[tuple[BotClaim, ...]], Awaitable[tuple[Checked, ...]]],
        store: Callable[[Session], Awaitable[None]],
    ) -> None:
        self._session = session
        self._check = check
        self._store = store

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Check the claims and end the session.

        The first call with false claims only returns them to the bot.
        """
        summary = arguments.get("summary")
        if not isinstance(summary, str) or not summary.strip():
            return ToolResult(False, Text("session_complete needs `summary`, a string that is not empty"))
        claims = claims_in(arguments.get("claims"))
        if isinstance(claims, str):
            return ToolResult(False, Text("session_complete {claims}", claims=claims))
        session = self._session
        session.claims = await self._check(claims)
        session.summary = summary.strip()[:MOST_SUMMARY_CHARS]
        false = [checked for checked in session.claims if not checked.true]
        if false and not session.returned:
            # Once only: a bot that repeats false claims ends all the same; the report marks them as false.
            session.returned = True
            lines = [
                f"- {checked.claim.kind} {one_line(checked.claim.what, 300)}: {checked.found}"
                for checked in false
            ]
            await self._store(session)
            return ToolResult(
                False,
                "\n".join(
                    [
                        "The session goes on, because these claims are not true:",
                        *lines,
                        "Do what is missing, or leave the claim out; then call session_complete again.",
                    ]
                ),
            )
        session.complete = True
        await self._store(session)
        return ToolResult(True, "the session ends with this iteration; say your last words")


class SessionHistory(_BotTool):
    """Tool that returns the summaries of the last iterations, including those of earlier sessions."""

    spec = ToolSpec(
        "session_history",
        "Read the summaries of your earlier iterations and sessions.",
        {"type": "object", "properties": {"last": {"type": "integer"}}},
    )

    def __init__(self, read: Callable[[int], Awaitable[str]], tainted: Callable[[], bool]) -> None:
        self._read = read
        self._tainted = tainted

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Return the summaries, oldest first."""
        last = arguments.get("last")
        count = last if isinstance(last, int) and not isinstance(last, bool) and 0 < last <= 200 else 20
        text = await self._read(count)
        return ToolResult(True, text or "there are none", tainted=self._tainted())


class Sleep(_BotTool):
    """Tool that delays the start of the next iteration."""

    spec = ToolSpec(
        "sleep",
        "Let the next iteration begin so many seconds later, because nothing is to be done before.",
        {
            "type": "object",
            "properties": {"seconds": {"type": "number"}, "reason": _TEXT},
            "required": ["seconds", "reason"],
        },
    )

    def __init__(self, session: Session) -> None:
        self._session = session

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Set the sleep time; the current iteration continues to its end."""
        await trio.lowlevel.checkpoint()
        seconds = arguments.get("seconds")
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not 0 <= seconds <= MOST_SLEEP_S
        ):
            return ToolResult(
                False,
                Text("sleep needs `seconds`, a number from 0 to {most_sleep_s}", most_sleep_s=MOST_SLEEP_S),
            )
        self._session.sleep_s = float(seconds)
        return ToolResult(True, f"the next iteration begins {seconds:g} s after this one; end this one now")


class AskUser(_BotTool):
    """Tool that asks the people who get the bot's reports. The session waits for their answer."""

    spec = ToolSpec(
        "ask_user",
        "Ask the user what you cannot decide alone. The session waits; the answer comes with the next "
        "iteration.",
        {
            "type": "object",
            "properties": {
                "question": _TEXT,
                "options": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "Short answers to choose from",
                },
            },
            "required": ["question"],
        },
    )

    def __init__(self, session: Session) -> None:
        self._session = session

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Record the question; it is sent at the end of the iteration."""
        await trio.lowlevel.checkpoint()
        question = arguments.get("question")
        if not isinstance(question, str) or not question.strip():
            return ToolResult(False, Text("ask_user needs `question`, a string that is not empty"))
        options = arguments.get("options", [])
        if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
            return ToolResult(False, Text("ask_user takes `options` as a list of strings"))
        session = self._session
        session.question = f"{session.question}\n\n{question.strip()}".strip()[:MOST_SUMMARY_CHARS]
        session.options = tuple(filter(None, map(one_line, options)))[:MOST_OPTIONS]
        return ToolResult(True, "it is asked when this iteration ends; end it now")


class WriteSkill(_BotTool):
    """Tool that stores a skill with `write`. The skill is in the prompt from the next iteration on."""

    spec = ToolSpec(
        "write_skill",
        "Write down, or replace, a way of working that you will need again. Every later iteration reads it.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A word such as tidy-folder"},
                "description": _TEXT,
                "text": {"type": "string", "description": "What to do, in Markdown"},
            },
            "required": ["name", "description", "text"],
        },
    )

    def __init__(self, write: Callable[[str, str, str], Awaitable[None]]) -> None:
        self._write = write

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that shows the complete skill, because all later iterations would follow it."""
        found = _skill_in(arguments)
        if found is None:
            return None
        name, description, text = found
        return Question("write_skill", {"key": name, "value": description, "text": text})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Store the skill, completely or not at all."""
        found = _skill_in(arguments)
        if found is None:
            return ToolResult(
                False, Text("write_skill needs `name`, `description` and `text`, strings that are not empty")
            )
        try:
            await self._write(*found)
        except BotError as error:
            return ToolResult(False, Text("not written: {error}", error=error))
        return ToolResult(True, f"written: {found[0]}. From the next iteration on it is among your skills")


def _skill_in(arguments: Mapping[str, object]) -> tuple[str, str, str] | None:
    name, description, text = (arguments.get(field) for field in ("name", "description", "text"))
    if not isinstance(name, str) or not isinstance(description, str) or not isinstance(text, str):
        return None
    if not name.strip() or not text.strip():
        return None
    return name.strip(), description.strip(), text
