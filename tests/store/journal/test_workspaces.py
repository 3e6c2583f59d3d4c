"""The files of chats in the journal: their owners' fences, deletion, and what is garbage."""

from pathlib import Path

from rumi.store.journal.forgetting import delete_chat, forget_chat
from rumi.store.journal.store import Store
from rumi.store.journal.workspaces import (
    collect_pieces,
    drop_workspace,
    get_pieces,
    keep_workspace,
    load_workspace,
    missing_pieces,
    put_pieces,
)


def do(store: Store, request: object) -> object:
    (reply,) = store.run([request])  # type: ignore[list-item]
    return reply


def count(store: Store, table: str) -> int:
    (found,) = store._db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(found)


def test_a_manifest_is_stored_with_all_its_pieces_or_not_at_all(store: Store) -> None:
    assert do(store, load_workspace("a", 1)) == b""
    assert do(store, missing_pieces("a", ("k1", "k2"))) == ("k1", "k2")
    assert do(store, put_pieces("a", 1, (("k1", b"one"),)))
    assert do(store, keep_workspace("a", 1, b"m1", ("k1", "k2"), 6)) == ("k2",)
    assert do(store, load_workspace("a", 1)) == b""
    assert do(store, put_pieces("a", 1, (("k1", b"one"), ("k2", b"two"))))
    assert do(store, keep_workspace("a", 1, b"m1", ("k1", "k2"), 6)) == ()
    assert do(store, load_workspace("a", 1)) == b"m1"
    assert do(store, get_pieces("a", ("k2", "k3"))) == (("k2", b"two"),)
    assert do(store, get_pieces("b", ("k2",))) == (), "pieces are a chat's own"


def test_an_earlier_owner_writes_nothing_after_a_later_one_has_loaded(store: Store) -> None:
    assert do(store, load_workspace("a", 1)) == b""
    assert do(store, put_pieces("a", 1, (("k1", b"one"),)))
    assert do(store, keep_workspace("a", 1, b"m1", ("k1",), 3)) == ()
    assert do(store, load_workspace("a", 2)) == b"m1"
    assert do(store, put_pieces("a", 1, (("k2", b"late"),))) is False
    assert do(store, keep_workspace("a", 1, b"late", (), 0)) is None
    assert do(store, collect_pieces("a", 1)) is False
    assert do(store, load_workspace("a", 1)) is None
    assert do(store, load_workspace("a", 2)) == b"m1"
    assert do(store, put_pieces("never loaded", 9, (("k", b"x"),))) is False


def test_garbage_is_what_the_manifest_does_not_have_and_goes_in_slices(store: Store) -> None:
    keys = tuple(f"k{number:03}" for number in range(100))
    do(store, load_workspace("a", 1))
    assert do(store, put_pieces("a", 1, tuple((key, key.encode()) for key in keys)))
    assert do(store, keep_workspace("a", 1, b"m1", keys, 400)) == ()
    assert do(store, collect_pieces("a", 1)) is False
    assert count(store, "pieces") == 100
    assert do(store, keep_workspace("a", 1, b"m2", keys[:3], 12)) == ()
    rounds = 1
    while do(store, collect_pieces("a", 1)):
        rounds += 1
    assert (rounds, count(store, "pieces")) == (4, 3)
    assert do(store, missing_pieces("a", keys[:3])) == ()


def test_a_deleted_chat_has_no_files_in_the_store(store: Store) -> None:
    for chat in ("a", "b"):
        do(store, load_workspace(chat, 1))
        assert do(store, put_pieces(chat, 1, tuple((f"k{n}", b"x") for n in range(50))))
        assert do(store, keep_workspace(chat, 1, b"m", tuple(f"k{n}" for n in range(50)), 50)) == ()
    while do(store, delete_chat("a")):
        pass
    assert (count(store, "pieces"), count(store, "workspaces")) == (50, 1)
    assert do(store, put_pieces("a", 1, (("k", b"late"),))) is False, "its owner does not bring it back"
    while do(store, drop_workspace("b")):
        pass
    assert (count(store, "pieces"), count(store, "workspaces")) == (0, 0)


def test_a_chat_that_goes_on_has_none_of_its_files_in_the_store_when_it_is_forgotten(store: Store) -> None:
    do(store, load_workspace("a", 3))
    assert do(store, put_pieces("a", 3, (("k", b"x"),)))
    assert do(store, keep_workspace("a", 3, b"m", ("k",), 1)) == ()
    while do(store, forget_chat("a", 10)):
        pass
    assert count(store, "pieces") == 0
    assert do(store, load_workspace("a", 3)) == b""
    assert do(store, put_pieces("a", 3, (("k", b"x"),))), "and its owner stays"


def test_what_is_stored_is_there_after_the_file_was_opened_again(tmp_path: Path) -> None:
    first = Store(tmp_path / "other.db")
    do(first, load_workspace("a", 1))
    do(first, put_pieces("a", 1, (("k", bytes(range(256))),)))
    do(first, keep_workspace("a", 1, b"\0m", ("k",), 256))
    first.close()
    second = Store(tmp_path / "other.db")
    assert do(second, load_workspace("a", 2)) == b"\0m"
    assert do(second, get_pieces("a", ("k",))) == (("k", bytes(range(256))),)
    second.close()
