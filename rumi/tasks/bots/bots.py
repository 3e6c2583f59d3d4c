"""The interface through which chats, tools, schedules and other processes use bots."""

import json
import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from actors import ActorError
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.chats.budgets.amounts import Amount, parse_amount
from rumi.chats.commands import ChatCommand
from rumi.chats.people.people import People
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.chat_ids import DEFAULT_CHAT, LOCAL, ChatIds
from rumi.platform.texts import bots as bot_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.threads import Offload
from rumi.sandbox.project.tree import ProjectLimits
from rumi.store.journal.records import Incoming, ScheduleRecord, TaskRecord
from rumi.tasks.bots.config import BotConfig, BotError, access_of
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.schedules.stored import bot_of
from rumi.tasks.tasks import Tasks
from rumi.texts import Language, Text, gettext

logger = logging.getLogger(__name__)

KIND: Final = "bot"
"""The task kind of bot sessions."""

GO_ON: Final = "Work towards your goal."
"""The goal of a session that is started without a goal: the bot then follows its instructions."""


PLAN: Final = "--plan"
"""The option of `/bot` that requests a plan first. It comes before the goal."""

MOST_SESSIONS: Final = 50
"""Number of a bot's most recent sessions that can be shown and resumed."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The start options of a session: its goal, and values that override the bot's configuration.

    None and empty values leave the configured values unchanged. With `plan`, the session has no effects until
    the user has approved a plan that the bot proposed. The bot gets a copy of the folder `workspace`. With
    `skip_git_check`, this folder may lie outside a git work tree. With `discard`, changes that the bot made
    in its previous project may be lost.
    """

    goal: str = ""
    iterations: Annotated[int, Field(ge=0)] | None = None
    model: str = ""
    sandbox: str = ""
    budget: str = ""
    plan: bool = False
    workspace: str = ""
    skip_git_check: bool = False
    discard: bool = False


def session(config: BotConfig, start: SessionStart, owner: str, chat: str, language: Language) -> TaskRecord:
    """Return a new session of a bot as a task that is not stored yet.

    Raises:
        BotError: The session would have neither an iteration limit nor a budget.
    """
    most = config.max_iterations if start.iterations is None else start.iterations
    budget: Amount | None = parse_amount(start.budget) if start.budget else config.budget
    options: dict[str, object] = {
        "sleep_secs": config.sleep_secs,
        "sandbox": access_of(config.name, start.sandbox or config.sandbox),
        "plan": start.plan,
    }
    if budget is not None:
        options["budget"] = {"unit": budget.unit, "most": budget.most}
    options["iterations"] = _bounded(config.name, most, options)
    return TaskRecord(
        KIND,
        owner,
        start.goal.strip() or GO_ON,
        chat,
        options=json.dumps(options),
        language=language,
        model=start.model or config.model,
        bot=config.name,
    )


def _bounded(name: str, iterations: int, options: Mapping[str, object]) -> int:
    """Return the maximum number of iterations; 0 means no limit.

    Raises:
        BotError: There is neither an iteration limit nor a budget.
    """
    if iterations == 0 and "budget" not in options:
        raise BotError(
            "The bot {name} has no limit of iterations, so it needs a budget.",
            'Set it in its config.md, for example: budget = "2 USD"',
            name=name,
        )
    return iterations


