"""The control calls of the process itself, and the table of all declared calls and streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import trio
from pydantic import AfterValidator

from rumi.agent.mcp.servers import McpServers
from rumi.agent.skills.skill_calls import SkillCalls
from rumi.app.budget_calls import UsageCalls
from rumi.app.model_calls import ModelCalls
from rumi.app.people_calls import PeopleCalls
from rumi.app.recall_calls import RecallCommands
from rumi.app.status import StatusSource
from rumi.app.stop_all import Everything
from rumi.channels.control.attach_server import AttachServer
from rumi.channels.control.event_stream import EventStream
from rumi.channels.control.file_stream import UploadStream
from rumi.channels.control.task_stream import TaskStream
from rumi.channels.page_calls import PageCalls
from rumi.channels.triggers.trigger_calls import TriggerCalls
from rumi.chats.chat_calls import ChatCalls
from rumi.chats.inbox import Inbox
from rumi.errors import UsageError
from rumi.memory.memory_calls import MemoryCalls
from rumi.platform.caller import Caller
from rumi.platform.calls import CHAT, Declaration, call, declared_in
from rumi.platform.chat_ids import ChatIds, check_chat_id
from rumi.platform.config.setting_calls import SettingCalls
from rumi.tasks.approval_calls import ApprovalCalls
from rumi.tasks.bots.bot_calls import BotCalls
from rumi.tasks.schedules.schedule_calls import ScheduleCalls
from rumi.tasks.task_calls import TaskCalls
from rumi.texts import Language

ChatId: TypeAlias = Annotated[str, AfterValidator(check_chat_id)]


@dataclass(frozen=True, slots=True)
class ProcessCalls:
    """The control calls of the process itself."""

    source: StatusSource
    inbox: Inbox
    ids: ChatIds
    language: Language
    everything: Everything

    @call("status", rights="all")
    async def status(self, caller: Caller) -> object:
        """Return the status dump."""
        await trio.lowlevel.checkpoint()
        return self.source.dump()

    @call("stop", key=CHAT)
    async def stop(
        self,
        caller: Caller,
        *,
        chat: ChatId | None = None,
        all: bool = False,
        language: Language | None = None,
        passed: bool = False,
    ) -> object:
        """Stop the turn of a chat, or with `all` everything, also in all other workers."""
        if all:
            caller.check_all()
            return await self.everything.stop(language or self.language, alone=passed)
        if chat is None:
            raise UsageError("The request names no chat.")
        return await self.inbox.stop(caller.chat_in(chat, self.ids.owner_of), language)

    @call("reset", key=CHAT)
    async def reset(self, caller: Caller, *, chat: ChatId, language: Language | None = None) -> object:
        """Begin a new session in a chat."""
        return await self.inbox.reset(caller.chat_in(chat, self.ids.owner_of), language)

    @call("undo", key=CHAT)
    async def undo(self, caller: Caller, *, chat: ChatId, language: Language | None = None) -> object:
        """Undo the last turn of a chat."""
        return await self.inbox.undo(caller.chat_in(chat, self.ids.owner_of), language)

    @call("answer", key=CHAT)
    async def answer(self, caller: Caller, *, chat: ChatId, id: str, yes: bool) -> object:
        """Answer the question `id` of a chat's turn; return whether it was still open."""
        return await self.inbox.chats.answer(caller.chat_in(chat, self.ids.owner_of), id, yes)


DECLARED: Final[Mapping[str, Declaration]] = {
    name: declared
    for kind in (
        ProcessCalls, TaskCalls, ScheduleCalls, BotCalls, ChatCalls, MemoryCalls, RecallCommands, UsageCalls,
        ApprovalCalls, SettingCalls, PeopleCalls, ModelCalls, SkillCalls, PageCalls,
        TriggerCalls, McpServers, AttachServer, TaskStream, UploadStream, EventStream,
    )
    for name, declared in declared_in(kind).items()
}  # fmt: skip
"""All declared calls and streams, by name."""
