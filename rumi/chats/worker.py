"""What a chat's worker does with a job: a turn, a turn again, or a reset."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from rumi import texts
from rumi.agent import (
    Surroundings,
    Thinking,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    TurnInput,
    build_prompt,
    complete,
    run_turn,
)
from rumi.chats.conversation import Conversation, ending
from rumi.chats.events import Happening, Replied, TurnStarted
from rumi.chats.history import window
from rumi.chats.jobs import Job
from rumi.chats.means import Means
from rumi.journal import Begin, Entry, Retriable, Settle
from rumi.models import Message, TextDelta, Waiting
from rumi.sandbox import Command, CommandResult, SandboxError, clear_workspace
from rumi.tools import Bash, Tool

logger = logging.getLogger(__name__)

WITHOUT_ANSWER = frozenset({"stopped", "model_error"})
"""Ways for a turn to end that leave no answer in the history."""


@dataclass(frozen=True, slots=True)
class ChatShell:
    """The one sandbox that this chat's tools can reach."""

    means: Means
    chat: str

    async def prepare(self) -> None:
        """Make it ready."""
        await self.means.sandboxes.prepare(self.chat)

    async def run(self, command: Command) -> CommandResult:
        """Run a command in it."""
        return await self.means.sandboxes.run(self.chat, command)


class Worker:
    """Does one chat's jobs. `tell` publishes what happens and must not block."""

    def __init__(
        self, chat_id: str, means: Means, conversation: Conversation, tell: Callable[[str, Happening], None]
    ) -> None:
        self._chat = chat_id
        self._means = means
        self._conversation = conversation
        self._tell = tell
        self._tools: tuple[Tool, ...] = (Bash(ChatShell(means, chat_id)),)

    async def do(self, job: Job) -> Replied:
        """Do a job to its end and return its final reply, which is stored and not yet told."""
        job.begun = True
        if job.kind == "reset":
            return await self._reset(job)
        finished = None
        with job.scope:
            finished = await self._turn(job)
        await self._quiet(job)
        job.sealed = True
        if isinstance(finished, str):  # there was nothing to do a turn for
            return await self._settle(Settle(self._chat, job.messages, finished))
        if finished is None:
            finished = TurnFinished("stopped", texts.stopped(self._means.language))
            self._tell(job.turn, finished)
        entry = (
            ending(job.turn, finished.reason)
            if finished.reason in WITHOUT_ANSWER
            else Entry(job.turn, Message("assistant", finished.answer))
        )
        self._conversation.remember(entry)
        self._conversation.due = self._means.now() + self._means.limits.session_ttl_s
        return await self._settle(
            Settle(
                self._chat,
                job.messages,
                finished.answer,
                finished.reason,
                self._conversation.session,
                (entry,),
                self._conversation.due,
            )
        )

    async def _settle(self, settle: Settle) -> Replied:
        delivery = await self._means.journal.ask(settle)
        return Replied(delivery, settle.messages, settle.text)

    async def _turn(self, job: Job) -> TurnFinished | str:
        """Run the turn; a text where there is nothing to run."""
        conversation, means = self._conversation, self._means
        if conversation.due and means.now() > conversation.due:
            await conversation.begin_anew(forget=False)
        retries = None
        if job.kind == "retry":
            earlier = await means.journal.ask(Retriable(self._chat))
            if earlier is None:
                return texts.nothing_to_retry(means.language)
            job.text, retries = earlier.text, earlier.id
        self._tell(job.turn, TurnStarted(job.text))
        asked = Entry(job.turn, Message("user", job.text))
        conversation.remember(asked)
        await means.journal.ask(
            Begin(self._chat, job.message, job.turn, conversation.session, (asked,), retries)
        )
        return await run_turn(self._input(), partial(self._watch, job), partial(conversation.keep, job.turn))

    def _input(self) -> TurnInput:
        limits, language = self._means.limits, self._means.language
        instructions = build_prompt(
            language=language,
            facts=self._means.facts(self._chat),
            tools=[tool.spec for tool in self._tools],
            around=Surroundings(
                today=datetime.fromtimestamp(self._means.now()).astimezone().date(),
                chat=self._chat,
                max_turns=limits.turn.max_turns,
                timeout_s=limits.turn.timeout_s,
                command_timeout_s=limits.command_timeout_s,
            ),
        )
        kept = window(
            self._conversation.entries,
            max_messages=limits.history_messages,
            max_tokens=limits.context_tokens // 2,
        )
        return TurnInput(
            instructions=instructions,
            history=complete([entry.message for entry in kept]),
            model=self._means.model_for(self._chat),
            tools=self._tools,
            limits=limits.turn,
            language=language,
            context_tokens=limits.context_tokens,
        )

    def _watch(self, job: Job, event: TurnEvent) -> None:
        job.phase = phase(event) or job.phase
        self._tell(job.turn, event)

    async def _quiet(self, job: Job) -> None:
        """Leave no process behind: the job is over only when this has returned.

        A sandbox that cannot show it is removed instead, which ends all that is in it.
        """
        if not self._means.sandboxes.container_id(self._chat):
            return
        job.phase = "ending what still runs"
        try:
            await self._means.sandboxes.quiet(self._chat)
        except SandboxError:
            await self._remove_sandbox()

    async def _remove_sandbox(self) -> None:
        """Remove it. What is not confirmed goes on behind, and the next sandbox waits for it."""
        try:
            await self._means.sandboxes.stop(self._chat)
        except SandboxError as error:
            logger.warning("chat %s: %s", self._chat, error)

    async def _reset(self, job: Job) -> Replied:
        """Remove the sandbox and the history; the files too where that was asked for."""
        job.phase = "resetting"
        await self._remove_sandbox()
        await self._conversation.begin_anew(forget=True)
        if job.text == "files":
            await self._means.offload(partial(clear_workspace, self._means.workspaces / self._chat))
        job.sealed = True
        return await self._settle(
            Settle(self._chat, job.messages, texts.reset(self._means.language, facts=0))
        )


def phase(event: TurnEvent) -> str:
    """What a turn does after this event, in a few words; empty where nothing changes."""
    match event:
        case Thinking():
            return "thinking"
        case TextDelta():
            return "answering"
        case Waiting(_, why):
            return f"waiting: {why}"
        case ToolStarted(call, arguments):
            return f"{call.name} {arguments.get('command', '')}".strip()[:80]
        case ToolFinished():
            return "thinking"
        case _:
            return ""
