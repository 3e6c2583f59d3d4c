"""The task kind of bot sessions, which prepares the start and handles the end of each iteration."""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from typing import Any, Final

from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.prompts.environment import NOTHING_NOTED, instruction_blocks
from rumi.agent.prompts.prompt_notes import today_line
from rumi.agent.prompts.prompts import Prompts
from rumi.agent.tool import Tool
from rumi.agent.tools.bash import bash_tools
from rumi.agent.tools.delegate import Delegate
from rumi.agent.tools.edit_file import EditFile
from rumi.agent.tools.forget import ForgetTool
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.remember import RememberTool
from rumi.agent.tools.search_files import search_tools
from rumi.agent.tools.todo import TodoTool
from rumi.agent.tools.web_fetch import WebFetch
from rumi.agent.tools.web_search import WebSearch
from rumi.agent.tools.write_file import WriteFile
from rumi.chats.budgets.amounts import amount_text
from rumi.chats.surroundings import SurroundingsNote, instruction_chars
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.block import escaped, memory_block
from rumi.memory.rows import facts_of
from rumi.models.model import Message
from rumi.platform.atomic_write import atomic_write
from rumi.platform.chat_ids import bot_key
from rumi.platform.config.schema import BotsSection
from rumi.platform.texts import bots as bot_texts
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.threads import Offload
from rumi.platform.zones import local_at
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.overview import instructions_in
from rumi.sandbox.policy import CommandPolicy
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.parked import keep_parked, load_parked
from rumi.store.journal.reading import read_history
from rumi.store.journal.records import Button, IterationRecord, Reason, Spent
from rumi.store.journal.tasks import list_iterations
from rumi.tasks.bots.config import BotConfig, access_of
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.plans import (
    PROPOSE,
    Approved,
    Lapse,
    Plan,
    PlannedCalls,
    PlannedFetch,
    ProposePlan,
    approved_in,
    approved_json,
    details_of,
)
from rumi.tasks.bots.project.cloning import clone
from rumi.tasks.bots.project.link import PROJECT_FOLDER, Project
from rumi.tasks.bots.prompt import in_short, instructions, progress_in_words
from rumi.tasks.bots.receipts import BotClaim, Checked, as_json, check_claims
from rumi.tasks.bots.tools import AskUser, Session, SessionComplete, SessionHistory, Sleep, WriteSkill
from rumi.tasks.kinds import Finished, NextIteration, TaskContext, TaskWork
from rumi.tasks.research.sources import Source
from rumi.tasks.research.workspace import workspace_tools
from rumi.texts import Language, gettext
from rumi.web.links import urls_in_words
from rumi.web.tree import Web

MOST_FAILURES: Final = 3
"""Number of consecutive iterations without an answer from the model after which the session fails."""

MOST_ENTRIES: Final = 5_000

PLAN_FIRST: Final = (
    "The user wants a plan first: look at your files, call propose_plan, and end the iteration. You can do "
    "nothing else before there is a yes. If the user asks for changes, propose the changed plan."
)
_STATE: Final = "session.json"


