"""Memory after 1,000 turns is what it was after 100.

    python -m bench.soak

The program is `rumi telegram` in a process of its own; each turn runs a command in bubblewrap and streams an
answer. What it holds is read from /proc after a pause, when everything has been replied to and sent. Beside
it, in the same run: a bare loop in a process of its own that asks the same Groq as often, with httpx on trio
and nothing else, so that what an allocator and a client keep by themselves can be told from what Rumi keeps.
Exits with 1 where the memory has grown by more than `TOLERATED`, or open files or threads have.
"""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import trio

from bench import telegram_house as house
from bench.telegram_house import Machine, Outside, Process, until
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls

LOOKS = (100, 250, 500, 1000)
CHATS = 50
TOLERATED = 0.15
"""Growth from the first look to the last: a chat's history is in memory and grows to its limit, and an
allocator gives back whole pages only."""

SETTLE_S = 3.0
FEW = 8
"""Files and threads that may come and go: connections that are kept open for a while, a pool of threads."""

BARE = """
import os, sys, httpx, trio
URL = os.environ["GROQ_BASE_URL"] + "/openai/v1/chat/completions"
HEADERS = {"Authorization": "Bearer " + os.environ["GROQ_API_KEY"]}
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
async def main():
    async with httpx.AsyncClient(timeout=60) as client:
        for turns in sys.stdin:
            for _ in range(2 * int(turns)):
                async with client.stream("POST", URL, json=BODY, headers=HEADERS) as reply:
                    async for _ in reply.aiter_lines():
                        pass
            print(flush=True)
trio.run(main)
"""


def script(body: Body) -> Behaviour:
    """A command, and then an answer in pieces."""
    if answered_calls(body) or "tools" not in body:
        return Answer("A streamed answer of some length. " * 20)
    return Answer(calls=(("bash", json.dumps({"command": "echo working"})),))


def held(pid: int) -> tuple[float, int, int]:
    """MB of memory, open files, threads."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return int(status["VmRSS"].split()[0]) / 1024, files, int(status["Threads"])


async def turns(out: Outside, root: Path, first: int, last: int) -> None:
    """Run the turns from `first` to `last`, one in each chat at a time, until all replies are sent."""
    people = [out.api.people[100 + number] for number in range(CHATS)]
    database = sqlite3.connect(root / "state.db")

    def sent() -> int:
        query = "SELECT count(*) FROM outbox WHERE delivered IS NOT NULL"
        return int(database.execute(query).fetchone()[0])

    for start in range(first, last, CHATS):
        end = min(start + CHATS, last)
        for person in people[: end - start]:
            out.api.say(person, "work")
        with trio.fail_after(120):
            while sent() < end:
                await trio.sleep(0.05)
    database.close()
    await trio.sleep(SETTLE_S)


async def loop(bare: trio.Process, number: int) -> None:
    """Have the bare loop make the requests of so many turns."""
    assert bare.stdin is not None
    assert bare.stdout is not None
    await bare.stdin.send_all(f"{number}\n".encode())
    await bare.stdout.receive_some(1)


async def soak(out: Outside, root: Path, rumi: Process, bare: trio.Process) -> bool:
    """Look several times, print what is seen; whether nothing grew."""
    await until(lambda: out.updates.polls, "Rumi polls", 60)
    print(f"{CHATS} chats; each turn runs a command and streams an answer\n")
    print("turns   Rumi MB   files   threads   bare loop MB")
    seen, beside = [], []
    for first, last in zip((0, *LOOKS), LOOKS, strict=False):
        await turns(out, root, first, last)
        await loop(bare, last - first)
        seen.append(held(rumi.pid))
        beside.append(held(bare.pid)[0])
        print("{:5}   {:7.1f}   {:5}   {:7}   {:12.1f}".format(last, *seen[-1], beside[-1]), flush=True)
    growth = seen[-1][0] / seen[0][0]
    print(f"\nafter {LOOKS[-1]} turns, of what it was after {LOOKS[0]}: Rumi {growth:.3f},", end=" ")
    print(f"the bare loop {beside[-1] / beside[0]:.3f}; tolerated {1 + TOLERATED}")
    return growth <= 1 + TOLERATED and all(seen[-1][place] <= seen[0][place] + FEW for place in (1, 2))


async def main() -> int:
    machine = Machine()
    users = [100 + number for number in range(CHATS)]
    async with house.outside(script, UNLIMITED) as out:
        for user in users:
            out.api.user(user)
        with house.home(users) as root:
            env = out.environment(root)
            command = [sys.executable, "-c", BARE]
            pipe = subprocess.PIPE
            bare = await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe, env=env)
            try:
                with house.running(house.RUMI, env, root / "said") as rumi:
                    fine = await soak(out, root, rumi, bare)
            finally:
                bare.kill()
                with trio.CancelScope(shield=True):
                    await bare.wait()
    print(f"of this machine, other programs had {machine.others():.0%}")
    if not fine:
        print("It grows.")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(trio.run(main))
