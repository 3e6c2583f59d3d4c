"""Tell and ask: a message is a value, and a request declares the type of its reply.

Prints:
    2 apples
    0 pears
"""

from dataclasses import dataclass

import trio

from actors import Actor, ChildSpec, Request, Supervisor, answers


@dataclass(frozen=True, slots=True)
class Put:
    """Add `count` items; sent with `tell`."""

    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Get(Request[int]):
    """Get the number of items; sent with `ask`."""

    what: str


class CountStore(Actor[Put | Get]):
    """A store of counts. Only its own tasks access `_counts`, so it needs no lock."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    async def receive(self, message: Put | Get) -> None:
        """Handle each message that has no method decorated with `answers`."""
        if isinstance(message, Put):
            self._counts[message.what] = self._counts.get(message.what, 0) + message.count

    @answers(Get)
    async def get(self, message: Get) -> int:
        """Return the count. A type checker rejects a reply that is not an int."""
        return self._counts.get(message.what, 0)


async def main() -> None:
    """Run the tree while the body runs; put two apples in and ask for two counts."""
    root = Supervisor("root")
    store = root.add(ChildSpec("store", CountStore))
    async with root.running():
        await store.tell(Put("apples", 2))
        for what in ("apples", "pears"):
            print(await store.ask(Get(what)), what)


if __name__ == "__main__":
    trio.run(main)
