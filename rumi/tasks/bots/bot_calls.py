"""Control calls for bots."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator
from typing_extensions import TypedDict  # typing's own works with pydantic from Python 3.12 on

from rumi.chats.chat_calls import page_of_lines
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.rows import facts_of, forget_key, remember_fact
from rumi.memory.writing import checked
from rumi.platform.caller import Caller
from rumi.platform.calls import PartitionKey, call
from rumi.platform.chat_ids import DEFAULT_CHAT, bot_key
from rumi.platform.threads import Offload
from rumi.platform.timestamps import utc
from rumi.sandbox.project.tree import UNBOUNDED, ProjectLimits
from rumi.store.journal.records import IterationRecord, TaskRecord
from rumi.tasks.bots.bots import MOST_SESSIONS, Bots, SessionStart
from rumi.tasks.bots.config import BotConfig, BotError, check_name
from rumi.tasks.bots.fetching import FetchedSkills
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.importing import Foreign, foreign_bots, take_over_skills
from rumi.tasks.bots.project.showing import apply_shown, show_changes
from rumi.tasks.task_calls import spent_as_json
from rumi.tasks.task_calls import task_as_json as task_json
from rumi.tasks.tasks import StoredTasks
from rumi.texts import Language

BOT: Final = PartitionKey("name", of="bot")

BotName: TypeAlias = Annotated[str, AfterValidator(check_name)]


class NewSkill(TypedDict):
    """A skill to store in a bot's folder."""

    name: str
    description: str
    text: str


