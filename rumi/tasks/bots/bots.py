"""Bots for those who ask for them: chats, tools, schedules, and other processes."""

import json
import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from actors import ActorError
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.chats.budgets.amounts import Amount, parse_amount
from rumi.chats.commands import ChatCommand
from rumi.chats.people.people import People
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.chat_ids import DEFAULT_CHAT, LOCAL, ChatIds
from rumi.platform.texts import bots as bot_texts
from rumi.platform.texts.language import Language
from rumi.platform.texts.translation import error_text, translate
from rumi.platform.threads import Offload
from rumi.store.journal.records import Incoming, ScheduleRecord, TaskRecord
from rumi.tasks.bots.config import BotConfig, BotError, access_of
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.project.tree import ProjectLimits
from rumi.tasks.schedules.stored import bot_of
from rumi.tasks.tasks import Tasks

logger = logging.getLogger(__name__)

KIND: Final = "bot"
"""The kind of the tasks that are sessions of bots."""

GO_ON: Final = "Work towards your goal."
"""What a bot is told that was given no other goal than its instructions."""


PLAN: Final = "--plan"
"""Before the goal of a `/bot`, it asks for a plan first."""

MOST_SESSIONS: Final = 50
"""How many of a bot's last sessions can be looked at, and can go on."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """How a session begins: its goal, and what replaces the configuration; None and empty leave it.

    With `plan` it does nothing before a plan of its is approved. `workspace` is the folder that the bot gets
    a copy of. `skip_git_check`: git need not know it. `discard`: changes of the project before it are lost.
    """

    goal: str = ""
    iterations: int | None = None
    model: str = ""
    sandbox: str = ""
    budget: str = ""
    plan: bool = False
    workspace: str = ""
    skip_git_check: bool = False
    discard: bool = False

    @classmethod
    def of(cls, request: Mapping[str, object]) -> "SessionStart":
        """Return how a request of another process has a session begin."""
        iterations = request.get("iterations")
        return cls(
            goal=str(request.get("goal") or ""),
            iterations=iterations if isinstance(iterations, int) and iterations >= 0 else None,
            model=str(request.get("model") or ""),
            sandbox=str(request.get("sandbox") or ""),
            plan=bool(request.get("plan")),
            workspace=str(request.get("workspace") or ""),
            skip_git_check=request.get("skip_git_check") is True,
            discard=request.get("discard") is True,
        )


def session(config: BotConfig, start: SessionStart, owner: str, chat: str, language: Language) -> TaskRecord:
    """Return the task that is a session of a bot, not stored yet.

    Raises:
        BotError: It would have no bound.
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
    """Return the limit of iterations.

    Raises:
        BotError: There is none, and no budget.
    """
    if iterations == 0 and "budget" not in options:
        raise BotError(
            f"The bot {name} has no limit of iterations, so it needs a budget.",
            'Set it in its config.md, for example: budget = "2 USD"',
        )
    return iterations


