"""Random histories of chats in a faulty world: whatever happens, every message has one final reply.

A history is drawn from a seed and runs in virtual time with a scheduler of the same seed, so a seed that
fails replays: `HISTORIES_FROM=SEED HISTORIES=1 pytest tests/chats/test_histories.py`.
"""

import os
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import trio

from actors import ActorError, RestartLimitExceeded
from rumi.agent import Limits
from rumi.chats import chat as chat_module
from rumi.chats.commands import parse_chat_command
from rumi.errors import RumiError
from rumi.journal import JournalError
from rumi.texts import busy
from tests.chats.chaos import BEHAVIOURS, CHATS, ChaosBoxes, ChaosModel, Disk, Fault, Witness, World
from tests.chats.house import House, house
from tests.fakes.virtual_time import run

HISTORIES = int(os.environ.get("HISTORIES", "100"))
FROM = int(os.environ.get("HISTORIES_FROM", "0"))

COMMANDS = (
    "/stop",
    "/stop",
    "/stop",
    "/reset",
    "/reset files",
    "/retry",
    "/retry",
    "/status",
    "/help",
    "/what",
)
PAUSES_S = (0, 0, 0, 0.001, 0.02, 0.5, 3, 30, 400, 4000)
SETTLED_WITHIN_S = 3000.0


class Killed(Exception):
    """The process is no more."""


