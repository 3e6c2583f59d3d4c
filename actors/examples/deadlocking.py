"""Two actors that ask each other wait forever: the tree says who asks whom, and where that is a circle.

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
    """Has no answer."""


class Asker(Actor[NeverAnswered]):
    """Answers with what the other says."""

    def __init__(self, others: dict[str, ActorRef[NeverAnswered]]) -> None:
        self._others = others

    @answers(NeverAnswered)
    async def question(self, message: NeverAnswered) -> str:
        """Ask the other from within a handler: nothing else is handled meanwhile."""
        return await self._others[self.id].ask(NeverAnswered())


async def client(left: ActorRef[NeverAnswered]) -> None:
    """Get out of it by a time limit: that takes the whole chain of asks back."""
    with trio.move_on_after(10):
        await left.ask(NeverAnswered())
    print("given up")


async def main() -> None:
    """Look at the tree meanwhile."""
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
