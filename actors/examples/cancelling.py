"""An ask is a structured call: when the asker gives up, the work is cancelled, and its end is awaited.

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
    """Takes an hour."""


@dataclass(frozen=True, slots=True)
class Ping(Request[str]):
    """Takes no time."""


class Calculator(Actor[Compute | Ping]):
    """Holds nothing that a cancellation in the middle would spoil."""

    @answers(Compute)
    async def compute(self, message: Compute) -> int:
        """Cancelled when its asker gives up."""
        print("the work begins")
        try:
            await trio.sleep(3600)
        finally:
            print("the work is cleaned up")
        return 42

    @answers(Ping)
    async def ping(self, message: Ping) -> str:
        """Show that the actor is there."""
        return "pong"


async def main() -> None:
    """Give up soon: `ask` has no timeout of its own, callers have trio's."""
    root = Supervisor("root")
    worker = root.add(ChildSpec("worker", Calculator))
    async with root.running():
        with trio.move_on_after(1):
            await worker.ask(Compute())
        print("the asker has left")
        print("the actor goes on:", await worker.ask(Ping()))


if __name__ == "__main__":
    run(main)  # in virtual time
