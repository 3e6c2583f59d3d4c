"""10,000 schedules: what they cost while nothing fires, and how late fires are beside 200 chats in turns.

    python -m bench.schedules [SCHEDULES [CHATS [SECONDS]]]

The processor time of a process with 10,000 schedules is compared with that of one with none, in alternating
rounds. Then 200 chats are in turns all the time: a model server in another process answers each of them after
ten seconds, and they ask again at once. Meanwhile reminders come; a fire's delay is the time from its instant
to the event that brings its text.

Exits with 1 if the p99 of the delay is 250 ms or more, or if a reminder comes twice or not at all.
"""

import argparse
import sys
import time
from collections import Counter

import trio

from bench import house
from bench.rounds import percentile, row, spread
from bench.tasks import started
from bench.telegram_house import Machine
from rumi.app.app import App
from rumi.chats.events import Replied
from rumi.cli.serve import look_for_cycles_seldom
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.schedules import add_schedule
from tests.fakes.groq_server import KEY, Answer, Body, serve_groq

SCHEDULES = 10_000
CHATS = 200
SECONDS = 20.0
FIRES = 400
ROUNDS = 3
BOUND_S = 0.25
REPLY_S = 10.0


async def add(app: App, many: int, instant: float, cron: str = "0 9 * * *") -> None:
    """Store schedules of many owners, which next fire at that time."""
    ask = app.services.journal.ask
    for first in range(0, many, 500):
        async with trio.open_nursery() as nursery:
            for number in range(first, min(first + 500, many)):
                new = ScheduleRecord(
                    f"tg{number}", f"tg{number}", "text", "x", cron=cron, zone="UTC", instant=instant
                )
                nursery.start_soon(ask, add_schedule(new, 100))
    app.schedules.changed()


async def idle_cpu(many: int, seconds: float) -> float:
    """The share of a processor that a process takes while nothing fires."""
    async with house.app({"model.default": "offline"}) as app:
        if many:
            await add(app, many, time.time() + 86_400)
        await trio.sleep(3)
        began, used = time.perf_counter(), time.process_time()
        await trio.sleep(seconds)
        return (time.process_time() - used) / (time.perf_counter() - began)


async def delays(chats: int, many: int) -> tuple[list[float], Counter[str], int]:
    """How late fires are beside chats in turns; how often each came; the turns that were made."""
    settings = {
        "sandbox.backend": "bubblewrap",
        "memory.extract": False,
        "model.fallbacks": [],
        "model.max_concurrent": 2 * chats,
    }
    with started("bench.schedules", "--serve") as model:
        async with house.app(settings, {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": model}) as app:
            look_for_cycles_seldom()
            return await beside_turns(app, chats, many)


async def beside_turns(app: App, chats: int, many: int) -> tuple[list[float], Counter[str], int]:
    """Do that in a process that runs."""
    late: list[float] = []
    came: Counter[str] = Counter()
    turns = 0
    async with trio.open_nursery() as nursery:
        await add(app, many, time.time() + 86_400)

        async def talk(chat: str) -> None:
            nonlocal turns
            await trio.sleep(REPLY_S * int(chat.partition("-")[2]) / chats)
            while True:
                await house.turn(app, chat, "How is it?")
                turns += 1

        async def listen() -> None:
            with app.services.hub.listening() as events:
                while True:
                    what = (await events.receive()).what
                    if isinstance(what, Replied) and what.schedule:
                        instant = float(what.text.split()[-1])
                        late.append(time.time() - instant)
                        came[what.text] += 1

        nursery.start_soon(listen)
        for number in range(chats):
            nursery.start_soon(talk, f"chat-{number}")
        await trio.sleep(1.5 * REPLY_S)
        begins = time.time() + 10
        async with trio.open_nursery() as adding:
            for number in range(FIRES):
                instant = begins + number * SECONDS / FIRES
                chat = f"quiet-{number % 50}"
                new = ScheduleRecord("local", chat, "text", f"{number} {instant!r}", instant=instant)
                adding.start_soon(app.services.journal.ask, add_schedule(new, FIRES))
        app.schedules.changed()
        await trio.sleep(begins - time.time() + SECONDS + 5)
        nursery.cancel_scope.cancel()
    return late, came, turns


def think(body: Body) -> Answer:
    """Answer slowly, as models do."""
    return Answer("That is how it is.", begin_s=REPLY_S, pieces=1)


async def serve() -> None:
    """Serve the model until this process is killed."""
    async with serve_groq(think) as server:
        print(server.base_url, flush=True)
        await trio.sleep_forever()


async def main() -> None:
    machine = Machine()
    parser = argparse.ArgumentParser(prog="python -m bench.schedules")
    parser.add_argument("schedules", nargs="?", type=int, default=SCHEDULES)
    parser.add_argument("chats", nargs="?", type=int, default=CHATS)
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS)
    options = parser.parse_args()
    none, some = [], []
    for _ in range(ROUNDS):
        none.append(100 * await idle_cpu(0, options.seconds))
        some.append(100 * await idle_cpu(options.schedules, options.seconds))
    row(f"idle CPU with {options.schedules} schedules", spread(some, "%"), f"none: {spread(none, '%')}")
    late, came, turns = await delays(options.chats, options.schedules)
    p99 = percentile(late, 0.99)
    said = f"median {1000 * percentile(late, 0.5):.0f} ms, p99 {1000 * p99:.0f} ms"
    row(f"delay of {FIRES} fires beside {options.chats} chats ({turns} turns)", said, "p99 250 ms")
    row("of this machine, other programs had", f"{machine.others():.0%}")
    once = len(came) == FIRES and set(came.values()) == {1}
    if not once:
        print(f"{len(came)} of {FIRES} came, {sum(many > 1 for many in came.values())} more than once")
    sys.exit(not (once and p99 < BOUND_S))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        trio.run(serve)
    else:
        house.run(main)
