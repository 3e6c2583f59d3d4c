"""Control calls for bots: other processes send JSON objects, and get JSON objects as answers.

Calls that name no bot: `list`; `import` (with the `folder` of an openbot installation).

Calls for the bot `name`: `show`, `create` (with a `description`), `delete`, `history`, `memory` (returns all
facts), `remember` (with a `key` and a `value`), `forget` (with a `key`), `clear`, `skills`, `remove_skill`
(with a `skill`), `install_skills` (with `skills`, each with a `name`, a `description` and a `text`).

Calls that need a process that runs tasks: `fetch_skills` (with a `source`, a URL), `begin` (with a `goal`,
`iterations`, a `model`, a `sandbox`, a `workspace` with `skip_git_check` and `discard`, and a `chat`),
`resume` (with a `session`), `stop`, `wake` (with a `text`).
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.rows import facts_of, forget_key, remember_fact
from rumi.memory.writing import checked
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import DEFAULT_CHAT, bot_key
from rumi.platform.texts.language import known_language
from rumi.platform.threads import Offload
from rumi.platform.timestamps import utc
from rumi.store.journal.records import IterationRecord, TaskRecord
from rumi.tasks.bots.bots import MOST_SESSIONS, Bots, SessionStart
from rumi.tasks.bots.config import BotConfig, BotError, check_name
from rumi.tasks.bots.fetching import FetchedSkills
from rumi.tasks.bots.files import BotFiles, BotSkill
from rumi.tasks.bots.importing import Foreign, foreign_bots, take_over_skills
from rumi.tasks.task_calls import task_as_json as task_json
from rumi.tasks.tasks import StoredTasks
from rumi.texts import Language


def bot_call(
    files: BotFiles,
    tasks: StoredTasks,
    memory: AskMemory,
    offload: Offload,
    bots: Bots | None = None,
    fetched: FetchedSkills | None = None,
) -> ControlCall:
    """Return the function that answers control calls for bots.

    If `bots` is None, this process cannot run bots; if `fetched` is None, it cannot fetch skills.
    """
    return _BotCalls(files, tasks, memory, offload, bots, fetched).answer


class _BotCalls:
    def __init__(
        self,
        files: BotFiles,
        tasks: StoredTasks,
        memory: AskMemory,
        offload: Offload,
        bots: Bots | None,
        fetched: FetchedSkills | None,
    ) -> None:
        self._files = files
        self._tasks = tasks
        self._memory = memory
        self._offload = offload
        self._bots = bots
        self._fetched = fetched

    async def answer(self, caller: Caller, request: Mapping[str, object]) -> object:
        """Execute a request. The caller needs access to all owners, because a bot has no owner.

        Raises:
            UsageError: The request is invalid, or the bot is unknown.
            NotAllowed: The caller has access to only one owner.
            RumiError: The request cannot be executed.
        """
        caller.check_all()
        do, bot_name = request.get("do"), request.get("name")
        if do == "list":
            names = await self._offload(self._files.names)
            return [await self._listed(name) for name in names]
        if do == "fetch_skills" and self._fetched is not None:
            skills, problems = await self._fetched.skills(str(request.get("source") or ""))
            return {"skills": [_skill(skill) for skill in skills], "problems": problems}
        if do == "import":
            return await self._import(Path(str(request.get("folder") or "")))
        if not isinstance(bot_name, str):
            raise BotError("The request names no bot.")
        name = check_name(bot_name)
        if do == "create":
            about = str(request.get("description") or "")
            return {
                "name": name,
                "folder": str(await self._offload(partial(self._files.create, name, about))),
            }
        config = await self._offload(partial(self._files.read, name))
        return await self._of(caller, config, request)

    async def _of(self, caller: Caller, config: BotConfig, request: Mapping[str, object]) -> object:
        name, owner = config.name, bot_key(config.name)
        match request.get("do"):
            case "show":
                return await self._shown(config)
            case "history":
                return [await self._session(task) for task in await self._sessions(name)]
            case "memory":
                return [asdict(fact) for fact in await self._memory(facts_of(owner))]
            case "remember":
                fact = checked(str(request.get("key") or ""), str(request.get("value") or ""))
                await self._memory(remember_fact(owner, fact))
                return {"key": fact.key, "value": fact.value}
            case "forget":
                return {"forgotten": await self._memory(forget_key(owner, str(request.get("key") or "")))}
            case "clear":
                return {"forgotten": await self._clear(owner)}
            case "skills":
                skills, problems = await self._offload(partial(self._files.skills, name))
                listed = [{**asdict(skill), "path": str(skill.path)} for skill in skills]
                return {"skills": listed, "problems": problems}
            case "install_skills":
                return await self._install(name, request.get("skills"))
            case "remove_skill":
                await self._offload(partial(self._files.remove_skill, name, str(request.get("skill") or "")))
                return None
            case "delete":
                await self._delete(name)
                return None
        return await self._run(caller, config, request)

    async def _run(self, caller: Caller, config: BotConfig, request: Mapping[str, object]) -> object:
        bots, name = self._bots, config.name
        match request.get("do"):
            case "begin" | "resume" | "stop" | "wake" if bots is None:
                raise RumiError("No Rumi runs, so no bot runs.", "Start one with: rumi serve")
            case "begin" if bots is not None:
                chat = str(request.get("chat") or config.report_to or DEFAULT_CHAT)
                return task_json(
                    await bots.start(name, SessionStart.of(request), caller.owner, chat, _language(request))
                )
            case "resume" if bots is not None:
                return task_json(await bots.resume(request))
            case "stop" if bots is not None:
                return task_json(await bots.stop(name, caller.scope))
            case "wake" if bots is not None:
                await bots.say(name, caller.scope, str(request.get("text") or ""))
                return None
            case _:
                raise BotError(
                    "The bots do not know this request.", "rumi bot --help lists what they can do."
                )

    async def _install(self, name: str, skills: object) -> list[str]:
        """Store skills in the bot's folder; return the names of the skills."""
        written = []
        for skill in skills if isinstance(skills, list) else ():
            values = [str(skill.get(key) or "") for key in ("name", "description", "text")]
            await self._offload(partial(self._files.write_skill, name, *values))
            written.append(values[0])
        return written

    async def _import(self, folder: Path) -> dict[str, object]:
        """Import another program's bots one by one; never replace an existing bot."""
        bots = [await self._take_over(bot) for bot in await self._offload(partial(foreign_bots, folder))]
        came, there, problems = await self._offload(partial(take_over_skills, self._files, folder))
        return {"bots": bots, "skills": came, "skills_there": there, "problems": problems}

    async def _take_over(self, foreign: Foreign) -> dict[str, object]:
        name, problems = foreign.name, list(foreign.problems)
        if foreign.fault:
            return {"name": name, "taken": False, "problems": [foreign.fault]}
        try:
            await self._offload(partial(self._files.take_over, name, foreign.config, foreign.skills))
        except RumiError as error:
            return {"name": name, "taken": False, "problems": [str(error)]}
        try:
            config = await self._offload(partial(self._files.read, name))
            problems += config.notes
        except RumiError as error:
            problems.append(str(error))
        facts = 0
        for key, value in foreign.facts:
            try:
                await self._memory(remember_fact(bot_key(name), checked(key, value)))
                facts += 1
            except RumiError as error:
                problems.append(f"{key[:80]}: {error}")
        if foreign.history:
            await self._tasks.past_session(name, foreign.history)
        return {
            "name": name,
            "taken": True,
            "facts": facts,
            "iterations": len(foreign.history),
            "problems": problems,
        }

    async def _listed(self, name: str) -> dict[str, object]:
        last = await self._tasks.listed(None, limit=1, bot=name)
        about, problem = "", ""
        try:
            about = (await self._offload(partial(self._files.read, name))).description
        except RumiError as error:
            problem = str(error)
        return {
            "name": name,
            "description": about,
            "problem": problem,
            "state": last[0].state if last else None,
            "session": last[0].id if last else None,
            "goal": last[0].question if last else None,
        }

    async def _shown(self, config: BotConfig) -> dict[str, Any]:
        return {
            **asdict(config),
            "folder": str(self._files.folder / config.name),
            **{key: value for key, value in (await self._listed(config.name)).items() if key != "name"},
        }

    async def _sessions(self, name: str) -> tuple[TaskRecord, ...]:
        return await self._tasks.listed(None, limit=MOST_SESSIONS, bot=name)

    async def _session(self, task: TaskRecord) -> dict[str, object]:
        iterations = await self._tasks.iterations(task.id)
        return {**task_json(task), "iterations": [_iteration(iteration) for iteration in iterations]}

    async def _clear(self, owner: str) -> int:
        keys = {fact.key for fact in await self._memory(facts_of(owner))}
        return sum([await self._memory(forget_key(owner, key)) for key in sorted(keys)])

    async def _delete(self, name: str) -> None:
        sessions = await self._sessions(name)
        if any(not task.ended for task in sessions):
            raise BotError("The bot {name} is at work.", "Stop it first: rumi bot stop {name}", name=name)
        # The folder last: it defines the bot, so a failed deletion can be repeated.
        await self._clear(bot_key(name))
        await self._tasks.remove_files(bot_key(name))
        await self._offload(partial(self._files.delete, name))


def _skill(skill: BotSkill) -> dict[str, str]:
    return {"name": skill.name, "description": skill.description, "text": skill.text}


def _iteration(iteration: IterationRecord) -> dict[str, object]:
    return {**asdict(iteration), "ended": utc(iteration.ended)}


def _language(request: Mapping[str, object]) -> Language:
    return known_language(request.get("language")) or "en"
