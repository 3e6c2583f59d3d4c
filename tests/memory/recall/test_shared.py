"""The index of a worker: it follows a database that others write, in any order, and that may be away."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from actors import ActorRef, ChildSpec, Supervisor
from rumi.memory.recall.actor import Recall, asking
from rumi.memory.recall.following import catch_up, prune_passages
from rumi.memory.recall.messages import RecallUnavailable
from rumi.memory.recall.search import count_passages, search_passages
from rumi.memory.recall.state import cursor
from rumi.memory.recall.store import RecallStore
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.threads import Offload, Threads
from rumi.store.backend import PostgresServer
from rumi.store.journal.forgetting import delete_chat
from rumi.store.ownership import partition_of
from rumi.store.postgres import Postgres, server_of
from rumi.store.steps import Run
from tests.memory.recall.states import State
from tests.postgres import Server

T = TypeVar("T")
_turns = count(1)


def opened(path: Path, url: str, most: int = 2_000_000) -> RecallStore:
    return RecallStore(path / "recall.db", PostgresServer(url), lambda: 1_790_000_000.0, most)


def caught_up(store: RecallStore) -> RecallStore:
    while store.do(catch_up(BUILT_IN)):
        pass
    return store


def find(store: RecallStore, query: str, owner: str = "local") -> list[str]:
    return [passage.said for passage in caught_up(store).do(search_passages(owner, query, tokens=8000))]


def prune(store: RecallStore) -> None:
    cursor: int | None = 0
    while cursor is not None:
        cursor = store.do(prune_passages(cursor))


class Writer:
    """A worker's connection, which writes as the journal does: it locks its chat's partition first."""

    def __init__(self, url: str, chat: str) -> None:
        self.db = Postgres(server_of(url))
        self.chat = chat

    def write(self, said: str) -> None:
        self.db.execute("BEGIN")
        partition = (partition_of(self.chat),)
        self.db.execute("SELECT worker FROM partitions WHERE number = ? FOR UPDATE", partition).fetchone()
        self.db.execute(
            "INSERT INTO history (chat, session, turn, message, tainted, created)"
            " VALUES (?, 1, ?, ?, FALSE, 1.0)",
            (
                self.chat,
                f"t{next(_turns)}",
                f'{{"role":"user","content":"{said}","tool_calls":[],"tool_call_id":null}}',
            ),
        )

    def end(self, how: str = "COMMIT") -> None:
        self.db.execute(how)


@contextmanager
def writers(url: str, *chats: str) -> Iterator[list[Writer]]:
    made = [Writer(url, chat) for chat in chats]
    try:
        yield made
    finally:
        for store in made:
            store.db.close()


@contextmanager
def away(postgres: Server, url: str) -> Iterator[None]:
    """End all connections to a database, and let nobody connect."""
    name = url.rpartition("/")[2]
    postgres.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    yield
    postgres.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_an_entry_that_is_committed_after_a_later_one_is_found(tmp_path: Path, url: str) -> None:
    store = opened(tmp_path, url)
    with writers(url, "a", "b") as (slow, quick):
        slow.write("the slow walrus")
        quick.write("the quick walrus")
        quick.end()
        assert find(store, "walrus") == ["the quick walrus"]
        assert find(store, "walrus") == ["the quick walrus"]
        slow.end()
        assert sorted(find(store, "walrus")) == ["the quick walrus", "the slow walrus"]
    caught_up(store)
    assert cursor(store._db, "history") == 2  # nothing is looked at again once nothing can appear before it
    store.close()


@pytest.mark.parametrize("seed", range(3))
def test_in_whatever_order_transactions_end_all_is_found_once(tmp_path: Path, url: str, seed: int) -> None:
    chance, number, store = random.Random(seed), 0, opened(tmp_path, url)
    committed: list[str] = []
    with writers(url, "a", "b", "c", "d", "e") as all_of_them:
        saying: dict[Writer, str] = {}
        for _ in range(60):
            writer = chance.choice(all_of_them)
            if writer not in saying:
                number += 1
                writer.write(f"walrus {number}")
                saying[writer] = f"walrus {number}"
            elif chance.random() < 0.8:
                writer.end()
                committed.append(saying.pop(writer))
            else:
                writer.end("ROLLBACK")
                del saying[writer]
            if chance.random() < 0.5:
                caught_up(store)
        for writer in saying:
            writer.end()
    caught_up(store)
    rows = store._state.read("SELECT turn FROM history").fetchall()
    assert len(rows) == len(committed) + len(saying)
    assert store._db.execute("SELECT turn FROM passages ORDER BY turn").fetchall() == sorted(rows)
    for _ in range(3):
        caught_up(store)
    (newest,) = store._state.read("SELECT max(id) FROM history").fetchone()
    assert cursor(store._db, "history.settled") == newest
    store.close()


def test_a_backlog_is_indexed_once_while_another_transaction_ends(tmp_path: Path, url: str) -> None:
    state, store = State(tmp_path, url), opened(tmp_path, url)
    with writers(url, "b") as (slow,):
        slow.write("the slow walrus")
        for number in range(250):
            state.add_turn("a", f"walrus {number}", "ok")
        assert store.do(catch_up(BUILT_IN))
        slow.end()
        caught_up(store)
    for _ in range(2):
        caught_up(store)
    assert store.do(count_passages()) == 251
    assert cursor(store._db, "history") == cursor(store._db, "history.settled") == 501
    store.close()
    state.store.close()


def test_what_one_worker_deletes_no_other_shows_and_its_words_leave_their_indexes(
    tmp_path: Path, url: str
) -> None:
    state, store = State(tmp_path, url), opened(tmp_path, url)
    state.add_turn("a", "the hippopotamus swims", "ok")
    state.add_turn("b", "a rhinoceros runs", "ok")
    assert find(store, "hippopotamus rhinoceros") != []
    while state.store.run([delete_chat("a")])[0]:
        pass
    assert store.do(search_passages("local", "hippopotamus")) == ()  # before its index has looked at anything
    prune(store)
    store.close()
    files = b"".join(file.read_bytes() for file in tmp_path.glob("recall.db*"))
    assert b"hippopotam" not in files
    assert b"rhinocero" in files
    state.store.close()


def test_the_end_of_a_task_by_a_clock_that_is_behind_is_found(tmp_path: Path, url: str) -> None:
    state, store = State(tmp_path, url), opened(tmp_path, url)
    for ended, question in ((5000.0, "ibex"), (5000.0 - 3000, "oryx")):
        state.store._db.execute(
            "INSERT INTO tasks (kind, owner, chat, attached, question, options, language, model, state,"
            " answer, created, ended)"
            " VALUES ('web', 'local', '', TRUE, ?, '{}', 'en', '', 'done', 'x', 1.0, ?)",
            (question, ended),
        )
        assert find(store, question) == [question]
    assert store.do(count_passages()) == 2
    store.close()
    state.store.close()


def test_the_latest_entries_are_followed_and_older_ones_leave(tmp_path: Path, url: str) -> None:
    state = State(tmp_path, url)
    for number in range(10):
        state.add_turn("a", f"walrus {number}", "ok")
    store = opened(tmp_path, url, most=6)
    assert sorted(find(store, "walrus")) == ["walrus 7", "walrus 8", "walrus 9"]
    state.add_turn("a", "walrus 10", "ok")
    caught_up(store)
    prune(store)
    assert sorted(find(store, "walrus")) == ["walrus 10", "walrus 8", "walrus 9"]
    store.close()
    state.store.close()


def test_an_index_of_another_database_or_of_a_file_is_made_again(
    tmp_path: Path, url: str, postgres: Server, empty_database: str
) -> None:
    other = postgres.copy_of(empty_database)
    here, there, in_a_file = State(tmp_path, url), State(tmp_path, other), State(tmp_path / "state.db")
    here.add_turn("a", "the walrus here", "ok")
    for number in range(3):
        there.add_turn("a", f"the walrus there, {number}", "ok")
        in_a_file.add_turn("a", f"the walrus in a file, {number}", "ok")
    places: list[tuple[PostgresServer | Path, int, str]] = [
        (PostgresServer(other), 3, "there"),
        (PostgresServer(url), 1, "here"),
        (tmp_path / "state.db", 3, "file"),
        (PostgresServer(url), 1, "here"),
    ]
    for place, number, word in places:
        store = RecallStore(tmp_path / "recall.db", place)
        found = find(store, "walrus")
        assert (len(found), all(word in said for said in found)) == (number, True)
        store.close()
    for reader in (here, there, in_a_file):
        reader.store.close()
    postgres.drop(other)


def test_a_search_says_that_the_database_is_away_and_the_next_one_finds_again(
    tmp_path: Path, url: str, postgres: Server
) -> None:
    state, store = State(tmp_path, url), opened(tmp_path, url)
    state.add_turn("a", "the walrus", "ok")
    assert find(store, "walrus") == ["the walrus"]
    with away(postgres, url):
        with pytest.raises(RecallUnavailable, match="does not answer"):
            store.do(search_passages("local", "walrus"))
        assert store.closed
        with pytest.raises(RecallUnavailable, match="does not answer"):
            opened(tmp_path, url)
    store = opened(tmp_path, url)
    assert store.do(count_passages()) == 1  # nothing was lost
    assert find(store, "walrus") == ["the walrus"]
    store.close()
    state.store.close()


def recall_of(
    root: Supervisor, path: Path, url: str, offload: Offload, shutdown_s: float = 5.0
) -> ActorRef[Run[Any]]:
    def make() -> Recall:
        return Recall(path / "recall.db", PostgresServer(url), BUILT_IN, offload, lambda: 1_790_000_000.0)

    return root.add(ChildSpec("recall", make, shutdown=shutdown_s))


async def test_the_actor_goes_on_when_the_database_is_back(
    tmp_path: Path, url: str, postgres: Server
) -> None:
    state = State(tmp_path, url)
    state.add_turn("a", "the walrus", "ok")
    root = Supervisor("root")
    ask = asking(recall_of(root, tmp_path, url, Threads()))

    async def found() -> list[str]:
        return [passage.said for passage in await ask(search_passages("local", "walrus"))]

    async with root.running():
        assert await found() == ["the walrus"]
        with away(postgres, url), pytest.raises(RecallUnavailable, match="does not answer"):
            await found()
        assert await found() == ["the walrus"]
    state.store.close()


class Noted(Threads):
    """Notes what work raises."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    async def __call__(self, work: Callable[[], T]) -> T:
        def noted() -> T:
            try:
                return work()
            except RecallUnavailable as error:
                self.errors.append(error.message)
                raise

        return await super().__call__(noted)


async def test_at_its_end_the_actor_waits_for_no_answer_of_the_database(tmp_path: Path, url: str) -> None:
    root, noted = Supervisor("root"), Noted()
    recall = recall_of(root, tmp_path, url, noted, shutdown_s=0.1)

    async def search() -> None:
        with pytest.raises(RecallUnavailable):
            await asking(recall)(search_passages("local", "walrus"))

    with writers(url, "a") as (other,):
        async with trio.open_nursery() as nursery, root.running():
            await asking(recall)(count_passages())
            other.db.execute("BEGIN")
            other.db.execute("LOCK TABLE history IN ACCESS EXCLUSIVE MODE")
            nursery.start_soon(search)
            while not other.db.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():  # noqa: ASYNC110
                await trio.sleep(0.01)  # until its thread waits for the lock
    assert "does not answer" in noted.errors[-1]  # it was cut: it did not give up by a time limit
