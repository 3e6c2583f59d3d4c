"""Effects at other services and positions in mailboxes, on SQLite and on PostgreSQL."""

import pytest

from rumi.store.journal.effects import (
    Effect,
    EffectState,
    mark_effect,
    read_effect,
    reserve_effect,
)
from rumi.store.journal.forgetting import delete_chat
from rumi.store.journal.mail_positions import (
    MailPosition,
    mail_position,
    move_mail_position,
)
from tests.store.journal.accepting import do
from tests.store.journal.conftest import Opening

NOW = 1_790_000_000.0
SENT = ("cli", "t1", "k1", "mail", "to ana@example.org")


@pytest.mark.parametrize(
    ("state", "may_be_done"), [("reserved", True), ("handed_over", False), ("done", False), ("failed", True)]
)
def test_a_later_process_knows_how_far_an_effect_came(
    opening: Opening, state: EffectState, may_be_done: bool
) -> None:
    store = opening(lambda: NOW)
    assert do(store, read_effect("t1", "k1")) is None
    assert do(store, reserve_effect(*SENT)) is None
    if state != "reserved":
        do(store, mark_effect("cli", "t1", "k1", state, "250 ok"))
    later = opening(lambda: NOW + 9)
    note = "" if state == "reserved" else "250 ok"
    stored = Effect("t1", "k1", "mail", "to ana@example.org", state, note, NOW)
    assert do(later, read_effect("t1", "k1")) == stored
    assert do(later, reserve_effect(*SENT)) == (None if may_be_done else stored)


def test_the_same_thing_is_done_again_in_another_turn_and_is_deleted_with_its_chat(opening: Opening) -> None:
    store = opening(lambda: NOW)
    do(store, reserve_effect(*SENT))
    do(store, mark_effect("cli", "t1", "k1", "done"))
    assert do(store, reserve_effect("cli", "t2", "k1", "mail", "to ana@example.org")) is None
    while do(store, delete_chat("cli")):
        pass
    assert do(store, read_effect("t1", "k1")) is None
    assert do(store, read_effect("t2", "k1")) is None


def test_a_position_moves_forward_until_the_server_numbers_its_mails_anew(opening: Opening) -> None:
    store = opening(lambda: NOW)
    account = "ana@imap.example.org"
    assert do(store, mail_position(account, "INBOX")) is None
    do(store, move_mail_position(account, "INBOX", MailPosition(7, 20)))
    do(store, move_mail_position(account, "INBOX", MailPosition(7, 19)))
    assert do(store, mail_position(account, "INBOX")) == MailPosition(7, 20)
    do(store, move_mail_position(account, "INBOX", MailPosition(8, 3)))
    assert do(opening(lambda: NOW), mail_position(account, "INBOX")) == MailPosition(8, 3)
