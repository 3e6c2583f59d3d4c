"""An expected error is refused to its asker; any other error is a crash, and the actor is restarted.

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
    """What the asker can act on."""


@dataclass(frozen=True, slots=True)
class Age(Request[int]):
    """How old a user is. Refused with UnknownUserError."""

    user: str


class Users(Actor[Age]):
    """Knows one user, and has a bug."""

    @answers(Age)
    async def age(self, message: Age) -> int:
        """Look the user up."""
        if message.user == "bob":
            raise Refused(UnknownUserError("there is no user bob"))
        return 1 // 0


async def main() -> None:
    """Ask for both."""
    logging.disable()  # a crash is logged with its traceback
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
