"""Supervision: with "rest_for_one", a crash of one child also restarts the children that were added after it.

Prints:
    database starts (1)
    web starts (1)
    database crashes
    web stops
    database starts (2)
    web starts (2)
    web got the message that waited
    web stops
    database stops
"""

import logging

import trio

from actors import Actor, ChildSpec, StopReason, Supervisor


class Service(Actor[str]):
    """An actor that prints its starts, messages, crashes and stops."""

    async def started(self) -> None:
        """Print the start, with the number of the incarnation."""
        print(f"{self.id} starts ({self.incarnation})")

    async def receive(self, message: str) -> None:
        """Crash on the message "crash"; print any other."""
        if message == "crash":
            print(f"{self.id} crashes")
            raise RuntimeError
        print(f"{self.id} got {message}")

    async def stopped(self, reason: StopReason) -> None:
        """Print the stop, unless the actor crashed."""
        if reason != "crashed":
            print(f"{self.id} stops")


async def main() -> None:
    """Crash the database; a message for the web actor waits in its mailbox until the restart."""
    logging.disable()
    root = Supervisor("root", strategy="rest_for_one", max_restarts=3, within=5.0)
    database = root.add(ChildSpec("database", Service))
    web = root.add(ChildSpec("web", Service))
    async with root.running():
        await database.tell("crash")
        while root.status().children[1].state == "running":
            await trio.lowlevel.checkpoint()
        await web.tell("the message that waited")
        while root.status().children[1].incarnation < 2 or web.statistics().depth:
            await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    trio.run(main)