@dataclass(frozen=True, slots=True)
class BotKind:
    """The task kind of bot sessions. Its options: `iterations`, `sleep_secs`, `sandbox`, `plan` and `budget`.

    `max_facts` is the maximum number of facts from the bot's memory in a prompt. The options are set when a
    session starts; a later change of `config.md` does not change them.
    """

    files: BotFiles
    prompts: Prompts
    sandbox: str
    journal: AskJournal
    memory: AskMemory
    web: Web
    policy: CommandPolicy
    offload: Offload
    now: Callable[[], float]
    limits: BotsSection
    max_facts: int
    sandbox_limits: SandboxLimits

    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        """Prepare an iteration: read the bot's current files, its memory and its last summaries.

        Raises:
            RumiError: The bot was deleted, or its files cannot be used.
        """
        name = context.task.bot
        options: dict[str, Any] = json.loads(context.task.options)
        config = await self.offload(partial(self.files.read, name))
        config = replace(config, sandbox=access_of(name, str(options.get("sandbox") or config.sandbox)))
        skills, problems = await self.offload(partial(self.files.skills, name))
        for problem in problems:
            context.report(problem)
        facts = await self.memory(facts_of(bot_key(name)))
        known = memory_block(context.language, facts, max_facts=self.max_facts)
        before = await self.journal(list_iterations(0, bot=name, limit=20))
        session = await self._session(context)
        most = int(options.get("iterations", config.max_iterations))
        number = len(context.iterations) + 1
        context.report(bot_texts.bot_iteration(context.language, number, most))
        parking = ParkedCalls(
            await self.journal(load_parked(context.key)),
            lambda parked: self.journal(keep_parked(context.key, tuple(parked))),
        )
        # The answers of people first: an approval among them activates a plan in `planned.begin`.
        await parking.hear(context.task.said)
        planned = PlannedCalls(
            parking, session.plan, self.now, context.spent, partial(self._store_plan, context, session)
        )
        await planned.begin()
        plan, answers = planned.valid, parking.in_words()
        planning = bool(options.get("plan")) and plan is None
        plan_text = plan.in_words(context.spent()) if plan is not None else ""
        progress = progress_in_words(number, most, _budget_left(options, context.spent()))
        project = await self._project(context, self.files.project(name))
        today = today_line(local_at(self.now(), context.zone), context.zone)
        yield TaskWork(
            instructions=instructions(
                self.prompts.words["bot"],
                self.sandbox if config.sandbox == "workspace-write" else "",
                config,
                skills,
                (known.text, *project.blocks, plan_text, answers, today),
                before,
                f"{progress} {PLAN_FIRST}" if planning else progress,
            ),
            tools=self._tools(context, config, session, before, planning=planning, planned=plan is not None),
            finish=partial(self._finish, context, config, session, planned, most, options),
            known_urls=urls_in_words(context.task.question),
            tainted=known.tainted
            or project.tainted
            or bool(answers)
            or any(iteration.tainted for iteration in before[-5:]),
            parking=planned,
            max_calls=None if plan is None else plan.calls_left(context.spent()),
            max_nano_usd=None if plan is None else plan.nano_left(context.spent()),
        )

    async def _project(self, context: TaskContext, project: Project) -> SurroundingsNote:
        """Put the project into the bot's workspace if it is not there yet; return prompt blocks about it.

        An instruction file, such as AGENTS.md, has the user's instructions unless the bot has changed it.
        """
        link = await self.offload(project.link)
        if link is None:
            return SurroundingsNote()
        if not link.ready:
            context.report(bot_texts.bot_clones(context.language, link.folder))
            for path, reason in link.left_out:
                context.report(folder_texts.left_out(context.language, path, reason))

            def lacks(error: RumiError) -> None:
                context.report(
                    gettext(
                        context.language,
                        "the project has no history of git: {why}",
                        why=error_text(context.language, error),
                    )
                )

            await clone(project, link, context.shell, self.sandbox_limits, self.offload, lacks)
        name = escaped(os.path.basename(link.folder))
        kind = "with-git" if link.git else "plain"
        block = (
            f'<project name="{name}" folder="/workspace/{PROJECT_FOLDER}" kind="{kind}">\n'
            f"{self.prompts.words['bot-project']}\n</project>"
        )
        here = await self.offload(partial(instructions_in, context.workspace / PROJECT_FOLDER))
        given = await self.offload(partial(instructions_in, project.base(link)))
        changed = tuple(file for file in here if file not in given)
        users = tuple(file for file in here if file in given)
        max_chars = instruction_chars(context.context_tokens)
        mine, _ = instruction_blocks(NOTHING_NOTED, users, files_tainted=False, max_chars=max_chars)
        bots, _ = instruction_blocks(NOTHING_NOTED, changed, files_tainted=True, max_chars=max_chars)
        return SurroundingsNote((block, *mine, *bots), bool(bots) and context.shell.tainted)

    def _tools(
        self,
        context: TaskContext,
        config: BotConfig,
        session: Session,
        before: tuple[IterationRecord, ...],
        *,
        planning: bool,
        planned: bool,
    ) -> tuple[Tool, ...]:
        """Return the tools of an iteration.

        With `planning`, the session still needs an approved plan, so no tool may have effects. With
        `planned`, a plan has been approved.
        """
        name, shell = context.task.bot, context.shell
        owner, language, tainted = bot_key(name), lambda: context.language, context.tainted

        async def nothing(path: str, text: str) -> Source | None:
            return None

        async def check(claims: tuple[BotClaim, ...]) -> tuple[Checked, ...]:
            messages = await self._said(context)
            since = context.task.started or context.task.created
            return await self.offload(partial(check_claims, claims, messages, context.workspace, since))

        async def history(last: int) -> str:
            found = await self.journal(list_iterations(0, bot=name, limit=last))
            return "\n".join(f"{iteration.number}: {in_short(iteration.summary)}" for iteration in found)

        async def write(skill: str, description: str, text: str) -> None:
            await self.offload(partial(self.files.write_skill, name, skill, description, text))

        look: tuple[Tool, ...] = (*workspace_tools(shell, nothing), Delegate())
        speak: tuple[Tool, ...] = (
            SessionHistory(history, lambda: any(iteration.tainted for iteration in before)),
            Sleep(session),
            AskUser(session),
            ProposePlan(context.task.chat or bot_texts.this_terminal(context.language)),
        )
        if planning:
            return (*look, *speak)
        if config.sandbox == "workspace-write":
            bash = bash_tools(shell, self.policy, self.sandbox_limits)
            files = (ReadFile(shell), EditFile(shell), WriteFile(shell))
            look = (*bash, *files, Delegate(search_tools(shell)))
        fetch = partial(self.web.fetch, context.key)
        own = urls_in_words("\n".join((context.task.question, *context.task.said)))
        return (
            *look,
            TodoTool(),
            PlannedFetch(fetch, own) if planned else WebFetch(fetch),
            WebSearch(partial(self.web.search, context.key)),
            RememberTool(self.memory, owner, context.key, tainted, language),
            ForgetTool(self.memory, owner, language),
            WriteSkill(write),
            *speak,
            SessionComplete(session, check, partial(self._store_session, context)),
        )

    async def _said(self, context: TaskContext) -> list[Message]:
        """Return the messages of all iterations of the session."""
        found = await self.journal(read_history(context.key, limit=MOST_ENTRIES))
        return [stored.entry.message for stored in found]

    # The session's own state, which survives restarts

    async def _session(self, context: TaskContext) -> Session:
        path = context.files / _STATE

        def read() -> Mapping[str, Any]:
            try:
                found = json.loads(path.read_text("utf-8"))
            except (OSError, ValueError):
                return {}
            return found if isinstance(found, dict) else {}

        stored = await self.offload(read)
        claims = tuple(
            Checked(BotClaim(claim["kind"], claim["what"], claim["exit_code"]), claim["true"], claim["found"])
            for claim in stored.get("claims", ())
        )
        return Session(
            summary=str(stored.get("summary", "")),
            claims=claims,
            complete=bool(stored.get("complete")),
            returned=bool(stored.get("returned")),
            plan=approved_in(stored.get("plan")),
        )

    async def _store_session(self, context: TaskContext, session: Session) -> None:
        state = {
            "summary": session.summary,
            "claims": as_json(session.claims),
            "complete": session.complete,
            "returned": session.returned,
            "plan": approved_json(session.plan),
        }

        def write() -> None:
            context.files.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic_write(context.files / _STATE, json.dumps(state, ensure_ascii=False).encode())

        await self.offload(write)

    async def _store_plan(self, context: TaskContext, session: Session, plan: Approved | None) -> None:
        session.plan = plan
        await self._store_session(context, session)

    # The end of an iteration

    async def _finish(
        self,
        context: TaskContext,
        config: BotConfig,
        session: Session,
        planned: PlannedCalls,
        most: int,
        options: Mapping[str, Any],
        answer: str,
        reason: Reason,
    ) -> Finished | NextIteration:
        task, number, parking = context.task, len(context.iterations) + 1, planned.calls
        language, summary = context.language, in_short(answer)
        report = {"bot": task.bot, "iterations": number, "claims": as_json(session.claims)}
        if session.plan is not None:
            report["plan"] = approved_json(session.plan)

        def end(text: str, how: str, state: Any) -> Finished:
            waiting = parking.waiting()
            text = bot_texts.bot_unanswered(language, text, waiting)
            ended = {**report, "ended_by": how, "not_done": [call for _, call in waiting]}
            return Finished(text, json.dumps(ended, ensure_ascii=False), state, summary=summary)

        # The order matters: a goal that was reached counts as success even if the budget ran out, too.
        if session.complete:
            return end(_proved(context, session), "complete", "succeeded")
        lines = [line.strip() for line in answer.splitlines()]
        if reason == "complete" and config.stop_phrase and config.stop_phrase in lines:
            said = answer.replace(config.stop_phrase, "").strip()
            text = bot_texts.bot_claimed(language, said)
            return end(text, "stop_phrase", "succeeded")
        asks_again = await planned.ask_again(partial(_ask_again, language, task.chat))
        if reason == "budget" and not asks_again:
            return end(bot_texts.bot_limit(language, "budget", answer), "budget", "out_of_budget")
        failures = [
            iteration.reason == "model_error" for iteration in context.iterations[1 - MOST_FAILURES :]
        ]
        if reason == "model_error" and len(failures) == MOST_FAILURES - 1 and all(failures):
            return end(answer, "model_error", "failed")
        if most and number >= most:
            return end(bot_texts.bot_limit(language, "iterations", answer), "iterations", "out_of_budget")
        now = self.now()
        secs = session.sleep_s
        waits = bool(session.question) or asks_again or (bool(options.get("plan")) and planned.waits)
        if waits:
            secs = self.limits.question_s
        elif secs is None:
            secs = float(options.get("sleep_secs", config.sleep_secs))
        asked = parking.to_ask()
        buttons = bot_texts.bot_buttons(language, task.bot, session.options, asked)
        return NextIteration(
            summary,
            now + secs,
            bot_texts.bot_asks(language, task.bot, session.question, asked, here=task.attached, waits=waits),
            tuple(Button(token_hex(8), label, words) for label, words in buttons),
            tuple(number for number, _ in asked),
        )


def _proved(context: TaskContext, session: Session) -> str:
    """Return the report of a completed session: its summary, and the bot's claims with check results."""
    rows = [
        (checked.true, checked.claim.kind, checked.claim.what, checked.found) for checked in session.claims
    ]
    return bot_texts.bot_report(context.language, session.summary, rows)


def _ask_again(language: Language, chat: str, plan: Plan, why: Lapse) -> str:
    question = question_texts.question(
        language, PROPOSE, details_of(plan, chat or bot_texts.this_terminal(language)), tainted=False
    )
    return bot_texts.bot_plan_lapsed(language, why, question.whole or question.text)


def _budget_left(options: Mapping[str, Any], spent: Spent) -> str:
    """Return, in words, how much budget the session has left; empty if the session has no budget."""
    match options.get("budget"):
        case {"unit": "usd", "most": int(most)}:
            left, unit = most - spent.nano_usd, "usd"
        case {"unit": "tokens", "most": int(most)}:
            left, unit = most - spent.prompt_tokens - spent.completion_tokens, "tokens"
        case _:
            return ""
    return (
        f"Of its budget {amount_text('en', unit, max(0, left))} of {amount_text('en', unit, most)} are left."  # type: ignore[arg-type]
    )
