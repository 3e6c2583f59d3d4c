"""What is known of rooms: their members and whether they are encrypted. Nothing is stored on disk."""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from rumi.channels.matrix.api import MatrixApi, MatrixError
from rumi.channels.matrix.reading import RoomEvent, fields, text
from rumi.platform.untrusted_text import one_line

logger = logging.getLogger(__name__)

MOST: Final = 2_000
"""Maximum number of remembered rooms. A forgotten one is asked for again."""

MOST_NAME: Final = 100
"""Maximum length of a name, in characters."""

MOST_COMPARED: Final = 200
"""In rooms with more members, names are not compared, and each author's id follows the name."""


MOST_MEMBERS: Final = 20_000
"""In rooms with more members, their names are not remembered."""


@dataclass(slots=True)
class MatrixRoom:
    """A room. `members` are the joined users with their names; None if that is not known."""

    id: str
    members: dict[str, str] | None = None
    encrypted: bool | None = None

    def other(self, user: str) -> str:
        """Return the one other member of a direct room; empty if the room has more, or nobody knows."""
        if self.members is None or len(self.members) != 2 or user not in self.members:
            return ""
        return next(member for member in self.members if member != user)

    def name_of(self, user: str) -> str:
        """Return the name that a member has chosen, as a short line; empty if it is not known."""
        return one_line((self.members or {}).get(user, "")[: 4 * MOST_NAME], MOST_NAME)

    def author(self, user: str) -> str:
        """Return what a member is called as an author: the name, and the id if the name may mislead.

        It may if another member has the same name, or if it is like an id.
        """
        name, members = self.name_of(user), self.members or {}
        if not name:
            return user
        plain = name.casefold()
        known = "@" in name or len(members) > MOST_COMPARED
        if known or any(other != user and self.name_of(other).casefold() == plain for other in members):
            return f"{name} ({user})"
        return name


class Rooms:
    """The rooms of an account. Who is in a room decides whose chat it is, so nothing is assumed."""

    def __init__(self, api: MatrixApi) -> None:
        self._api = api
        self._rooms: OrderedDict[str, MatrixRoom] = OrderedDict()

    def apply(self, id: str, event: RoomEvent) -> None:
        """Take a state event of a room."""
        room = self._rooms.get(id)
        if room is None:
            return
        if event.kind == "m.room.encryption":
            room.encrypted = True
        elif event.kind == "m.room.member" and event.state_key and room.members is not None:
            if text(event.content, "membership") == "join":
                room.members[event.state_key] = text(event.content, "displayname") or ""
            else:
                room.members.pop(event.state_key, None)

    def forget(self, id: str) -> None:
        """Forget a room: it has to be asked for again."""
        self._rooms.pop(id, None)

    async def know(self, id: str) -> MatrixRoom:
        """Return a room, and ask the server for its members if they are not known.

        Raises:
            MatrixError: The server does not answer now.
        """
        room = self._rooms.get(id)
        if room is None:
            room = self._rooms[id] = MatrixRoom(id)
            if len(self._rooms) > MOST:
                self._rooms.popitem(last=False)
        self._rooms.move_to_end(id)
        if room.members is None:
            try:
                found = await self._api.members(id)
            except MatrixError as error:
                if error.kind != "refused":
                    raise
                logger.info("the members of a room are not known: %s", error.message)
                return room
            if len(found) <= MOST_MEMBERS:
                room.members = {user: text(fields(found, user), "display_name") or "" for user in found}
            else:
                room.members = dict.fromkeys(found, "")
        return room
