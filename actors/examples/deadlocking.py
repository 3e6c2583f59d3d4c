"""Two actors that ask each other wait forever; `pending_asks` and `circles` show the deadlock.

Prints:
    __main__.client asks root/left: NeverAnswered (handled)
    root/right asks root/left: NeverAnswered (queued)
    root/left asks root/right: NeverAnswered (handled)
    a circle: root/left, root/right
    given up
"""

from dataclasses import dataclass

import trio

from actors import Actor, ActorRef, ChildSpec, Request, Supervisor, answers, circles, pending_asks
from actors.testing import run


@dataclass(frozen=True, slots=True)
class NeverAnswered(Request[str]):
    """A request that never gets a reply, because of the deadlock."""


class Asker(Actor[NeverAnswered]):
    """An actor that passes each request to the other actor, and returns the reply."""

    def __init__(self, others: dict[str, ActorRef[NeverAnswered]]) -> None:
        self._others = others

    @answers(NeverAnswered)
    async def question(self, message: NeverAnswered) -> str:
        """Ask the other actor and wait for the reply; meanwhile, this actor handles no other message."""
        return await self._others[self.id].ask(NeverAnswered())


async def client(left: ActorRef[NeverAnswered]) -> None:
    """Ask with a time limit: the cancellation withdraws the whole chain of asks."""
    with trio.move_on_after(10):
        await left.ask(NeverAnswered())
    print("given up")


async def main() -> None:
    """Start the deadlock and print the pending asks and the cycle."""
    root = Supervisor("root")
    others: dict[str, ActorRef[NeverAnswered]] = {}
    left = root.add(ChildSpec("left", lambda: Asker(others)))
    right = root.add(ChildSpec("right", lambda: Asker(others)))
    others.update(left=right, right=left)

    async with root.running(), trio.open_nursery() as nursery:
        nursery.start_soon(client, left)
        await trio.sleep(1)
        asks = pending_asks(root)
        print(*asks, sep="\n")
        for circle in circles(asks):
            print("a circle:", ", ".join(circle))


if __name__ == "__main__":
    run(main)  # in virtual time