class Bots:
    """Starts, wakes and stops bots, and sends messages to bots.

    Only owners in `allowed` may run bots; if `allowed` is empty, all owners may. A bot has one session at a
    time.
    """

    def __init__(
        self,
        files: BotFiles,
        tasks: Callable[[], Tasks],
        ids: ChatIds,
        offload: Offload,
        bounds: ProjectLimits,
        allowed: Collection[str] = (),
        people: People | None = None,
    ) -> None:
        self.files = files
        self._people = people or People()
        self._bounds = bounds
        self._tasks = tasks
        self._ids = ids
        self._offload = offload
        self._allowed = frozenset(allowed)

    # For chats

    def stops(self, name: str) -> bool:
        """Return True if the argument of a `/stop` command is the name of a bot."""
        return self.files.has(name)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Execute `/bots`, `/bot NAME GOAL`, `/wake NAME` or `/stop NAME`; return the reply."""
        owner, (name, _, rest) = self._ids.owner_of(message.chat), command.rest.partition(" ")
        scope = None if message.admin or owner == LOCAL else owner
        try:
            if not self.may(owner):
                return f"❌ {bot_texts.bots_refused(language)}"
            match command.name:
                case "bots":
                    return bot_texts.bot_list(language, await self.rows(scope))
                case "wake" if name:
                    await self.say(name, scope, rest.strip())
                    return bot_texts.bot_wakes(language, name)
                case "stop":
                    await self.stop(name, scope)
                    return bot_texts.bot_stops(language, name)
                case "bot" if name:
                    return await self._bot(message, language, owner, scope, name, rest.strip())
                case _:
                    return gettext(language, "Use /bots, /bot NAME GOAL, /wake NAME, or /stop NAME.")
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        except ActorError as error:
            logger.warning("bots do not answer: %r", error)
            return f"❌ {gettext(language, 'The tasks do not answer. Try again in a moment.')}"

    async def _bot(
        self, message: Incoming, language: Language, owner: str, scope: str | None, name: str, goal: str
    ) -> str:
        """Start a bot. If the bot is running already, send the text to its session instead.

        If the same message is handled again after a restart, no second session is started.
        """
        running = self._tasks().session_of(name)
        # After a restart the same message is handled again: it must not become a text for the session that it
        # started itself.
        if running is not None and running.message != message.id:
            await self.say(name, scope, goal)
            return gettext(language, "🤖 The bot {name} reads it in its next iteration.", name=name)
        config = await self._offload(partial(self.files.read, name))
        first, _, rest = goal.partition(" ")
        start = SessionStart(rest.strip() if first == PLAN else goal, model=message.model, plan=first == PLAN)
        task = session(config, start, owner, message.chat, language)
        begun = await self.begin(replace(task, message=message.id, user=message.user))
        return gettext(
            language,
            "🤖 The bot {name} has begun session {id}. Its report comes here; /stop {name} stops it.",
            name=name,
            id=begun.id,
        )

    async def rows(self, owner: str | None) -> list[tuple[str, str, str, str]]:
        """Return the name, description, state and last goal of each bot.

        The goal is empty if it was set by an owner other than `owner`. If `owner` is None, all goals are
        shown.
        """
        rows: list[tuple[str, str, str, str]] = []
        for name in await self._offload(self.files.names):
            about = ""
            try:
                about = (await self._offload(partial(self.files.read, name))).description
            except RumiError as error:
                about = error.message
            last = await self._tasks().listed(None, limit=1, bot=name)
            goal = last[0].question if last and owner in (None, last[0].owner) else ""
            rows.append((name, about, last[0].state if last else "", goal))
        return rows

    # For chats, tools, schedules and other processes

    @property
    def any(self) -> bool:
        """Return True if the home has a bot. Blocks briefly."""
        return bool(self.files.names())

    def may(self, owner: str) -> bool:
        """Return True if this owner may run bots."""
        return not self._allowed or owner in self._allowed

    def checked(self, task: TaskRecord) -> TaskRecord:
        """Return a session unchanged if its bot has no open session and its model is usable.

        Raises:
            RumiError: The session cannot start.
        """
        if (running := self._tasks().session_of(task.bot)) is not None:
            raise BotError(
                "The bot {bot} is at work (session {id}).",
                "Say something to it with /bot {bot} TEXT, or stop it with /stop {bot}.",
                bot=task.bot,
                id=running.id,
            )
        self._people.check_bots(task, tuple(self._tasks().open_tasks().values()))
        return self._tasks().checked(task)

    async def begin(self, task: TaskRecord) -> TaskRecord:
        """Store a session and start it in the background; return the session with its number.

        Raises:
            RumiError: The session cannot start.
        """
        await self._offload(partial(self.files.link_workspace, task.bot))
        return await self._tasks().begin(self.checked(task))

    async def start(
        self,
        name: str,
        start: SessionStart,
        owner: str,
        chat: str,
        language: Language,
        user: int | None = None,
    ) -> TaskRecord:
        """Start a bot.

        Its report is sent to `chat` or, without a `chat`, to the chat in the bot's configuration.

        Raises:
            RumiError: The session cannot start.
        """
        config = await self._offload(partial(self.files.read, name))
        task = replace(session(config, start, owner, chat or config.report_to, language), user=user)
        await self._give_project(config, start, task)
        return await self.begin(task)

    async def resume(self, name: str, number: int, start: SessionStart) -> TaskRecord:
        """Resume, in the background, a session that ended before it reached its goal.

        Raises:
            RumiError: The session cannot be resumed.
        """
        return await self._tasks().reopen(await self._resumed(name, number, start))

    async def asked(
        self, name: str, number: int | None, start: SessionStart, language: Language
    ) -> TaskRecord:
        """Return a new session or, with its `number`, a session to resume; 0 is the last one.

        The caller must run the session and wait for its end.

        Raises:
            RumiError: The session to resume does not exist, or the session cannot start.
        """
        config = await self._offload(partial(self.files.read, name))
        await self._offload(partial(self.files.link_workspace, name))
        if number is not None:
            return await self._resumed(name, number, start)
        task = session(config, start, LOCAL, "", language)
        await self._give_project(config, start, task)
        return self.checked(task)

    async def _give_project(
        self, config: BotConfig, start: SessionStart, task: TaskRecord, *, resumes: bool = False
    ) -> None:
        """Copy the folder in the start option `workspace` as the bot's new project.

        The session gives this copy to the bot.

        A resumed session keeps its project if the project came from the same folder and `discard` is not set.
        """
        if not start.workspace:
            return
        # Checked before the copy: taking a project replaces the one of a running session.
        self.checked(task)
        project = self.files.project(config.name)
        plain = start.skip_git_check or config.skip_git_check
        take = partial(project.take, plain=plain, discard=start.discard)
        folder = Path(start.workspace)

        def give() -> None:
            link = project.link()
            if not resumes or link is None or link.folder != os.path.realpath(folder) or start.discard:
                take(folder, self._bounds)

        await self._offload(give)

    async def _resumed(self, name: str, number: int, start: SessionStart) -> TaskRecord:
        """Return the session with that number (0: the bot's last one) with the new options for resuming it.

        If the session has used up its iterations, it gets the same number of iterations again, or the number
        in `start`.
        """
        found = await self._tasks().listed(None, limit=MOST_SESSIONS, bot=name)
        wanted = [task for task in found if number in (0, task.id)]
        if not wanted:
            raise BotError(
                "The bot {name} has no such session.", "Look at: rumi bot history {name}", name=name
            )
        task = wanted[0]
        options = json.loads(task.options)
        done, most = len(await self._tasks().iterations(task.id)), options.get("iterations", 0)
        if start.iterations is not None:
            options["iterations"] = _bounded(name, start.iterations and done + start.iterations, options)
        elif 0 < most <= done:
            options["iterations"] = done + most
        options["plan"] = bool(options.get("plan")) or start.plan
        if start.sandbox:
            options["sandbox"] = access_of(name, start.sandbox)
        again = replace(task, options=json.dumps(options), model=start.model or task.model)
        await self._give_project(
            await self._offload(partial(self.files.read, name)), start, again, resumes=True
        )
        return self.checked(again)

    async def say(self, name: str, owner: str | None, text: str = "") -> None:
        """Send a text to the bot's running session, and wake the session.

        With `owner`, the session must belong to this owner; None allows any owner.

        Raises:
            BotError: The bot is not running, or is running for another owner.
        """
        await self._tasks().say(self._running(name, owner).id, text)

    async def stop(self, name: str, owner: str | None) -> TaskRecord:
        """Ask the bot's running session to stop; the session's report is sent later.

        With `owner`, the session must belong to this owner; None allows any owner.

        Raises:
            BotError: The bot is not running, or is running for another owner.
        """
        return await self._tasks().stop(self._running(name, owner).id, owner)

    def _running(self, name: str, owner: str | None) -> TaskRecord:
        running = self._tasks().session_of(name)
        if running is None:
            if not self.files.has(name):
                self.files.read(name)
            raise BotError("The bot {name} is not at work.", "Start it with: /bot {name} GOAL", name=name)
        if owner not in (None, running.owner):
            raise BotError(
                "The bot {name} is at work for someone else.", "Wait until it has ended.", name=name
            )
        return running

    def of_schedule(self, schedule: ScheduleRecord) -> TaskRecord:
        """Return the session to start when a schedule fires.

        Raises:
            RumiError: The session cannot start now.
        """
        name = bot_of(schedule)
        if not self.may(schedule.owner):
            raise BotError("This owner may not run bots.", "[bots] allowed in config.toml says who may.")
        start = SessionStart(schedule.text, model=schedule.model)
        chat = schedule.chat or DEFAULT_CHAT
        task = session(self.files.read(name), start, schedule.owner, chat, schedule.language)
        return self.checked(replace(task, user=schedule.user))


class StartBot(Tool):
    """The chat tool `start_bot`, which starts a bot. It always asks the user first."""

    concurrent = False
    turn_only = True
    always_asks = True
    spec = ToolSpec(
        "start_bot",
        "Start one of the user's bots, which works on its own for long. The user is asked.",
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "goal": {"type": "string"}},
            "required": ["name", "goal"],
        },
    )

    def __init__(
        self,
        bots: Callable[[], Bots],
        owner: str,
        chat: str,
        language: Callable[[], Language],
        user: int | None = None,
    ) -> None:
        self._user = user
        self._bots = bots
        self._owner = owner
        self._chat = chat
        self._language = language

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that names the bot and its goal."""
        name, goal = arguments.get("name"), arguments.get("goal")
        if not isinstance(name, str) or not isinstance(goal, str):
            return None
        return Question("start_bot", {"key": name, "prompt": goal}, (name, goal))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Start the bot."""
        name, goal = arguments.get("name"), arguments.get("goal")
        if not isinstance(name, str) or not isinstance(goal, str):
            return ToolResult(False, Text("start_bot needs `name` and `goal`, two strings"))
        bots = self._bots()
        if not bots.may(self._owner):
            return ToolResult(False, bot_texts.bots_refused(self._language()))
        start, language = SessionStart(goal), self._language()
        begun = await bots.start(name, start, self._owner, self._chat, language, self._user)
        return ToolResult(True, f"the bot {name} has begun session {begun.id}; the user gets its report")
