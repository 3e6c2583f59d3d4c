"""Timers: ticks come through the mailbox, and a timer ends with the incarnation that set it.

Prints:
    tick
    tick
    tick
    done
"""

from actors import Actor, ChildSpec, Supervisor
from actors.testing import run


class Clock(Actor[str]):
    """An actor that stops after three ticks."""

    def __init__(self) -> None:
        self._ticks = 0

    async def started(self) -> None:
        """Set the timer."""
        self.tell_every(60, "tick")

    async def receive(self, message: str) -> None:
        """Count a tick; stopping ends the incarnation, which cancels the timer."""
        print(message)
        self._ticks += 1
        if self._ticks == 3:
            self.stop()


async def main() -> None:
    """Run the clock until it stops; a "transient" child that ends normally is not restarted."""
    root = Supervisor("root")
    clock = root.add(ChildSpec("clock", Clock, restart="transient"))
    async with root.running():
        await clock.wait_stopped()
        print("done")


if __name__ == "__main__":
    run(main)  # in virtual time: the three minutes take none