@dataclass(frozen=True, slots=True)
class BotCalls:
    """The control calls for bots. They need a caller with access to all owners: a bot has no owner.

    If `bots` is None, this process cannot run bots; if `fetched` is None, it cannot fetch skills. `bounds`
    limit the size of a project whose changes are shown.
    """

    files: BotFiles
    tasks: StoredTasks
    facts: AskMemory
    offload: Offload
    bots: Bots | None = None
    fetched: FetchedSkills | None = None
    bounds: ProjectLimits = UNBOUNDED

    @call("bots.list", rights="all")
    async def list(self, caller: Caller) -> object:
        """Return the bots, each with the state of its last session."""
        return [await self._listed(name) for name in await self.offload(self.files.names)]

    @call("bots.show", rights="all")
    async def show(self, caller: Caller, *, name: BotName) -> object:
        """Return a bot's configuration and the state of its last session."""
        config = await self._config(name)
        return {
            **asdict(config),
            "folder": str(self.files.folder / name),
            **{key: value for key, value in (await self._listed(name)).items() if key != "name"},
        }

    @call("bots.create", rights="all")
    async def create(self, caller: Caller, *, name: BotName, description: str = "") -> object:
        """Create a bot, and return its folder."""
        return {
            "name": name,
            "folder": str(await self.offload(partial(self.files.create, name, description))),
        }

    @call("bots.delete", rights="all")
    async def delete(self, caller: Caller, *, name: BotName) -> None:
        """Delete a bot that is not at work, with its files, skills and facts."""
        await self._config(name)
        sessions = await self._sessions(name)
        if any(not task.ended for task in sessions):
            raise BotError("The bot {name} is at work.", "Stop it first: rumi bot stop {name}", name=name)
        # The folder last: it defines the bot, so a failed deletion can be repeated.
        await self._forget_all(name)
        await self.tasks.remove_files(bot_key(name))
        await self.offload(partial(self.files.delete, name))

    @call("bots.history", rights="all")
    async def history(self, caller: Caller, *, name: BotName) -> object:
        """Return the bot's last sessions with their iterations, latest first."""
        await self._config(name)
        return [await self._session(task) for task in await self._sessions(name)]

    @call("bots.memory", rights="all")
    async def memory(self, caller: Caller, *, name: BotName) -> object:
        """Return all facts of a bot."""
        await self._config(name)
        return [
            {**asdict(fact), "created": utc(fact.created), "updated": utc(fact.updated)}
            for fact in await self.facts(facts_of(bot_key(name)))
        ]

    @call("bots.remember", rights="all")
    async def remember(self, caller: Caller, *, name: BotName, key: str = "", value: str = "") -> object:
        """Store a fact of a bot: a `value` under a `key`."""
        await self._config(name)
        fact = checked(key, value)
        await self.facts(remember_fact(bot_key(name), fact))
        return {"key": fact.key, "value": fact.value}

    @call("bots.forget", rights="all")
    async def forget(self, caller: Caller, *, name: BotName, key: str = "") -> object:
        """Delete the facts of a bot under a `key`."""
        await self._config(name)
        return {"forgotten": await self.facts(forget_key(bot_key(name), key))}

    @call("bots.clear", rights="all")
    async def clear(self, caller: Caller, *, name: BotName) -> object:
        """Delete all facts of a bot."""
        await self._config(name)
        return {"forgotten": await self._forget_all(name)}

    @call("bots.skills", rights="all")
    async def skills(self, caller: Caller, *, name: BotName) -> object:
        """Return the skills of a bot, and the problems with unreadable ones."""
        await self._config(name)
        skills, problems = await self.offload(partial(self.files.skills, name))
        listed = [{**asdict(skill), "path": str(skill.path)} for skill in skills]
        return {"skills": listed, "problems": problems}

    @call("bots.install_skills", rights="all")
    async def install_skills(
        self, caller: Caller, *, name: BotName, skills: Sequence[NewSkill] = ()
    ) -> object:
        """Store skills in the bot's folder; return the names of the skills."""
        await self._config(name)
        for skill in skills:
            text = (skill["description"], skill["text"])
            await self.offload(partial(self.files.write_skill, name, skill["name"], *text))
        return [skill["name"] for skill in skills]

    @call("bots.remove_skill", rights="all")
    async def remove_skill(self, caller: Caller, *, name: BotName, skill: str = "") -> None:
        """Delete a skill of the bot's own."""
        await self._config(name)
        await self.offload(partial(self.files.remove_skill, name, skill))

    @call("bots.fetch_skills", rights="all")
    async def fetch_skills(self, caller: Caller, *, source: str = "") -> object:
        """Fetch the skills of a `source`, the URL of a git repository, without storing them."""
        if self.fetched is None:
            raise _nothing_runs()
        skills, problems = await self.fetched.skills(source)
        return {
            "skills": [NewSkill(name=one.name, description=one.description, text=one.text) for one in skills],
            "problems": problems,
        }

    @call("bots.begin", rights="all", key=PartitionKey("chat", default=DEFAULT_CHAT))
    async def begin(
        self, caller: Caller, *, name: BotName, start: SessionStart, chat: str = "", language: Language = "en"
    ) -> object:
        """Start a session of a bot, whose report goes to the `chat`, and return the session."""
        config = await self._config(name)
        to = chat or config.report_to or DEFAULT_CHAT
        return task_json(await self._running().start(name, start, caller.owner, to, language))

    @call("bots.resume", rights="all", key=BOT)
    async def resume(self, caller: Caller, *, name: BotName, start: SessionStart, session: int = 0) -> object:
        """Resume a session that ended before its goal, and return it; the `session` 0 is the last one."""
        await self._config(name)
        return task_json(await self._running().resume(name, session, start))

    @call("bots.stop", rights="all", key=BOT)
    async def stop(self, caller: Caller, *, name: BotName) -> object:
        """Stop the session of a bot, and return it."""
        await self._config(name)
        return task_json(await self._running().stop(name, caller.scope))

    @call("bots.wake", rights="all", key=BOT)
    async def wake(self, caller: Caller, *, name: BotName, text: str = "") -> None:
        """End the sleep of a bot, and send it a `text`."""
        await self._config(name)
        await self._running().say(name, caller.scope, text)

    @call("bots.diff", rights="all")
    async def diff(self, caller: Caller, *, name: BotName, token: str = "", after: int = 0) -> object:
        """Return what a bot has changed in its project, page by page, as `chats.diff` does for a chat.

        `token` stands for exactly these changes; a next page and `bots.apply` name it.

        Raises:
            BotError: The bot has no project, or it cannot be read.
            RumiError: The changes are not those of the first page any more.
        """
        await self._config(name)
        found = await self.offload(partial(show_changes, self.files.project(name), self.bounds))
        if token and found.token != token:
            raise RumiError("The bot has changed its files meanwhile.", "Look at its changes again.")
        lines, following = page_of_lines(found.lines, max(0, after))
        return {
            "folder": found.folder,
            "token": found.token,
            "files": [{"letter": letter, "path": path} for letter, path in found.files],
            "left_out": [[*pair] for pair in found.left_out],
            "lines": lines,
            "next": following,
        }

    @call("bots.apply", rights="all")
    async def apply(self, caller: Caller, *, name: BotName, token: str) -> object:
        """Make the changes that `bots.diff` has shown with a `token` in the user's folder; return how many.

        Raises:
            BotError: The folder has changed in the same places, or cannot be written.
            RumiError: The bot's changes are others by now. Nothing was applied.
        """
        caller.check_owner_of_home()
        await self._config(name)
        count = await self.offload(partial(apply_shown, self.files.project(name), self.bounds, token))
        return {"name": name, "applied": count}

    @call("bots.import", rights="all")
    async def import_(self, caller: Caller, *, folder: str = "") -> object:
        """Import the bots of an openbot installation one by one; never replace an existing bot."""
        bots = [await self._take_over(bot) for bot in await self.offload(partial(foreign_bots, Path(folder)))]
        came, there, problems = await self.offload(partial(take_over_skills, self.files, Path(folder)))
        return {"bots": bots, "skills": came, "skills_there": there, "problems": problems}

    async def _config(self, name: str) -> BotConfig:
        return await self.offload(partial(self.files.read, name))

    def _running(self) -> Bots:
        if self.bots is None:
            raise _nothing_runs()
        return self.bots

    async def _take_over(self, foreign: Foreign) -> dict[str, object]:
        name, problems = foreign.name, list(foreign.problems)
        if foreign.fault:
            return {"name": name, "taken": False, "problems": [foreign.fault]}
        try:
            await self.offload(partial(self.files.take_over, name, foreign.config, foreign.skills))
        except RumiError as error:
            return {"name": name, "taken": False, "problems": [str(error)]}
        try:
            config = await self.offload(partial(self.files.read, name))
            problems += config.notes
        except RumiError as error:
            problems.append(str(error))
        facts = 0
        for key, value in foreign.facts:
            try:
                await self.facts(remember_fact(bot_key(name), checked(key, value)))
                facts += 1
            except RumiError as error:
                problems.append(f"{key[:80]}: {error}")
        if foreign.history:
            await self.tasks.past_session(name, foreign.history)
        return {
            "name": name,
            "taken": True,
            "facts": facts,
            "iterations": len(foreign.history),
            "problems": problems,
        }

    async def _listed(self, name: str) -> dict[str, object]:
        last = await self.tasks.listed(None, limit=1, bot=name)
        about, problem, project = "", "", None
        try:
            about = (await self.offload(partial(self.files.read, name))).description
            project = await self.offload(self.files.project(name).link)
        except RumiError as error:
            problem = str(error)
        return {
            "name": name,
            "description": about,
            "problem": problem,
            "state": last[0].state if last else None,
            "session": last[0].id if last else None,
            "goal": last[0].question if last else None,
            "chat": last[0].chat if last else None,
            "wake_at": utc(last[0].wake_at) if last and last[0].wake_at and not last[0].ended else None,
            "project": project is not None,
        }

    async def _sessions(self, name: str) -> tuple[TaskRecord, ...]:
        return await self.tasks.listed(None, limit=MOST_SESSIONS, bot=name)

    async def _session(self, task: TaskRecord) -> dict[str, object]:
        iterations = await self.tasks.iterations(task.id)
        return {**task_json(task), "iterations": [_iteration(iteration) for iteration in iterations]}

    async def _forget_all(self, name: str) -> int:
        owner = bot_key(name)
        keys = {fact.key for fact in await self.facts(facts_of(owner))}
        return sum([await self.facts(forget_key(owner, key)) for key in sorted(keys)])


def _nothing_runs() -> RumiError:
    return RumiError("No Rumi runs, so no bot runs.", "Start one with: rumi serve")


def _iteration(iteration: IterationRecord) -> dict[str, object]:
    return {**asdict(iteration), "spent": spent_as_json(iteration.spent), "ended": utc(iteration.ended)}
