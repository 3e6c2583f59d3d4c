"""Makes the tools of one chat's turns."""

from collections.abc import Sequence
from functools import partial

from rumi.agent.tool import Tool
from rumi.agent.tools.bash import bash_tools
from rumi.agent.tools.delegate import Delegate
from rumi.agent.tools.edit_file import EditFile
from rumi.agent.tools.nothing_new import NothingNew
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.search_files import search_tools
from rumi.agent.tools.write_file import WriteFile
from rumi.chats.context import ChatView
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices, ChatShell
from rumi.chats.session import ChatSession
from rumi.models.model import Message
from rumi.store.journal.records import HistoryEntry
from rumi.texts import Text


class TurnTools:
    """Makes the tools of one chat's turns; `zone` is the time zone that they use."""

    def __init__(self, services: ChatServices, chat_session: ChatSession, shell: ChatShell) -> None:
        self._services = services
        self._context = services.context
        self._chat = chat_session.chat
        self._session = chat_session
        self._shell = shell
        self.zone = ""

    def of(self, job: Job) -> tuple[tuple[Tool, ...], dict[str, str]]:
        """Return the tools that a turn of the job's message has, and the refusals of all other tools."""
        return self._context.people.tools(job.message, self._tools_for(job))

    async def prepare(self, job: Job) -> None:
        """Wait for tools that are starting; note in the job which of them are missing."""
        if self._context.tools_ready is not None:
            job.stage = Text("waiting for tools that start")
            notes = await self._context.tools_ready(job.message.text, self._chat)
            missing = (text.in_language(job.language) for text in notes)
            job.note = "\n\n".join(filter(None, (job.note, *missing)))
            job.stage = ""

    def _tools_for(self, job: Job) -> tuple[Tool, ...]:
        """Return tools created for this turn: thousands of idle chats should not hold tools in memory."""
        shell, chat_session, look = self._shell, self._session, self._context.view
        view = ChatView(
            self._chat,
            lambda: chat_session.tainted,
            lambda: job.language,
            lambda: chat_session.files_tainted,
            lambda: job.message.model,
            lambda: job.message.project,
            lambda: _without_words_of_others(chat_session.entries),
            partial(chat_session.set_files_tainted, True),
            shell.touched,
            user=lambda: job.message.user,
            sender_model=lambda: self._context.model_of(job.message, job.language),
            turn=job.turn,
            said_at=lambda: job.message.said_at,
            zone=lambda: self.zone,
        )
        services, policy = self._services, self._services.policy_of(self._chat)
        return (
            *bash_tools(shell, policy, services.sandbox_limits, job.still_running.append),
            ReadFile(shell, None if look is None else partial(look, self._chat), self._context.can_view),
            EditFile(shell),
            WriteFile(shell),
            Delegate(search_tools(shell)),
            *self._context.tools_for(view),
            *((NothingNew(),) if job.message.schedule else ()),
        )


def _without_words_of_others(entries: Sequence[HistoryEntry]) -> list[Message]:
    """Return a session's messages without tainted user messages, which someone other than the user wrote."""
    return [entry.message for entry in entries if entry.message.role != "user" or not entry.tainted]
