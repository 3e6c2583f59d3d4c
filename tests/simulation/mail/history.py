"""One history by mail: people write to Rumi's mailbox while processes come, are killed, and end in order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import dkim
import trio

from actors import Supervisor
from rumi.agent.permissions.rights import ADMIN, MEMBER
from rumi.app.shutdown import wind_down
from rumi.channels.mail.channel import MailChannel
from rumi.chats.people.people import People, Principal
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.schema import Settings
from tests.channels.mail.letters import keys, letter, signed
from tests.chats.house import House, InlineOffload, house
from tests.simulation.book import Book
from tests.simulation.mail.post import Post, SimBox
from tests.simulation.ports import Disk, Life
from tests.simulation.process import break_shields
from tests.simulation.world import World

PEOPLE = {"ana": "ana@example.test", "ben": "ben@example.test"}
SETTINGS = Settings.model_validate(
    {
        "people": {name: {"mail": (address,)} for name, address in PEOPLE.items()},
        "mail": {"rumi": {"address": "bob@example.test", "imap": "x.test:993", "channel": True}},
    }
)
MOMENTS = (
    *("begun", "handed over", "handed over", "taken", "taken", "settled"),
    *("write", "written", "written", "stored"),
)
"""When a process may die."""

POLL_S = 5.0
SETTLED_WITHIN_S = 20_000.0
LIFETIMES_S = (1, 10, 40, 200)
PAUSES_S = (0, 1, 5, 20, 100)


@dataclass
class Said:
    """A mail that a person wrote: its number, which is its text. `good` if it is to be accepted."""

    number: int
    person: str
    raw: bytes
    good: bool = True
    copies: int = 1


class MailProcess:
    """One life of the program."""

    def __init__(self, history: "MailHistory") -> None:
        self.history = history
        self.life = Life(history.world, None, self._end)
        self.scope = trio.CancelScope()
        self.channel = MailChannel(
            SimBox(history.post, self.life),
            keys,
            history.world.now,
            poll_s=POLL_S,
            random=Random(history.random.getrandbits(32)),
            offload=InlineOffload(),
        )
        self._task: trio.lowlevel.Task | None = None

    def arm(self, kind: str, times: int) -> None:
        """Let the process die at a moment of a kind."""
        self.life._kind, self.life._left = kind, times

    async def run(self, until: trio.Event, lives_s: float) -> None:
        """Live until the end, or until something kills it."""
        self._task = trio.lowlevel.current_task()
        history, channel = self.history, self.channel
        disk = Disk(self.life)
        try:
            with self.scope:
                async with house(
                    history.path,
                    history.answer,
                    offload=disk,
                    now=history.world.now,
                    people=history.people,
                    max_queued=5,
                ) as home:
                    await self._serve(home, channel, until, lives_s)
        except Exception as error:  # noqa: BLE001  # judged here
            if not self.life.dead:
                history.world.complain(f"the process ended with {error!r}")
        finally:
            self._task = None

    async def _serve(self, home: House, channel: MailChannel, until: trio.Event, lives_s: float) -> None:
        process = SimpleNamespace(
            loaded=SimpleNamespace(settings=SETTINGS), language="en", serves=lambda chat: True
        )
        beside, journal = Supervisor("beside"), home.services.journal
        async with channel.open(cast(Any, process)):
            channel.add_sender(beside, journal, home.services.hub, home.inbox.chats.end)
            accept = home.inbox.accept_mail

            async def stored(*given: Any) -> Any:
                taken = await accept(*given)
                self.life.moment("stored")
                return taken

            inbox = SimpleNamespace(accept_mail=stored)
            channel.add_receiver(beside, cast(Any, inbox), journal, home.services.hub)
            async with beside.running():
                with trio.move_on_after(lives_s):
                    await until.wait()
                if not until.is_set() and self.history.random.random() < 0.7:
                    self.life.die("after a while")
                    await trio.sleep_forever()
                await wind_down((channel,), home.inbox.chats, home.services.fact_extraction)

    def _end(self) -> None:
        self.scope.cancel()
        trio.lowlevel.spawn_system_task(self._fall)

    async def _fall(self) -> None:
        while self._task is not None:
            break_shields(self._task, self.scope)
            await trio.lowlevel.checkpoint()


class MailHistory:
    """What happens in one world."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.path = path
        self.random = Random(f"mail {world.seed}")
        world.measure["disk"] = 0.0  # what a disk does is in the histories of Telegram
        self.post = Post(world, self.random)
        self.people = People(
            BUILT_IN, named={"ana": Principal("ana", ADMIN), "ben": Principal("ben", MEMBER)}
        )
        self.book = Book(path / "state.db")
        self.said: list[Said] = []
        self._numbers = count(1)
        self._done = trio.Event()
        self._settled = trio.Event()

    async def answer(self, request: ModelRequest, emit: Emit) -> Reply:
        """Answer a mail with its number."""
        await trio.sleep(0.1 if self.world.calm else self.random.choice((0, 0.1, 2, 15)))
        said = next(message.content for message in reversed(request.messages) if message.role == "user")
        return Reply(f"this answers {said.split()[-1]}")

    async def run(self) -> None:
        """The whole course of it."""
        clock = SimpleNamespace(time=self.world.now)
        with patch.object(dkim, "time", clock):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._live)
                for _ in range(self.random.choice((0, 1, 1, 2, 3))):
                    process = MailProcess(self)
                    nursery.start_soon(self._arm, process)
                    await process.run(self._done, self.random.choice(LIFETIMES_S))
                    await trio.sleep(self.random.choice((0.3, 2, 30)))
                nursery.start_soon(self._settle)
                await MailProcess(self).run(self._settled, SETTLED_WITHIN_S * 2)
                nursery.cancel_scope.cancel()
        self._check()
        self.book.close()

    async def _arm(self, process: MailProcess) -> None:
        while not process.channel.looked:  # noqa: ASYNC110
            await trio.sleep(0.5)
        if self.random.random() < 0.7:
            process.arm(self.random.choice(MOMENTS), self.random.choice((1, 1, 2, 3, 5, 8)))

    # People

    async def _live(self) -> None:
        while not self.book.ask("SELECT 1 FROM mail_positions"):  # noqa: ASYNC110
            await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            for name in PEOPLE:
                nursery.start_soon(self._write, name, self.random.randint(2, 6), nursery)
        self._done.set()

    async def _write(self, name: str, mails: int, nursery: trio.Nursery) -> None:
        random = self.random
        for _ in range(mails):
            await trio.sleep(random.choice(PAUSES_S))
            raw = self._letter(name)
            self._deliver(Said(self._last, name, raw), nursery)
            if random.random() < 0.2:
                self._deliver_bad(name)
            if random.random() < 0.1:
                self.post.renumber()

    def _letter(self, name: str) -> bytes:
        random = self.random
        self._last = next(self._numbers)
        theirs = [mail for mail in self.post.delivered if mail.to == PEOPLE[name]]
        last = random.choice(theirs) if theirs and random.random() < 0.6 else None
        raw = letter(
            f"this is {self._last}",
            sender=PEOPLE[name],
            subject="Re: x" if last else "",
            answers=last.message_id if last else "",
            id=f"<{self._last}@{name}.test>",
            at=self.world.now(),
        )
        return signed(raw)

    def _deliver(self, said: Said, nursery: trio.Nursery) -> None:
        random = self.random
        said.copies = random.choice((1, 1, 1, 2, 3))
        self.said.append(said)
        self.world.note(said.person, f"writes {said.number}, {said.copies} times")
        for _ in range(said.copies):
            nursery.start_soon(self._late, said.raw, random.choice((0, 0, 1, 30)))

    async def _late(self, raw: bytes, seconds: float) -> None:
        await trio.sleep(seconds)
        self.post.put(raw)

    def _deliver_bad(self, name: str) -> None:
        """A mail comes that is not to be answered: unsigned, changed, or of a program."""
        number = next(self._numbers)
        raw = letter(f"this is {number}", sender=PEOPLE[name], subject="", at=self.world.now())
        match self.random.randrange(3):
            case 0:
                raw = signed(raw).replace(b"this is", b"that is")
            case 1:
                raw = signed(raw.replace(b"Subject:", b"Auto-Submitted: auto-replied\r\nSubject:"))
        self.said.append(Said(number, name, raw, good=False))
        self.post.put(raw)

    # The end

    async def _settle(self) -> None:
        await self._done.wait()
        self.world.calm = True
        with trio.move_on_after(SETTLED_WITHIN_S):
            await self._quiet()
            for chat, person in self._untold():
                mail = next(one for one in self.post.delivered if one.to == PEOPLE[person])
                self.world.note(person, f"writes once more in {chat}")
                self._once_more(chat, person, mail.message_id)
            await self._quiet()
        self._settled.set()

    def _once_more(self, chat: str, person: str, fallback: str) -> None:
        """Write in a chat whose last mail has an unknown outcome, as an answer to an earlier mail of it."""
        ((known,),) = self.book.ask(
            "SELECT delivery FROM deliveries JOIN messages ON messages.id = message"
            " WHERE chat = ? AND delivery LIKE '<%' LIMIT 1",
            chat,
        ) or [(fallback,)]
        number = next(self._numbers)
        raw = letter(
            f"this is {number}",
            sender=PEOPLE[person],
            subject="Re: x\n\n".strip(),
            answers=known,
            id=f"<{number}@{person}.test>",
            at=self.world.now(),
        )
        self.said.append(Said(number, person, signed(raw)))
        self.post.put(self.said[-1].raw)

    async def _quiet(self) -> None:
        await trio.sleep(2 * POLL_S + 40)
        while self.book.unfinished() or self._missing():  # noqa: ASYNC110
            await trio.sleep(POLL_S)

    def _missing(self) -> list[int]:
        """The numbers of mails that are not stored yet."""
        texts = {text for (text,) in self.book.ask("SELECT text FROM messages")}
        return [said.number for said in self.said if said.good and f"this is {said.number}" not in texts]

    def _untold(self) -> Sequence[tuple[str, str]]:
        rows = self.book.ask(
            "SELECT DISTINCT chat FROM effects WHERE kind = 'mail_reply' AND state = 'handed_over'"
            " AND note != 'told'"
        )
        return [(chat, BUILT_IN.person_of(chat)) for (chat,) in rows]

    def _check(self) -> None:
        """What must hold: one message and one reply for each mail, no mail twice, and nothing untold."""
        world = self.world
        if unfinished := [*self.book.unfinished(), *map(str, self._missing())]:
            world.complain(f"never settled: {unfinished}")
        texts = Counter(text for (text,) in self.book.ask("SELECT text FROM messages"))
        for said in self.said:
            stored = texts[f"this is {said.number}"] + texts[f"that is {said.number}"]
            if stored != said.good:
                world.complain(f"the mail {said.number} became {stored} messages, not {int(said.good)}")
        answers = Counter(mail.answers for mail in self.post.delivered)
        for id, times in answers.items():
            if times > 1:
                world.complain(f"{id} was answered {times} times")
        unknown = {turn for (turn,) in self.book.ask("SELECT turn FROM effects WHERE state = 'handed_over'")}
        rows = self.book.ask(
            "SELECT outbox.id, outbox.text, failure, delivery FROM outbox JOIN messages ON reply = outbox.id"
            " JOIN deliveries ON message = messages.id WHERE delivery LIKE '<%'"
        )
        for number, text, failure, id in rows:
            if failure is not None and f"outbox:{number}" not in unknown:
                world.complain(f"the reply {number} was given up: {failure}")
            elif failure is None and not answers[id] and len([one for one in rows if one[0] == number]) == 1:
                world.complain(f"the reply {number} to {id} was never delivered: {text[:60]!r}")
        if untold := self._untold():
            world.complain(f"nobody was told of mails with an unknown outcome: {untold}")
        told = sum(mail.text.startswith("⚠️ I don't know") for mail in self.post.delivered)
        world.counts["unknown"] += len(unknown)
        if unknown and not told:
            world.complain("no mail says that an outcome is unknown")
        for mail in self.post.delivered:
            if mail.to not in PEOPLE.values():
                world.complain(f"a mail went to {mail.to}")
