"""The worker of a chat, which runs its jobs one at a time.

A job is a turn, a retry, a continued turn, an undo, a change to a linked folder, an answer to parked calls, a
new session, a reset, or the result of a task.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile
from secrets import token_hex
from typing import Literal

import trio

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from rumi.agent.fitting import GO_ON
from rumi.agent.permissions.gate import Parking
from rumi.agent.prompts.message_entries import (
    answering,
    attachment_message,
    beyond_last_exchange,
    command_in,
    described,
    fetched,
    has_outside_text,
    meanwhile,
    opening,
    output_entries,
    result_entries,
    to_fetch,
)
from rumi.agent.prompts.prompt_notes import change_note, is_whole, prompt_notes, written_line
from rumi.agent.tool import Tool
from rumi.agent.tools.bash import bash_tools
from rumi.agent.tools.delegate import Delegate
from rumi.agent.tools.edit_file import EditFile
from rumi.agent.tools.nothing_new import NothingNew
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.search_files import search_tools
from rumi.agent.tools.write_file import WriteFile
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnMessage
from rumi.chats.asking import asking, hear
from rumi.chats.budgets.amounts import amount_text
from rumi.chats.commands import FILES, FILES_YES, answer_in, goes_on
from rumi.chats.context import ChatView
from rumi.chats.events import Queued, Replied, SessionFigures, TurnRestarted, TurnStarted
from rumi.chats.folder_work import FolderWork
from rumi.chats.folders import FolderError
from rumi.chats.jobs import Asked, Job, JobQueue
from rumi.chats.recorder.recorder import recorded
from rumi.chats.resuming import (
    OLDEST_S,
    asking_mark,
    in_words,
    may_have_acted,
    open_calls,
    replies_in,
    results_of_interrupted,
)
from rumi.chats.scheduled_command import command_error, output_so_far, run_by_hand, run_command
from rumi.chats.services import ChatServices, ChatShell, CommandReply
from rumi.chats.session import ChatSession, ending
from rumi.chats.sessions import MOST_BUTTONS, MOST_LISTED, compact_now, context_use, line_of
from rumi.chats.standing import StandingAnswers, StandingCalls, waiting_note
from rumi.chats.surroundings import variables
from rumi.chats.undoing import Undoing
from rumi.errors import RumiError
from rumi.models.model import Message, Model, Used, Waiting
from rumi.models.token_budget import context_of, prompt_share, takes_pictures
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts import models as model_texts
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import sessions as session_texts
from rumi.platform.texts import standing as standing_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.questions import Verdict
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.platform.zones import local_at
from rumi.sandbox.engine import SandboxError
from rumi.store.journal.inbox import (
    begin_turn,
    find_cut_off,
    find_retriable,
    last_origin,
    note_asking,
    resume_turn,
)
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import (
    STALE_S,
    Attachment,
    Button,
    FinalReply,
    FireOutcome,
    HistoryEntry,
    Incoming,
    Reason,
)
from rumi.store.journal.reopening import find_session, list_sessions
from rumi.store.journal.schedules import fired_before, fired_by_hand
from rumi.texts import Language, Text, gettext, ngettext
from rumi.web.links import urls_in_words
from rumi.web.readers.files.viewer import Seen

logger = logging.getLogger(__name__)

EXTRACTION_WAIT_S = 10.0
"""Maximum time that the reply to a reset waits for the facts extracted from the session, in seconds."""

DAY_S = 86_400.0

MOST_DIGITS = 9
"""Longer numbers are no session's."""

MOST_SHOWN = 10
"""Maximum number of files that one turn shows in a channel that sends files."""

WITHOUT_ANSWER = frozenset({"stopped", "interrupted", "model_error", "budget"})
"""Reasons of turns that end without an answer in the history."""


PRESS_GOES_ON = frozenset({"max_turns", "timeout"})
"""Limits whose reply has a button that goes on. A used-up budget would refuse the next turn too."""


@dataclass(frozen=True, slots=True)
class Done:
    """A job's final reply, stored but not yet published. If the job was a turn, also the end of the turn.

    Without a reply, the process ends, and the next one goes on with the job.
    """

    replied: Replied | None
    finished: TurnFinished | None = None


