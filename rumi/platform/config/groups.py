"""The settings of Telegram groups, `[groups.ID]`, found by the chat ids under which a group is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rumi.platform.chat_ids import GROUP_KEY
from rumi.platform.config.schema import GroupSection


@dataclass(frozen=True, slots=True)
class Groups:
    """The sections of `[groups.ID]`, by the ID that the configuration has.

    An ID is a group's number on Telegram, which counts for all bots, or a chat id such as `tg-100777`, which
    counts for one bot. With `_5` at its end, it is a topic of that group.
    """

    sections: Mapping[str, GroupSection] = field(default_factory=dict)

    def of(self, *chats: str) -> GroupSection:
        """Return the settings of the group with these ids, oldest first: a moved group has several.

        A key counts from the most specific section that has it: the topic's, then the bot's, then the
        group's; and from the newest id.
        """
        if not self.sections:
            return _DEFAULT
        found: dict[str, object] = {}
        for chat in chats:
            for key in keys_of(chat):
                if (section := self.sections.get(key)) is not None:
                    found |= {name: getattr(section, name) for name in section.model_fields_set}
        return _DEFAULT.model_copy(update=found) if found else _DEFAULT

    @property
    def any_hears_all(self) -> bool:
        """True if a group wants all its messages heard, which Telegram has to allow its bot."""
        return any(section.listen == "all" for section in self.sections.values())


_DEFAULT = GroupSection()

_GENERAL = "1"
"""Telegram's number of the topic "General", whose messages have no topic. Its chat is the group's."""


def keys_of(chat: str) -> tuple[str, ...]:
    """Return the possible keys of a group's chat, the most general first; none for another chat."""
    parts = GROUP_KEY.fullmatch(chat)
    if parts is None or parts["bot"] is None:
        return ()
    number, bot, topic = parts["number"], parts["bot"], parts["topic"] or _GENERAL
    return number, f"{bot}{number}", f"{number}_{topic}", f"{bot}{number}_{topic}"
