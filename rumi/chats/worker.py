"""The worker of a chat, which runs its jobs one at a time.

A job is a turn, a retry, a continued turn, an undo, a change to a linked folder, an answer to parked calls, a
new session, a reset, or the result of a task.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from secrets import token_hex

import trio

from rumi.agent.events import ToolFinished, ToolStarted, TurnEvent, TurnFinished
from rumi.agent.fitting import GO_ON
from rumi.agent.permissions.gate import Parking
from rumi.agent.prompts.message_entries import (
    answering,
    command_in,
    described,
    fetched,
    has_outside_text,
    meanwhile,
    opening,
    output_entries,
)
from rumi.agent.prompts.prompt_notes import change_note, is_whole, prompt_notes, written_line
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnMessage
from rumi.chats.asking import asking, hear
from rumi.chats.commands import answer_in, goes_on
from rumi.chats.confirming import Confirming
from rumi.chats.events import Queued, TurnRestarted, TurnStarted
from rumi.chats.folder_work import FolderWork
from rumi.chats.jobs import Job, JobQueue
from rumi.chats.jobs_without_turn import JobsWithoutTurn, remove_sandbox
from rumi.chats.recorder.recorder import recorded
from rumi.chats.resuming import (
    OLDEST_S,
    in_words,
    known_outcomes,
    may_have_acted,
    open_calls,
    replies_in,
    results_of_interrupted,
)
from rumi.chats.scheduled_command import command_error, output_so_far, run_by_hand, run_command
from rumi.chats.services import ChatServices, ChatShell
from rumi.chats.session import ChatSession, ending
from rumi.chats.session_jobs import SessionJobs
from rumi.chats.settling import Done, Settling
from rumi.chats.standing import StandingAnswers, StandingCalls, waiting_note
from rumi.chats.surroundings import variables
from rumi.chats.turn_files import TurnFiles
from rumi.chats.turn_tools import TurnTools
from rumi.chats.undoing import Undoing
from rumi.errors import RumiError
from rumi.models.model import Message, Model, Used
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import standing as standing_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.zones import local_at
from rumi.sandbox.engine import SandboxError
from rumi.store.journal.inbox import begin_turn, find_cut_off, find_retriable, resume_turn
from rumi.store.journal.records import STALE_S, Button, FinalReply, FireOutcome, HistoryEntry
from rumi.store.journal.schedules import fired_before, fired_by_hand
from rumi.texts import Text, gettext

logger = logging.getLogger(__name__)

DAY_S = 86_400.0

MOST_SHOWN = 10
"""Maximum number of files that one turn shows in a channel that sends files."""

WITHOUT_ANSWER = frozenset({"stopped", "interrupted", "model_error", "budget"})
"""Reasons of turns that end without an answer in the history."""


PRESS_GOES_ON = frozenset({"max_turns", "timeout"})
"""Limits whose reply has a button that goes on. A used-up budget would refuse the next turn too."""


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
        self._settling = Settling(services, chat_session)
        self._confirming = Confirming(services, chat_session, self._settling)
        self.files = TurnFiles(services, chat_session, self._shell)
        self._tools = TurnTools(services, chat_session, self._shell)
        self.sessions = SessionJobs(services, chat_session, self._settling, self._tools)
        self._others = JobsWithoutTurn(
            services, chat_session, self._settling, self._confirming, self.undoing, self._folder
        )

    async def run_job(self, job: Job) -> Done:
        """Run a job to its end. Its final reply is stored when this returns; the caller publishes it."""
        done = await self._run_by_kind(job)
        if job.kind in ("reset", "undo"):
            await self.files.store(job)
        return done

    async def _run_by_kind(self, job: Job) -> Done:
        job.begun = True
        self._services.pending.cursor(self._chat).working = job.message.id
        if job.kind == "reset":
            return await self._others.reset(job)
        if job.kind == "new":
            return await self.sessions.renew(job)
        if job.kind == "reopen":
            return await self.sessions.reopen(job)
        if job.kind == "compact":
            return await self.sessions.compact(job)
        if job.kind == "result":
            return await self._others.bring_result(job)
        if job.kind == "undo":
            return await self._others.take_back(job)
        if job.kind in ("apply", "discard"):
            return await self._others.work_on_folder(job, "apply" if job.kind == "apply" else "discard")
        # Outside of the scope that a `/stop` cancels, so that the beginning of a turn is stored completely.
        nothing = await self._begin(job)
        if nothing is not None:
            job.sealed = True
            reply = FinalReply(job.messages, job.final_reply(nothing), parts=job.further)
            return Done(await self._settling.settle(reply))
        finished = None
        with job.scope:
            await trio.lowlevel.checkpoint()  # after a `/stop` that came during `_begin`, start no work
            finished = await self._attempts(job)
        # Outside of the scope as well: a stopped turn also has to end its processes before its reply.
        unconfirmed = await self._quiet(job)
        if finished is None and unconfirmed is None and job.goes_on_later:
            await self._end_open_calls(job)
        if unconfirmed is None:  # otherwise a process may still write to the files
            await self.files.store(job)
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
        reply = self._end(job, finished, note, silent=silent)
        self._session.nano += job.nano
        replied = await self._settling.settle(reply, job)
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
        await self.files.leave_out_last_exchange(job)
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
                shown = job.shown.of(result)
                await self._session.append(job.turn, TurnMessage(result, self._session.tainted, shown=shown))

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
            await self.files.fetch()
            await self.files.bring(job, model)
        except RumiError as error:
            return TurnFinished(
                "model_error", telegram_texts.not_brought(job.language, error_text(job.language, error))
            )

        async def store(message: TurnMessage) -> None:
            await trio.lowlevel.checkpoint_if_cancelled()  # another part has come: this step does not count
            job.fixed = True
            shown = job.shown.of(message.message)
            await self._session.append(job.turn, replace(message, shown=shown))

        limits = self._context.turn_limits(job.message)
        await self._tools.prepare(job)
        tools, withheld = self._tools.of(job)
        broken, said = job.broken, described(job.message)
        for result, outside in () if broken is None else await known_outcomes(broken, tools):
            shown, tainted = job.shown.of(result), outside or self._session.tainted
            await self._session.append(job.turn, TurnMessage(result, tainted, shown=shown))
            assert broken is not None
            broken = replace(broken, entries=(*broken.entries, HistoryEntry(job.turn, result)))
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
        zone = self._tools.zone = await self._context.zone(self._chat)
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
        later = self._context.people.ids.answers_later(self._chat)
        attended = (job.kind == "retry" or job.message.by_hand) and not later
        confirm = partial(self._confirming.confirm, job) if attended else None
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
        begin = replace(begin, approved=partial(self._confirming.approved, job))
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
            await self.files.fetch()
            self._tools.zone = await self._context.zone(self._chat)
            self._shell.variables = variables(self._tools.zone, self._context.now())
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

    def _parking(self, job: Job) -> Parking | None:
        """Return where calls that need a yes are parked; runs of a schedule may have a standing approval."""
        parked, said, context = self._session.parked, job.message, self._context
        if not said.schedule:
            later = context.people.ids.answers_later(self._chat)
            return parked if said.away or later or job.allowed else None

        def note(why: str) -> None:
            text = standing_texts.ended(job.language, said.schedule, why)
            if text not in job.note:
                job.note = "\n\n".join(filter(None, (job.note, text)))

        return StandingCalls(parked, said, self._services.journal.ask, context.people, context.now, note)

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

    async def _said_meanwhile(self, job: Job, model: Model) -> Sequence[TurnMessage]:
        """Take what the sender of the turn has said meanwhile from the queue, and store it with the turn."""
        heard: list[TurnMessage] = []
        while (waiting := self._queue.steering(job)) is not None:
            try:
                brought = await self.files.attached(waiting, model)
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

    def _cut_short(self, job: Job, unconfirmed: SandboxError | None) -> TurnFinished:
        """Return a `TurnFinished` for a cancelled turn; its answer has the error `unconfirmed`, if any."""
        answer = reply_texts.stopped(job.language)
        if job.ended_by == "interrupted":
            answer = reply_texts.restarted(job.language, described(job.message))
        if unconfirmed is not None:
            answer = reply_texts.not_confirmed(answer, error_text(job.language, unconfirmed))
        answer = "\n\n".join(filter(None, (output_so_far(job), answer)))
        return TurnFinished(job.ended_by, answer)

    def _end(self, job: Job, finished: TurnFinished, note: str, *, silent: bool = False) -> FinalReply:
        """Append the turn's last entry to the history; return the reply that is stored with it.

        `note` is a line for people about the files of the chat's folder.
        """
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
        entries = (*entries[:-1], *(replace(last, shown=job.shown.rest()) for last in entries[-1:]))
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
            note=note,
        )
        if silent:  # nobody would see questions, and their buttons would displace those that people see
            return reply
        schedule, now = job.message.schedule, self._context.now()
        return asking(reply, self._session.parked, job.language, schedule=schedule, now=now)

    async def _begin(self, job: Job) -> str | None:
        """Store the beginning of the turn. If there is nothing to run, return the text of the reply."""
        chat_session, services = self._session, self._services
        if job.resumes:
            await self._resume(job)
            return None
        # A separate turn neither reads nor ends the session, even if the session is overdue.
        overdue = chat_session.due and self._context.now() > chat_session.due
        if job.message.branches:
            if not await chat_session.branch(job.message.id):
                return reply_texts.not_stored_before(job.language)
            services.fact_extraction.session_ended()
        elif overdue and not job.message.apart:
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
        job.shown.resumes(broken.resumed)
        await chat_session.step_into(broken.session)
        chat_session.turn = job.turn
        job.note = reply_texts.went_on(job.language)
        acted = any(entry.message.role in ("assistant", "tool") for entry in broken.entries)
        # Until the model has answered, a correction or a delayed part lets the turn begin again.
        job.again, job.fixed = job.again and not acted, acted
        if not acted:  # as when it began: `_bring` compares the message with what is stored of it
            await self.files.leave_out_last_exchange(job)
        plain = job.message.by_hand and not fetched(job.message.attachments) and not job.message.branches
        if plain and (answer := answer_in(job.message.text)):
            # The yes still holds for those of the calls that were not made.
            seen = chat_session.parked.seen
            job.allowed = (await hear(chat_session.parked, answer, seen, job.language)).words
        self._publish_start(job)

    def _publish_start(self, job: Job) -> None:
        said, preview = job.message, None if job.broken is None else job.broken.preview
        outside = has_outside_text(said)
        started = TurnStarted(
            *(said.text, said.id, job.language, said.origin, outside, preview, said.schedule, said.trigger),
            numbered=job.shown.numbered,
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
        event = job.shown.happened(event)
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
            return await remove_sandbox(self._services.sandboxes, self._chat)
        return None


def _days(since: float, now: float) -> int:
    """Return the number of whole days between two times; 0 if `now` is before."""
    return int(max(0.0, now - since) // DAY_S)