class Bots:
    """Starts, wakes and stops bots, and speaks to them. `allowed` are the owners who may; none is everybody.

    A bot has one session at a time.
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
        """Return True if a `/stop` with this behind it is for a bot."""
        return self.files.has(name)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Do `/bots`, `/bot NAME GOAL`, `/wake NAME` or `/stop NAME`; return the reply."""
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
                    return bot_texts.bot_usage(language)
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        except ActorError as error:
            logger.warning("bots do not answer: %r", error)
            return f"❌ {translate(language, 'The tasks do not answer. Try again in a moment.')}"

    async def _bot(
        self, message: Incoming, language: Language, owner: str, scope: str | None, name: str, goal: str
    ) -> str:
        """Start a bot, or say something to the one that runs; for the same message once."""
        running = self._tasks().session_of(name)
        if running is not None and running.message != message.id:
            await self.say(name, scope, goal)
            return bot_texts.bot_hears(language, name)
        config = await self._offload(partial(self.files.read, name))
        first, _, rest = goal.partition(" ")
        start = SessionStart(rest.strip() if first == PLAN else goal, model=message.model, plan=first == PLAN)
        task = session(config, start, owner, message.chat, language)
        begun = await self.begin(replace(task, message=message.id, user=message.user))
        return bot_texts.bot_begins(language, name, begun.id)

    async def rows(self, owner: str | None) -> list[tuple[str, str, str, str]]:
        """Return each bot: name, description, state, and its last goal if the owner gave it (None: any)."""
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

    # For all

    @property
    def any(self) -> bool:
        """Return True if there is a bot. Blocking, briefly."""
        return bool(self.files.names())

    def may(self, owner: str) -> bool:
        """Return True if this owner may run bots."""
        return not self._allowed or owner in self._allowed

    def checked(self, task: TaskRecord) -> TaskRecord:
        """Return a session, if it can begin: its bot is not at work, its model can be used.

        Raises:
            RumiError: It cannot.
        """
        if (running := self._tasks().session_of(task.bot)) is not None:
            raise BotError(
                f"The bot {task.bot} is at work (session {running.id}).",
                f"Say something to it with /bot {task.bot} TEXT, or stop it with /stop {task.bot}.",
            )
        self._people.check_bots(task, tuple(self._tasks().open_tasks().values()))
        return self._tasks().checked(task)

    async def begin(self, task: TaskRecord) -> TaskRecord:
        """Store a session that runs by itself, and start it; return it with its number.

        Raises:
            RumiError: It cannot begin.
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
        """Start a bot, whose report comes to the chat.

        Raises:
            RumiError: It cannot begin.
        """
        config = await self._offload(partial(self.files.read, name))
        task = replace(session(config, start, owner, chat or config.report_to, language), user=user)
        await self._give_project(config, start, task)
        return await self.begin(task)

    async def resume(self, request: Mapping[str, object]) -> TaskRecord:
        """Have a session go on by itself that has ended before its goal.

        Raises:
            RumiError: It cannot.
        """
        return await self._tasks().reopen(await self._resumed(request))

    async def asked(self, request: Mapping[str, object]) -> TaskRecord:
        """Return the session that a request asks for, to be run while its reader waits.

        Raises:
            RumiError: There is none, or it cannot begin.
        """
        name = str(request.get("name") or "")
        config = await self._offload(partial(self.files.read, name))
        await self._offload(partial(self.files.link_workspace, name))
        if "session" in request:
            return await self._resumed(request)
        language: Language = "es" if request.get("language") == "es" else "en"
        start = SessionStart.of(request)
        task = session(config, start, LOCAL, "", language)
        await self._give_project(config, start, task)
        return self.checked(task)

    async def _give_project(
        self, config: BotConfig, start: SessionStart, task: TaskRecord, *, resumes: bool = False
    ) -> None:
        """Copy the folder that a start names for a session that can begin; the session gives it to the bot.

        A session that goes on keeps the project that it has of the same folder.
        """
        if not start.workspace:
            return
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

    async def _resumed(self, request: Mapping[str, object]) -> TaskRecord:
        """Return the session that is to go on, the one of that number or the last one, as it goes on.

        One that has used its iterations gets as many again, or as many more as the request says.
        """
        name, number, start = str(request.get("name") or ""), request.get("session"), SessionStart.of(request)
        found = await self._tasks().listed(None, limit=MOST_SESSIONS, bot=name)
        wanted = [task for task in found if not isinstance(number, int) or not number or task.id == number]
        if not wanted:
            raise BotError(f"The bot {name} has no such session.", f"Look at: rumi bot history {name}")
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
        """Say something to a bot that runs for an owner, None for any, and wake it.

        Raises:
            BotError: It does not run, or for another owner.
        """
        await self._tasks().say(self._running(name, owner).id, text)

    async def stop(self, name: str, owner: str | None) -> TaskRecord:
        """Have a bot stopped that runs for an owner, None for any; its report follows.

        Raises:
            BotError: It does not run, or for another owner.
        """
        return await self._tasks().stop(self._running(name, owner).id, owner)

    def _running(self, name: str, owner: str | None) -> TaskRecord:
        running = self._tasks().session_of(name)
        if running is None:
            if not self.files.has(name):
                self.files.read(name)
            raise BotError(f"The bot {name} is not at work.", f"Start it with: /bot {name} GOAL")
        if owner not in (None, running.owner):
            raise BotError(f"The bot {name} is at work for someone else.", "Wait until it has ended.")
        return running

    def of_schedule(self, schedule: ScheduleRecord) -> TaskRecord:
        """Return the session that a fire begins.

        Raises:
            RumiError: It cannot begin now.
        """
        name = bot_of(schedule)
        if not self.may(schedule.owner):
            raise BotError("This owner may not run bots.", "[bots] allowed in config.toml says who may.")
        start = SessionStart(schedule.text, model=schedule.model)
        chat = schedule.chat or DEFAULT_CHAT
        task = session(self.files.read(name), start, schedule.owner, chat, schedule.language)
        return self.checked(replace(task, user=schedule.user))


class StartBot(Tool):
    """The tool `start_bot` of a chat: the user is always asked first."""

    concurrent = False
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
        """Return the question with the bot and its goal."""
        name, goal = arguments.get("name"), arguments.get("goal")
        if not isinstance(name, str) or not isinstance(goal, str):
            return None
        return Question("start_bot", {"key": name, "prompt": goal}, (name, goal))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Start it."""
        name, goal = arguments.get("name"), arguments.get("goal")
        if not isinstance(name, str) or not isinstance(goal, str):
            return ToolResult(False, "start_bot needs `name` and `goal`, two strings")
        bots = self._bots()
        if not bots.may(self._owner):
            return ToolResult(False, bot_texts.bots_refused(self._language()))
        start, language = SessionStart(goal), self._language()
        begun = await bots.start(name, start, self._owner, self._chat, language, self._user)
        return ToolResult(True, f"the bot {name} has begun session {begun.id}; the user gets its report")
