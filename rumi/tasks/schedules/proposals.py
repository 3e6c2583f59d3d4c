"""Time zones that the clients and places of people propose, and what the people are told about them."""

import logging
from collections.abc import Sequence
from typing import Final

from actors import ActorError
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds
from rumi.platform.extras import MissingExtra, is_installed
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.threads import Offload, Threads
from rumi.platform.zone_finding import zone_at
from rumi.platform.zones import is_utc, known_zone, same_clock
from rumi.store.journal.records import Incoming
from rumi.tasks.schedules.stored import StoredSchedules
from rumi.texts import Language

logger = logging.getLogger(__name__)

MOST: Final = 10_000
"""Maximum number of remembered proposals; at this number, all are forgotten, and may be told once more."""


class ZoneProposals:
    """Takes the zone of a message's client or place, if its owner's zone is unknown; each proposal once.

    A zone that a person has set stays. If a place has another zone, the owner is only told how to change it.
    """

    def __init__(self, schedules: StoredSchedules, ids: ChatIds, offload: Offload | None = None) -> None:
        self._schedules = schedules
        self._ids = ids
        self._offload = offload or Threads()
        self._seen: set[tuple[str, str]] = set()
        self._notices: dict[str, tuple[str, str, str]] = {}
        self._without_map: dict[str, str] = {}

    async def propose(self, message: Incoming) -> None:
        """Consider the zone of a message before the message is stored, so that its own turn knows the zone.

        Never raise an expected error: without a zone, everything works, and a time of day is asked about.
        """
        zone = known_zone(message.zone)
        if message.place is not None:
            latitude, longitude = message.place
            zone = await self._offload(lambda: zone_at(latitude, longitude))
        owner = self._ids.owner_of(message.chat)
        if message.place is not None and not is_installed("location"):
            self._without_map[f"zone-map:{owner}"] = message.chat
        # A client that says UTC says nothing: many machines and browsers do so wherever they are.
        if not zone or is_utc(zone) or (owner, zone) in self._seen:
            return
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen.add((owner, zone))
        try:
            before = await self._schedules.zone_of(owner)
            taken = await self._schedules.propose_zone(owner, zone)
        except (RumiError, ActorError) as error:
            logger.warning("chat %s: its time zone %s is not stored: %r", message.chat, zone, error)
            return
        elsewhere = message.place is not None and not same_clock(before, zone)
        if taken or elsewhere:
            self._notices[f"zone:{owner}"] = (message.chat, zone, "" if taken else before)

    def notices(self, chat: str, language: Language) -> Sequence[tuple[str, str]]:
        """Return the notices for a chat's next reply, each with its key; `drop_notices` removes them."""
        missing = MissingExtra("location").text.in_language(language)
        unknown = ((key, missing) for key, of in self._without_map.items() if of == chat)
        return (*unknown, *self._proposed(chat, language))

    def _proposed(self, chat: str, language: Language) -> Sequence[tuple[str, str]]:
        return tuple(
            (key, schedule_texts.zone_proposed(language, zone, kept))
            for key, (of, zone, kept) in self._notices.items()
            if of == chat
        )

    def drop_notices(self, keys: Sequence[str]) -> None:
        """Remove notices that the journal has stored with a reply."""
        for key in keys:
            self._notices.pop(key, None)
            self._without_map.pop(key, None)
