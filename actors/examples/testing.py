"""Tests of actors: in virtual time an hour takes no time, and `crash` injects a crash.

Prints:
    an hour later: restarted
    crashed: root/sleeper
"""

import logging

import trio

from actors import Actor, ChildSpec
from actors.testing import Tree, crash, run


class Sleeper(Actor[str]):
    """An actor that takes an hour per message."""

    async def receive(self, message: str) -> None:
        """Sleep for an hour."""
        await trio.sleep(3600)


async def main() -> None:
    """Crash the actor in the middle of a message."""
    logging.disable()
    tree = Tree()
    sleeper = tree.add(ChildSpec("sleeper", Sleeper))
    async with tree.up():
        await sleeper.tell("good night")
        await trio.sleep(1800)
        crash(sleeper)
        await trio.sleep(1800)
        print("an hour later:", "restarted" if tree.node("sleeper").incarnation == 2 else "not restarted")
        print("crashed:", *tree.paths_of("crashed"))


if __name__ == "__main__":
    run(main)
