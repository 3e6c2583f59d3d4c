"""One history: some processes after each other on one home, people all the while, and a calm ending."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import trio

from actors import ActorError, RestartLimitExceeded
from rumi.app.shutdown import wind_down
from rumi.errors import RumiError
from rumi.memory.messages import MemoryUnwritable
from rumi.platform.home import Home
from rumi.store.journal.store import Unwritable
from tests.fakes.bot_api import Answer, BotApi, Delayed
from tests.fakes.bot_api_rates import UNLIMITED, Limits
from tests.fakes.bot_api_updates import Poll
from tests.fakes.bot_api_world import Query
from tests.simulation import weather
from tests.simulation.answering import Answering
from tests.simulation.asking import Asking
from tests.simulation.book import Book
from tests.simulation.checks import Checks
from tests.simulation.containers import Daemon
from tests.simulation.databases import full
from tests.simulation.ledger import Ledger
from tests.simulation.money import Purse
from tests.simulation.people import People
from tests.simulation.pieces import Pieces
from tests.simulation.ports import draw_death
from tests.simulation.process import BOX_S, Process, Setting
from tests.simulation.reminders import Reminders
from tests.simulation.sim_chats import BASIC_GROUP, SimChat, by_chat, make_sim_chats
from tests.simulation.stopping import Stops
from tests.simulation.tasks import Doings
from tests.simulation.witness import Witness
from tests.simulation.world import World

SETTLED_WITHIN_S = 3000.0
IDLE_S = 300.0 + BOX_S + 120.0
"""After this time a chat with nothing to do is gone, and its box before it."""

END_S = 180.0
"""All that an orderly end may take, with a daemon that hangs and a Telegram that is silent."""

BOX_WITHOUT_CHAT_S = 20.0
"""How long a box may still be there when its chat is gone."""

RECOVERY_S = 30.0
"""How long what came before the calm may still end a process."""

HEALED_S = 200.0
"""After this time nobody tries any more to take buttons away."""

MOST_LIVES = 50
"""Of the program in the calm, before a history is given up: a fault may end each of them at its start."""

DIE_AGAIN = 4
"""So many processes in a row die as soon as they resume a turn: one more than may resume the same turn, and
one that starts while nothing is to be resumed."""

GAPS_S = (0.3, 0.3, 2, 30)
QUIET_WEEK_S = 8 * 24 * 3600.0

LIFETIMES_S = (0.05, 0.6, 3, 8, 20, 60)


UNWRITABLE = (Unwritable, MemoryUnwritable)


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error, all that it holds, and what these were raised because of."""
    if error is not None:
        yield error
        for cause in (error.__cause__, *getattr(error, "exceptions", ())):
            yield from causes_of(cause)


