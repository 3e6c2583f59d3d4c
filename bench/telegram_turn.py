"""The CPU of turns over Telegram, and what a start and an idle program cost.

    python -m bench.telegram_turn [TURNS [FOLDER]]

Rumi is a process of its own, started twice on one home, so that the second start finds everything there. It
talks to a fake Telegram and a fake Groq over HTTP. Turns come one after the other, in one chat: half of them
only answer, half run a command in bubblewrap first. What is counted is the process's CPU time, its threads
included, without its children; FOLDER is another checkout of the program, to compare with.
"""

import json
import signal
import sys
import time
from pathlib import Path

import trio

from bench import telegram_house as house
from bench.rounds import row
from bench.telegram_house import Outside, Process, until
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.bot_api_world import Person
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls, last_user_text

TURNS = 60
WARM_UP = 10
COMMAND = json.dumps({"command": "echo hello"})
TEXT = "Bread needs flour, water, salt and time. Knead it, let it rest, and bake it until it is brown."


def model(body: Body) -> Behaviour:
    if last_user_text(body).startswith("run") and not answered_calls(body):
        return Answer(calls=[("bash", COMMAND)])
    return Answer(TEXT)


def cpu_s(pid: int) -> float:
    """Seconds of the process and its threads so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


async def turns(out: Outside, person: Person, process: Process, text: str, number: int) -> float:
    """Have so many turns; return the CPU of one, in seconds."""
    chat = out.api.chats[person.id]
    began = cpu_s(process.pid)
    for place in range(number):
        seen = len(chat.said)
        out.api.say(person, f"{text} {place}")
        await until(lambda seen=seen: len(chat.said) > seen, "a reply", 60, 0.002)  # type: ignore[misc]
    await trio.sleep(0.3)
    return (cpu_s(process.pid) - began) / number


async def polled(out: Outside, process: Process) -> tuple[float, float]:
    """Wait for the first poll; return the CPU until then and the time, in seconds."""
    began, started = time.perf_counter(), house.now()

    def polls() -> bool:
        return any(call.method == "getUpdates" and call.time > started for call in out.api.calls)

    await until(polls, "a poll", 60, 0.002)
    return cpu_s(process.pid), time.perf_counter() - began


async def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    if len(sys.argv) > 2:
        house.ROOT = Path(sys.argv[2])
    with house.home([1001]) as home:
        async with house.outside(model, UNLIMITED) as out:
            person = out.api.user(1001)
            env, said = out.environment(home), home.parent / "said"
            with house.running(house.RUMI, env, said) as process:
                await polled(out, process)
                await turns(out, person, process, "hello", 1)
                process.signal(signal.SIGTERM)
                await process.ended()
            with house.running(house.RUMI, env, said) as process:
                cpu, took = await polled(out, process)
                row("CPU until the first poll", f"{cpu:.2f} s")
                row("time until the first poll", f"{took:.2f} s")
                await trio.sleep(1)
                row("memory of an idle program", f"{rss_mb(process.pid):.0f} MB")
                for text in ("hello", "run"):
                    await turns(out, person, process, text, WARM_UP)
                for text in ("hello", "run"):
                    cost = await turns(out, person, process, text, number)
                    row(f"CPU of a turn, {text!r}", f"{cost * 1000:.1f} ms")
                row("memory afterwards", f"{rss_mb(process.pid):.0f} MB")


if __name__ == "__main__":
    trio.run(main)
