"""The simulation finds faults: each of these is planted, and must be found within so many seeds."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import trio

from rumi.agent import acting
from rumi.agent.events import ToolProgress
from rumi.agent.permissions import gate
from rumi.agent.permissions.gate import Gate
from rumi.app import stop_all
from rumi.channels.telegram.address import Moves, address_of
from rumi.channels.telegram.receiving import reading
from rumi.channels.telegram.receiving.poller import Poller
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.updates import number_of
from rumi.channels.telegram.sending.chat_outbox import ChatOutbox
from rumi.channels.telegram.sending.delivery import Delivery
from rumi.channels.telegram.sending.destination import Destination
from rumi.channels.telegram.sending.limits import SendLimits
from rumi.channels.telegram.sending.preview import Preview
from rumi.channels.telegram.sending.questions import AskedQuestion
from rumi.channels.telegram.sending.sender import Sender
from rumi.channels.telegram.sending.toasts import Toasts
from rumi.chats import jobs, recovery
from rumi.chats import worker as chat_worker
from rumi.chats.budgets.meter import Budgets
from rumi.chats.chat import Chat
from rumi.chats.chats import Chats
from rumi.chats.dispatcher import Dispatcher
from rumi.chats.events import Replied
from rumi.chats.fact_extractor import FactExtractor
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.chats.jobs import Job, JobQueue
from rumi.chats.people.people import People, Principal
from rumi.chats.publishing import Cursor
from rumi.chats.session import ChatSession
from rumi.chats.settling import Settling
from rumi.chats.worker import Worker
from rumi.errors import NotTaken
from rumi.models import limits
from rumi.models.limits import CallLimits as PermitLimits
from rumi.models.model import Message
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts import stopping as stop_texts
from rumi.platform.texts import tasks as task_texts
from rumi.sandbox import registry
from rumi.sandbox.sandbox import Sandbox
from rumi.sandbox.sandboxes import Sandboxes
from rumi.store.journal import forgetting, spending
from rumi.store.journal import inbox as journal_inbox
from rumi.store.journal import tasks as journal_tasks
from rumi.store.journal.actor import Journal
from rumi.store.journal.inbox import accept_messages, insert_message, open_chats
from rumi.store.journal.outbox import mark_delivered, settle, undelivered_replies
from rumi.store.journal.records import FinalReply, Fired, Firing, Incoming, ScheduleRecord, Spent, TaskRecord
from rumi.store.journal.reopening import reopen_session
from rumi.store.journal.schedules import add_schedule, fire_schedules
from rumi.store.journal.store import Store, Unwritable
from rumi.store.journal.tasks import end_task
from rumi.store.steps import Transaction
from rumi.tasks import task
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.task import Task
from rumi.tasks.tasks import TaskRecovery, Tasks
from tests.simulation.play import play
from tests.simulation.seeds import check_seed
from tests.simulation.world import Theme, World

SEEDS = range(2000)
THEMED = range(5000)
"""Of these only the histories are played that are about what is planted: one in ten."""

Plant = Callable[[pytest.MonkeyPatch], None]


async def nothing(*_: object) -> None:
    pass


def runs_an_open_call_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chat_worker, "may_have_acted", lambda broken, tools: None)


def resumes_a_turn_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "MOST_RESUMED", 1000)
    patch.setattr(jobs, "MOST_RESUMED", 1000)


def confirms_before_it_stores(patch: pytest.MonkeyPatch) -> None:
    store = Poller._store

    async def confirmed_first(self: Poller, updates: Sequence[Any], me: Any) -> None:
        self._offset = max(number_of(update) or 0 for update in updates) + 1
        await self._confirm()
        await store(self, updates, me)

    patch.setattr(Poller, "_store", confirmed_first)


def stores_again_what_it_knows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal_inbox, "SEEN_S", -10.0)
    patch.setattr(journal_inbox, "SEEN_LEAST", 0)


def counts_steps_that_nobody_sees(patch: pytest.MonkeyPatch) -> None:
    report = acting._Steps.report

    def counted(self: acting._Steps, text: str) -> None:
        self.shown += 1
        report(self, text)

    patch.setattr(acting._Steps, "report", counted)


def shows_a_step_behind_the_end_of_its_call(patch: pytest.MonkeyPatch) -> None:
    told = acting.Acting._run_reported

    async def late(self: acting.Acting, call: Any, *more: Any) -> Any:
        result = await told(self, call, *more)
        if call.name == "read":
            self._watch(ToolProgress(call.id, "too late", 1))
        return result

    patch.setattr(acting.Acting, "_run_reported", late)


def tells_strangers_each_time(patch: pytest.MonkeyPatch) -> None:
    meet = Strangers.meet

    def forgetful(self: Strangers, stranger: Any) -> None:
        self._notified_at.clear()
        meet(self, stranger)

    patch.setattr(Strangers, "meet", forgetful)


def tells_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    settle = Settling.settle

    async def told_first(self: Settling, request: Any, *more: Any) -> Replied:
        self._services.publisher.reply(self._chat, "", Replied(0, request.messages, request.text))
        return await settle(self, request, *more)

    patch.setattr(Settling, "settle", told_first)


def works_twice(patch: pytest.MonkeyPatch) -> None:
    turn = Worker._turn

    async def twice(self: Worker, job: Any) -> Any:
        await turn(self, job)
        return await turn(self, job)

    patch.setattr(Worker, "_turn", twice)


def stops_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chat, "_end_turn", lambda self, by: self._job)


def forgets_a_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sandbox, "_end_quietly", nothing)  # what cancelling a command ends
    patch.setattr(Worker, "_quiet", nothing)


def forgets_a_box(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chat, "stopped", nothing)


def runs_in_another_box(patch: pytest.MonkeyPatch) -> None:
    run = Sandboxes.run
    calls, chats = count(1), dict.fromkeys(("tg1001",))

    async def mixed_up(self: Sandboxes, chat_id: str, *more: Any) -> Any:
        chats[chat_id] = None
        if next(calls) % 5 == 0:
            chat_id = next(chat for chat in chats if chat != chat_id)
        return await run(self, chat_id, *more)

    patch.setattr(Sandboxes, "run", mixed_up)


def sends_to_another_chat(patch: pytest.MonkeyPatch) -> None:
    destination = Sender._destination
    calls, chats = count(1), dict.fromkeys(("tg1001",))

    def mixed_up(self: Sender, chat: str, **how: Any) -> Destination | None:
        assert address_of(chat) is not None
        chats[chat] = None
        if next(calls) % 50 == 0:
            chat = next(other for other in chats if other != chat)
        return destination(self, chat, **how)

    patch.setattr(Sender, "_destination", mixed_up)


def marks_before_it_sends(patch: pytest.MonkeyPatch) -> None:
    bring = Delivery.bring

    async def marked_first(self: Delivery) -> None:
        await self._journal.ask(mark_delivered(self._reply.delivery))
        await bring(self)

    patch.setattr(Delivery, "bring", marked_first)


def notes_no_parts(patch: pytest.MonkeyPatch) -> None:
    mark = Delivery._mark

    async def only_the_whole(self: Delivery) -> None:
        if self._taken == len(self._parts):
            await mark(self)

    patch.setattr(Delivery, "_mark", only_the_whole)


def notes_no_previews(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Preview, "_note", nothing)


def forgets_the_order(patch: pytest.MonkeyPatch) -> None:
    ask = ChatOutbox._ask

    async def reversed_(self: ChatOutbox, request: Any) -> Any:
        answer = await ask(self, request)
        return answer[::-1] if request.step is undelivered_replies else answer

    patch.setattr(ChatOutbox, "_ask", reversed_)


def leaves_nobody_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SendLimits, "pause", lambda self, number, seconds: None)


def learns_for_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChatIds, "owner_of", lambda self, chat: "tg1001")


def never_finds_that_a_session_is_over(patch: pytest.MonkeyPatch) -> None:
    async def nothing_due(self: FactExtractor) -> float:
        await trio.lowlevel.checkpoint()
        return 300.0

    patch.setattr(FactExtractor, "_look", nothing_due)


def keeps_what_was_to_be_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(forgetting, "_forgotten", lambda desk: None)


def takes_a_press_for_whatever_is_asked(patch: pytest.MonkeyPatch) -> None:
    answer = Job.answer
    patch.setattr(Job, "answer", lambda self, yes, user, id=None: answer(self, yes, user))


def takes_a_press_of_anybody(patch: pytest.MonkeyPatch) -> None:
    answer = Job.answer
    patch.setattr(Job, "answer", lambda self, yes, user, id=None: answer(self, yes, self.message.user, id))


def names_questions_again_in_each_process(patch: pytest.MonkeyPatch) -> None:
    """So that the buttons that a process leaves behind answer what the next one asks."""
    init = Inbox.__init__
    numbers = count()

    def begin(self: Inbox, *services: Any) -> None:
        nonlocal numbers
        numbers = count()
        init(self, *services)

    patch.setattr(Inbox, "__init__", begin)
    patch.setattr(gate, "token_hex", lambda size: f"{next(numbers):016x}")


def takes_a_forward_for_its_senders_words(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "made_by", lambda message: "")


def asks_once_for_many(patch: pytest.MonkeyPatch) -> None:
    refusal = Gate.refusal
    agreed: set[Gate] = set()

    async def once(self: Gate, *call: Any) -> Any:
        if self in agreed:
            return None
        refused = await refusal(self, *call)
        if refused is None and self.tainted:
            agreed.add(self)
        return refused

    patch.setattr(Gate, "refusal", once)


def hears_what_was_written_before_it_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hub, "could_be_read", lambda self, question, origin: True)


def lets_the_time_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "_time_stands_still", lambda self: nullcontext())


def leaves_the_buttons(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AskedQuestion, "_show_verdict", nothing)


def takes_old_buttons_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Toasts, "disarm", nothing)


def says_nothing_to_a_press(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Toasts, "say", nothing)


def starts_one_chat_at_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery.Recovery, "concurrency", 1)
    patch.setattr(recovery, "CHATS_AT_ONCE", 1)


def takes_one_box_at_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry.ContainerRegistry, "concurrency", 1)


def leaves_a_reply_untold_that_a_failing_journal_wrote(patch: pytest.MonkeyPatch) -> None:
    async def open_all(self: recovery.Recovery) -> None:
        for chat in await self._journal.ask(open_chats()):
            await self._open(chat)

    patch.setattr(recovery.Recovery, "_open_all", open_all)


def looks_for_no_wake_up_that_was_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cursor, "missed", property(lambda self: 0, lambda self, number: None))


def starts_no_chat_that_is_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dispatcher, "open_soon", lambda self, chat, *, urgent=False: None)


def passes_messages_that_it_has_not_judged(patch: pytest.MonkeyPatch) -> None:
    hear = Chat._hear
    patch.setattr(Chat, "_hear", lambda self, message: hear(self, replace(message, before=0)))


def judges_again_what_it_has_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chat, "_hear", lambda self, message: self._take(message))


def works_for_one_chat_at_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Worker, "_turn", one_at_a_time(Worker._turn))


def sends_to_one_chat_at_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "_send_one", one_at_a_time(Delivery._send_one))


def lets_one_call_a_model_at_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits._ServerState, "full", lambda self, part: self.running > 0)


def counts_no_model_calls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits._ServerState, "full", lambda self, part: False)


def keeps_permits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PermitLimits, "leave", lambda self, ticket, now: None)


def trusts_the_preview_of_an_earlier_sender(patch: pytest.MonkeyPatch) -> None:
    claim = Delivery._claim

    async def there(self: Delivery) -> None:
        noted = self._reply.preview
        if self._preview is None and not self._taken:
            self._shown = None if noted is None else self._to.found(noted)
        else:
            await claim(self)

    patch.setattr(Delivery, "_claim", there)


def one_at_a_time(work: Callable[..., Any]) -> Callable[..., Any]:
    """One of all that a process would do at once."""
    locks: WeakKeyDictionary[Any, trio.Lock] = WeakKeyDictionary()

    async def waits(self: Any, *what: Any) -> Any:
        async with locks.setdefault(trio.lowlevel.current_root_task(), trio.Lock()):
            return await work(self, *what)

    return waits


def leads_no_new_number_to_its_chat(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Moves, "here", lambda self, address: address)


def stores_no_move(patch: pytest.MonkeyPatch) -> None:
    """It is known until the process ends."""
    patch.setattr(journal_inbox, "_note_move", lambda desk, old, new: None)


def confirms_what_a_full_disk_refused(patch: pytest.MonkeyPatch) -> None:
    store = Poller._store

    async def confirmed_all_the_same(self: Poller, updates: Sequence[Any], me: Any) -> None:
        try:
            await store(self, updates, me)
        except NotTaken:
            self._offset = max(number_of(update) for update in updates) + 1
            raise

    patch.setattr(Poller, "_store", confirmed_all_the_same)


def crashes_on_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    async def put_off(self: Journal, store: Any, trouble: Any) -> None:
        raise Unwritable(self._path, trouble)

    patch.setattr(Journal, "_put_off", put_off)


def forgets_what_a_full_disk_refused(patch: pytest.MonkeyPatch) -> None:
    put_off = Journal._put_off

    async def loses_a_reply(self: Journal, store: Any, trouble: Any) -> None:
        for job in self._deferred:
            if job.request.step is settle:
                job.answer(0)
        self._deferred = [job for job in self._deferred if not job.done.is_set()]
        await put_off(self, store, trouble)

    patch.setattr(Journal, "_put_off", loses_a_reply)


def forgets_what_waited_at_a_stop(patch: pytest.MonkeyPatch) -> None:
    drop = JobQueue.drop

    def forget(self: JobQueue) -> list[int]:
        drop(self)
        return []

    patch.setattr(JobQueue, "drop", forget)


def drops_without_a_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Job, "final_reply", lambda self, text: text)


def runs_the_last_first(patch: pytest.MonkeyPatch) -> None:
    following = JobQueue.next

    def last(self: JobQueue, now: float) -> Job | None:
        self._jobs.reverse()
        job = following(self, now)
        self._jobs.reverse()
        return job

    patch.setattr(JobQueue, "next", last)


def stores_a_result_before_its_tasks_end(patch: pytest.MonkeyPatch) -> None:
    end = Task._end

    async def brought_first(self: Task, record: TaskRecord, outcome: Any) -> TaskRecord:
        state, answer = outcome.state, outcome.answer
        text = task_texts.task_result(record.language, record.id, state, record.question, answer)
        if not record.attached:
            result = Incoming(chat=record.chat, text=text, language=record.language, task=record.id)
            stored = await self._services.journal.ask(accept_messages((result,)))
            if isinstance(stored, tuple) and stored[0] is not None:
                self._services.wake(stored[0])
        return await end(self, record, outcome)

    patch.setattr(Task, "_end", brought_first)
    patch.setattr(task, "end_task", lambda *fields: end_task(*fields[:6]))


def brings_a_result_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(message: Incoming, transaction: Transaction) -> Incoming:
        insert_message(message, transaction)
        return insert_message(message, transaction)

    patch.setattr(journal_tasks, "insert_message", twice)


def forgets_tasks_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskRecovery, "_resume", nothing)


def begins_a_new_budget_in_each_process(patch: pytest.MonkeyPatch) -> None:
    started = Task.started

    async def afresh(self: Task) -> None:
        await started(self)
        self._costs.spent = Spent()

    patch.setattr(Task, "started", afresh)


def stops_no_task(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Task, "receive", nothing)


def stops_tasks_of_others(patch: pytest.MonkeyPatch) -> None:
    show = Tasks.show
    patch.setattr(Tasks, "show", lambda self, id, owner: show(self, id, None))


def repeats_calls_of_tasks(patch: pytest.MonkeyPatch) -> None:
    """The model does not learn of a call without a result, and asks for it again."""

    def without_them(messages: Sequence[Message]) -> tuple[Message, ...]:
        known = {message.tool_call_id for message in messages if message.role == "tool"}
        return tuple(message for message in messages if all(call.id in known for call in message.tool_calls))

    patch.setattr(task, "complete", without_them)


def says_that_all_has_ended_before_it_has(patch: pytest.MonkeyPatch) -> None:
    said = stop_texts.stopped_all

    def too_early(language: Any, turns: int, tasks: int, paused: Any, *left: Any) -> str:
        return said(language, turns, tasks, paused, (), ())

    patch.setattr(stop_all, "STOP_ALL_S", 0.0)
    patch.setattr(stop_texts, "stopped_all", too_early)


def forgets_tasks_when_it_stops_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tasks, "open_tasks", lambda self: {})


def forgets_what_waits_when_it_stops_everything(patch: pytest.MonkeyPatch) -> None:
    """Of each chat it knows one message."""
    unanswered = Chats.unanswered
    patch.setattr(Chats, "unanswered", lambda self: frozenset(dict(sorted(unanswered(self))).items()))


def forgets_a_turn_that_began_behind_the_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chats, "at_work", lambda self, chat: 0)


def waits_for_what_waits_for_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stop_all.Everything, "_messages", lambda self: self.inbox.chats.unanswered())


pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (confirms_what_a_full_disk_refused, "was confirmed and not stored"),
        (forgets_what_a_full_disk_refused, "is told and not stored"),
        (crashes_on_a_full_disk, "the process ended with"),
        (confirms_before_it_stores, "was confirmed and not stored"),
        (runs_an_open_call_again, "is run again"),
        (resumes_a_turn_without_end, "was resumed"),
        (stores_again_what_it_knows, "was stored more than once"),
        (tells_strangers_each_time, "the stranger"),
        (counts_steps_that_nobody_sees, "tells step 3 behind 0"),
        (shows_a_step_behind_the_end_of_its_call, "tells step 1 behind None"),
        (tells_before_it_is_committed, "is told and not stored"),
        (works_twice, "was worked on 2 times"),
        (stops_at_the_end, "was answered only after"),
        (forgets_a_process, "still runs"),
        (forgets_a_box, "boxes without a chat"),
        (runs_in_another_box, "the command"),
        (sends_to_another_chat, "is shown something of"),
        (marks_before_it_sends, "is nowhere in the chat"),
        (notes_no_parts, "nothing was noted"),
        (notes_no_previews, "left behind: ['"),
        (forgets_the_order, "is out of its order"),
        (leaves_nobody_alone, "wanted to be left alone"),
        (learns_for_another, "has a fact of"),
        (never_finds_that_a_session_is_over, "kept for ever: sessions"),
        (keeps_what_was_to_be_forgotten, "kept for ever: sessions"),
        (takes_a_press_for_whatever_is_asked, "without a yes of"),
        (takes_a_press_of_anybody, "without a yes of"),
        (names_questions_again_in_each_process, "without a yes of"),
        (takes_a_forward_for_its_senders_words, "and nobody was asked"),
        (asks_once_for_many, "and nobody was asked"),
        (hears_what_was_written_before_it_asked, "without a yes of"),
        (lets_the_time_run, "its time was over after"),
        (leaves_the_buttons, "questions kept their buttons"),
        (takes_old_buttons_for_nothing, "has kept its buttons"),
        (says_nothing_to_a_press, "was told nothing"),
        (leaves_a_reply_untold_that_a_failing_journal_wrote, "kept for ever: messages without a reply"),
        (keeps_permits, "kept for ever: permits"),
        (starts_no_chat_that_is_away, "has no reply"),
        (counts_no_model_calls, "model calls at once, and only"),
        (forgets_what_waited_at_a_stop, "has no reply"),
        (drops_without_a_word, "nobody was told how many"),
        (runs_the_last_first, "begins behind a later one"),
    ],
)
def test_a_planted_fault_is_found(plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find(plant, complaint, SEEDS, monkeypatch)


@pytest.mark.parametrize(
    ("plant", "complaint", "theme"),
    [
        (looks_for_no_wake_up_that_was_lost, "has no reply", "storm"),
        (passes_messages_that_it_has_not_judged, "has no reply", "storm"),
        (judges_again_what_it_has_read, "replied to twice", "storm"),
        (starts_one_chat_at_a_time, "for something of others", "stuck"),
        (takes_one_box_at_a_time, "for something of others", "stuck"),
        (works_for_one_chat_at_a_time, "for something of others", "stuck"),
        (sends_to_one_chat_at_a_time, "for something of others", "stuck"),
        (lets_one_call_a_model_at_a_time, "for something of others", "stuck"),
        (trusts_the_preview_of_an_earlier_sender, "is nowhere in the chat", "late"),
        (leads_no_new_number_to_its_chat, "a group that moved has another chat", "move"),
        (stores_no_move, "a group that moved has another chat", "move"),
    ],
)
def test_a_planted_fault_is_found_in_a_history_about_it(
    plant: Plant, complaint: str, theme: Theme, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, complaint, [seed for seed in THEMED if World(seed).theme == theme], monkeypatch)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (stores_a_result_before_its_tasks_end, "brings 2 results"),
        (brings_a_result_twice, "brings 2 results"),
        (forgets_tasks_at_a_restart, "has not ended"),
        (begins_a_new_budget_in_each_process, "of them lost, and says"),
        (stops_no_task, "was stopped, and still looks"),
        (stops_tasks_of_others, "reached the task"),
        (repeats_calls_of_tasks, "and its model was not told"),
    ],
)
def test_a_planted_fault_is_found_in_a_history_with_tasks(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, complaint, [seed for seed in SEEDS if World(seed).tasks], monkeypatch)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (says_that_all_has_ended_before_it_has, "everything was said to be stopped, and the turn"),
        (says_that_all_has_ended_before_it_has, "everything was said to be stopped, and it goes on"),
        (forgets_tasks_when_it_stops_everything, "everything was said to be stopped, and it still looks"),
        (forgets_what_waits_when_it_stops_everything, "has no reply"),
        (forgets_a_turn_that_began_behind_the_order, "everything was said to be stopped, and the turn"),
        (waits_for_what_waits_for_it, "and nothing kept it from that"),
    ],
)
def test_a_planted_fault_is_found_in_a_history_in_which_everything_is_stopped(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, complaint, [seed for seed in THEMED if World(seed).stops], monkeypatch)


def settles_twice(patch: pytest.MonkeyPatch) -> None:
    settle = spending._settle

    def again(transaction: Transaction, key: str, rows: Any) -> bool:
        if settle(transaction, key, rows):
            return True
        for row in rows or ():
            spending._count(transaction, row)
        return False

    patch.setattr(spending, "_settle", again)


def forgets_reservations_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "has_reservations", lambda self: False)


def frees_calls_that_are_cut_off(patch: pytest.MonkeyPatch) -> None:
    later = Budgets.settle_later
    patch.setattr(
        Budgets,
        "settle_later",
        lambda self, account, request: None if request.args[2] is None else later(self, account, request),
    )


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (settles_twice, "model calls were counted, of"),
        (forgets_reservations_at_a_restart, "are still reserved"),
        (frees_calls_that_are_cut_off, "are still reserved"),
    ],
)
def test_a_planted_fault_is_found_in_a_history_with_budgets(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, complaint, [seed for seed in SEEDS if World(seed).budgets], monkeypatch)


def takes_the_speaker_of_the_message_before(patch: pytest.MonkeyPatch) -> None:
    of, spoke = People.of, dict[str, list[Incoming]]()

    def before(self: People, message: Incoming) -> Principal:
        two = spoke.setdefault(message.chat, [])
        if not two or two[-1].id != message.id:
            two[:] = [*two[-1:], message]
        return of(self, two[0])

    patch.setattr(People, "of", before)


def offers_all_tools_to_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(People, "tools", lambda self, message, tools: (tuple(tools), {}))


@pytest.mark.parametrize("plant", [takes_the_speaker_of_the_message_before, offers_all_tools_to_all])
def test_a_planted_fault_is_found_in_a_history_with_a_guest(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, "bash ran for a guest", [seed for seed in SEEDS if World(seed).guests], monkeypatch)


def advances_a_reminder_before_it_stores_its_text(patch: pytest.MonkeyPatch) -> None:
    do = Schedules.do

    async def apart(self: Schedules, firings: tuple[Firing, ...]) -> tuple[Fired, ...]:
        await self.services.journal.ask(
            fire_schedules(tuple(replace(firing, message=None) for firing in firings))
        )
        return await do(
            self, tuple(replace(firing, number=firing.number or int(firing.instant)) for firing in firings)
        )

    patch.setattr(Schedules, "do", apart)


def stores_the_text_of_a_reminder_before_it_advances(patch: pytest.MonkeyPatch) -> None:
    do, numbers = Schedules.do, count(1)

    async def apart(self: Schedules, firings: tuple[Firing, ...]) -> tuple[Fired, ...]:
        done = await do(
            self, tuple(replace(firing, number=firing.number or next(numbers)) for firing in firings)
        )
        await self.services.journal.ask(
            fire_schedules(tuple(replace(firing, message=None) for firing in firings))
        )
        return done

    patch.setattr(Schedules, "do", apart)


def has_a_reminder_come_again_when_it_is_asked_again(patch: pytest.MonkeyPatch) -> None:
    run = Schedules.run
    patch.setattr(Schedules, "run", lambda self, id, owner="", number=0: run(self, id, owner))


def sets_a_reminder_again_when_it_is_asked_again(patch: pytest.MonkeyPatch) -> None:
    stored = add_schedule.do

    def add(transaction: Transaction, new: ScheduleRecord, *args: Any) -> ScheduleRecord | None:
        return stored(transaction, replace(new, message=0), *args)

    patch.setattr(add_schedule, "do", add)


def wakes_no_chat_for_a_reminder(patch: pytest.MonkeyPatch) -> None:
    do = Schedules.do

    async def silently(self: Schedules, firings: tuple[Firing, ...]) -> tuple[Fired, ...]:
        with patch.context() as quiet:
            quiet.setattr(Chats, "wake", lambda self, message: None)
            return await do(self, firings)

    patch.setattr(Schedules, "do", silently)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (advances_a_reminder_before_it_stores_its_text, "is done, and never came"),
        (stores_the_text_of_a_reminder_before_it_advances, "times, and was called"),
        (has_a_reminder_come_again_when_it_is_asked_again, "times, and was called"),
        (sets_a_reminder_again_when_it_is_asked_again, "such reminders"),
        (wakes_no_chat_for_a_reminder, "never settled"),
    ],
)
def test_a_planted_fault_is_found_in_a_history_with_reminders(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, complaint, [seed for seed in SEEDS if World(seed).reminders], monkeypatch)


def forgets_the_taint_of_a_reopened_session(patch: pytest.MonkeyPatch) -> None:
    reopen = ChatSession.reopen

    async def trusting(self: ChatSession, number: int, due: float, reply: FinalReply) -> int | None:
        delivery = await reopen(self, number, due, reply)
        self.tainted = False
        return delivery

    patch.setattr(ChatSession, "reopen", trusting)


def reopens_on_the_disk_only(patch: pytest.MonkeyPatch) -> None:
    async def stored(self: ChatSession, number: int, due: float, reply: FinalReply) -> int | None:
        return await self._journal.ask(reopen_session(self.chat, number, due, reply))

    patch.setattr(ChatSession, "reopen", stored)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (forgets_the_taint_of_a_reopened_session, "has lost its taint"),
        (reopens_on_the_disk_only, "that was reopened"),
    ],
)
def test_a_planted_fault_is_found_in_a_history_with_reopened_sessions(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(plant, complaint, [seed for seed in THEMED if World(seed).reopens], monkeypatch)


def find(plant: Plant, complaint: str, seeds: Sequence[int], patch: pytest.MonkeyPatch) -> None:
    """Play with a fault planted: it must be found."""

    def play_planted(seed: int) -> World:
        with patch.context() as fresh:  # what the fault counts begins anew in each history
            plant(fresh)
            return play(World(seed))

    check_seed("one", f"{plant.__name__}: {complaint}", complaint, seeds, play_planted)