class Worker:
    """Runs the jobs of one chat."""

    def __init__(
        self, chat_id: str, services: ChatServices, chat_session: ChatSession, queue: JobQueue
    ) -> None:
        self._chat = chat_id
        self._services = services
        self._context = services.context
        self._session = chat_session
        self._queue = queue
        self._publish = partial(services.publisher.publish, chat_id)
        self._shell = ChatShell(chat_id, services.sandboxes, chat_session, services.undo)
        self.undoing = Undoing(services, chat_session)
        self._folder = FolderWork(chat_id, services.folders, services.context.settings.terminal.apply)
        self._files_are_here = False
        self._zone = ""

    async def fetch_files(self) -> None:
        """Fetch the chat's files in the state that the previous worker process stored.

        A failure is only logged: the next turn fetches again and reports a failure to the user.
        """
        try:
            await self._services.workspaces.carry.fetch(self._chat, self._chat)
            self._files_are_here = True
        except RumiError as error:
            logger.warning("the files of chat %s are not here: %s", self._chat, error)

    async def run_job(self, job: Job) -> Done:
        """Run a job to its end. Its final reply is stored when this returns; the caller publishes it."""
        done = await self._run_by_kind(job)
        if job.kind in ("reset", "undo"):
            await self._store_files(job)
        return done

    async def _store_files(self, job: Job) -> None:
        """Store the chat's files for the next worker process; the job's reply reports a failure."""
        # Files that were never fetched must not overwrite those that the previous worker stored.
        if self._files_are_here:
            error = await self._services.workspaces.carry.store(self._chat, self._chat)
            if error is not None:
                job.note = "\n\n".join(filter(None, (job.note, error_text(job.language, error))))

    async def _run_by_kind(self, job: Job) -> Done:
        job.begun = True
        self._services.pending.cursor(self._chat).working = job.message.id
        if job.kind == "reset":
            return await self._reset(job)
        if job.kind == "new":
            return await self._renew(job)
        if job.kind == "reopen":
            return await self._reopen(job)
        if job.kind == "compact":
            return await self._compact(job)
        if job.kind == "result":
            return await self._bring_result(job)
        if job.kind == "undo":
            return await self._take_back(job)
        if job.kind in ("apply", "discard"):
            return await self._work_on_folder(job, "apply" if job.kind == "apply" else "discard")
        # Outside of the scope that a `/stop` cancels, so that the beginning of a turn is stored completely.
        nothing = await self._begin(job)
        if nothing is not None:
            job.sealed = True
            reply = FinalReply(job.messages, job.final_reply(nothing), parts=job.further)
            return Done(await self._settle(reply))
        finished = None
        with job.scope:
            await trio.lowlevel.checkpoint()  # after a `/stop` that came during `_begin`, start no work
            finished = await self._attempts(job)
        # Outside of the scope as well: a stopped turn also has to end its processes before its reply.
        unconfirmed = await self._quiet(job)
        if finished is None and unconfirmed is None and job.goes_on_later:
            await self._end_open_calls(job)
        if unconfirmed is None:  # otherwise a process may still write to the files
            await self._store_files(job)
        # From here the mailbox loop adds no more messages to the job: `_end` stores the final list.
        job.sealed = True
        if finished is None and unconfirmed is None and job.goes_on_later:
            return await self._leave_open(job)
        if finished is None:
            finished = self._cut_short(job, unconfirmed)
        note = ""
        if unconfirmed is None and (self._shell.wrote_in == job.turn or job.brought):
            outside = self._session.tainted or self._session.files_tainted
            complete = finished.reason == "complete"
            note = await self._folder.after_turn(job.language, complete=complete, tainted=outside)
        silent = finished.nothing_new and await self._may_be_silent(job, finished)
        reply = self._end(job, finished, silent=silent)
        self._session.nano += job.nano
        replied = replace(await self._settle(reply, job), note=note)
        if silent:
            self._session.note_silent(job.turn, job.message.schedule, reply.hides)
        if job.message.schedule:
            replied = replace(replied, schedule=job.message.schedule)
        if job.allowed:  # a yes is valid for this turn only
            await self._session.parked.end_allowed(done=finished.reason == "complete")
        done = Done(replied, replace(finished, answer=replied.text))
        # Only after `_settle`: the end of a separate turn belongs to its own history.
        self._session.turn = ""
        self._session.step_back()
        return done

    async def _may_be_silent(self, job: Job, finished: TurnFinished) -> bool:
        """Return True if nobody has to be told how a scheduled turn with nothing new has ended.

        A failure, a call that waits for a yes, a shown file and a person who waits must be answered. What an
        earlier process did in the turn is not known well enough to be silent about it. Calls of earlier runs
        that still wait are repeated once a day: a look of every few minutes would repeat them all the time.
        """
        acted = job.broken is not None and replies_in(job.broken.entries) > 0
        told = finished.failed or job.still_running or job.shows or job.joined or job.dropped or acted
        note = "" if job.broken is not None and job.note == reply_texts.went_on(job.language) else job.note
        if not job.message.schedule or told or note or self._session.parked.to_ask():
            return False
        ask, schedule, message = self._services.journal.ask, job.message.schedule, job.message.id
        if await ask(fired_by_hand(schedule, message)):
            return False
        if waiting := self._session.parked.still_waiting(schedule):
            before, now = await ask(fired_before(schedule, message)), self._context.now()
            if any(_days(one.at, now) > _days(one.at, before) for one in waiting):
                return False
        job.note = ""
        return True

    async def _attempts(self, job: Job) -> TurnFinished:
        """Run the turn. If parts of its message come while it has done nothing yet, begin it again."""
        while True:
            while job.again:
                job.again = False
                await self._begin_again(job)
            finished = None
            with trio.CancelScope() as job.attempt:
                finished = await self._turn(job)
            if finished is not None and not job.again:
                job.fixed = True
                return finished

    async def _begin_again(self, job: Job) -> None:
        """Replace the beginning of the turn, which has done nothing, by one with all parts of its message."""
        job.note = reply_texts.went_on(job.language) if job.resumes else ""
        if job.broken is not None:
            job.broken = replace(job.broken, entries=())
        entries = self._distrusted(job, await self._opening(job))
        said = job.message
        await self._session.extend_turn(said.id, entries, job.further, afresh=True)
        if job.broken is not None:  # a corrected turn of an earlier process: this is all that it has now
            job.broken = replace(job.broken, entries=entries)
        self._publish(job.turn, TurnRestarted(said.text, job.messages, said.origin, has_outside_text(said)))

    async def _opening(self, job: Job) -> tuple[HistoryEntry, ...]:
        """Return the history entries of the job's message; from now on, more parts begin the turn again."""
        await self._leave_out_last_exchange(job)
        written = await self._when_written(job)
        waiting = self._session.parked.still_waiting(job.message.schedule)
        # No await from here: a part that comes later finds the turn opened.
        job.opened = True
        note = waiting_note(job.turn, waiting, self._session.tainted)
        return (*written, *note, *opening(job.turn, job.message))

    def _distrusted(self, job: Job, entries: tuple[HistoryEntry, ...]) -> tuple[HistoryEntry, ...]:
        """Return the entries, tainted if the words of the job's sender are not to be trusted."""
        if not self._context.people.distrusts(job.message):
            return entries
        return tuple(replace(entry, tainted=True) for entry in entries)

    async def _end_open_calls(self, job: Job) -> None:
        """Store results for the calls that the end of the process has interrupted, so that the model knows.

        A call that waits for a person's yes gets none: it is made, and its question asked, once more.
        """
        await self._session.written()
        stored = [entry for entry in self._session.entries if entry.turn == job.turn]
        if not job.waits_for_yes:
            for result in results_of_interrupted(open_calls(stored), job.began, trio.current_time()):
                await self._session.append(job.turn, TurnMessage(result, self._session.tainted))

    async def _leave_open(self, job: Job) -> Done:
        """Leave the turn to the next process, and tell its user so. The turn's message stays open."""
        await self._session.written()
        if job.allowed:
            await self._session.parked.end_allowed(done=False)
        said = job.message
        self._publish(job.turn, Queued(said.id, reply_texts.goes_on_later(job.language), 0, said.origin))
        self._session.turn = ""
        self._session.step_back()
        return Done(None)

    async def _turn(self, job: Job) -> TurnFinished:
        """Fetch the attachments of the message, then run the turn of the agent.

        Return how the turn finished. An unusable model or an attachment that cannot be fetched ends the turn
        as a `model_error`.
        """
        if command := command_in(job.message):
            return await self._run_command(job, command)
        # A turn that begins again with a corrected text has entries in the session only.
        known = any(entry.turn == job.turn for entry in self._session.entries)
        if job.broken is not None and not job.broken.entries and not known:
            job.note = ""  # its history was deleted: nothing to go on from
            return TurnFinished("interrupted", reply_texts.restarted(job.language, described(job.message)))
        try:
            model = self._context.model_of(job.message, job.language)
        except RumiError as error:
            why = reply_texts.model_failed(job.language, error_text(job.language, error))
            return TurnFinished("model_error", why)
        try:
            if not self._files_are_here:
                await self._services.workspaces.carry.fetch(self._chat, self._chat)
                self._files_are_here = True
            await self._bring(job, model)
        except RumiError as error:
            return TurnFinished(
                "model_error", telegram_texts.not_brought(job.language, error_text(job.language, error))
            )

        async def store(message: TurnMessage) -> None:
            await trio.lowlevel.checkpoint_if_cancelled()  # another part has come: this step does not count
            job.fixed = True
            await self._session.append(job.turn, message)

        limits = self._context.turn_limits(job.message)
        await self._prepare_tools(job)
        tools, withheld = self._context.people.tools(job.message, self._tools_for(job))
        broken, said = job.broken, described(job.message)
        repeats = () if broken is None else open_calls(broken.entries)
        if broken is not None and (call := may_have_acted(broken, tools)) is not None:
            job.note = ""  # it does not go on
            return TurnFinished(
                "interrupted", reply_texts.restarted_in_call(job.language, said, in_words(call))
            )
        if broken is not None and self._context.now() - broken.at > OLDEST_S:
            job.note = ""
            return TurnFinished("interrupted", reply_texts.restarted(job.language, said))
        # Cut before the note is stored: the cut may remove the full note, and then a new one is needed.
        await self._context.fit_history(self._session, tools, model)
        zone = self._zone = await self._context.zone(self._chat)
        self._shell.variables = variables(zone, self._context.now())
        # A note must not stand between a call and its result.
        while not repeats and not await self._store_note(job, model, zone):
            pass  # a summary replaced the full note together with its entries meanwhile: store another one
        if broken is not None and not repeats:
            for line in await self._when_written(job):
                note = Message(
                    "system", change_note(line.message.content)
                )  # stands before the turn's message
                await self._session.append(job.turn, TurnMessage(note, line.tainted))
        # If the person may be away, calls that need a yes are parked, and the reply asks.
        # In a turn of a program no person can say yes, but a person who retries such a turn can.
        attended = job.kind == "retry" or job.message.by_hand
        confirm = partial(self._confirm, job) if attended else None
        parking = self._parking(job)
        checks = self._context.sums_up(job.message.model)
        checks = checks and self._context.settings.agent.check_before_end
        begin = self._context.turn_input(
            self._session,
            tools,
            model,
            job.language,
            confirm,
            limits,
            parking,
            withheld,
            partial(self._shell.keep, job.turn if broken is None else f"{job.turn}-{broken.resumed}"),
            checks=checks,
        )
        if self._context.settings.chat.when_busy == "steer":
            begin = replace(begin, meanwhile=partial(self._said_meanwhile, job, model))
        begin = replace(begin, approved=partial(self._approved, job))
        if broken is not None:
            # `complete` has added a result for each call without one; the turn makes these calls instead.
            history = begin.history[: len(begin.history) - len(repeats)]
            begin = replace(begin, history=history, repeats=repeats, calls_before=replies_in(broken.entries))
        watch = partial(self._watch, job)
        with recorded(self._services.recorder, self._chat, job.turn, begin, watch) as (turn_input, watching):
            finished = await run_turn(turn_input, watching, store)
        job.fixed = job.fixed or not job.again
        if job.shows and self._context.show is not None:
            job.stage = "showing files"
            await self._context.show(self._chat, tuple(job.shows)[:MOST_SHOWN])
        return finished

    async def _run_command(self, job: Job, command: str) -> TurnFinished:
        """Run the command of a schedule or a person in the chat's sandbox, without a model.

        A command that an earlier process has begun is not run again, because it may have had its effect.
        """
        job.fixed = True
        if job.broken is not None:
            job.note = ""  # it does not go on
            return TurnFinished("interrupted", reply_texts.restarted(job.language, described(job.message)))
        job.stage = Text("running a command")
        try:
            if not self._context.people.of(job.message).rights.may_use("bash"):
                if job.message.schedule:
                    raise RumiError("The role of its owner does not allow commands.")
                raise RumiError("Your role does not allow commands.")
            if not self._files_are_here:
                await self._services.workspaces.carry.fetch(self._chat, self._chat)
                self._files_are_here = True
            self._zone = await self._context.zone(self._chat)
            self._shell.variables = variables(self._zone, self._context.now())
            if job.message.schedule:
                show = None if self._context.show is None else partial(self._context.show, self._chat)
                finished = await run_command(job, command, self._shell, self._services, show)
            else:
                watch = partial(self._watch, job)
                finished = await run_by_hand(job, command, self._shell, self._services, watch)
        except RumiError as error:
            finished = command_error(job, command, error)
        job.stage = ""
        self._session.tainted |= self._shell.tainted
        return finished

    async def _prepare_tools(self, job: Job) -> None:
        """Wait for tools that are starting; note in the job which of them are missing."""
        if self._context.tools_ready is not None:
            job.stage = Text("waiting for tools that start")
            notes = await self._context.tools_ready(job.message.text, self._chat)
            missing = (text.in_language(job.language) for text in notes)
            job.note = "\n\n".join(filter(None, (job.note, *missing)))
            job.stage = ""

    def _parking(self, job: Job) -> Parking | None:
        """Return where calls that need a yes are parked; runs of a schedule may have a standing approval."""
        parked, said, context = self._session.parked, job.message, self._context
        if not said.schedule:
            return parked if said.away or job.allowed else None

        def note(why: str) -> None:
            text = standing_texts.ended(job.language, said.schedule, why)
            if text not in job.note:
                job.note = "\n\n".join(filter(None, (job.note, text)))

        return StandingCalls(parked, said, self._services.journal.ask, context.people, context.now, note)

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
            zone=lambda: self._zone,
        )
        services, policy = self._services, self._services.policy_of(self._chat)
        return (
            *bash_tools(shell, policy, services.sandbox_limits, job.still_running.append),
            ReadFile(shell, None if look is None else partial(look, self._chat)),
            EditFile(shell),
            WriteFile(shell),
            Delegate(search_tools(shell)),
            *self._context.tools_for(view),
            *((NothingNew(),) if job.message.schedule else ()),
        )

    async def _store_note(self, job: Job, model: Model, zone: str) -> bool:
        """Append a prompt note with everything that earlier notes do not contain.

        Return True if the history contains a full note now.
        """
        chat_session = self._session
        noted = prompt_notes(chat_session.entries)
        known = await self._context.what_is_known(
            job.message,
            model,
            job.language,
            noted,
            zone=zone,
            tainted=chat_session.tainted,
            files_tainted=chat_session.files_tainted,
        )
        chat_session.tainted = chat_session.tainted or known.tainted
        if known.note:
            await chat_session.append(
                job.turn, TurnMessage(Message("system", known.note), chat_session.tainted)
            )
        return any(map(is_whole, chat_session.entries))

    @staticmethod
    def _brought(job: Job) -> int:
        """Return how many of the messages about attachments an earlier process has stored already."""
        if job.broken is None:
            return 0
        roles = [entry.message.role for entry in job.broken.entries]
        words = sum(attachment.kind == "words" for attachment in job.message.attachments)
        return max(0, roles.count("user") - words - 1)

    async def _bring(self, job: Job, model: Model) -> None:
        """Fetch the attachments of the job's message, and store what they contain, then the user's text."""
        entries = () if job.broken is None else job.broken.entries
        # Before the message, a line may say when it was written.
        opened = dropwhile(lambda entry: entry.message.role == "system", entries)
        works = any(entry.message.role != "user" for entry in opened)
        if not to_fetch(job.message.attachments) or works:  # a resumed turn that went further has all of them
            return
        own = TurnMessage(Message("user", job.message.text), links=urls_in_words(job.message.text))
        for brought_message in (*await self._attached(job, model), own)[self._brought(job) :]:
            if brought_message.message.content.strip():
                await self._session.append(job.turn, brought_message)

    async def _attached(self, job: Job, model: Model) -> list[TurnMessage]:
        """Fetch the attachments of the job's message, unless this was done; return what they contain."""
        files = to_fetch(job.message.attachments)
        if not files:
            return []
        job.stage = Text("fetching what came with the message")
        if any(attachment.kind == "file" for attachment in files if attachment not in job.brought):
            await self._shell.snapshot_files()
            # Before the file is there, so that no crash can leave an untrusted file without taint.
            await self._session.set_files_tainted(True)
        # A character for each token of the context: a quarter of it, because a token is about 4 characters.
        left = min(
            self._context.settings.session.handed_chars, context_of(model, self._context.context_tokens)
        )
        came = list[TurnMessage]()
        for attachment in files:
            if attachment not in job.brought:  # otherwise fetched before the turn began again
                if attachment.kind == "voice":
                    listening = Text("listening to the recording")
                    job.stage = listening
                    self._publish(job.turn, Waiting(0.0, listening.in_language(job.language)))
                job.brought[attachment] = await self._fetched(attachment, left)
            message = job.brought[attachment]
            left -= len(message.message.content)
            came.append(message)
            if message.message.pictures and not takes_pictures(model):
                job.note = model_texts.takes_no_pictures(job.language, model.name, self._context.sighted)
        job.stage = ""
        return came

    async def _fetched(self, attachment: Attachment, max_chars: int) -> TurnMessage:
        """Fetch an attachment; return the history message about it, with at most `max_chars` of its text."""
        seen = Seen(await self._fetch(attachment))
        if self._context.seen_of is not None:
            seen = await self._context.seen_of(self._chat, seen.about, max_chars)
        message = attachment_message(attachment, seen.about)
        # The history stores references; the bytes are loaded from the files for each request.
        references = tuple(replace(picture, data=b"") for picture in seen.pictures)
        return replace(message, message=replace(message.message, pictures=references))

    async def _said_meanwhile(self, job: Job, model: Model) -> Sequence[TurnMessage]:
        """Take what the sender of the turn has said meanwhile from the queue, and store it with the turn."""
        heard: list[TurnMessage] = []
        while (waiting := self._queue.steering(job)) is not None:
            try:
                brought = await self._attached(waiting, model)
            except RumiError:  # its own turn reports it
                waiting.alone = True
                continue
            await trio.lowlevel.checkpoint_if_cancelled()
            if waiting not in self._queue.waiting:  # dropped while its files were fetched
                continue
            self._queue.remove(waiting)
            job.fixed = True
            job.joined += waiting.messages
            job.note = "\n\n".join(filter(None, (job.note, waiting.note)))
            said = meanwhile(waiting.message, brought)
            if self._context.people.distrusts(waiting.message):
                said = tuple(replace(message, tainted=True) for message in said)
            heard += said
            entries = tuple(HistoryEntry(job.turn, one.message, one.tainted, one.links) for one in said)
            parts = (waiting.message.id, *waiting.further)
            await self._session.extend_turn(job.message.id, entries, parts, afresh=False)
        return heard

    async def _fetch(self, attachment: Attachment) -> str:
        """Fetch an attachment; return its text.

        If a file of an answered message cannot be fetched, the text says why.
        """
        try:
            return await self._context.bring(self._chat, attachment)
        except RumiError as error:
            if attachment.answered is None:
                raise
            return f"(The file {one_line(attachment.name, 100)} could not be fetched: {error})"

    async def _leave_out_last_exchange(self, job: Job) -> None:
        """Remove what the job's message answers, if that is the last exchange, which the model knows."""
        message = None
        while message is not job.message:  # it may be replaced meanwhile
            message = job.message
            if any(attachment.answered is not None for attachment in message.attachments):
                last = await self._services.journal.ask(last_origin(self._chat, message.id))
                zone = await self._context.zone(self._chat)
                if message is job.message:
                    left = beyond_last_exchange(message, self._session.entries, last, zone)
                    job.message = message = replace(message, attachments=left)

    async def _confirm(self, job: Job, asked: ConfirmationAsked) -> Verdict:
        """Wait for the user's yes or no, at most `confirm_timeout_s`.

        The question can be answered once, and only during this wait. On cancellation, the question is
        withdrawn.
        """
        # Only a call that runs alone surely waits here: nothing else of the turn has an effect meanwhile.
        running = tuple(self._services.hub.turn(self._chat).calls)
        job.waits_for_yes = len(running) == 1
        until = trio.current_time() + self._context.settings.agent.confirm_timeout_s
        job.asked = waiting = Asked(asked.id)
        job.has_asked = True
        self._services.hub.questions[asked.id] = None
        try:
            if job.waits_for_yes:
                await self._note_asking(job, running[0])
            verdict = await waiting.wait(until - trio.current_time())
            job.waits_for_yes = job.waits_for_yes and verdict == "yes"
            return "nobody" if verdict == "no" and asked.id in self._services.hub.unasked else verdict
        finally:
            job.asked = None
            del self._services.hub.questions[asked.id]
            self._services.hub.unasked.discard(asked.id)

    async def _approved(self, job: Job) -> None:
        """Record that the call for which a person said yes is made now, and may have an effect."""
        if job.waits_for_yes:
            await self._note_asking(job, "")
            job.waits_for_yes = False

    async def _note_asking(self, job: Job, call: str) -> None:
        """Store which call waits for a person's yes; `call` is empty after a yes, before the call is made."""
        turn = [entry for entry in self._session.entries if entry.turn == job.turn]
        asking = asking_mark(turn, call) if call else ""
        await self._services.journal.ask(note_asking(self._chat, job.message.id, asking))

    def _cut_short(self, job: Job, unconfirmed: SandboxError | None) -> TurnFinished:
        """Return a `TurnFinished` for a cancelled turn; its answer has the error `unconfirmed`, if any."""
        answer = reply_texts.stopped(job.language)
        if job.ended_by == "interrupted":
            answer = reply_texts.restarted(job.language, described(job.message))
        if unconfirmed is not None:
            answer = reply_texts.not_confirmed(answer, error_text(job.language, unconfirmed))
        answer = "\n\n".join(filter(None, (output_so_far(job), answer)))
        return TurnFinished(job.ended_by, answer)

    def _end(self, job: Job, finished: TurnFinished, *, silent: bool = False) -> FinalReply:
        """Append the turn's last entry to the history; return the reply that is stored with it."""
        outcome, command = job.outcome, command_in(job.message)
        if finished.nothing_new:
            outcome = FireOutcome("said" if finished.failed else "nothing_new", finished.answer)
            answer = reply_texts.nothing_new(job.language, finished.answer, finished.failed)
            finished = replace(finished, answer=answer)
        said = output_so_far(job) or self._services.hub.turn(self._chat).words
        entry = (
            ending(job.turn, finished.reason, said.strip(), self._session.tainted)
            if finished.reason in WITHOUT_ANSWER
            else HistoryEntry(job.turn, Message("assistant", finished.answer), self._session.tainted)
        )
        entries: tuple[HistoryEntry, ...] = (entry,)
        if command:
            entries = () if silent else output_entries(job.message, entry)
        self._session.remember(*entries)
        if not silent:  # otherwise a look of every few minutes would never let a session end
            self._session.due = self._context.now() + self._context.settings.session.ttl_s
        # Notices wait for a reply that somebody reads.
        notices = {} if silent else dict(self._services.notices(self._chat, job.language))
        answer, buttons = finished.answer, tuple[Button, ...]()
        if finished.reason in PRESS_GOES_ON and not job.message.apart:
            answer = f"{answer} {reply_texts.go_on(job.language)}"
            buttons = (Button(token_hex(8), gettext(job.language, "Continue"), "/continue"),)
        reply = FinalReply(
            job.messages,
            job.final_reply("\n\n".join((answer, *notices.values()))),
            finished.reason,
            self._session.session,
            entries,
            self._session.due,
            tuple(notices),
            buttons=buttons,
            parts=job.further,
            silent=silent,
            hides=self._session.silent_before(job.message.schedule) if silent else (),
            outcome=outcome,
            nano=job.nano,
        )
        if silent:  # nobody would see questions, and their buttons would displace those that people see
            return reply
        schedule, now = job.message.schedule, self._context.now()
        return asking(reply, self._session.parked, job.language, schedule=schedule, now=now)

    async def _settle(self, reply: FinalReply, job: Job | None = None) -> Replied:
        # A cancelled turn may have left a write behind; its entry belongs before the final one.
        await self._session.written()
        delivery = await self._services.journal.ask(settle(self._chat, reply))
        self._session.parked.note_asked(reply.asked)
        self._services.noticed(reply.noticed)
        figures = None if job is None else self._figures(job)
        return Replied(delivery, reply.messages, reply.text, silent=reply.silent, figures=figures)

    async def _begin(self, job: Job) -> str | None:
        """Store the beginning of the turn. If there is nothing to run, return the text of the reply."""
        chat_session, services = self._session, self._services
        if job.resumes:
            await self._resume(job)
            return None
        # A separate turn neither reads nor ends the session, even if the session is overdue.
        overdue = chat_session.due and self._context.now() > chat_session.due
        if overdue and not job.message.apart:
            await chat_session.begin_session(forget=False)
            services.fact_extraction.session_ended()
        retries, answer = None, answer_in(job.message.text) if job.kind == "answer" else ""
        going_on = job.kind == "continue"
        if going_on:
            cut_off = await services.journal.ask(find_cut_off(self._chat))
            if cut_off is None:
                return gettext(
                    job.language, "There is nothing to continue: the last turn did not reach a limit."
                )
            if not self._context.people.may_retry(job.message, cut_off):
                return reply_texts.not_yours(job.language)
        if job.kind == "retry":
            earlier = await services.journal.ask(find_retriable(self._chat))
            if earlier is None:
                return gettext(job.language, "There is nothing to retry.")
            if not self._context.people.may_retry(job.message, earlier):
                return reply_texts.not_yours(job.language)
            job.message = replace(
                job.message,
                text=earlier.text,
                attachments=earlier.attachments,
                apart=earlier.apart,
                tainted=earlier.tainted,
                sent=earlier.said_at,
                received=earlier.received,
            )
            retries = earlier.id
            if earlier.by_hand and not fetched(earlier.attachments):
                answer = answer_in(earlier.text)  # the retried message was a yes whose turn was interrupted
            going_on = goes_on(earlier)
        if answer:
            said, ask = job.message, services.journal.ask
            people, now = self._context.people, self._context.now
            answers = StandingAnswers(ask, people, now, said, job.turn, job.language)
            heard = await hear(chat_session.parked, answer, job.seen, job.language, answers.approve)
            if not heard.words:
                return heard.reply
            job.allowed, job.note = heard.words, heard.reply
        if job.message.apart:
            await chat_session.step_apart()
        if job.allowed:
            asked = answering(job.turn, job.message, job.allowed)
        elif going_on:  # not the user's words: they consent to nothing
            asked = (HistoryEntry(job.turn, Message("system", GO_ON), chat_session.tainted),)
        else:
            asked = await self._opening(job)
        asked = self._distrusted(job, asked)
        chat_session.turn = job.turn
        chat_session.remember(*asked)
        said, parts = job.message, job.further
        await services.journal.ask(
            begin_turn(self._chat, said.id, job.turn, chat_session.session, asked, retries, parts)
        )
        # Publish only now: nothing would publish the end of a turn whose beginning was not stored.
        self._publish_start(job)
        return None

    async def _resume(self, job: Job) -> None:
        """Go on with a turn of an earlier process at its last stored step, in its session."""
        chat_session = self._session
        job.broken = broken = await self._services.journal.ask(resume_turn(self._chat, job.message.id))
        await chat_session.step_into(broken.session)
        chat_session.turn = job.turn
        job.note = reply_texts.went_on(job.language)
        acted = any(entry.message.role in ("assistant", "tool") for entry in broken.entries)
        # Until the model has answered, a correction or a delayed part lets the turn begin again.
        job.again, job.fixed = job.again and not acted, acted
        if not acted:  # as when it began: `_bring` compares the message with what is stored of it
            await self._leave_out_last_exchange(job)
        plain = job.message.by_hand and not fetched(job.message.attachments)
        if plain and (answer := answer_in(job.message.text)):
            # The yes still holds for those of the calls that were not made.
            seen = chat_session.parked.seen
            job.allowed = (await hear(chat_session.parked, answer, seen, job.language)).words
        self._publish_start(job)

    def _publish_start(self, job: Job) -> None:
        said, preview = job.message, None if job.broken is None else job.broken.preview
        outside = has_outside_text(said)
        started = TurnStarted(
            *(said.text, said.id, job.language, said.origin, outside, preview, said.schedule, said.trigger)
        )
        self._publish(job.turn, started)

    async def _when_written(self, job: Job) -> tuple[HistoryEntry, ...]:
        """Return an entry that says when a message was written, if it has waited; empty for a fresh one."""
        said_at, now = job.message.said_at, self._context.now()
        if not job.message.by_hand or not said_at or now - said_at <= STALE_S:
            return ()
        zone = await self._context.zone(self._chat)
        line = written_line(local_at(said_at, zone), local_at(now, zone), zone)
        return (HistoryEntry(job.turn, Message("system", line), self._session.tainted),)

    def _watch(self, job: Job, event: TurnEvent) -> None:
        # Taint the session before the history entry does: a tool that calls other tools continues after
        # their results and before its own.
        if isinstance(event, ToolStarted):
            job.began[event.call.id] = trio.current_time()
        if isinstance(event, Used):
            job.nano += event.usage.nano_usd
        if isinstance(event, ToolFinished):
            self._session.tainted |= event.result.tainted
            job.shows.update(dict.fromkeys(event.result.shows))
        if not isinstance(event, TurnFinished):  # the publisher sends it with the reply
            self._publish(job.turn, event)

    async def _quiet(self, job: Job) -> SandboxError | None:
        """Wait until all processes of the turn have ended: the job is not over before.

        If the sandbox cannot confirm this, remove the sandbox, which ends all its processes. Return an error
        if the removal is not confirmed either.
        """
        job.stage = Text("ending what still runs")
        try:
            await self._services.sandboxes.quiet(self._chat)
        except SandboxError:
            return await self._remove_sandbox()
        return None

    async def _remove_sandbox(self) -> SandboxError | None:
        """Remove the sandbox; return an error if the removal is not confirmed.

        An unconfirmed removal continues in the background; the chat's next sandbox starts after it.
        """
        try:
            await self._services.sandboxes.stop(self._chat)
        except SandboxError as error:
            logger.warning("chat %s: %s", self._chat, error)
            return error
        return None

    async def _renew(self, job: Job) -> Done:
        """Begin a new session; the old one stays stored but no longer appears in prompts."""
        before = self._session.session
        found = await self._services.journal.ask(find_session(self._chat, before))
        await self._session.begin_session(forget=False)
        self._services.fact_extraction.session_ended()
        job.sealed = True
        text = session_texts.renewed(job.language, before if found is not None else 0)
        return Done(await self._settle(FinalReply(job.messages, text), job))

    async def _reopen(self, job: Job) -> Done:
        """Continue an earlier session, whose number is the job's text. The current one stays stored.

        One transaction stores the change and the reply, so that a kill leaves both or none.
        """
        job.sealed = True
        ask, language, wanted = self._services.journal.ask, job.language, job.message.text.strip()
        before = await ask(find_session(self._chat, self._session.session))
        number = int(wanted) if wanted.isdecimal() and len(wanted) < MOST_DIGITS else 0
        found = await ask(find_session(self._chat, number))
        if found is not None and not found.current:
            zone = await self._context.zone(self._chat)
            left = 0 if before is None else before.number
            text = session_texts.reopened(language, line_of(found, zone), left)
            reply = FinalReply(job.messages, job.final_reply(text))
            due = self._context.now() + self._context.settings.session.ttl_s
            delivery = await self._session.reopen(number, due, reply)
            if delivery is not None:
                self._services.fact_extraction.session_ended()
                self._measure(job)
                return Done(Replied(delivery, reply.messages, reply.text, figures=self._figures(job)))
        text = session_texts.no_session(language, wanted)
        if found is not None and found.current:
            text = session_texts.already_current(language, number)
        return Done(await self._settle(FinalReply(job.messages, job.final_reply(text))))

    async def _compact(self, job: Job) -> Done:
        """Replace the conversation in prompts by a summary. A `/stop` cancels this, and nothing changes."""
        job.stage = Text("summarizing the conversation")
        text = reply_texts.stopped(job.language)
        with job.scope:
            await trio.lowlevel.checkpoint()
            text = await self._compacted(job)
        job.sealed = True
        if job.scope.cancelled_caught and job.ended_by == "interrupted":
            text = reply_texts.lost_command(job.language, "/compact")
        reply = FinalReply(job.messages, job.final_reply(text), session=self._session.session, nano=job.nano)
        self._session.nano += job.nano
        return Done(await self._settle(reply, job))

    async def _compacted(self, job: Job) -> str:
        language, summarizes = job.language, self._context.sums_up(job.message.model)
        try:
            model = self._context.model_of(job.message, language)
            window = context_of(model, self._context.context_tokens)
            self._measure(job)
            sizes = await compact_now(
                self._session,
                self._services.journal,
                model if summarizes else None,
                prompt_share(window),
                one_line(job.message.text),
            )
        except RumiError as error:
            return session_texts.not_compacted(language, error_text(language, error))
        if sizes is None:
            return session_texts.nothing_to_compact(language)
        return session_texts.compacted(language, *sizes, summarized=summarizes)

    async def sessions(self, language: Language) -> CommandReply:
        """Return the list of the chat's sessions, with buttons that reopen the latest ones."""
        zone = await self._context.zone(self._chat)
        found = await self._services.journal.ask(list_sessions(self._chat, MOST_LISTED))
        lines = [line_of(session, zone) for session in found]
        buttons = [
            (session_texts.button(language, line), f"/sessions {line.number}")
            for line in lines
            if not line.current
        ]
        return CommandReply(session_texts.session_list(language, lines), buttons[:MOST_BUTTONS])

    async def context(self, message: Incoming, language: Language) -> str:
        """Return a table of what fills the context of the next turn."""
        await trio.lowlevel.checkpoint()
        try:
            model = self._context.model_of(message, language)
        except RumiError as error:
            return reply_texts.model_failed(language, error_text(language, error))
        window = context_of(model, self._context.context_tokens)
        tools = self._all_tools(Job("turn", message, self._context.now(), language))
        use = context_use(self._session, self._context.instructions, tools, window)
        cost = amount_text(language, "usd", self._session.nano) if self._session.nano else ""
        return session_texts.context_table(language, use, window, cost)

    def _all_tools(self, job: Job) -> tuple[Tool, ...]:
        """Return the tools that a turn of the job's message has."""
        return self._context.people.tools(job.message, self._tools_for(job))[0]

    def _measure(self, job: Job) -> None:
        """Estimate the size of the session's next prompt; without a usable model it stays unknown."""
        with suppress(RumiError):
            model = self._context.model_of(job.message, job.language)
            self._context.measure(self._session, self._all_tools(job), model)

    def _figures(self, job: Job) -> SessionFigures | None:
        """Return what clients show of the session; None for a turn with a session of its own."""
        if self._session.apart:
            return None
        window = 0
        with suppress(RumiError):
            model = self._context.model_of(job.message, job.language)
            window = context_of(model, self._context.context_tokens)
        return SessionFigures(
            self._session.session,
            self._session.tokens,
            window,
            self._session.nano,
            begun=job.begins_session,
        )

    async def _take_back(self, job: Job) -> Done:
        """Undo the last turn.

        A `/stop` does not cancel an undo, because an undo is short and half an undo is useless.
        """
        job.stage = "taking the last turn back"
        try:
            text = await self.undoing.take_back(job.message, job.language)
        except SandboxError as error:
            text = gettext(job.language, "❌ Nothing was undone. {why}", why=error_text(job.language, error))
        job.sealed = True
        return Done(await self._settle(FinalReply(job.messages, job.final_reply(text))))

    async def _bring_result(self, job: Job) -> Done:
        """Reply with the result of a task or the text of a schedule, and store this text in the history."""
        job.sealed = True
        chat_session = self._session
        entries = result_entries(job.message)
        chat_session.remember(*entries)
        chat_session.tainted |= any(entry.tainted for entry in entries)
        chat_session.due = self._context.now() + self._context.settings.session.ttl_s
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
        replied = await self._settle(asking(reply, chat_session.parked, job.language))
        commands = tuple(button.words for button in said.buttons)
        return Done(replace(replied, task=said.task, schedule=said.schedule, commands=commands))

    async def _reset(self, job: Job) -> Done:
        """Remove the sandbox and the history; also the files, if the user asked for that and confirmed it."""
        takes_files, asked = job.message.text in (FILES, FILES_YES), False
        question = await self._about_files(job.language) if takes_files else ""
        there = bool(question)
        if there and job.message.text == FILES:
            if (refused := await self._may_remove_files(job, question)) is not None:
                return refused
            asked = True
        job.stage = "resetting"
        troubles: list[RumiError | None] = [await self._remove_sandbox()]
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
        return Done(await self._settle(FinalReply(job.messages, text)), finished)

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
        return await self._without_yes(
            job,
            f"/reset {FILES}",
            question,
            lambda answered: reply_texts.nothing_deleted(job.language, answered=answered),
            reply_texts.lost_command(job.language, f"/reset {FILES}"),
        )

    async def _without_yes(
        self, job: Job, command: str, question: str, refused: Callable[[bool], str], lost: str
    ) -> Done | None:
        """Ask whether to do what a command asks for. Return None for a yes, otherwise the `Done` of the job.

        The question is published as a turn. `refused` returns the reply if there is no yes; its argument is
        True if a person has said no. `lost` is the reply if the process ends meanwhile.
        """
        asked = ConfirmationAsked(token_hex(8), question)
        verdict: Verdict = "no"
        self._publish(job.turn, TurnStarted(command, job.message.id, job.language, job.message.origin))
        with job.scope:
            await trio.lowlevel.checkpoint()
            self._publish(job.turn, asked)
            try:
                verdict = await self._confirm(job, asked)
            finally:
                self._publish(job.turn, ConfirmationEnded(asked.id, verdict))
        if verdict == "yes":
            job.scope = trio.CancelScope()  # a scope cannot be entered twice, and `_extract_facts` needs one
            return None
        job.sealed = True
        reason: Reason = "complete"
        answer = refused(verdict == "no")
        if job.scope.cancelled_caught:
            reason, answer = job.ended_by, reply_texts.stopped(job.language)
            if job.ended_by == "interrupted":
                answer = lost
        answer = job.final_reply(answer)
        replied = await self._settle(FinalReply(job.messages, answer))
        return Done(replied, TurnFinished(reason, answer))

    async def _work_on_folder(self, job: Job, kind: Literal["apply", "discard"]) -> Done:
        """Apply or drop changes to the chat's folder, after a yes. A `/stop` ends only the question."""
        rest, language = job.message.text, job.language
        job.stage = Text("looking at the changed files")
        plan = await self._folder.plan(kind, rest, language)
        job.stage = ""
        if isinstance(plan, str):
            job.sealed = True
            return Done(await self._settle(FinalReply(job.messages, job.final_reply(plan))))
        command = f"/{kind} {rest}".strip()
        lost = folder_texts.interrupted(language, f"/{kind}")
        refused = await self._without_yes(job, command, plan.question, lambda answered: plan.refused, lost)
        if refused is not None:
            return refused
        job.sealed = True
        job.stage = Text("changing files")
        answer = job.final_reply(await plan.carry_out())
        replied = await self._settle(FinalReply(job.messages, answer))
        return Done(replied, TurnFinished("complete", answer))

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


def _days(since: float, now: float) -> int:
    """Return the number of whole days between two times; 0 if `now` is before."""
    return int(max(0.0, now - since) // DAY_S)


def _without_words_of_others(entries: Sequence[HistoryEntry]) -> list[Message]:
    """Return a session's messages without tainted user messages, which someone other than the user wrote."""
    return [entry.message for entry in entries if entry.message.role != "user" or not entry.tainted]
