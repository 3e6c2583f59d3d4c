"""The journal's actor: group commit, order, and what happens when the file cannot be used."""

import time
from pathlib import Path

import pytest
import trio

from actors import ActorCrashed, ActorStopped, ChildSpec, RestartLimitExceeded, Supervisor
from rumi.models.model import Message
from rumi.platform.threads import Threads
from rumi.store.journal.actor import Journal
from rumi.store.journal.history import append_history
from rumi.store.journal.inbox import accept_messages, count_messages, load_chat, open_chats
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, HistoryEntry
from rumi.store.journal.store import JournalError, Store
from rumi.store.journal.transaction import JournalMessage
from tests.store.journal.accepting import accept


def spec(path: Path) -> ChildSpec:  # type: ignore[type-arg]
    return ChildSpec("journal", lambda: Journal(path, Threads(), time.time))


async def test_requests_that_come_together_share_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    real = Store.run

    def counted(self: Store, requests: list[JournalMessage]) -> list[object]:
        commits.append(sum(request.step is accept_messages for request in requests))
        return real(self, requests)

    monkeypatch.setattr(Store, "run", counted)
    root = Supervisor("root")
    journal = root.add(spec(tmp_path / "state.db"))
    async with root.running(), trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(journal.ask, accept("a", "hi"))
    assert sum(commits) == 200
    assert len(commits) < 20


async def test_history_is_stored_in_the_order_of_its_asks(tmp_path: Path) -> None:
    root = Supervisor("root")
    journal = root.add(spec(tmp_path / "state.db"))
    async with root.running():
        session = (await journal.ask(load_chat("a", 1))).session
        for number in range(100):
            await journal.ask(
                append_history("a", session, (HistoryEntry("t1", Message("user", str(number))),))
            )
        record = await journal.ask(load_chat("a", 1000))
    assert [entry.message.content for entry in record.history] == [str(n) for n in range(100)]


async def test_what_was_told_before_the_end_is_on_the_disk(tmp_path: Path) -> None:
    root = Supervisor("root")
    journal = root.add(spec(tmp_path / "state.db"))
    async with root.running():
        await journal.ask(accept("a", "hi"))
        await journal.tell(settle("a", FinalReply((1,), "bye")))  # a tell: nobody waits for it
    store = Store(tmp_path / "state.db")
    assert store.run([open_chats()]) == [()]
    store.close()


async def test_an_error_that_stays_ends_the_program_with_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Supervisor("root")
    journal = root.add(spec(tmp_path / "state.db"))

    def full(self: Store, requests: list[JournalMessage]) -> list[object]:
        raise JournalError("state.db cannot be used: file is not a database.")

    with pytest.raises(RestartLimitExceeded) as raised:
        async with root.running():
            await journal.ask(count_messages())
            monkeypatch.setattr(Store, "run", full)
            while True:
                with pytest.raises((ActorCrashed, ActorStopped, JournalError)):
                    await journal.ask(accept("a", "hi"))
    assert isinstance(raised.value.__cause__, JournalError)
