"""One history of several workers on one database: people all the while, faults, and a calm ending."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from itertools import count
from typing import Any, cast

import trio

from actors import ActorError
from actors.testing import crash
from rumi.agent.events import TurnFinished
from rumi.app.shutdown import wind_down
from rumi.channels.telegram.address import Moves, TelegramAddress
from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.receiving.reading import Stranger, read_batch
from rumi.channels.telegram.receiving.updates import number_of, update_of
from rumi.chats.events import ChatEvent, Replied, TurnStarted
from rumi.errors import RumiError
from rumi.platform.chat_ids import TASK
from rumi.platform.home import Home
from rumi.store.journal.records import Incoming
from rumi.store.ownership import PARTITIONS, partition_of
from tests.fakes.bot_api import Answer, Delayed
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.bot_api_updates import Poll
from tests.simulation import weather
from tests.simulation.asking import Asking
from tests.simulation.book import Book
from tests.simulation.checks import Checks
from tests.simulation.cluster.database import Server
from tests.simulation.cluster.pausing import GATE
from tests.simulation.cluster.worker import LEASE_S, MOST_SKEW_S, OUTSIDE, SKEWS_S, OwnClient, Worker
from tests.simulation.containers import Daemon
from tests.simulation.history import Telegram
from tests.simulation.ledger import Ledger
from tests.simulation.money import Purse
from tests.simulation.people import People
from tests.simulation.pieces import Pieces
from tests.simulation.process import Process, Setting
from tests.simulation.reminders import Reminders
from tests.simulation.sim_chats import WHO, SimChat, by_chat, make_sim_chats
from tests.simulation.stopping import Stops
from tests.simulation.tasks import Doings
from tests.simulation.world import World

ACTIONS = (
    *("echo", "echo", "echo", "slow", "slow", "stream", "tools", "tools", "tools", "sleeper", "essay"),
    *("forker", "hang", "error", "file"),
)
COMMANDS = ("/stop", "/stop", "/stop", "/reset", "/retry", "/status", "/help")
PAUSES_S = (0, 0.01, 0.3, 1, 2, 5, 12)

MOMENTS = (
    *("write", "written", "written", "asks sendMessage", "did sendMessage", "did sendMessage", "renews"),
    *("asks editMessageText", "did editMessageText", "did a long one"),
)

SETTLED_WITHIN_S = 400.0
"""After the last fault everything is answered and delivered in this time: turns that hang are part of it."""

BALANCED_WITHIN_S = 60.0
IDLE_S = 90.0
"""After this time nothing is kept of a chat, with the short times that these histories have."""

ENDED = ": this attempt ended without an answer]"
"""What the history has behind a turn that came to no answer."""

IDLES = 4
"""In one history of so many it is waited until nothing is kept any more."""

STOPS_WITHIN_S = 60.0
"""A task that is told to stop at another worker ends, also if that one is paused or cut off meanwhile."""

NOTICES_S = 2.0
"""How long a worker that goes on after a pause may take to end what it did without its lease: its parts stop
one after the other, and each first hears what became of its write."""

BEAT_S = 0.5
"""So long after the end of a lease the boxes of its worker are gone."""

REDELIVER_S = 8.0
"""How long Telegram waits for an answer to an update before it delivers it again, to another worker."""


class ClusterTelegram(Telegram):
    """What it does late it does outside of all workers."""

    def delay(self, seconds: float, run: Callable[[], Answer | Poll]) -> Delayed:
        return OUTSIDE.run(super().delay, seconds, run)


class ClusterPeople(People):
    """People who only talk."""

    async def _live_in(self, sim_chat: SimChat, actions: int) -> None:
        for _ in range(actions):
            await trio.sleep(self._random.choice(PAUSES_S))
            await self._do(sim_chat, "")

    async def _do(self, sim_chat: SimChat, action: str) -> None:
        match self._random.choice(("say", "say", "say", "say", "burst", "command", "polite")):
            case "say":
                self.say(sim_chat, self.words(sim_chat))
            case "burst":
                for _ in range(self._random.choice((2, 3))):
                    self.say(sim_chat, self._random.choice((self.words(sim_chat), *COMMANDS)))
            case "command":
                self.say(sim_chat, self._random.choice(COMMANDS))
            case action:
                await super()._do(sim_chat, action)

    def words(self, sim_chat: SimChat, action: str = "") -> str:
        return super().words(sim_chat, action or self._random.choice(ACTIONS))


class Eyes:
    """A witness at the hub of one worker."""

    def __init__(self, history: "ClusterHistory", worker: Worker) -> None:
        self._history = history
        self._worker = worker

    def begin(self, process: Process) -> None:
        pass

    def lose_sight(self) -> None:
        pass

    def begins_afresh(self, chat: str) -> None:
        pass

    def typing(self, number: int, topic: int | None) -> None:
        pass

    def see(self, event: ChatEvent) -> None:
        if not self._worker.process.life.dead:
            self._history.see(self._worker, event)


class ClusterHistory:
    """What happens in one world."""

    def __init__(self, world: World, home: Home) -> None:
        random = world.random
        self.world = world
        self.home = home
        self.latency = random.choice(((0.0, 0.0), (0.02, 0.2), (0.02, 0.2)))
        self.api = ClusterTelegram(
            trio.current_time,
            seed=random.getrandbits(32),
            limits=UNLIMITED,
            drafts=random.random() < 0.5,
        )
        self.all_sim_chats = make_sim_chats(self.api, basic=False)
        talks = [sim_chat for sim_chat in self.all_sim_chats if sim_chat.people]
        self.sim_chats = random.sample(talks, random.choice((1, 2, 3, 3)))
        self.server = Server(world, home.state_db)
        self.daemon = Daemon(world)
        self.book = Book(home.state_db)
        self.ledger = Ledger(world, self.api, self.all_sim_chats, self.book, noted_s=math.inf)
        sim_chats = by_chat(self.all_sim_chats)
        self.asking = Asking(world, sim_chats)
        self.doings = Doings(
            world,
            self.book,
            sim_chats,
            lambda *work: self._nursery.start_soon(*work),
            stops_within_s=STOPS_WITHIN_S,
            clocks_s=2 * max(map(abs, SKEWS_S)),
        )
        self.stops = Stops(world, self.book, self.daemon, self.doings, dict)
        self.pieces = Pieces(world, self.book)
        self.purse = Purse(world, alone=False)
        self.reminders = Reminders(world, self.book, clocks_s=2 * MOST_SKEW_S)
        self.setting = Setting(
            world,
            home,
            self.api,
            self.daemon,
            sim_chats,
            cast(Any, None),
            self.ledger,
            self.latency,
            self.asking,
            self.doings,
            self.stops,
            self.purse,
            self.reminders,
        )
        self.starts: list[float] = []
        self.workers: list[Worker] = []
        """Those whose process runs, paused ones too."""
        self.people: ClusterPeople
        self._lives = count(1)
        self._nursery: trio.Nursery
        self._ended = False
        self._received: dict[int, tuple[int, str]] = {}
        self._senders: defaultdict[int, set[str]] = defaultdict(set)
        self._started: dict[str, str] = {}
        self._starts: Counter[str] = Counter()
        self._moves = Moves()
        self._me = Me(self.api.bot.id, self.api.bot.username or "")

    # The course of it

    async def run(self) -> None:
        """The whole course of it."""
        world, random = self.world, self.world.random
        weather.brew(world, self.api, self.sim_chats[0].telegram_chat)
        async with trio.open_nursery() as nursery:
            self.api.nursery = self._nursery = nursery
            self.people = ClusterPeople(world, self.api, self.daemon, nursery, self._quiet, self.ledger)
            self.people.curious = 0.0
            nursery.start_soon(self._deliver)
            nursery.start_soon(self._beat)
            stops = [trio.Event() for _ in range(random.choice((2, 2, 2, 3, 4, 5)))]
            for number, stop in enumerate(stops):
                nursery.start_soon(self._machine, number, stop, random.choice((0, 0, 0.5, 3)))
            await trio.sleep(random.choice((0, 5, 20)))
            async with trio.open_nursery() as busy:
                busy.start_soon(self.people.live, self.sim_chats, random.randint(4, 9))
                busy.start_soon(self.doings.live, self.people, self.sim_chats)
                busy.start_soon(self.reminders.live, self.people, self.sim_chats)
                busy.start_soon(self._mischief)
            self._calm()
            if await self._settle():
                await self._balanced()
                if world.seed % IDLES == 0:
                    await trio.sleep(IDLE_S)
                    self._when_idle()
            self._ended = True
            for stop in stops:
                stop.set()
            with trio.move_on_after(200):
                while self.workers:  # noqa: ASYNC110  # in virtual time
                    await trio.sleep(1)
            if self.workers:
                world.complain(f"workers do not end: {[worker.name for worker in self.workers]}")
            if self.daemon.live:
                await trio.sleep(LEASE_S + 1)  # those of a killed worker go behind its lease
            if self.daemon.live:
                world.complain(f"boxes are left: {sorted(self.daemon.live)}")
            nursery.cancel_scope.cancel()
        self._after_all()
        self.book.close()

    async def _machine(self, number: int, stop: trio.Event, after_s: float) -> None:
        """One machine: its worker begins again whenever it has ended."""
        await trio.sleep(after_s)
        while not stop.is_set():
            worker = Worker(
                self.world, self.server, f"w{number}-{next(self._lives)}", self._sent, self.partition_key_of
            )
            async with trio.open_nursery() as nursery:
                context = copy_context()
                context.run(GATE.set, worker.gate)
                context.run(nursery.start_soon, self._live, worker, stop)
            if not stop.is_set():
                await trio.sleep(self.world.random.choice((0.5, 3, 3, LEASE_S + 5)))

    async def _live(self, worker: Worker, stop: trio.Event) -> None:
        """One life of a worker."""
        world, random = self.world, self.world.random
        worker.context = copy_context()
        eyes = cast(Any, Eyes(self, worker))
        setting = Setting(**{**vars(self.setting), "witness": eyes})
        death = None
        if not world.calm and world.dice("kill", 0.15):
            reminders = self.reminders.draw_death()
            death = reminders or (random.choice(MOMENTS), random.choice((2, 5, 8, 13, 25)))
        process = Process(setting, death, worker)
        worker.process = process
        if world.dice("unsure", 0.3):
            worker.backend.unsure = 0.3
            self._nursery.start_soon(self._sure, worker)
        worker.stop = trio.Event()
        self.starts.append(trio.current_time())
        world.note(worker.name, f"begins, its clock is wrong by {worker.skew_s:.0f} s", lambda: death)
        self.workers.append(worker)
        failed = True
        try:
            async with process.running():
                await self._until_stopped(worker, stop)
            failed = False
        except Exception as error:  # noqa: BLE001  # judged below
            if not process.life.dead and not self._excusable(error):
                world.complain(f"{worker.name} ended with {error!r}")
        finally:
            self.workers.remove(worker)
        worker.backend.dead = True
        if process.life.dead or failed or process.shaken:
            self.ledger.sender_lost(process.life)
        world.note(worker.name, "has ended")

    async def _until_stopped(self, worker: Worker, stop: trio.Event) -> None:
        async with trio.open_nursery() as nursery:

            async def wait(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait, stop)
            nursery.start_soon(wait, worker.stop)
        self.world.note(worker.name, "is told to end")
        process = worker.process
        with trio.move_on_after(self.world.random.choice((math.inf, math.inf, 3))):
            await wind_down(
                (),
                process.inbox.chats,
                process.services.fact_extraction,
                worker.drain,
                worker.settings.drain_s,
            )
            with trio.move_on_after(20):
                await process.telegram.flush()

    def _excusable(self, error: BaseException) -> bool:
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        return isinstance(error, RumiError | ActorError) and not self.world.calm

    # Faults

    async def _mischief(self) -> None:
        world, random = self.world, self.world.random
        for _ in range(random.choice((0, 1, 2, 3, 4))):
            await trio.sleep(random.choice((0.5, 3, 8, 15)) * random.uniform(0.5, 1.5))
            if not self.workers:
                continue
            worker = random.choice(self.workers)
            match random.choice(("kill", "pause", "pause", "cut", "cut", "down", "roll", "unsure", "crash")):
                case "kill":
                    worker.process.life.die("after a while")
                case "pause":
                    self._nursery.start_soon(self._pause, worker, random.choice((2, 6, 14, 14, 30)))
                case "cut":
                    seconds = random.choice((1, 5, 9, 9, 20))
                    world.note(worker.name, f"is cut off for {seconds} s")
                    world.counts["cuts"] += 1
                    worker.backend.cut_until = trio.current_time() + seconds
                case "down":
                    seconds = random.choice((0.5, 3, 6, 10, 30))
                    world.note("database", f"is down for {seconds} s")
                    world.counts["failovers"] += 1
                    self.server.down_until = trio.current_time() + seconds
                case "unsure":
                    world.note(worker.name, "loses answers to commits")
                    worker.backend.unsure = random.choice((0.05, 0.3))
                case "crash":
                    self._crash(worker)
                case _:
                    world.counts["drains"] += 1
                    worker.stop.set()

    async def _sure(self, worker: Worker) -> None:
        await trio.sleep(6)
        worker.backend.unsure = 0.0

    def _crash(self, worker: Worker) -> None:
        """A part of the tree fails, and what stands below it begins again."""
        parts = ("sender", "extractor", "partitions", "recovery")
        name = self.world.random.choice((*parts, *(("schedules",) if self.world.reminders else ())))
        self.world.note(worker.name, f"its {name} crashes")
        self.world.counts["crashes of parts"] += 1
        process = worker.process
        ref: Any = {
            "sender": process.telegram._sender,
            "extractor": process.services.fact_extraction.extractor,
            "partitions": worker.partitions,
            "recovery": process.inbox.chats._dispatcher._recovery,
            "schedules": process.clock,
        }[name]
        if process.started and ref is not None:
            with suppress(Exception):
                worker.run(crash, ref, RuntimeError("it broke"))

    async def _pause(self, worker: Worker, seconds: float) -> None:
        if worker.gate.closed:
            return
        self.world.note(worker.name, f"is paused for {seconds} s")
        self.world.counts["pauses"] += 1
        worker.gate.close()
        with trio.move_on_after(seconds):
            while not worker.process.life.dead and not self.world.calm:  # noqa: ASYNC110
                await trio.sleep(0.5)
        self.world.note(worker.name, "goes on")
        worker.went_on_at = trio.current_time()
        worker.gate.open()

    def _calm(self) -> None:
        self.world.note("weather", "is calm from now on")
        self.world.calm = True
        self.server.down_until = 0.0
        for worker in self.workers:
            worker.backend.cut_until = worker.backend.unsure = 0.0
        weather.clear(self.api)
        self.ledger.look_at_faults()

    # Around the workers

    async def _deliver(self) -> None:
        """Telegram delivers updates, in order, to some worker; to another one where it gets no answer."""
        random = self.world.random
        while True:
            answer = self.api.handle("getUpdates", {"timeout": 0})
            assert isinstance(answer, Answer)
            updates = (answer.body or {})["result"]
            for update in updates:
                while not await self._hand(update):  # noqa: ASYNC110  # until it is taken
                    await trio.sleep(0.5)
                self.api.handle("getUpdates", {"timeout": 0, "offset": number_of(update) + 1, "limit": 1})
            await trio.sleep(random.choice((0.05, 0.3)) if not updates else 0)

    async def _hand(self, update: Any) -> bool:
        """Deliver an update; return True if a worker has stored it."""
        random = self.world.random
        if not self.workers:
            return False
        both = [random.choice(self.workers) for _ in range(2 if random.random() < 0.15 else 1)]
        taken: list[bool] = []
        some = trio.Event()
        left = len(both)

        async def give(worker: Worker) -> None:
            nonlocal left
            try:
                await worker.process.inbox.accept_all(self._read(update))
                taken.append(True)
            except (RumiError, ActorError) as error:
                self.world.note(worker.name, f"takes no update: {error}")
            left -= 1
            if taken or not left:
                some.set()

        for worker in both:
            try:
                worker.run(worker.process.callers.start_soon, give, worker)
            except (AttributeError, RuntimeError):  # it is about to begin, or to end
                left -= 1
        if not left:
            return bool(taken)
        with trio.move_on_after(REDELIVER_S):
            await some.wait()
        return bool(taken)

    def _read(self, update: Any) -> list[Incoming]:
        (one,) = read_batch([update], self._me, WHO, self._moves, hears=False)
        return [Incoming(update_of(number_of(update))) if isinstance(one, Stranger) else one]

    async def _beat(self) -> None:
        """Boxes go when they hear nothing from their worker any more."""
        while True:
            await trio.sleep(BEAT_S)
            for chat, box in list(self.daemon.live.items()):
                client = box.client
                if isinstance(client, OwnClient):
                    lease = client.lease_of.get(box.id, "")
                    if self.server.leases.get(lease, 0.0) <= trio.current_time():
                        self.daemon.lose(chat)

    # What is watched

    def see(self, worker: Worker, event: ChatEvent) -> None:
        """Something is told at the hub of a worker."""
        self.doings.see(event)
        chat, turn, complain = event.chat, event.turn, self.world.complain
        match event.what:
            case TurnStarted(text):
                self.world.note(worker.name, f"{chat}: {turn} begins", lambda: repr(text))
                self._starts[turn] += 1
                if self._starts[turn] > 1 and not chat.startswith(TASK):  # a task goes on where it was
                    found = self.book.ask("SELECT resumed FROM messages WHERE turn = ?", turn)
                    if self._starts[turn] > 1 + sum(resumed for (resumed,) in found):
                        complain(f"{chat} {turn}: started twice, by {self._started[turn]} and {worker.name}")
                self._started[turn] = worker.name
                # One that goes on behind a pause may tell what it had stored before.
                if worker.went_on_at != trio.current_time():
                    self._check_start(worker, chat, turn)
            case TurnFinished(reason, answer):
                if chat.startswith(TASK):
                    self.doings.ends(chat, worker.process.life)
                self.world.counts[f"turns {reason}"] += 1
                self.world.note(worker.name, f"{chat}: {turn} ends", lambda: f"{reason}: {answer[:50]!r}")
            case Replied(delivery, messages, text):
                self.world.note(
                    worker.name, f"{chat}: reply {delivery} to {messages}", lambda: repr(text[:50])
                )
                for number in messages:
                    # Another worker may tell those who look at it what was stored.
                    name, stored = worker.name, (delivery, text)
                    if number in self._received and (
                        self._received[number] != stored or name in self._senders[number]
                    ):
                        complain(
                            f"{chat}: {number} replied to twice: {self._received[number]!r} and {stored!r}"
                        )
                    self._received[number] = stored
                    self._senders[number].add(name)

    def _check_start(self, worker: Worker, chat: str, turn: str) -> None:
        now = trio.current_time()
        for other in self.workers:
            notices = other.gate.closed or now <= other.went_on_at + NOTICES_S
            if other is not worker and not notices and other.process.calls[chat]:
                self.world.complain(f"{chat} {turn}: started while {other.name} works there")
        partition_key = self.partition_key_of(chat)
        if not worker.ownership.serves(partition_key) and not self._is_ending(worker, partition_key):
            self.world.complain(f"{chat} {turn}: started by {worker.name}, which does not serve it")

    def _is_ending(self, worker: Worker, partition_key: str) -> bool:
        """Return True while no other worker can serve a place, though the worker takes its lease for over."""
        ((owner,),) = self.book.ask(
            "SELECT worker FROM partitions WHERE number = ?", partition_of(partition_key)
        )
        return worker.ownership.over and owner == worker.ownership.worker and worker.serves_now

    def partition_key_of(self, chat: str) -> str:
        """Return what is served where something of a chat, or of a task of it, is done."""
        return self.doings.sim_chat_of(chat).chat

    def _sent(self, worker: Worker, method: str, parameters: Any) -> None:
        if worker.process.life.dead:
            return
        telegram_chat, topic = self.api.chats[parameters["chat_id"]], parameters.get("message_thread_id")
        if (
            telegram_chat.forum
            and (message := telegram_chat.by_id.get(parameters.get("message_id"))) is not None
        ):
            topic = message.topic
        chat = TelegramAddress(telegram_chat.id, topic).chat
        number = partition_of(chat)
        ((owner,),) = self.book.ask("SELECT worker FROM partitions WHERE number = ?", number)
        name = worker.ownership.worker
        if owner != name or not worker.serves_now:
            self.world.complain(f"{chat}: {name} calls {method}, and {owner} serves it")
        elif not worker.ownership.serves(chat):
            self.world.complain(f"{chat}: {name} calls {method}, and its lease is over")

    def _quiet(self, sim_chat: SimChat) -> bool:
        return not self.api.pending and self.book.answered(sim_chat.chat)

    # The end

    def _unfinished(self) -> list[str]:
        pending = self.api.pending
        waiting = [f"the updates {pending} wait"] if pending else []
        return self.book.unfinished() + self.reminders.unfinished() + waiting

    async def _settle(self) -> bool:
        """Wait until all is answered and delivered; False where that does not come."""
        with trio.move_on_after(SETTLED_WITHIN_S):
            while self._unfinished():  # noqa: ASYNC110  # it is looked from outside
                await trio.sleep(1)
            return True
        self.world.complain(f"never settled: {'; '.join(self._unfinished())}")
        return False

    async def _balanced(self) -> None:
        """Each worker has its share, as the database has it and as the worker has it."""
        found: dict[str, int] = {}
        shares: list[int] = []
        with trio.move_on_after(BALANCED_WITHIN_S):
            while True:
                found = dict(
                    self.book.ask(
                        "SELECT coalesce(worker, ''), count(*) FROM partitions WHERE number < 256 GROUP BY 1"
                    )
                )
                live = [worker.ownership for worker in self.workers if not worker.process.life.dead]
                names = [worker.worker for worker in live]
                own = {worker.worker: len(worker.numbers()) for worker in live}
                shares = [found.get(name, 0) for name in names]
                if names and sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1 and found == own:
                    return
                await trio.sleep(1)
        self.world.complain(f"the partitions are not balanced: {found}, the workers have {own}")

    def _when_idle(self) -> None:
        """Nothing is kept, and nothing runs."""
        if self.daemon.live:
            self.world.complain(f"kept for ever: boxes {sorted(self.daemon.live)}")
        for worker in self.workers:
            process = worker.process
            pending = process.pending
            kept = {
                "messages without a reply": pending.unreplied,
                "cursors": pending.cursors,
                "closing": pending.closing,
                "chats": list(process.inbox.chats._chats.keys()),
                "lanes": process.sender._outboxes,
                "turns": process.services.hub.turns,
                "model calls": +process.calls,
            }
            for what, left in kept.items():
                if left:
                    self.world.complain(f"{worker.name}: kept for ever: {what} {left}")
            if pending.served != worker.ownership.numbers():
                self.world.complain(f"{worker.name}: begins nothing in partitions that it serves")

    def _check_writes(self) -> None:
        """Nothing is written twice, and what no worker had begun was not interrupted."""
        twice = self.book.ask(
            """SELECT chat, turn, count(*) FROM history WHERE message LIKE '{"role":"user"%'"""
            " GROUP BY chat, turn, message HAVING count(*) > 1"
        )
        if twice:
            self.world.complain(f"the history has entries twice: {twice}")
        over: set[tuple[str, str]] = set()
        for chat, turn, message in self.book.ask("SELECT chat, turn, message FROM history ORDER BY id"):
            if (chat, turn) in over:
                self.world.complain(f"{chat}: something of {turn} is written behind its end: {message[:80]}")
            if ENDED in message:
                over.add((chat, turn))
        for number, chat, text in self.book.ask(
            "SELECT id, chat, text FROM messages WHERE reason = 'interrupted' AND turn IS NULL"
        ):
            self.world.complain(
                f"{chat}: {number} {text!r} had not begun, and was told that it was interrupted"
            )

    def _after_all(self) -> None:
        """The journal, the chats, the boxes."""
        self._check_writes()
        checks = Checks(cast(Any, self))
        checks._check_messages()
        checks._check_turns()
        checks._check_strangers()
        self.ledger.check()
        checks._check_boxes()
        checks._check_facts()
        self.doings.check(undisturbed=False)
        self.reminders.check()
        if self.world.budgets:
            self.purse.check(self.book)
