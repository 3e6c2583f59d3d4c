"""What waits for a person's yes in all chats and sessions of bots, in both databases."""

from typing import Any

from rumi.platform.chat_ids import task_key
from rumi.store.journal.approvals import bot_messages, waiting_calls
from rumi.store.journal.parked import keep_parked
from rumi.store.journal.records import Button, IterationRecord, Parked, TaskRecord
from rumi.store.journal.store import Store
from rumi.store.journal.tasks import add_task, end_iteration, end_task, say_to_task
from tests.store.journal.accepting import do

NAMED = Button("0123456789abcdef", "blue", "/bot tidy blue")


def test_asked_calls_and_questions_of_open_sessions_wait_until_they_are_answered(store: Store) -> None:
    asked, unasked = Parked(1, "x {}", "May I?", asked=True), Parked(2, "y {}", "And this?")
    do(store, keep_parked("cli", (asked, unasked, Parked(3, "z {}", "No?", "refused", asked=True))))
    task: Any = do(store, add_task(TaskRecord("bot", "local", "tidy up", chat="cli", bot="tidy")))
    key = task_key(task.id)
    do(store, keep_parked(key, (Parked(1, "propose_plan {}", "A plan?"),)))
    assert [(one.chat, one.parked, one.bot) for one in found(store)] == [("cli", asked, "")]
    done = IterationRecord(1, "complete", "looked")
    do(store, end_iteration(task.id, done, 1e12, "❓ Which colour?", (NAMED,), (1,)))
    plan = found(store)[-1]
    assert (plan.chat, plan.owner, plan.bot, plan.session, plan.parked.number) == (
        "cli", "local", "tidy", task.id, 1,
    )  # fmt: skip
    messages: Any = do(store, bot_messages())
    assert [(one.bot, one.text, one.buttons) for one in messages] == [("tidy", "❓ Which colour?", (NAMED,))]
    do(store, say_to_task(task.id, "blue"))
    assert do(store, bot_messages()) == ()
    do(store, end_task(task.id, "stopped", "It was stopped."))
    assert [one.chat for one in found(store)] == ["cli"], "nothing waits of a session that has ended"


def found(store: Store) -> Any:
    return do(store, waiting_calls())
