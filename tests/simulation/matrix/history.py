"""One history on Matrix: people write in rooms while processes come, are killed, and end in order."""

from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import httpx
import trio

from actors import Supervisor
from rumi.agent.permissions.rights import ADMIN, MEMBER
from rumi.app.shutdown import wind_down
from rumi.channels.matrix.api import MatrixApi
from rumi.channels.matrix.channel import MatrixChannel
from rumi.channels.matrix.formatting import parts_of
from rumi.channels.matrix.intake import MatrixPeople
from rumi.chats.people.people import People, Principal
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta
from rumi.platform.chat_ids import BUILT_IN, matrix_number
from rumi.platform.config.schema import MatrixSection
from tests.chats.house import House, house
from tests.simulation.book import Book
from tests.simulation.matrix.server import RUMI, SimLine, SimServer
from tests.simulation.ports import Disk, Life
from tests.simulation.process import break_shields
from tests.simulation.world import World

ANA, BEN = "@ana:sim.test", "@ben:sim.test"
ROOMS = {"!ana:sim.test": [RUMI, ANA], "!ben:sim.test": [RUMI, BEN], "!both:sim.test": [RUMI, ANA, BEN]}
SECTION = MatrixSection.model_validate(
    {"homeserver": "https://sim.test", "user": RUMI, "users": (ANA, BEN), "listen": "all"}
)
MOMENTS = (
    *("asks", "did", "did", "did", "synced", "stored", "stored"),
    *("write", "written", "written"),
)
"""When a process may die."""

POLL_S = 10.0
SETTLED_WITHIN_S = 20_000.0
LIFETIMES_S = (1, 10, 40, 200)
PAUSES_S = (0, 0.3, 1, 5, 20, 100)
LONG = "word " * 4000


@dataclass
class Said:
    """A message that a person wrote. It is to be stored, unless it was removed soon."""

    number: int
    room: str
    event: str
    removed: bool = False


class MatrixProcess:
    """One life of the program."""

    def __init__(self, history: "MatrixHistory") -> None:
        self.history = history
        self.life = Life(history.world, None, self._end)
        self.scope = trio.CancelScope()
        self.channel = MatrixChannel(
            "sim", history.world.now, random=Random(history.random.getrandbits(32)), poll_s=POLL_S
        )
        self._task: trio.lowlevel.Task | None = None

    def arm(self, kind: str, times: int) -> None:
        """Let the process die at a moment of a kind."""
        self.life._kind, self.life._left = kind, times

    async def run(self, until: trio.Event, lives_s: float) -> None:
        """Live until the end, or until something kills it."""
        self._task = trio.lowlevel.current_task()
        history = self.history
        try:
            with self.scope:
                async with house(
                    history.path,
                    history.answer,
                    offload=Disk(self.life),
                    now=history.world.now,
                    people=history.people,
                    max_queued=50,
                ) as home:
                    await self._serve(home, until, lives_s)
        except Exception as error:  # noqa: BLE001  # judged here
            if not self.life.dead:
                history.world.complain(f"the process ended with {error!r}")
        finally:
            self._task = None

    async def _serve(self, home: House, until: trio.Event, lives_s: float) -> None:
        channel, history = self.channel, self.history
        beside, journal = Supervisor("beside"), home.services.journal
        client = httpx.AsyncClient(transport=SimLine(history.server, self.life))
        people = MatrixPeople({ANA: "admin", BEN: "member"}, SECTION)
        channel.connect(MatrixApi(client, SECTION.homeserver, "token", RUMI), people, cast(Any, None))
        channel.add_sender(beside, journal, home.services.hub, home.inbox.chats.end)
        accept = home.inbox.accept_sync

        async def stored(*given: Any) -> Any:
            taken = await accept(*given)
            self.life.moment("stored")
            return taken

        home.inbox.accept_sync = stored  # type: ignore[method-assign]
        channel.add_receiver(beside, home.inbox, journal, home.services.hub)
        async with beside.running():
            with trio.move_on_after(lives_s):
                await until.wait()
            if not until.is_set() and history.random.random() < 0.7:
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


