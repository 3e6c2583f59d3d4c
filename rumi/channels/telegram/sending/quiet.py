"""Quiet hours of groups: what Rumi sends by itself waits for their end; answers come without a sound."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from actors import ActorError
from rumi.channels.telegram.address import Moves
from rumi.platform.chat_ids import TELEGRAM, ChatIds
from rumi.platform.config.groups import Groups
from rumi.platform.zones import zone_of_machine
from rumi.tasks.schedules.times import QuietHours, quiet_hours

logger = logging.getLogger(__name__)

_IDS = ChatIds((TELEGRAM,))


async def _unknown(owner: str) -> str:
    return ""


@dataclass(slots=True)
class QuietGroups:
    """Tells whether a group has its quiet hours, by the configured hours and the group's time zone.

    `zone_of` returns the time zone of a group, empty if the group has set none; then this machine's counts.
    """

    groups: Groups = field(default_factory=Groups)
    moves: Moves = field(default_factory=Moves)
    zone_of: Callable[[str], Awaitable[str]] = _unknown
    now: Callable[[], float] = time.time
    _zones: dict[str, str] = field(default_factory=dict)

    async def learn(self, chat: str) -> None:
        """Read the time zone of a chat's group, if the group has quiet hours. Never raises."""
        if self._hours(chat) is None:
            return
        owner = _IDS.owner_of(chat)
        try:
            self._zones[owner] = await self.zone_of(owner)
        except ActorError as error:
            logger.info("the time zone of a group is not known now: %r", error)

    def left_s(self, chat: str) -> float:
        """Return the number of seconds until the end of the current quiet hours; 0 outside of them."""
        hours = self._hours(chat)
        if hours is None:
            return 0.0
        now = self.now()
        return max(
            0.0, hours.until(now, self._zones.get(_IDS.owner_of(chat)) or zone_of_machine() or "UTC") - now
        )

    def _hours(self, chat: str) -> QuietHours | None:
        address = self.moves.address_of(chat)
        if address is None or not self.groups.sections:
            return None
        return quiet_hours(self.groups.of(*self.moves.names_of(address)).quiet)
