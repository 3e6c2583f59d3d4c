"""Calls that wait for a yes, and what the buttons below replies say, as `state.db` stores them."""

from rumi.store.journal.forgetting import delete_chat
from rumi.store.journal.inbox import accept_messages, open_messages
from rumi.store.journal.outbox import settle, undelivered_replies
from rumi.store.journal.parked import keep_parked, load_parked
from rumi.store.journal.records import Button, FinalReply, Incoming, Parked
from rumi.store.journal.store import Store
from tests.store.journal.accepting import accept, do, tg

CALL = 'web_fetch {"url": "http://a.example/"}'
YES = Button("0123456789abcdef", "✅ 1", "/yes 1")


def test_a_call_is_asked_in_the_transaction_of_the_reply_that_asks_it(store: Store) -> None:
    do(store, accept("a", "hi"), keep_parked("a", (Parked(1, CALL, "May I?"), Parked(2, CALL, "May I?"))))
    do(store, settle("a", FinalReply((1,), "May I?", asked=(1,), buttons=(YES,))))
    assert do(store, load_parked("a")) == (Parked(1, CALL, "May I?", asked=True), Parked(2, CALL, "May I?"))
    (reply,) = do(store, undelivered_replies("a"))  # type: ignore[misc]
    assert reply.buttons == (YES,)
    do(store, keep_parked("a", (Parked(1, CALL, "May I?", "used", asked=True),)))
    assert do(store, load_parked("a"))[0].state == "used"  # type: ignore[index]
    assert do(store, load_parked("b")) == ()


def test_a_press_is_what_its_button_says(store: Store) -> None:
    do(store, accept("a", "hi"), accept("b", "hi"), settle("a", FinalReply((1,), "May I?", buttons=(YES,))))
    presses = (("a", YES.id), ("b", YES.id), ("a", "fedcba9876543210"))
    batch = [
        Incoming(tg(100 + number), chat, "", answer="It is closed.", button=button)
        for number, (chat, button) in enumerate(presses)
    ]
    said, elsewhere, unknown = do(store, accept_messages(tuple(batch)))  # type: ignore[misc]
    assert (said.text, said.reply) == ("/yes 1", 0)
    assert elsewhere.reply, "a button counts in its chat only"
    assert unknown.reply
    assert [message.text for message in do(store, open_messages("a", 1))] == ["/yes 1"]  # type: ignore[attr-defined]
    assert do(store, accept_messages((batch[0],))) == (None,), "the same press again is known"


def test_what_waits_goes_with_its_chat(store: Store) -> None:
    do(
        store,
        accept("a", "hi"),
        settle("a", FinalReply((1,), "May I?")),
        keep_parked("a", (Parked(1, CALL, "May I?"),)),
    )
    while do(store, delete_chat("a")):
        pass
    assert do(store, load_parked("a")) == ()
