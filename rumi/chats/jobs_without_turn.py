"""The jobs that are no turns: an undo, a reset, changes to the chat's folder, and the results of tasks."""

import logging
from dataclasses import replace
from typing import Final, Literal

import trio

from rumi.agent.events import TurnFinished
from rumi.agent.prompts.message_entries import result_entries
from rumi.chats.asking import asking
from rumi.chats.commands import FILES, FILES_YES
from rumi.chats.confirming import Confirming
from rumi.chats.folder_work import FolderWork
from rumi.chats.folders import FolderError
from rumi.chats.jobs import Job
from rumi.chats.services import ChatSandboxes, ChatServices
from rumi.chats.session import ChatSession
from rumi.chats.settling import Done, Settling
from rumi.chats.undoing import Undoing
from rumi.errors import RumiError
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.translation import error_text
from rumi.sandbox.engine import SandboxError
from rumi.store.journal.records import FinalReply
from rumi.texts import Language, Text, gettext, ngettext

logger = logging.getLogger(__name__)

EXTRACTION_WAIT_S: Final = 10.0
"""Maximum time that the reply to a reset waits for the facts extracted from the session, in seconds."""


class JobsWithoutTurn:
    """Runs the jobs of one chat that are no turns, one at a time; `rumi.chats.session_jobs` has more."""

    def __init__(
        self,
        services: ChatServices,
        chat_session: ChatSession,
        settling: Settling,
        confirming: Confirming,
        undoing: Undoing,
        folder: FolderWork,
    ) -> None:
        self._services = services
        self._chat = chat_session.chat
        self._session = chat_session
        self._settling = settling
        self._confirming = confirming
        self._undoing = undoing
        self._folder = folder

    async def take_back(self, job: Job) -> Done:
        """Undo the last turn.

        A `/stop` does not cancel an undo, because an undo is short and half an undo is useless.
        """
        job.stage = "taking the last turn back"
        try:
            text = await self._undoing.take_back(job.message, job.language)
        except SandboxError as error:
            text = gettext(job.language, "❌ Nothing was undone. {why}", why=error_text(job.language, error))
        job.sealed = True
        return Done(await self._settling.settle(FinalReply(job.messages, job.final_reply(text))))

    async def bring_result(self, job: Job) -> Done:
        """Reply with the result of a task or the text of a schedule, and store this text in the history."""
        job.sealed = True
        chat_session = self._session
        entries = result_entries(job.message)
        chat_session.remember(*entries)
        chat_session.tainted |= any(entry.tainted for entry in entries)
        chat_session.due = self._services.context.now() + self._services.context.settings.session.ttl_s
        notices = dict(self._services.notices(self._chat, job.language))
        reply = FinalReply(
            job.messages,
            "\n\n".join((job.message.text, *notices.values())),
            session=chat_session.session,
            entries=entries,
            due=chat_session.due,
            noticed=tuple(notices),
        )
        said = job.message
        replied = await self._settling.settle(asking(reply, chat_session.parked, job.language))
        commands = tuple(button.words for button in said.buttons)
        return Done(replace(replied, task=said.task, schedule=said.schedule, commands=commands))

    async def work_on_folder(self, job: Job, kind: Literal["apply", "discard"]) -> Done:
        """Apply or drop changes to the chat's folder, after a yes. A `/stop` ends only the question."""
        rest, language = job.message.text, job.language
        job.stage = Text("looking at the changed files")
        plan = await self._folder.plan(kind, rest, language)
        job.stage = ""
        if isinstance(plan, str):
            job.sealed = True
            return Done(await self._settling.settle(FinalReply(job.messages, job.final_reply(plan))))
        command = f"/{kind} {rest}".strip()
        lost = folder_texts.interrupted(language, f"/{kind}")
        refused = await self._confirming.without_yes(
            job, command, plan.question, lambda answered: plan.refused, lost
        )
        if refused is not None:
            return refused
        job.sealed = True
        job.stage = Text("changing files")
        answer = job.final_reply(await plan.carry_out())
        reply = FinalReply(job.messages, answer, questions=job.shown.questions, turn=job.turn)
        replied = await self._settling.settle(reply)
        return Done(replied, TurnFinished("complete", answer))

    async def reset(self, job: Job) -> Done:
        """Remove the sandbox and the history; also the files, if the user asked for that and confirmed it."""
        takes_files, asked = job.message.text in (FILES, FILES_YES), False
        question = await self._about_files(job.language) if takes_files else ""
        there = bool(question)
        if there and job.message.text == FILES:
            if (refused := await self._may_remove_files(job, question)) is not None:
                return refused
            asked = True
        job.stage = "resetting"
        troubles: list[RumiError | None] = [await remove_sandbox(self._services.sandboxes, self._chat)]
        await self._session.begin_session(forget=True, extract_first=self._services.fact_extraction.enabled)
        await self._services.forget(self._chat)
        if takes_files:
            # Only a sandbox that is surely gone cannot write tainted content into the emptied folder.
            troubles.append(await self._remove_files(nobody_writes=troubles == [None]))
        files = there and troubles[-1] is None
        facts = await self._extract_facts(job)
        job.sealed = True
        text = reply_texts.reset(job.language, facts=facts, files=files)
        for trouble in troubles:
            if trouble is not None:
                text = reply_texts.not_confirmed(text, error_text(job.language, trouble))
        text = job.final_reply(text)
        # A reset that asked a question was published as a turn, so it needs the end of one.
        finished = TurnFinished("complete", text) if asked else None
        turn = job.turn if asked else ""
        reply = FinalReply(job.messages, text, questions=job.shown.questions, turn=turn)
        return Done(await self._settling.settle(reply), finished)

    async def _about_files(self, language: Language) -> str:
        """Return the question whether to delete the chat's files; empty if it has none.

        Of a linked folder, only the changes are the chat's.
        """
        if self._services.folders is not None and (at := self._services.folders.linked(self._chat)):
            try:
                count = await self._folder.changes()
            except FolderError as error:
                logger.warning("chat %s: its changes cannot be read: %s", self._chat, error)
                return ""
            folder = folder_texts.folder_name(at.folder)
            return folder_texts.reset_question(language, count, folder) if count else ""
        use = await self._services.workspaces.measure(self._chat)
        if use is None or not use.files:
            return ""
        return ngettext(
            language,
            "Delete this chat's files as well ({count} file, {size}), besides container and history?",
            "Delete this chat's files as well ({count} files, {size}), besides container and history?",
            use.files,
            size=operation_texts.short_size(use.bytes),
        )

    async def _may_remove_files(self, job: Job, question: str) -> Done | None:
        """Ask whether to delete the files. Return None for a yes, otherwise the `Done` of the reset."""
        return await self._confirming.without_yes(
            job,
            f"/reset {FILES}",
            question,
            lambda answered: reply_texts.nothing_deleted(job.language, answered=answered),
            reply_texts.lost_command(job.language, f"/reset {FILES}"),
        )

    async def _extract_facts(self, job: Job) -> int:
        """Return the number of facts extracted from the session that ended, 0 on timeout.

        After a timeout or a `/stop`, the extraction continues in the background.
        """
        job.stage = Text("learning from the session")
        self._services.fact_extraction.session_ended()
        with job.scope, trio.move_on_after(EXTRACTION_WAIT_S):
            return await self._services.fact_extraction.extract_now(self._chat)
        return 0

    async def _remove_files(self, *, nobody_writes: bool) -> RumiError | None:
        try:
            await self._services.workspaces.clear(self._chat)
            if nobody_writes:
                await self._session.set_files_tainted(False)
        except RumiError as error:
            return error
        return None


async def remove_sandbox(sandboxes: ChatSandboxes, chat: str) -> SandboxError | None:
    """Remove the sandbox; return an error if the removal is not confirmed.

    An unconfirmed removal continues in the background; the chat's next sandbox starts after it.
    """
    try:
        await sandboxes.stop(chat)
    except SandboxError as error:
        logger.warning("chat %s: %s", chat, error)
        return error
    return None
