"""Calls that wait for a yes, and what the buttons below replies say, as `state.db` stores them."""

from rumi.store.journal.forgetting import DeleteChat
from rumi.store.journal.inbox import Accept, OpenMessages
from rumi.store.journal.outbox import Settle, Undelivered
from rumi.store.journal.parked import KeepParked, LoadParked
from rumi.store.journal.records import Button, Incoming, Parked
from rumi.store.journal.store import Store
from tests.store.journal.accepting import accept, do, tg

CALL = 'web_fetch {"url": "http://a.example/"}'
YES = Button("0123456789abcdef", "✅ 1", "/yes 1")


def test_a_call_is_asked_in_the_transaction_of_the_reply_that_asks_it(store: Store) -> None:
    do(store, accept("a", "hi"), KeepParked("a", (Parked(1, CALL, "May I?"), Parked(2, CALL, "May I?"))))
    do(store, Settle("a", (1,), "May I?", asked=(1,), buttons=(YES,)))
    assert do(store, LoadParked("a")) == (Parked(1, CALL, "May I?", asked=True), Parked(2, CALL, "May I?"))
    (reply,) = do(store, Undelivered("a"))  # type: ignore[misc]
    assert reply.buttons == (YES,)
    do(store, KeepParked("a", (Parked(1, CALL, "May I?", "used", asked=True),)))
    assert do(store, LoadParked("a"))[0].state == "used"  # type: ignore[index]
    assert do(store, LoadParked("b")) == ()


def test_a_press_is_what_its_button_says(store: Store) -> None:
    do(store, accept("a", "hi"), accept("b", "hi"), Settle("a", (1,), "May I?", buttons=(YES,)))
    presses = (("a", YES.id), ("b", YES.id), ("a", "fedcba9876543210"))
    batch = [
        Incoming(tg(100 + number), chat, "", answer="It is closed.", button=button)
        for number, (chat, button) in enumerate(presses)
    ]
    said, elsewhere, unknown = do(store, Accept(tuple(batch)))  # type: ignore[misc]
    assert (said.text, said.reply) == ("/yes 1", 0)
    assert elsewhere.reply, "a button counts in its chat only"
    assert unknown.reply
    assert [message.text for message in do(store, OpenMessages("a", 1))] == ["/yes 1"]  # type: ignore[attr-defined]
    assert do(store, Accept((batch[0],))) == (None,), "the same press again is known"


def test_what_waits_goes_with_its_chat(store: Store) -> None:
    do(store, accept("a", "hi"), Settle("a", (1,), "May I?"), KeepParked("a", (Parked(1, CALL, "May I?"),)))
    while do(store, DeleteChat("a")):
        pass
    assert do(store, LoadParked("a")) == ()
