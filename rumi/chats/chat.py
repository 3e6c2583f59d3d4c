"""The chat actor.

The journal stores a chat's messages. Copies of the messages are sent to the chat's mailbox to wake it, so
that it rarely needs to read the journal. The chat judges messages in order (it decides what to do with each),
advances a cursor, and reads the journal only if the cursor shows that it missed messages.

A chat consists of two tasks. The mailbox loop (`receive`) judges messages and awaits nothing slow, so a
`/stop` never waits for a reply. The worker task runs one job at a time. The mailbox loop passes jobs to it
over a channel of capacity 0: if the worker is not receiving, the chat is busy. While the chat is busy, it
replies to a new message that it is busy, or queues the message for a later turn. A queued message is already
judged, but stays open in the journal (without a reply), so that recovery replies to it if the chat ends for
any reason.

A message may come in pieces (`rumi.chats.pieces`). If more is likely to come, an idle chat holds the message
for a moment; held messages are open in the journal, too. A piece that comes later is added to the turn of the
first one, as long as that turn has done nothing.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import trio

from actors import Actor, Request, answers
from rumi.agent.prompts.message_entries import command_in, described, fetched
from rumi.chats.commands import (
    EVERYTHING,
    FILES,
    FILES_NO,
    FILES_YES,
    FOLDER_COMMANDS,
    FOLDER_JOBS,
    HELP_ALL,
    QUEUE_DROP,
    QUEUE_DROP_ALL,
    ChatCommand,
    CommandName,
    UnknownCommand,
    answer_in,
    is_stop,
    may_stop_everything,
    parse_chat_command,
    reset_of,
)
from rumi.chats.events import Replied, TurnState
from rumi.chats.folders import LinkedFolder
from rumi.chats.gathering import Gathering
from rumi.chats.jobs import EndedBy, Job, JobKind, JobQueue
from rumi.chats.pieces import whole
from rumi.chats.recovery import CrashReplies, Left, answers_parked
from rumi.chats.services import ChatServices, CommandReply, handler_for
from rumi.chats.session import ChatSession
from rumi.chats.speaking import Speaking
from rumi.chats.status import metrics_of, phase_of
from rumi.chats.summing import Summing
from rumi.chats.titles import Titles
from rumi.chats.worker import Worker
from rumi.errors import RumiError
from rumi.platform.chat_ids import LOCAL
from rumi.platform.openat import shown
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import tasks as task_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts import undo as undo_texts
from rumi.platform.texts import waiting as waiting_texts
from rumi.store.journal.inbox import open_messages
from rumi.store.journal.outbox import settle
from rumi.store.journal.reading import used_commands
from rumi.store.journal.records import Incoming
from rumi.texts import Language

HELP_S: Final = 1.0
"""Maximum wait of a `/help` for what the chat has, in seconds."""


@dataclass(frozen=True, slots=True)
class AnswerQuestion(Request[bool]):
    """A user's yes or no to the question `id`, given by other means than a message, such as a button.

    The reply is True if the answer was accepted.
    """

    id: str
    yes: bool
    user: int | None = None


@dataclass(frozen=True, slots=True)
class EndTurn:
    """A request to end the running turn, if any; the reason is a stop by its user or a shutdown.

    With `of`, end only the turns of these messages, including turns that have not begun yet.
    """

    by: EndedBy
    of: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class DropMessage(Request[bool]):
    """A request to drop a message that waits for its turn; the reply is False if it does not wait."""

    number: int


@dataclass(frozen=True, slots=True)
class FilesCame(Request[None]):
    """A notification that untrusted content was put into the chat's files by something other than its turns.

    The journal has already recorded that the files are tainted.
    """


@dataclass(frozen=True, slots=True)
class HandOver(Request[bool]):
    """A request to begin no more jobs, because the process ends or another worker will serve the chat.

    The reply is True if no job runs and no reply waits to be sent.
    """


@dataclass(frozen=True, slots=True)
class Offered:
    """A reset that the user must first confirm with a yes, because it would end a job and delete files.

    The person `user` may confirm the reset up to the time `until`.
    """

    user: int | None
    until: float


PLAIN: Final[frozenset[JobKind]] = frozenset(
    {*FOLDER_JOBS, "new", "reset", "reopen", "compact", "result", "answer", "undo"}
)
"""Kinds of jobs whose reply is no turn's, unless they have asked a question."""

