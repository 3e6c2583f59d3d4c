"""An ask is a structured call: cancelling the asker cancels the handler and waits for its end.

Prints:
    the work begins
    the work is cleaned up
    the asker has left
    the actor goes on: pong
"""

from dataclasses import dataclass

import trio

from actors import Actor, ChildSpec, Request, Supervisor, answers
from actors.testing import run


@dataclass(frozen=True, slots=True)
class Compute(Request[int]):
    """A request that takes an hour."""


@dataclass(frozen=True, slots=True)
class Ping(Request[str]):
    """A request that takes no time."""


class Calculator(Actor[Compute | Ping]):
    """An actor without state, so that a cancellation in a handler cannot leave it inconsistent."""

    @answers(Compute)
    async def compute(self, message: Compute) -> int:
        """Compute for an hour; if the asker is cancelled, this is cancelled too."""
        print("the work begins")
        try:
            await trio.sleep(3600)
        finally:
            print("the work is cleaned up")
        return 42

    @answers(Ping)
    async def ping(self, message: Ping) -> str:
        """Reply at once."""
        return "pong"


async def main() -> None:
    """Ask with a time limit of one second: `ask` has no timeout of its own, so callers use trio's."""
    root = Supervisor("root")
    worker = root.add(ChildSpec("worker", Calculator))
    async with root.running():
        with trio.move_on_after(1):
            await worker.ask(Compute())
        print("the asker has left")
        print("the actor goes on:", await worker.ask(Ping()))


if __name__ == "__main__":
    run(main)  # in virtual time