class Telegram(BotApi):
    """A Telegram that does late what is late, also when nobody asks it for anything meanwhile."""

    nursery: trio.Nursery

    def delay(self, seconds: float, run: Callable[[], Answer | Poll]) -> Delayed:
        delayed = super().delay(seconds, run)
        self.nursery.start_soon(self._catch_up, seconds)
        return delayed

    async def _catch_up(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self.catch_up()


class History:
    """What happens in one world."""

    def __init__(self, world: World, home: Home) -> None:
        random = world.random
        self.world = world
        self.home = home
        self.latency = random.choice(((0.0, 0.0), (0.02, 0.2), (0.02, 0.2), (0.3, 1.5)))
        self.limited = random.random() < 0.7
        self.api = Telegram(
            trio.current_time,
            seed=random.getrandbits(32),
            limits=Limits() if self.limited else UNLIMITED,
            drafts=random.random() < 0.7 and world.theme != "late",
            empty_drafts=random.random() < 0.5,
            privacy=random.random() < 0.3,
        )
        self.all_sim_chats = make_sim_chats(self.api, basic=world.theme == "move")
        self.sim_chats = random.sample(self.all_sim_chats, random.choice((1, 1, 2, 3, 4)))
        if world.theme == "move":
            moves = next(
                sim_chat for sim_chat in self.all_sim_chats if sim_chat.telegram_chats[0].id == BASIC_GROUP
            )
            self.sim_chats = [moves, *(sim_chat for sim_chat in self.sim_chats if sim_chat is not moves)]
        if world.theme == "stuck":
            self.sim_chats = [sim_chat for sim_chat in self.all_sim_chats if sim_chat.people]
            random.shuffle(self.sim_chats)
            world.stuck = self.sim_chats[0].chat
        self.daemon = Daemon(world)
        self.book = Book(self.home.state_db)
        self.ledger = Ledger(world, self.api, self.all_sim_chats, self.book)
        sim_chats = by_chat(self.all_sim_chats)
        self.asking = Asking(world, sim_chats)
        self.doings = Doings(world, self.book, sim_chats, lambda *work: self._nursery.start_soon(*work))
        self.stops = Stops(world, self.book, self.daemon, self.doings, lambda: self.witness.turn_now)
        self.purse = Purse(world)
        self.reminders = Reminders(world, self.book)
        self.pieces = Pieces(world, self.book)
        self.witness = Witness(
            world,
            self.book,
            self.daemon,
            self.asking,
            self.doings,
            self.stops,
            lambda asked: self._nursery.start_soon(self.answering.react, asked),
        )
        self.setting = Setting(
            world,
            self.home,
            self.api,
            self.daemon,
            sim_chats,
            self.witness,
            self.ledger,
            self.latency,
            self.asking,
            self.doings,
            self.stops,
            self.purse,
            self.reminders,
        )
        self.starts: list[float] = []
        """When processes began."""
        self.people: People
        self.answering: Answering
        self._nursery: trio.Nursery
        self._done = trio.Event()
        self._calm_at = self._replied_at = math.inf
        self._settled = False

    async def run(self) -> None:
        """The whole course of it."""
        random = self.world.random
        weather.brew(self.world, self.api, self.sim_chats[0].telegram_chat)
        async with trio.open_nursery() as nursery:
            self.api.nursery = self._nursery = nursery
            self.people = People(self.world, self.api, self.daemon, nursery, self._quiet, self.ledger)
            self.answering = Answering(self.world, self.api, self.asking, self.people)
            nursery.start_soon(self._live)
            early = random.choice((0, 0, 1, 1, 2, 3)) if self.world.measure["kill"] else 0
            if self.world.theme == "late":
                early = random.choice((1, 2, 3))
            for _ in range(early):
                await self._process(early=True)
                await self._gap()
            for _ in range(DIE_AGAIN if early and self.world.again else 0):
                await self._process(early=True, again=True)
                await self._gap()
            if random.random() < 0.5:
                await self._process()
                await self._done.wait()
            await self._process(last=True)
            for again in count():  # it did not survive the bad weather before the calm
                if self._settled:
                    break
                if again == MOST_LIVES:
                    self.world.complain(f"{MOST_LIVES} processes have not survived the calm")
                    break
                await trio.sleep(random.choice(GAPS_S))
                await self._process(last=True)
            nursery.cancel_scope.cancel()
        Checks(self).after_all()
        self.book.close()

    async def _live(self) -> None:
        actions = self.world.random.randint(5, 14)
        if self.world.stuck is not None:
            actions *= 2
        if self.world.tasks or self.world.stops or self.world.reminders or self.world.pieces:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.people.live, self.sim_chats, actions)
                nursery.start_soon(self.doings.live, self.people, self.sim_chats)
                nursery.start_soon(self.reminders.live, self.people, self.sim_chats)
                nursery.start_soon(self.pieces.live, self.people, self.sim_chats)
                if self.world.stops:
                    nursery.start_soon(self.stops.live, self.people, self.sim_chats)
        else:
            await self.people.live(self.sim_chats, actions)
        self._done.set()

    async def _gap(self) -> None:
        """No process runs."""
        if self.world.random.random() < 0.03 and self.world.theme != "move":  # which might be missed so
            await trio.sleep(QUIET_WEEK_S)
            pending = set(self.api.pending)
            for said in self.people.said:
                said.lost = said.lost or said.message.update_id in pending
            self.api.restart_ids()
            self.world.note("telegram", "renumbers its updates")
        await trio.sleep(self.world.random.choice(GAPS_S))

    def _calm(self) -> None:
        world = self.world
        world.note("weather", "is calm from now on")
        world.calm = True
        if world.measure["disk"] and world.random.random() < 0.5:
            world.fails_behind = "a reply"  # nobody says anything more that would have it told
        self._calm_at = min(self._calm_at, trio.current_time())
        world.full_until = world.cut_until = 0.0
        weather.clear(self.api)
        self.ledger.look_at_faults()

    # Processes

    async def _process(self, *, early: bool = False, again: bool = False, last: bool = False) -> None:
        """One life of the program, to an `early` end or until people have done what they do.

        With `again`, it dies as soon as it resumes a turn.
        """
        random = self.world.random
        end = random.choice(("killed", "killed", "moment", "moment", "told")) if early else "done"
        death = None
        if end == "moment" or (end == "told" and random.random() < 0.3):
            death = draw_death(random, self.people.curious)
        if early and self.world.theme == "late" and random.random() < 0.7:
            end, death = (
                "moment",
                (random.choice(("asks editMessageText", "write")), random.choice((1, 2, 5))),
            )
        if early and self.world.tasks and (about_tasks := self.doings.draw_death()) is not None:
            end, death = "moment", about_tasks
        if early and (about_stops := self.stops.draw_death()) is not None:
            end, death = "moment", about_stops
        if early and (about_reminders := self.reminders.draw_death()) is not None:
            end, death = "moment", about_reminders
        if early and (about_pieces := self.pieces.draw_death()) is not None:
            end, death = "moment", about_pieces
        if again:
            end, death = "moment", ("resumes", 1)
        process = Process(self.setting, death)
        self.people.process = process
        self.starts.append(trio.current_time())
        self._replied_at = math.inf
        self.world.note("process", f"begins, to be {end} {death or ''}")
        async with trio.open_nursery() as around:
            around.start_soon(self._watch_boxes, process)
            await self._run(process, end, last)
            around.cancel_scope.cancel()
        self.people.process = None
        unwritten = full(self.world)  # what was sent while the disk was full is noted by nobody any more
        if process.life.dead or process.shaken or unwritten:
            self.ledger.sender_lost(process.life)
        process.life.over_at = min(process.life.died_at, self.world.now())
        self.world.note("process", "has ended")

    async def _run(self, process: Process, end: str, last: bool) -> None:
        failed = True
        try:
            async with process.running():
                await process.telegram.introduce(lambda line: None)
                await self._until(process, end, last)
            failed = False
        except Exception as error:  # noqa: BLE001  # judged below
            if not process.life.dead and not self._excusable(error, process):
                self.world.complain(f"the process ended with {error!r}")
        if process.life.dead or failed:
            return
        took_s = trio.current_time() - self._replied_at
        if took_s > END_S:
            self.world.complain(f"the process took {took_s:.0f} s to end")
        if self.daemon.live and (self._settled or not self.world.boxes_fail):
            self.world.complain(f"boxes are left: {sorted(self.daemon.live)}")

    async def _watch_boxes(self, process: Process) -> None:
        """Every box belongs to a chat that lives, or goes with it."""
        alone: set[str] = set()
        while True:
            await trio.sleep(BOX_WITHOUT_CHAT_S if self.daemon.live else 3 * BOX_WITHOUT_CHAT_S)
            live = [box for box in self.daemon.live.values() if box.client is process.client]
            now = {box.id for box in live if not process.has(box.chat)}
            if alone & now and not process.shaken and not self.world.boxes_fail:
                self.world.complain(f"boxes without a chat: {sorted(alone & now)}")
            alone = now

    def _excusable(self, error: Exception, process: Process) -> bool:
        """Whether the program may end by itself because of what was done to it.

        A disk on which nothing can be written may keep it from starting, and never ends it.
        """
        if process.started and any(isinstance(cause, UNWRITABLE) for cause in causes_of(error)):
            return False
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        expected = isinstance(error, RestartLimitExceeded | RumiError | ActorError)
        return expected and trio.current_time() < self._calm_at + RECOVERY_S

    async def _until(self, process: Process, end: str, last: bool) -> None:
        """The program's main task: serve until the end."""
        random = self.world.random
        seconds = random.choice(LIFETIMES_S) * random.uniform(0.5, 1.5)
        match end:
            case "killed":
                await trio.sleep(seconds)
                process.life.die("after a while")
                await trio.sleep_forever()
            case "moment":
                with trio.move_on_after(200):
                    await self._done.wait()
                    await trio.sleep(30)
                process.life.die("nothing happened")
                await trio.sleep_forever()
            case "told":
                await trio.sleep(seconds)
            case _:
                await self._done.wait()
                if last:
                    self._calm()
                    await self._settle(process)
        self.world.note("process", "is told to end")
        self._replied_at = trio.current_time()
        hurry_s = random.choice((math.inf, math.inf, 0.1, 5)) if not last else math.inf
        with trio.move_on_after(hurry_s):  # a second signal
            await wind_down((process.telegram,), process.inbox.chats, process.services.fact_extraction)

    async def _press_what_stands(self) -> Sequence[Query]:
        """Press the buttons that are left though nothing is asked any more; a live process leaves none."""
        if not self.answering.standing():
            return ()
        await trio.sleep(HEALED_S)
        return self.answering.press_what_stands()

    # Whether everything is done

    def _unfinished(self) -> list[str]:
        """What is still to be done, in words."""
        pending = self.api.pending
        waiting = [f"the updates {pending} wait"] if pending else []
        return self.book.unfinished() + self.reminders.unfinished() + waiting

    def _quiet(self, sim_chat: SimChat) -> bool:
        """Whether everything that was said in a place is answered, as far as anybody there can know."""
        if sim_chat.chat in self.witness.turn_now or self.api.pending or self.people.process is None:
            return False
        return self.book.answered(sim_chat.chat)

    async def _settle(self, process: Process) -> None:
        """Everything is answered and delivered, and nothing is kept of it."""
        if await self._all_done():
            pressed = await self._press_what_stands()
            if await self._nothing_happens():
                Checks(self).of_buttons(pressed)
                Checks(self).when_idle(process)
        self._settled = True

    async def _nothing_happens(self) -> bool:
        """Wait until nothing has come from Telegram for so long that nothing is kept any more.

        An answer to a question may come late, and a poll that is never answered may hold it up.
        """
        taken = None
        while taken != (taken := len(self.api.updates.confirmed)):
            await trio.sleep(IDLE_S)
            if not await self._all_done():
                return False
        return True

    async def _all_done(self) -> bool:
        """Wait until everything is answered and delivered; False where that does not come."""
        with trio.move_on_after(SETTLED_WITHIN_S):
            pause = 0.5
            while self._unfinished():
                await trio.sleep(pause)
                pause = min(pause * 1.5, 20)
            return True
        self.world.complain(f"never settled: {'; '.join(self._unfinished())}")
        return False