ChatMessage: TypeAlias = Incoming | AnswerQuestion | DropMessage | EndTurn | FilesCame | HandOver

Text: TypeAlias = str | CommandReply | Callable[[], Awaitable[str | CommandReply]]
"""The text of a reply, the reply, or an async function that returns one of them."""


class Chat(Actor[ChatMessage]):
    """One chat: its mailbox, its history, its sandbox, and at most one job.

    `whole_status` returns the status of the whole process, which `/status` shows to admins.
    """

    def __init__(
        self, chat_id: str, services: ChatServices, replies: CrashReplies, whole_status: Callable[[], str]
    ) -> None:
        context, journal = services.context, services.journal
        max_tokens = context.context_tokens
        self._chat = chat_id
        self._services = services
        self._context = context
        self._crash_replies = replies
        self._whole_status = whole_status
        self._session = ChatSession(chat_id, journal, max_tokens, self.start_soon)
        self._queue = JobQueue(context.settings.chat.queue_length)
        self._worker = Worker(chat_id, services, self._session, self._queue)
        self._speaking = Speaking(chat_id, services.speech, self.start_soon)
        self._summing = Summing(self._session, journal, context.model_for, max_tokens)
        self._titles = Titles(chat_id, journal, context, self.start_soon)
        self._cursor = services.pending.cursor(chat_id)
        self._catching_up = False
        self._leaving = False
        self._withdrawn: frozenset[int] = frozenset()
        self._job: Job | None = None
        self._gathering = Gathering(
            context.settings, self._queue, lambda: self._job, self._offer, self.start_soon, context.now
        )
        self._jobs, self._taken = trio.open_memory_channel[Job](0)
        self._offered: Offered | None = None
        self._replies, self._unsent = trio.open_memory_channel[
            tuple[tuple[int, ...], Text, Sequence[tuple[str, str]]]
        ](math.inf)

    # Life

    async def started(self) -> None:
        """Start the worker, after reading the history and replying to open messages that were judged earlier.

        Stop at once if another worker serves the chat now. This happens if the chat was handed over, or if
        this worker's lease, its time-limited right to serve the chat, has ended.
        """
        if not self._services.pending.starts(self._chat):
            self._leaving = True
            self._services.hub.nothing_runs(self._chat)
            self.stop()
            return
        try:
            await self._start_up()
        except BaseException:  # cancelled, too: then `stopped` is not called
            self._services.pending.leave(self._chat)
            raise

    async def _start_up(self) -> None:
        await self._worker.files.fetch_early()
        record = await self._session.load()
        while record.undo is not None:
            await self._worker.undoing.complete(record.undo)
            record = await self._session.load()
        self._services.pending.adopt(self._chat, record.open)
        recovered = await self._crash_replies.recover(self._chat, record, self._session.parked)
        self._session.remember(*recovered.entries)
        await self._crash_replies.republish(self._chat, recovered.left)
        self._services.hub.nothing_runs(self._chat)
        self.start_soon(self._send_replies)
        # `start` returns when the worker is receiving: for the first message the chat must not be busy.
        await self.start(self._work)
        for left in recovered.left:
            self._restore(left, alone=len(recovered.left) == 1)
        # No await up to the end of the start: before this step the dispatcher finds no actor and records each
        # missed message in the cursor, which `_catch_up` reads; after it, messages come by the mailbox.
        self._catch_up(record.open)

    async def stopped(self, reason: str) -> None:
        """Remove the sandbox and store the files, regardless of why the chat stops.

        The cursor is dropped only if every message has its reply; otherwise the chat's actor needs the cursor
        when it next starts.
        """
        self._services.pending.leave(self._chat)
        await self._services.sandboxes.stop(self._chat)
        await self._services.workspaces.carry.leave(self._chat, self._chat)

    def busy(self) -> bool:
        """Return True if the chat is not idle.

        An idle chat has no job, no message without a reply, no answer that is being spoken, and no sandbox.
        """
        unanswered = self._chat in self._services.pending.unreplied
        return self._job is not None or unanswered or self._speaking.active or bool(self._container())

    def activity(self) -> str:
        """Return the job, its phase and its age as one line."""
        job = self._job
        if job is None:
            held = self._gathering.held
            return "" if held is None else f"turn {held.turn}: waiting for more parts"
        phase = phase_of(job, self._state())
        queued = f", {len(self._queue)} queued" if self._queue else ""
        return f"{job.kind} {job.turn}: {phase}, {self._context.now() - job.since:.0f} s{queued}"

    def metrics(self) -> Mapping[str, object]:
        """Return the chat's metrics: its job and the job's age, its history, sandbox and queue."""
        now, queued = self._context.now(), len(self._queue)
        metrics = metrics_of(self._session, self._container(), self._job, self._state(), now, queued)
        linked = self._linked
        return metrics if linked is None else {**metrics, "folder": shown(str(linked.folder))}

    def _state(self) -> TurnState:
        """Return the state of the job's turn, or an empty state if the event hub does not know the turn."""
        state = self._services.hub.turn(self._chat)
        return state if self._job is not None and state.turn == self._job.turn else TurnState()

    def _container(self) -> str:
        return self._services.sandboxes.container_id(self._chat)

    # The mailbox loop: nothing is awaited here.

    async def receive(self, message: ChatMessage) -> None:
        """Judge a message: run a command, answer the turn's question, start or queue a job, or refuse it."""
        match message:
            case EndTurn(by, of):
                if by == "interrupted":
                    await self.hand_over(HandOver())
                self._end(by, of)
            case Incoming():
                self._hear(message)

    @answers(AnswerQuestion)
    async def answer(self, message: AnswerQuestion) -> bool:
        """Answer the question of the running turn; return True if the answer was accepted."""
        return self._job is not None and self._job.answer(message.yes, message.user, message.id)

    @answers(DropMessage)
    async def drop_message(self, message: DropMessage) -> bool:
        """Drop a message that waits. Its reply is silent: who drops it knows. Return False if none waits."""
        job = next((job for job in self._queue.waiting if message.number in job.messages), None)
        if job is None:
            return False
        self._queue.remove(job)
        said = waiting_texts.dropped_one(job.language, described(job.message))
        self._reply(job.message, CommandReply(said, silent=True), (*job.further, *job.joined))
        return True

    @answers(FilesCame)
    async def files_came(self, message: FilesCame) -> None:
        """Record that the chat's files are tainted; this also affects the running turn."""
        self._session.files_tainted = True

    @answers(HandOver)
    async def hand_over(self, message: HandOver) -> bool:
        """Stop judging messages and empty the queue; return True if no job runs and all replies are sent.

        Queued messages stay open in the journal, where the next process or worker finds them.
        """
        self._leaving = True
        held, self._gathering.held = self._gathering.held, None
        waits = [*self._queue.leave(), *(() if held is None else held.messages)]
        self._services.pending.leave_open(self._chat, waits)
        return self._job is None and not self._replies.statistics().current_buffer_used

    def _hear(self, message: Incoming) -> None:
        """Judge the message that woke the chat, unless the chat has already read it from the journal.

        Messages are judged in order. So if the chat has missed earlier messages, it reads them from the
        journal first.
        """
        if self._leaving:  # only a `/stop` still counts here, because the turn runs in this process
            works = self._job is not None and not self._job.sealed
            if is_stop(message) and works and message.id > self._cursor.judged:
                self._take(message)
            return
        # `before` is the chat's open message before this one. If it is not judged yet, its wake-up was lost
        # or is still to come, and a read of the journal keeps the order.
        if message.before > self._cursor.judged:
            self._cursor.missed = max(self._cursor.missed, message.id)
        elif message.id > self._cursor.judged:
            self._take(message)
        self._catch_up()

    def _catch_up(self, found: Sequence[Incoming] = ()) -> None:
        """Judge the messages `found` in the journal, and read messages that did not wake the chat."""
        behind = self._cursor.missed > self._cursor.judged
        if (found or behind) and not self._catching_up:
            self._catching_up = True
            self.start_soon(self._read, found)

    async def _read(self, found: Sequence[Incoming]) -> None:
        cursor, upto = self._cursor, 0
        while True:
            # A chat that is ending judges nothing more: its next start reads these messages again.
            await trio.lowlevel.checkpoint_if_cancelled()
            for message in found:
                if message.id > cursor.judged and not self._leaving:
                    self._take(message)
            cursor.judged = max(cursor.judged, upto)
            if cursor.missed <= cursor.judged:
                break
            # Everything up to `missed` is in the journal, so this read returns it unless it has its reply
            # already. Only then the cursor may skip it.
            upto = cursor.missed
            found = await self._services.journal.ask(open_messages(self._chat, cursor.judged))
        self._catching_up = False

    def _take(self, message: Incoming) -> None:
        """Judge the next message. If the chat crashes while it does so, recovery replies to the message."""
        message = self._context.people.current(message)
        # The cursor moves before the message is judged: a message that crashes the chat is not judged again
        # by the next incarnation, which would crash as well, but gets its reply from recovery.
        self._cursor.judged = self._cursor.hearing = message.id
        self._services.pending.add(self._chat, message.id)
        self._crash_replies.failed.pop(self._chat, None)  # the chat works again; the failure has its reply
        self._judge(message)
        self._cursor.hearing = 0
        if message.id in self._withdrawn:
            self._end("stopped", self._withdrawn)

    def _end(self, by: EndedBy, of: frozenset[int] | None) -> None:
        """End the running turn; with `of`, only if one of the messages in `of` began the turn.

        Messages in `of` that the chat has not judged yet are recorded. Their turns, like queued turns, end as
        soon as they begin.
        """
        held = self._gathering.held
        if held is not None and (of is None or not of.isdisjoint(held.messages)):
            self._gathering.release()
        self._queue.end(by, of)
        if of is None:
            self._speaking.stop()
        if of is None or (self._job is not None and not of.isdisjoint(self._job.messages)):
            self._end_turn(by)
        if of is not None:
            self._withdrawn = frozenset(
                message for message in self._withdrawn | of if message > self._cursor.judged
            )

    def _restore(self, left: Left, *, alone: bool) -> None:
        """Begin or queue again what an earlier process, or the chat before its crash, left to do.

        If it is `alone`, and an end of the process may have delayed the rest of a message, wait for the rest.
        """
        parts = [self._context.people.current(part) for part in left.parts]
        message = whole(parts, self._context.settings.session.handed_chars)
        language = self._language(message)
        refused = "" if message.ready or message.turn else self._context.people.refusal(message, language)
        if refused:
            self._reply(message, refused, left.messages[1:])
            return
        answer = "" if message.turn or not answers_parked(message) else answer_in(message.text)
        kind: JobKind = "result" if message.ready else "answer" if answer else "turn"
        job = self._new_job(kind, message, f"/{answer}" if answer else message.text)
        job.joined += left.joined
        job.restored = True
        job.resumes = job.fixed = bool(message.turn)
        job.again = job.resumes and left.corrected
        if kind == "turn":
            job.parts, job.last_at = parts, self._gathering.came_at(parts[-1])
            if alone and not job.resumes and self._gathering.holds_again(job):
                return
        try:
            self._jobs.send_nowait(job)
        except trio.WouldBlock:
            self._queue.hold(job)  # regardless of the limit: it was accepted
        else:
            self._job = job

    def _judge(self, message: Incoming) -> None:
        if message.ready:  # a result with its final text: never a command, whatever the text looks like
            self._offer(self._new_job("result", message, message.text))
            return
        if message.corrected:
            self._correct(message)
            return
        # What takes the place of an earlier message is neither a command nor an answer.
        anew = bool(message.branches)
        plain = message.by_hand and not fetched(message.attachments) and not anew
        match parse_chat_command(message.text) if plain else None:
            case None:
                refused = self._context.people.refusal(message, self._language(message))
                if refused:
                    self._reply(message, refused)
                elif anew or not (self._answers_offer(message) or self._answers(message)):
                    self._gathering.take(self._new_job("turn", message, message.text))
            case UnknownCommand(name, meant):
                self._reply(message, reply_texts.unknown_command(self._language(message), name, meant))
            case ChatCommand(name, rest) as command:
                self._gathering.release()  # a command is about what came before it
                self._offered = None  # a later yes must not answer what a command has settled
                handler, language = handler_for(self._services.handlers, command), self._language(message)
                refused = self._context.people.refusal(
                    message, language, name, rest, has_handler=handler is not None
                )
                if refused:
                    self._reply(message, refused)
                elif command.handler == EVERYTHING and not may_stop_everything(message, self._context.ids):
                    self._stop(message, drop=True)
                elif handler is not None:
                    self._reply(message, partial(handler.command, message, language, command))
                else:
                    self._command(message, name, rest)

    def _command(self, message: Incoming, name: CommandName, rest: str) -> None:
        match name:
            case "stop":
                self._stop(message)
            case "queue":
                self._show_queue(message, rest)
            case "reset":
                self._hear_reset(message, reset_of(rest))
            case "new" | "retry" | "undo":
                self._offer(self._new_job(name, message, ""))
            case "compact":
                self._offer(self._new_job(name, message, rest))
            case "sessions" if rest:
                self._offer(self._new_job("reopen", message, rest))
            case "sessions":
                self._reply(message, partial(self._worker.sessions.listed, self._language(message)))
            case "context":
                self._reply(message, partial(self._worker.sessions.context, message, self._language(message)))
            case "continue":
                self._offer(self._new_job(name, message, message.text))
            case "apply" | "discard":
                self._offer(self._new_job(name, message, rest))
            case "yes" | "no":
                self._offer(self._new_job("answer", message, f"/{name} {rest}".strip()))
            case "status":
                self._reply(message, self._status(message))
            case "start":
                self._reply(message, reply_texts.greeting(self._language(message)))
            case "help":
                self._reply(message, partial(self._help, message, rest))
            case "memory":
                about_memory = self._context.about_memory
                self._reply(message, partial(about_memory, self._chat, self._language(message), rest))
            case "skills":
                self._reply(
                    message, partial(self._context.about_skills, message, self._language(message), rest)
                )

    async def _help(self, message: Incoming, rest: str) -> str:
        """Return the usual commands, or all of them, that the sender's role allows."""
        language, people = self._language(message), self._context.people
        local = self._context.ids.owner_of(self._chat) == LOCAL

        def may(name: str) -> bool:
            return (local or name not in FOLDER_COMMANDS) and not people.refusal(message, language, name)

        if rest.casefold() in HELP_ALL:
            await trio.lowlevel.checkpoint()
            return reply_texts.help_of_all(language, may)
        group = self._context.ids.may_be_group(self._chat)
        owner, used = self._context.ids.owner_of(self._chat), frozenset[str]()
        with trio.move_on_after(HELP_S):  # the help is shown even if the store does not answer
            with suppress(RumiError):
                used = await self._services.journal.ask(used_commands(self._chat, owner))
        shown = {
            *used,
            *(("queue",) if self._queue else ()),
            *(("tasks",) if self._services.running_tasks(self._chat) else ()),
            *(("people", "share", "unshare") if group else ("people",) if message.admin else ()),
            *(FOLDER_COMMANDS if self._linked is not None else ()),
        }
        return reply_texts.help_text(language, may, shown)

    def _answers(self, message: Incoming) -> bool:
        """If this message is the awaited yes or no to the turn's question, record the answer and return True.

        Such a message gets no reply of its own; the final reply of the turn answers it. A yes or no is not an
        answer if it was written before a person could read the question.
        """
        job, yes = self._job, question_texts.yes_or_no(message.text)
        if not message.by_hand:
            return False
        if job is None or job.asked is None or yes is None or fetched(message.attachments):
            return False
        if not self._services.hub.could_be_read(job.asked.id, message.origin):
            return False
        if not job.answer(yes, message.user):
            return False
        job.joined.append(message.id)
        return True

    def _new_job(self, kind: JobKind, message: Incoming, text: str) -> Job:
        language = self._language(message)
        seen = self._session.parked.seen if kind in ("answer", "retry") else frozenset[int]()
        if text != message.text:
            message = replace(message, text=text)
        alone = bool(message.trigger or message.branches)
        return Job(kind, message, self._context.now(), language, seen=seen, alone=alone)

    def _correct(self, correction: Incoming) -> None:
        """Replace the text of a message whose turn has done nothing yet; otherwise say that it is late."""
        language = self._language(correction)
        fits = not self._context.people.refusal(correction, language)
        if not (fits and parse_chat_command(correction.text) is None and self._gathering.correct(correction)):
            self._reply(correction, waiting_texts.too_late(language))

    @property
    def _steers(self) -> bool:
        return self._context.settings.chat.when_busy == "steer"

    def _language(self, message: Incoming) -> Language:
        return message.language or self._context.language

    def _offer(self, job: Job) -> None:
        """Pass the job to the worker if the worker is idle; otherwise queue the job, or reply "busy"."""
        try:
            self._jobs.send_nowait(job)
        except trio.WouldBlock:
            if "result" in (job.kind, self._job and self._job.kind):
                self._queue.hold(job)  # storing a result takes no time: never reply busy because of one
                return
            # After a restart, a user cannot know yet whether the turn goes on.
            unknown = job.kind in ("retry", "continue") and self._job is not None and self._job.resumes
            later = self._context.people.ids.answers_later(self._chat)
            if job.message.away or later or job.kind == "answer" or unknown:
                self._queue.hold(job)  # nobody could send it again at once, or a user pressed a button
                return
            if self._queue.takes(job, self._job):
                runs = self._job
                steered = runs if self._steers and runs is not None and not command_in(runs.message) else None
                self._services.publisher.publish(self._chat, job.turn, self._queue.add(job, steered))
            else:
                self._reply(job.message, self._busy(job), job.further)
        else:
            self._job = job

    def _busy(self, job: Job) -> str:
        """Return the sentence that says why a job is neither begun nor queued."""
        if job.kind == "undo":
            return undo_texts.undo_is_busy(job.language)
        if job.kind in FOLDER_JOBS:
            return folder_texts.busy(job.language, f"/{job.kind}")
        if job.kind == "turn" and 0 < self._queue.most <= len(self._queue):
            return reply_texts.queue_full(job.language, self._queue.most)
        return reply_texts.busy(job.language)

    def _stop(self, message: Incoming, *, drop: bool = False) -> None:
        """Stop the turn. What waits comes next, and the reply says so; with `drop`, it is dropped."""
        spoke = self._speaking.stop()
        was, job, language = self._job, self._end_turn("stopped"), self._language(message)
        dropped = self._queue.drop() if drop else []
        running, waits = self._services.running_tasks(self._chat), self._queue.texts
        notes = (
            waiting_texts.comes_next(language, waits) if waits else "",
            task_texts.tasks_go_on(language, running) if running else "",
        )
        note = "\n\n".join(filter(None, notes))
        if job is not None:
            job.drop(dropped)
            job.note = note
            job.joined.append(message.id)
            return
        ended = waiting_texts.just_ended if was is not None and waits else reply_texts.nothing_running
        ended = reply_texts.stopped if spoke else ended
        first = reply_texts.dropped(language, len(dropped)) if dropped else ended(language)
        self._reply(message, "\n\n".join(filter(None, (first, note))), dropped)

    def _show_queue(self, message: Incoming, rest: str) -> None:
        """List what waits, or drop a part of it. A message is dropped by its sender or by an admin."""
        language, waiting = self._language(message), self._queue.waiting
        verb, _, which = rest.casefold().partition(" ")
        if verb != QUEUE_DROP:
            self._reply(message, waiting_texts.waiting_list(language, self._queue.texts))
            return
        which = which.strip()
        everything = which == QUEUE_DROP_ALL
        chosen = waiting
        if not everything:
            number = int(which) if which.isdecimal() else 0
            chosen = waiting[number - 1 : number] if number else []
        mine = [job for job in chosen if message.admin or job.message.user == message.user]
        for job in mine:
            self._queue.remove(job)
        numbers = [number for job in mine for number in job.messages]
        if not chosen:
            said = waiting_texts.not_waiting(language, which)
        elif not mine:
            said = waiting_texts.not_yours_to_drop(language)
        elif everything:
            said = reply_texts.dropped(language, len(mine))
        else:
            said = waiting_texts.dropped_one(language, described(mine[0].message))
        self._reply(message, said, numbers)

    def _end_turn(self, by: EndedBy) -> Job | None:
        """Cancel the running turn and return its job; None if nothing can be cancelled.

        The first call decides whether the turn counts as stopped or as interrupted.
        """
        job = self._job
        if job is None or job.sealed or job.kind in ("result", "undo"):
            return None
        if job.begins_session and job.asked is None:
            # The reset has deleted everything and only waits for the facts of the session, which are
            # extracted in the background. Its own reply follows, so this is not a stopped turn.
            job.scope.cancel()
            return None
        job.end(by)
        return job

    def _hear_reset(self, message: Incoming, what: str) -> None:
        """Reset the chat. If this would delete files and end the running job, ask for a yes first."""
        if what == FILES_NO:
            self._reply(message, reply_texts.nothing_deleted(self._language(message), answered=True))
        elif what == FILES and self._job is not None and self._linked is not None:
            self._reply(message, folder_texts.busy(self._language(message), f"/reset {FILES}"))
        elif what == FILES and self._job is not None and self._job.kind != "reset":
            self.start_soon(self._offer_reset, message)
        else:
            self._reset(self._new_job("reset", message, what))

    async def _offer_reset(self, message: Incoming) -> None:
        """Ask whether to end the job and delete the files; a typed yes or no from the same person answers."""
        use, language = await self._services.workspaces.measure(self._chat), self._language(message)
        # Measuring awaits, so the job may have ended meanwhile: then the worker asks about the files. Only
        # the messages before this one are dropped: those after it came meanwhile.
        if self._job is None or use is None or not use.files:
            self._reset(self._new_job("reset", message, FILES), before=message.id)
            return
        context = self._context
        self._offered = Offered(message.user, context.now() + context.settings.agent.confirm_timeout_s)
        text = reply_texts.reset_ends_work(
            language, use.files, operation_texts.short_size(use.bytes), len(self._queue)
        )
        said = {True: f"/reset {FILES_YES}", False: f"/reset {FILES_NO}"}
        buttons = [(telegram_texts.answer_button(language, yes), said[yes]) for yes in (True, False)]
        self._reply(message, text, buttons=buttons)

    def _answers_offer(self, message: Incoming) -> bool:
        """Return True if this message is the yes or no to an offered reset; otherwise withdraw the offer.

        While the turn itself has a question, a yes answers that question and must not delete files.
        """
        offered, yes = self._offered, question_texts.yes_or_no(message.text)
        asks = self._job is not None and self._job.asked is not None
        if offered is None or offered.user != message.user or asks or not message.by_hand:
            return False
        self._offered = None
        if yes is None or fetched(message.attachments) or self._context.now() > offered.until:
            return False
        self._hear_reset(message, FILES_YES if yes else FILES_NO)
        return True

    def _reset(self, reset: Job, before: int | None = None) -> None:
        """Reset at once, or, if a turn runs, stop it and then reset. Equal resets are merged into one.

        Queued messages are dropped and share the reply of the reset; with `before`, only messages older than
        the message `before`.
        """
        last, dropped = self._job, self._queue.drop(before)
        if last is None:
            self._offer(reset)
            return
        # A turn that is ending may already have resets behind it: only the last one may be joined.
        while last.then is not None:
            last = last.then
        if last.kind == "reset" and not last.begun and last.message.text == reset.message.text:
            last.joined.append(reset.message.id)
            last.drop(dropped)
        else:
            reset.drop(dropped)
            last.then = reset
            last.scope.cancel()

    @property
    def _linked(self) -> LinkedFolder | None:
        folders = self._services.folders
        return None if folders is None else folders.linked(self._chat)

    def _where(self, language: Language) -> str:
        """Return a line that says where the chat's files are; empty if its users cannot look there."""
        if (linked := self._linked) is not None:
            return folder_texts.status_line(language, folder_texts.folder_name(linked.folder))
        if self._context.ids.owner_of(self._chat) != LOCAL:
            return ""
        own = self._services.workspaces.folder / self._chat
        return folder_texts.own_files_line(language, folder_texts.folder_name(own))

    def _status(self, message: Incoming) -> str:
        job = self._job
        todo = self._state().todo or self._session.todo
        own = reply_texts.chat_status(
            self._language(message),
            chat=self._chat,
            phase=phase_of(job, self._state()) if job else None,
            seconds=self._context.now() - job.since if job else 0.0,
            container=self._container(),
            messages=self._session.said,
            queued=len(self._queue),
            steps=(sum(item.state == "done" for item in todo), len(todo)),
        )
        own = "\n".join(filter(None, (own, self._where(self._language(message)))))
        return f"{own}\n\n{self._whole_status()}" if message.admin else own

    def _reply(
        self,
        message: Incoming,
        text: Text,
        dropped: Sequence[int] = (),
        buttons: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Queue a reply to a message and to the queued messages that it `dropped`. Never wait.

        Replies are sent in the order of these calls, even if the text of a later reply is ready first.
        """
        self._replies.send_nowait(((*dropped, message.id), text, buttons))

    async def _send_replies(self) -> None:
        """Store and publish, in order, the replies that the mailbox loop has queued."""
        async for messages, text, buttons in self._unsent:
            # Stored before it is published: a reply that subscribers saw must survive a crash.
            said = text if isinstance(text, str | CommandReply) else await text()
            reply = CommandReply(said, buttons) if isinstance(said, str) else said
            delivery = await self._services.journal.ask(settle(self._chat, reply.stored(messages)))
            replied = Replied(delivery, messages, reply.text, silent=reply.silent)
            self._services.publisher.reply(self._chat, "", replied)

    # The worker

    async def _work(self, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        while True:
            job: Job | None = await self._taken.receive()
            while job is not None:
                job = await self._run_job(job)

    async def _run_job(self, job: Job) -> Job | None:
        """Run a job, publish its reply, and return the next job, if any."""
        if job.kind == "compact" or job.message.branches:
            self._summing.stop()  # this summary covers more, or the branch needs another one
        self._titles.begin(job)
        done = await self._worker.run_job(job)
        # No await from here until the worker receives again: a message that reacts to this reply finds the
        # worker idle, or busy with the reset that was requested during the turn.
        plain = job.kind in PLAIN and done.finished is None
        following = self._job = job.then or self._queue.next(self._context.now())
        if done.replied is None:  # the next process goes on with the job
            self._services.pending.leave_open(self._chat, job.messages)
            # If the chat starts again in this process, it goes on too.
            self._cursor.earlier, self._cursor.working = max(self._cursor.earlier, job.message.id), 0
            return following
        self._services.publisher.reply(self._chat, "" if plain else job.turn, done.replied, done.finished)
        answered = done.finished is not None and done.finished.reason == "complete"
        if answered and not done.replied.silent:
            self._speaking.begin(job.message, done.replied.text, job.language)
        self._sum_up(job)
        if answered:
            self._titles.answered(job)
        return following

    def _sum_up(self, job: Job) -> None:
        """After a turn, summarize in the background the part of the history that no longer fits the prompt.

        A job that begins a new session cancels the summary of the old session.
        """
        if job.begins_session:
            self._summing.stop()
        elif self._context.sums_up(job.message.model) and self._summing.begin():
            self.start_soon(self._summing.run, job.language, job.message.model)
