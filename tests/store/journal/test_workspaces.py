"""The files of chats in the journal: their owners' fences, deletion, and what is garbage."""

from pathlib import Path

from rumi.store.journal.forgetting import DeleteChat, ForgetChat
from rumi.store.journal.store import Store
from rumi.store.journal.workspaces import (
    CollectPieces,
    DropWorkspace,
    GetPieces,
    KeepWorkspace,
    LoadWorkspace,
    MissingPieces,
    PutPieces,
)


def do(store: Store, request: object) -> object:
    (reply,) = store.run([request])  # type: ignore[list-item]
    return reply


def count(store: Store, table: str) -> int:
    (found,) = store._db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(found)


def test_a_manifest_is_stored_with_all_its_pieces_or_not_at_all(store: Store) -> None:
    assert do(store, LoadWorkspace("a", 1)) == b""
    assert do(store, MissingPieces("a", ("k1", "k2"))) == ("k1", "k2")
    assert do(store, PutPieces("a", 1, (("k1", b"one"),)))
    assert do(store, KeepWorkspace("a", 1, b"m1", ("k1", "k2"), 6)) == ("k2",)
    assert do(store, LoadWorkspace("a", 1)) == b""
    assert do(store, PutPieces("a", 1, (("k1", b"one"), ("k2", b"two"))))
    assert do(store, KeepWorkspace("a", 1, b"m1", ("k1", "k2"), 6)) == ()
    assert do(store, LoadWorkspace("a", 1)) == b"m1"
    assert do(store, GetPieces("a", ("k2", "k3"))) == (("k2", b"two"),)
    assert do(store, GetPieces("b", ("k2",))) == (), "pieces are a chat's own"


def test_an_earlier_owner_writes_nothing_after_a_later_one_has_loaded(store: Store) -> None:
    assert do(store, LoadWorkspace("a", 1)) == b""
    assert do(store, PutPieces("a", 1, (("k1", b"one"),)))
    assert do(store, KeepWorkspace("a", 1, b"m1", ("k1",), 3)) == ()
    assert do(store, LoadWorkspace("a", 2)) == b"m1"
    assert do(store, PutPieces("a", 1, (("k2", b"late"),))) is False
    assert do(store, KeepWorkspace("a", 1, b"late", (), 0)) is None
    assert do(store, CollectPieces("a", 1)) is False
    assert do(store, LoadWorkspace("a", 1)) is None
    assert do(store, LoadWorkspace("a", 2)) == b"m1"
    assert do(store, PutPieces("never loaded", 9, (("k", b"x"),))) is False


def test_garbage_is_what_the_manifest_does_not_have_and_goes_in_slices(store: Store) -> None:
    keys = tuple(f"k{number:03}" for number in range(100))
    do(store, LoadWorkspace("a", 1))
    assert do(store, PutPieces("a", 1, tuple((key, key.encode()) for key in keys)))
    assert do(store, KeepWorkspace("a", 1, b"m1", keys, 400)) == ()
    assert do(store, CollectPieces("a", 1)) is False
    assert count(store, "pieces") == 100
    assert do(store, KeepWorkspace("a", 1, b"m2", keys[:3], 12)) == ()
    rounds = 1
    while do(store, CollectPieces("a", 1)):
        rounds += 1
    assert (rounds, count(store, "pieces")) == (4, 3)
    assert do(store, MissingPieces("a", keys[:3])) == ()


def test_a_deleted_chat_has_no_files_in_the_store(store: Store) -> None:
    for chat in ("a", "b"):
        do(store, LoadWorkspace(chat, 1))
        assert do(store, PutPieces(chat, 1, tuple((f"k{n}", b"x") for n in range(50))))
        assert do(store, KeepWorkspace(chat, 1, b"m", tuple(f"k{n}" for n in range(50)), 50)) == ()
    while do(store, DeleteChat("a")):
        pass
    assert (count(store, "pieces"), count(store, "workspaces")) == (50, 1)
    assert do(store, PutPieces("a", 1, (("k", b"late"),))) is False, "its owner does not bring it back"
    while do(store, DropWorkspace("b")):
        pass
    assert (count(store, "pieces"), count(store, "workspaces")) == (0, 0)


def test_a_chat_that_goes_on_has_none_of_its_files_in_the_store_when_it_is_forgotten(store: Store) -> None:
    do(store, LoadWorkspace("a", 3))
    assert do(store, PutPieces("a", 3, (("k", b"x"),)))
    assert do(store, KeepWorkspace("a", 3, b"m", ("k",), 1)) == ()
    while do(store, ForgetChat("a", 10)):
        pass
    assert count(store, "pieces") == 0
    assert do(store, LoadWorkspace("a", 3)) == b""
    assert do(store, PutPieces("a", 3, (("k", b"x"),))), "and its owner stays"


def test_what_is_stored_is_there_after_the_file_was_opened_again(tmp_path: Path) -> None:
    first = Store(tmp_path / "other.db")
    do(first, LoadWorkspace("a", 1))
    do(first, PutPieces("a", 1, (("k", bytes(range(256))),)))
    do(first, KeepWorkspace("a", 1, b"\0m", ("k",), 256))
    first.close()
    second = Store(tmp_path / "other.db")
    assert do(second, LoadWorkspace("a", 2)) == b"\0m"
    assert do(second, GetPieces("a", ("k",))) == (("k", bytes(range(256))),)
    second.close()
