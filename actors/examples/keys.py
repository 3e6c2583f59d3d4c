"""Keyed children: one actor per key, started for its first message and stopped when idle.

Prints:
    ann starts
    ann: hello
    ann: again
    bob starts
    bob: hello
    there are ann, bob
    there is no one
"""

from functools import partial

import trio

from actors import Actor, ChildSpec, DynamicSupervisor
from actors.testing import run


class Room(Actor[str]):
    """The actor of one person."""

    def __init__(self, person: str) -> None:
        self._person = person

    async def started(self) -> None:
        """Print that the actor has started; its first message caused the start."""
        print(f"{self._person} starts")

    async def receive(self, message: str) -> None:
        """Print the message."""
        print(f"{self._person}: {message}")


async def main() -> None:
    """Send messages directly after `get_or_start`, so that they reach the child before it can go idle."""
    rooms = DynamicSupervisor("rooms", lambda key: ChildSpec(key, partial(Room, key), idle_s=60))
    async with rooms.running():
        for person, words in (("ann", "hello"), ("ann", "again"), ("bob", "hello")):
            room = await rooms.get_or_start(person)
            await room.tell(words)
            while room.statistics().depth:
                await trio.lowlevel.checkpoint()
        print("there are", ", ".join(rooms.keys()))
        await room.wait_stopped()
        print("there is no one" if not rooms.keys() else "someone is left")


if __name__ == "__main__":
    run(main)  # in virtual time: the idle minute takes no time
