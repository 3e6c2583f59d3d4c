"""The tools of a chat other than its sandbox tools; they are created for each turn."""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import trio

from rumi.agent.permissions.declare import DeclareTool
from rumi.agent.skills.actor import AskSkills
from rumi.agent.skills.running import CodeRunner
from rumi.agent.tool import Progress, Tool
from rumi.agent.tool_names import BASH_TOOLS, FILE_TOOLS
from rumi.agent.tools.bash import Bash, BashOutput, BashStop
from rumi.agent.tools.delegate import Delegate
from rumi.agent.tools.edit_file import EditFile
from rumi.agent.tools.forget import ForgetTool
from rumi.agent.tools.make_image import MakeImage
from rumi.agent.tools.nothing_new import NothingNew
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.recall import RecallTool
from rumi.agent.tools.remember import RememberTool
from rumi.agent.tools.send_file import SendFile
from rumi.agent.tools.todo import TodoTool
from rumi.agent.tools.use_skill import UseSkill
from rumi.agent.tools.web_fetch import SaveFile, WebFetch
from rumi.agent.tools.web_search import WebSearch
from rumi.agent.tools.write_file import WriteFile
from rumi.chats.context import ChatView
from rumi.chats.lists.tools import SharedListTool
from rumi.memory.actor import AskMemory, asking_for_turn
from rumi.memory.recall.actor import AskRecall
from rumi.models.model import Message, Model, ModelRequest, ToolSpec
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.plugins import PluginPart
from rumi.sandbox.incoming import PlacedFile
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.records import ScheduleRecord, TaskRecord
from rumi.tasks.bots.bots import Bots, StartBot
from rumi.tasks.kinds import TaskPlugin
from rumi.tasks.research.tool import KindTool, RepositoryTool, ResearchTool
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.tools import SCHEDULE_TOOLS, schedule_tools
from rumi.tasks.tasks import Tasks
from rumi.texts import Language
from rumi.web.files_from_web import FilesFromWeb
from rumi.web.messages import Saved
from rumi.web.tree import Web

_ONE_FORM: Final = (
    *(
        BashOutput,
        BashStop,
        ReadFile,
        EditFile,
        WriteFile,
        Delegate,
        TodoTool,
        WebSearch,
        RememberTool,
        ForgetTool,
        RecallTool,
        SendFile,
        MakeImage,
        UseSkill,
        StartBot,
        DeclareTool,
        SharedListTool,
        NothingNew,
    ),
)

ToolSource: TypeAlias = Callable[[ChatView], tuple[Tool, ...]]
"""Returns tools of a chat for one turn."""