class MatrixHistory:
    """What happens in one world."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.path = path
        self.random = Random(f"matrix {world.seed}")
        world.measure["disk"] = 0.0  # what a disk does is in the histories of Telegram
        self.server = SimServer(world, self.random, ROOMS)
        people = {"ana": (ANA, ADMIN), "ben": (BEN, MEMBER)}
        persons = {
            matrix_number(user): Principal(name, rights, (matrix_number(user),))
            for name, (user, rights) in people.items()
        }
        self.people = People(BUILT_IN, persons)
        self.book = Book(path / "state.db")
        self.said: list[Said] = []
        self._numbers = count(1)
        self._done = trio.Event()
        self._settled = trio.Event()

    async def answer(self, request: ModelRequest, emit: Emit) -> Reply:
        """Answer a message with its number, word by word."""
        said = next(message.content for message in reversed(request.messages) if message.role == "user")
        words = f"this answers {said.split()[-1]}"
        if said.endswith("0"):
            words = f"{words} {LONG}"
        for word in words.split(" ")[:6]:
            await trio.sleep(0.1 if self.world.calm else self.random.choice((0, 0.1, 2, 5)))
            emit(TextDelta(f"{word} "))
        return Reply(words)

    async def run(self) -> None:
        """The whole course of it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._live)
            for _ in range(self.random.choice((0, 1, 1, 2, 3))):
                process = MatrixProcess(self)
                nursery.start_soon(self._arm, process)
                await process.run(self._done, self.random.choice(LIFETIMES_S))
                await trio.sleep(self.random.choice((0.3, 2, 30)))
            nursery.start_soon(self._settle)
            await MatrixProcess(self).run(self._settled, SETTLED_WITHIN_S * 2)
            nursery.cancel_scope.cancel()
        self._check()
        self.book.close()

    async def _arm(self, process: MatrixProcess) -> None:
        await trio.sleep(self.random.choice((0, 0.5, 3)))
        if self.random.random() < 0.7:
            process.arm(self.random.choice(MOMENTS), self.random.choice((1, 1, 2, 3, 5, 8, 13)))

    # People

    async def _live(self) -> None:
        while not self.book.ask("SELECT 1 FROM matrix_accounts WHERE token != ''"):  # noqa: ASYNC110
            await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            for room, members in ROOMS.items():
                for person in members[1:]:
                    nursery.start_soon(self._write, room, person, self.random.randint(2, 6))
        self._done.set()

    async def _write(self, room: str, person: str, messages: int) -> None:
        random = self.random
        for _ in range(messages):
            await trio.sleep(random.choice(PAUSES_S))
            number = next(self._numbers)
            content = {"msgtype": "m.text", "body": f"this is {number}"}
            said = Said(number, room, self.server.put(room, person, "m.room.message", content))
            self.said.append(said)
            self.world.note(person, f"writes {number} in {room}")
            if random.random() < 0.1:
                await trio.sleep(random.choice((0, 1, 5)))
                said.removed = True
                self.server.put(room, person, "m.room.redaction", {"redacts": said.event})
            elif random.random() < 0.15:
                new = {"msgtype": "m.text", "body": f"this is really {number}"}
                related = {"rel_type": "m.replace", "event_id": said.event}
                edit = {**new, "m.new_content": new, "m.relates_to": related}
                await trio.sleep(random.choice((0, 0.1, 3, 20)))
                self.server.put(room, person, "m.room.message", edit)
                self.world.counts["edits"] += 1
            if random.random() < 0.1:
                self.server.put(room, person, "m.room.message", {"msgtype": "m.text", "body": "/stop"})

    # The end

    async def _settle(self) -> None:
        await self._done.wait()
        self.world.calm = True
        with trio.move_on_after(SETTLED_WITHIN_S):
            await trio.sleep(2 * POLL_S + 100)
            while self.book.unfinished() or self._missing():  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            await trio.sleep(60)
        self._settled.set()

    def _missing(self) -> list[int]:
        """The numbers of messages that are not stored yet."""
        known = {
            event for (event,) in self.book.ask("SELECT event FROM matrix_events WHERE message IS NOT NULL")
        }
        return [said.number for said in self.said if not said.removed and said.event not in known]

    def _check(self) -> None:
        """What must hold: one message and one reply for each event; the rooms show exactly the replies."""
        world = self.world
        if unfinished := [*self.book.unfinished(), *map(str, self._missing())]:
            world.complain(f"never settled: {unfinished}")
        texts = Counter(
            text.split()[-1]
            for (text,) in self.book.ask("SELECT text FROM messages WHERE corrects = 0 AND text != '/stop'")
        )
        for said in self.said:
            stored = texts[str(said.number)]
            if stored != 1 and not (said.removed and stored == 0):
                world.complain(f"the message {said.number} became {stored} messages")
        for number, failure in self.book.ask("SELECT id, failure FROM outbox WHERE failure IS NOT NULL"):
            world.complain(f"the reply {number} was given up: {failure}")
        for room in ROOMS:
            wanted = Counter[str]()
            rows = self.book.ask(
                "SELECT DISTINCT outbox.id, outbox.text FROM outbox JOIN matrix_rooms USING (chat)"
                " JOIN messages ON reply = outbox.id"
                " WHERE room = ? AND delivered IS NOT NULL AND silent = 0",
                room,
            )
            for _, text in rows:
                wanted.update(parts_of(text))
            shown = Counter(self.server.shown(room))
            for text, times in (wanted - shown).items():
                world.complain(f"{room} never showed {times} of {text[:60]!r}")
            for text, times in (shown - wanted).items():
                world.complain(f"{room} shows {times} too many of {text[:60]!r}")
