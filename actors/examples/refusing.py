"""An expected error goes to the asker; any other error is a crash and restarts the actor.

Prints:
    crashed: ZeroDivisionError
    refused: there is no user bob
    restarts: 1
"""

import logging
from dataclasses import dataclass

import trio

from actors import Actor, ActorCrashed, ChildSpec, Refused, Request, Supervisor, answers


class UnknownUserError(Exception):
    """An expected error that the asker can handle."""


@dataclass(frozen=True, slots=True)
class Age(Request[int]):
    """Get the age of a user. An unknown user is refused with `UnknownUserError`."""

    user: str


class Users(Actor[Age]):
    """An actor with a bug: it divides by zero for every user that exists."""

    @answers(Age)
    async def age(self, message: Age) -> int:
        """Refuse an unknown user; crash for any other."""
        if message.user == "bob":
            raise Refused(UnknownUserError("there is no user bob"))
        return 1 // 0


async def main() -> None:
    """Ask for both users; print the crash, the refusal and the number of restarts."""
    logging.disable()  # the runtime logs a crash with its traceback
    root = Supervisor("root")
    users = root.add(ChildSpec("users", Users))
    async with root.running():
        try:
            await users.ask(Age("ann"))
        except ActorCrashed as error:
            print("crashed:", type(error.__cause__).__name__)
        try:
            await users.ask(Age("bob"))
        except UnknownUserError as error:
            print("refused:", error)
        print("restarts:", root.status().children[0].restarts)


if __name__ == "__main__":
    trio.run(main)