class History:
    """One world's course: some processes after each other, on one home."""

    def __init__(self, seed: int, home: Path) -> None:
        self.home = home
        self.world = World(seed)
        self.random = self.world.random
        self.boxes = ChaosBoxes(self.world)
        self.witness = Witness(self.world, lambda: self.boxes)
        self.accepted: set[int] = set()
        self.numbered = 0

    async def run(self) -> None:
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            await self.process(ends=self.random.choice(("killed", "stopped", "settled")))
        await self.process(ends="settled")
        self.world.calm = True
        await self.process(ends="settled", quietly=True)
        self.check_journal()

    async def process(self, *, ends: str, quietly: bool = False) -> None:
        self.world.dead = False
        self.boxes = ChaosBoxes(self.world)
        self.witness.new_process()
        try:
            async with trio.open_nursery() as around:
                around.cancel_scope.deadline = trio.current_time() + 100_000
                async with house(
                    self.home,
                    limits=Limits(timeout_s=60),
                    session_ttl_s=600,
                    now=self.world.now,
                    sandboxes=self.boxes,
                    offload=Disk(self.world),
                    model_for=lambda chat, language: ChaosModel(self.world, chat),
                ) as home:
                    around.start_soon(self.watch, home)
                    await self.live(home, ends, quietly)
                    if ends == "killed":
                        self.world.dead = True
                        raise Killed
                around.cancel_scope.cancel()
            if around.cancel_scope.deadline < trio.current_time():
                self.world.wrong.append("a process never ended")
            if self.boxes.live and not self.world.wrong:
                self.world.wrong.append(f"sandboxes left behind: {self.boxes.live}")
        except* (
            Killed,
            RestartLimitExceeded,
            ActorError,
            JournalError,
        ):  # the disk may fail while everything starts
            self.world.dead = True

    async def live(self, home: House, ends: str, quietly: bool) -> None:
        if not quietly:
            with trio.CancelScope() as lifetime:
                if ends != "settled":
                    lifetime.deadline = trio.current_time() + self.random.choice((0.02, 0.6, 5, 100))
                async with trio.open_nursery() as users:
                    for chat in CHATS:
                        users.start_soon(self.user, home, chat)
        if ends == "settled":
            calm, self.world.calm = self.world.calm, True
            await self.settled(home)
            self.world.calm = calm

    async def settled(self, home: House) -> None:
        """Everything is replied to, everything told, and nothing is kept of it."""
        with trio.move_on_after(SETTLED_WITHIN_S) as bound:
            while self.witness.untold or home.means.in_hand.arriving or await home.open_chats():
                with trio.move_on_after(1):
                    await self.witness.changed.wait()
        if bound.cancelled_caught:
            chats = await home.open_chats()
            self.world.wrong.append(f"never replied to: {sorted(self.witness.untold)}, open in {chats}")
            return
        await trio.sleep(2000)
        in_hand = home.means.in_hand
        if in_hand.arriving or in_hand.queued or in_hand.untold:
            self.world.wrong.append(f"kept for ever: {in_hand}")
        alive = {chat for chat in CHATS if home.inbox.lookup(chat) is not None}
        if not set(self.boxes.live) <= alive:
            self.world.wrong.append(f"sandboxes {set(self.boxes.live)} and only chats {alive}")
        if self.world.model_calls.total() or any(self.boxes.running.values()):
            self.world.wrong.append("something still runs")

    async def watch(self, home: House) -> None:
        with home.means.hub.listening() as events:
            while True:
                event = await events.receive()
                if self.world.dead:
                    return
                self.witness.see(event)

    # What people do

    async def user(self, home: House, chat: str) -> None:
        mine: set[int] = set()
        for _ in range(self.random.randrange(8)):
            await trio.sleep(self.random.choice(PAUSES_S))
            match self.random.choice(("say", "say", "say", "command", "command", "burst", "leave", "polite")):
                case "say":
                    await self.send(home, chat, mine, self.words(chat))
                case "command":
                    await self.send(home, chat, mine, self.random.choice(COMMANDS))
                case "burst":
                    async with trio.open_nursery() as nursery:
                        for _ in range(self.random.choice((3, 10, 100))):
                            anything = self.random.choice((self.words(chat), *COMMANDS))
                            nursery.start_soon(self.send, home, chat, mine, anything)
                case "leave":
                    with trio.move_on_after(self.random.choice((0, 0.0005, 0.01, 0.3))):
                        await self.send(home, chat, mine, self.random.choice((self.words(chat), *COMMANDS)))
                    await trio.sleep(5)  # what was stored all the same is delivered by now
                case "polite":
                    await self.send_when_quiet(home, chat, mine)

    def words(self, chat: str) -> str:
        self.numbered += 1
        return f"{chat}:{self.numbered} {self.random.choice((*BEHAVIOURS, 'judge'))}"

    async def send(self, home: House, chat: str, mine: set[int], text: str) -> int | None:
        try:
            number = await home.inbox.accept(chat, text)
        except RumiError:
            return None
        if number in self.accepted:
            self.world.wrong.append(f"{number} was used twice")
        self.accepted.add(number)
        mine.add(number)
        if number not in self.witness.told:
            self.witness.untold.add(number)
        return number

    async def send_when_quiet(self, home: House, chat: str, mine: set[int]) -> None:
        """Answer at once to the last reply: nobody is busy then."""
        while not self.witness.told.keys() >= mine or chat in self.witness.turn_now:
            await self.witness.changed.wait()
        if chat in await home.open_chats():
            return  # something that another process, or a message without a sender, still works on
        number = await self.send(home, chat, mine, self.words(chat))
        if number is None:
            return
        while number not in self.witness.told:
            await self.witness.changed.wait()
        if self.witness.told[number].text == busy("en"):
            self.world.wrong.append(f"{chat}: {number} was wrongly told that the chat is busy")

    def check_journal(self) -> None:
        rows = (
            sqlite3.connect(self.home / "state.db")
            .execute("SELECT id, chat, text, turn, reason, reply FROM messages")
            .fetchall()
        )
        stored = {row[0] for row in rows}
        wrong = self.world.wrong
        if not self.accepted <= stored:
            wrong.append(f"accepted and not stored: {self.accepted - stored}")
        turns = Counter(row[3] for row in rows if row[3])
        for number, chat, text, turn, reason, reply in rows:
            if reply is None:
                wrong.append(f"{chat}: {number} {text!r} has no reply")
            if turn and (reason is None or turns[turn] > 1):
                wrong.append(f"{chat}: {number} has the turn {turn} and the reason {reason}")
            if reason and text.startswith("/"):
                wrong.append(f"{chat}: {number} {text!r} could be retried")
        self.check_retries()
        replies = sqlite3.connect(self.home / "state.db").execute(
            "SELECT id FROM outbox WHERE id NOT IN (SELECT reply FROM messages WHERE reply IS NOT NULL)"
        )
        if extra := replies.fetchall():
            wrong.append(f"replies to nothing: {extra}")

    def check_retries(self) -> None:
        """What was run again is the last turn of the session that had not completed by then."""
        database = sqlite3.connect(self.home / "state.db")
        first = dict(database.execute("SELECT turn, min(id) FROM history GROUP BY turn").fetchall())
        turns = database.execute(
            "SELECT id, chat, session, turn, reason, retried FROM messages WHERE turn IS NOT NULL"
        ).fetchall()
        turn_of = {row[0]: row[3] for row in turns}
        for old, chat, session, turn, _, retry in turns:
            began = first.get(turn_of.get(retry, ""))
            if began is None or turn not in first:
                continue
            for other, where, when, between, reason, retried in turns:
                if (where, when) != (chat, session) or reason == "complete" or other <= old:
                    continue
                if first.get(between, began) < began and (retried is None or retried > retry):
                    self.world.wrong.append(f"{chat}: {retry} ran {old} again, and not {other}")


def fragile_judge(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat whose mailbox loop breaks over some messages."""

    def judge(text: str) -> object:
        if text.endswith("judge") and history.world.dice(0.5):
            raise Fault("could not judge")
        return parse_chat_command(text)

    monkeypatch.setattr(chat_module, "parse_chat_command", judge)


def play(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a history; what was wrong with it."""
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    trio._core._run._r.seed(seed)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        history = History(seed, Path(folder))
        with monkeypatch.context() as patch:
            fragile_judge(history, patch)
            run(history.run)
    return history.world.wrong


@pytest.mark.parametrize("first", range(FROM, FROM + HISTORIES, 25))
def test_whatever_happens_every_message_has_one_final_reply(
    first: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    for seed in range(first, min(first + 25, FROM + HISTORIES)):
        wrong = play(seed, monkeypatch)
        assert not wrong, f"seed {seed}: " + "; ".join(wrong[:10])