RESEARCHES: Final = 3
"""Maximum number of research tasks that one chat's turn may wait for at the same time."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The services that tools use, and the additional tools that MCP servers and channels provide."""

    web: Web
    files_from_web: FilesFromWeb
    ids: ChatIds
    journal: AskJournal
    memory: AskMemory
    recall: AskRecall
    skills: AskSkills
    runner: CodeRunner
    workspaces: Path
    prepare_workspace: Callable[[str], Awaitable[Path]]
    model_for: Callable[[str, Language, str], Model]
    tasks: Callable[[], Tasks]
    schedules: Callable[[], Schedules]
    bots: Callable[[], Bots]
    sources: Sequence[ToolSource] = ()
    """Functions that return further tools of a chat: those of its channel, of services, of MCP servers."""
    of_plugins: Callable[[ChatView, Collection[str]], tuple[Tool, ...]] = lambda view, taken: ()
    """Returns the tools of plugins for a chat, without those whose names are taken."""
    kinds: Sequence[PluginPart[TaskPlugin]] = ()
    """The kinds of tasks of plugins, each of which gets a tool that starts a task."""

    def tools_for(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of one chat."""
        chat, owner = view.chat, self.ids.owner_of(view.chat)
        memory = asking_for_turn(self.memory, view.turn)
        tools: tuple[Tool, ...] = (
            TodoTool(),
            WebFetch(partial(self.web.fetch, chat), saving_for(view, self.files_from_web)),
            WebSearch(partial(self.web.search, chat)),
            RememberTool(memory, owner, chat, view.tainted, view.language),
            ForgetTool(memory, owner, view.language),
            RecallTool(self.recall, self.memory, owner, view.language, time.time, view.zone),
            *self._research(view, owner),
            *((StartBot(self.bots, owner, chat, view.language, view.user()),) if self.bots().any else ()),
            *schedule_tools(self.schedules, lambda: _new_schedule(view, owner)),
            SharedListTool(self.journal, chat, view.user, view.turn, view.tainted),
            *(tool for source in self.sources for tool in source(view)),
        )
        taken = (*BASH_TOOLS, *FILE_TOOLS, UseSkill.spec.name, *(tool.spec.name for tool in tools))
        tools += self.of_plugins(view, taken)
        return (
            *tools,
            self._use_skill(view, (*BASH_TOOLS, *FILE_TOOLS, *(tool.spec.name for tool in tools))),
        )

    def _research(self, view: ChatView, owner: str) -> tuple[Tool, ...]:
        slots = trio.CapacityLimiter(RESEARCHES)

        async def ask(task: TaskRecord, progress: Progress) -> TaskRecord:
            return await self.tasks().run(
                replace(task, language=view.language(), model=view.model(), user=view.user()), progress
            )

        async def begin(task: TaskRecord) -> TaskRecord:
            told = replace(task, language=view.language(), model=view.model(), user=view.user())
            return await self.tasks().begin(told)

        task = TaskRecord("", owner, "", view.chat)
        of_plugins = (
            KindTool(part.name, part.registration.description, ask, task, slots, begin) for part in self.kinds
        )
        return ResearchTool(ask, task, slots, begin), RepositoryTool(ask, task, slots, begin), *of_plugins

    def _use_skill(self, view: ChatView, names: tuple[str, ...]) -> Tool:
        async def answer(prompt: str) -> str:
            """Answer a question from a skill's code with the chat's model; the model gets no tools."""
            request = ModelRequest((Message("user", prompt),))
            model = self.model_for(view.chat, view.language(), view.model())
            model = view.sender_model() if view.sender_model is not None else model
            return (await model.reply(request, lambda event: None)).text

        return UseSkill(
            self.skills,
            self.runner,
            chat=view.chat,
            workspace=self.workspaces / view.chat,
            language=view.language,
            tools=lambda: names,
            model=answer,
            project=view.project,
            prepares=partial(self.prepare_workspace, view.chat),
            tainted=view.files_tainted,
            touches=view.touch_files,
            brings=view.mark_files_tainted,
        )


def saving_for(view: ChatView, files: FilesFromWeb) -> SaveFile:
    """Return the function that saves files from the web in a chat's workspace, marked as untrusted."""

    async def before() -> None:
        await view.touch_files()
        # Before the file is there, so that no crash can leave an untrusted file without taint.
        await view.mark_files_tainted()

    async def save(url: str, path: str, progress: Progress) -> tuple[Saved, PlacedFile]:
        return await files.save(view.chat, url, path, progress, before)

    return save


def _new_schedule(view: ChatView, owner: str) -> ScheduleRecord:
    """Return an incomplete schedule for the chat; the schedule tools fill in the missing fields."""
    return ScheduleRecord(
        *(owner, view.chat, "text", ""),
        language=view.language(),
        model=view.model(),
        tainted=view.tainted(),
        user=view.user(),
        turn=view.turn,
        asked_at=view.said_at(),
    )


def specs_now() -> Mapping[str, Sequence[ToolSpec]]:
    """Return the current specs of the chats' tools by the tools' names; a tool may have several specs."""
    # Imported here: most installations have no browser, and no services.
    from rumi.agent.tools.browser_act import CLICK_SPEC, FILL_SPEC
    from rumi.agent.tools.browser_open import OPEN_SPEC, READ_SPEC
    from rumi.agent.tools.calendar_read import CalendarFree, CalendarRead
    from rumi.agent.tools.calendar_write import CalendarWrite
    from rumi.agent.tools.mail_read import MailRead, MailSave
    from rumi.agent.tools.mail_search import MailSearch
    from rumi.agent.tools.mail_send import MailDraft, MailSend

    of_calendars = (CalendarRead, CalendarFree, CalendarWrite)
    of_mail = (MailSearch, MailRead, MailSave, MailDraft, MailSend)
    forms: dict[str, list[ToolSpec]] = {
        spec.name: [spec] for spec in (OPEN_SPEC, READ_SPEC, CLICK_SPEC, FILL_SPEC)
    }
    for tool in (Bash, ResearchTool, RepositoryTool, WebFetch):
        for spec in tool.specs:
            forms.setdefault(spec.name, []).append(spec)
    for tool_type in (*_ONE_FORM, *SCHEDULE_TOOLS, *of_calendars, *of_mail):
        forms.setdefault(tool_type.spec.name, []).append(tool_type.spec)
    return forms
