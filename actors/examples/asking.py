"""Tell and ask: a message is a value, and a request says what it is answered with.

Prints:
    2 apples
    0 pears
"""

from dataclasses import dataclass

import trio

from actors import Actor, ChildSpec, Request, Supervisor, answers


@dataclass(frozen=True, slots=True)
class Put:
    """Told: so many more."""

    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Get(Request[int]):
    """Asked: how many there are."""

    what: str


class CountStore(Actor[Put | Get]):
    """Only its own tasks touch `_counts`: it needs no lock."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    async def receive(self, message: Put | Get) -> None:
        """Take what is told."""
        if isinstance(message, Put):
            self._counts[message.what] = self._counts.get(message.what, 0) + message.count

    @answers(Get)
    async def get(self, message: Get) -> int:
        """A type checker refuses another reply than an int."""
        return self._counts.get(message.what, 0)


async def main() -> None:
    """Run the store as long as it is needed."""
    root = Supervisor("root")
    store = root.add(ChildSpec("store", CountStore))
    async with root.running():
        await store.tell(Put("apples", 2))
        for what in ("apples", "pears"):
            print(await store.ask(Get(what)), what)


if __name__ == "__main__":
    trio.run(main)
