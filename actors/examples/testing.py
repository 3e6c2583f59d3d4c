"""Tests of actors: an hour takes no time, and a crash comes when it is asked for.

Prints:
    an hour later: restarted
    crashed: root/sleeper
"""

import logging

import trio

from actors import Actor, ChildSpec
from actors.testing import Tree, crash, run


class Sleeper(Actor[str]):
    """Takes an hour for a message."""

    async def receive(self, message: str) -> None:
        """Sleep."""
        await trio.sleep(3600)


async def main() -> None:
    """Crash it in the middle of a message."""
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
