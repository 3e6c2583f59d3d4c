"""The latency of a plain message, with pieces of messages joined and without, and the latency of pieces.

    python -m bench.pieces [ROUNDS]

Two Rumis, each a process of its own, talk to fake Telegrams and Groqs over HTTP: one with
`[chat] together_s = 0`, one with the default. In each round, both get a plain message one after the other,
and the order alternates. Each round has a chat of its own, so that no reply waits for the pace at which
Telegram takes a chat's messages. Measured are the times from the update to the model's request and to the
reply. Then only the second gets thoughts in two pieces, 60 ms apart.
"""

import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from bench import telegram_house as house
from bench.rounds import row, spread
from bench.telegram_house import Outside, until
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.bot_api_world import Person
from tests.fakes.groq_server import Answer, Behaviour, Body

ROUNDS = 60
WARM_UP = 10
PLAIN = "What is the capital of Peru?"
FIRST_USER = 1001
MOST_WORSE_MS = 5


@dataclass
class Rumi:
    """A running Rumi, the people who write to it, one after another, and when its model was last asked."""

    out: Outside
    people: Iterator[Person]
    asked_at: list[float] = field(default_factory=list)

    async def turn(self, *say: Callable[[Person], object]) -> tuple[float, float]:
        """Send messages 60 ms apart; return the seconds from the last one to the request and to the reply."""
        person = next(self.people)
        chat = self.out.api.chats[person.id]
        seen, self.asked_at[:] = len(chat.said), []
        for index, send in enumerate(say):
            await trio.sleep(0.06 if index else 0)
            began = time.perf_counter()
            send(person)
        await until(lambda: len(chat.said) > seen, "a reply", 60, 0.001)
        replied = time.perf_counter()
        await trio.sleep(0.02)
        return self.asked_at[-1] - began, replied - began

    def plain(self, person: Person) -> object:
        return self.out.api.say(person, PLAIN)


@asynccontextmanager
async def rumi(rounds: int, **chat: float) -> AsyncIterator[Rumi]:
    asked_at: list[float] = []

    def model(body: Body) -> Behaviour:
        asked_at.append(time.perf_counter())
        return Answer("Lima.")

    users = range(FIRST_USER, FIRST_USER + WARM_UP + 3 * rounds + 10)
    with house.home([*users], chat=chat, memory={"extract": False}) as home:
        async with house.outside(model, UNLIMITED) as out:
            people = [out.api.user(user) for user in users]
            with house.running(house.RUMI, out.environment(home), home.parent / "said"):
                one = Rumi(out, iter(people), asked_at)
                for _ in range(WARM_UP):
                    await one.turn(one.plain)
                yield one


async def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    async with rumi(rounds, together_s=0.0) as before, rumi(rounds) as after:
        measured: dict[str, list[tuple[float, float]]] = {"before": [], "after": []}
        for number in range(rounds):
            pair = [("before", before), ("after", after)]
            for name, one in pair if number % 2 else reversed(pair):
                measured[name].append(await one.turn(one.plain))
        for index, what in enumerate(("model request", "reply")):
            times = {name: [each[index] for each in found] for name, found in measured.items()}
            for name, setting in (("before", "together_s = 0"), ("after", "default")):
                row(f"plain message to {what}, {setting}", spread(times[name], "ms", 1000))
            worse = [(b - a) * 1000 for a, b in zip(times["before"], times["after"], strict=True)]
            figure = f"{statistics.median(worse):+.2f} ms"
            row(f"plain message to {what}, later by", figure, f"at most {MOST_WORSE_MS} ms")
        api = after.out.api
        pieces: dict[str, tuple[Callable[[Person], object], ...]] = {
            "a forward alone": (lambda me: api.forward(me, FORWARDED, text=FERRY),),
            "a comment, then a forward": (
                lambda me: api.say(me, "sum up this"),
                lambda me: api.forward(me, FORWARDED, text=FERRY),
            ),
        }
        for name, say in pieces.items():
            found = [await after.turn(*say) for _ in range(max(3, rounds // 10))]
            row(f"{name}, to the model request", spread([each[0] for each in found], "ms", 1000))


FERRY = "The ferry leaves at 9."
FORWARDED = {"type": "hidden_user", "sender_user_name": "Ana", "date": 1_790_000_000}

if __name__ == "__main__":
    trio.run(main)
