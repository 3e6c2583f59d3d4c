"""Chat ids: their syntax, the prefixes reserved for channels, and the owner of each chat."""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rumi.errors import UsageError
from rumi.platform.unaccented import unaccented

DEFAULT_CHAT = "cli"
"""The chat of `rumi chat` without `--chat`. It always exists."""

LOCAL = "local"
"""The owner of all chats of the terminal and the web page. Clients choose the names of these chats."""

CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

TASK = "task."
"""Prefix of task keys. The history, sandbox and files of task 7 are stored under `task.7`. No chat can have
that id, because chat ids contain no dot."""

BOT = "bot."
"""Prefix of bot keys. The sandbox, files and memory of the bot `tidy` are stored under `bot.tidy`."""

_NUMBER = re.compile(r"-?[0-9]{1,20}")

BOT_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
"""Pattern of the names of a channel's additional bots; the name is part of the ids of the bot's chats."""

_NAMED = re.compile(BOT_NAME.pattern + "-")

GROUP_KEY = re.compile(
    rf"(?P<bot>tg(?:{BOT_NAME.pattern}-)?)?(?P<number>-[1-9][0-9]{{0,19}})(?:_(?P<topic>[0-9]{{1,20}}))?"
)
"""Pattern of the names that a configuration may have for a Telegram group or one of its topics: the number of
the group or its chat id, such as `-100777`, `tg-100777_5` and `tgwork--100777`."""


def check_chat_id(chat: str) -> str:
    """Return the id unchanged if it is a valid chat id.

    Raises:
        UsageError: The id has characters that are not allowed, or is too long.
    """
    if CHAT_ID.fullmatch(chat) is None:
        raise UsageError(
            "{chat} is not a chat id.",
            "Use up to 64 letters, digits, - and _, for example: work-notes.",
            chat=f"{chat!r}",
        )
    return chat


def bot_key(name: str) -> str:
    """Return the key that identifies a bot where a chat id is expected."""
    return f"{BOT}{name}"


def task_key(id: int) -> str:
    """Return the key that identifies a task where a chat id is expected."""
    return f"{TASK}{id}"


@dataclass(frozen=True, slots=True)
class ChannelPrefix:
    """The common prefix `text` of all chat ids of one channel, such as `tg`, and the channel's display name.

    A chat id consists of the prefix, the name of a user or a group, and, for a topic, `_` and the topic. If
    `numbers` is true, the names are numbers, so a person can name an owner by the number alone. Names of
    groups start with `groups`; if `groups` is empty, every chat of the channel may be a group. If `bots` is
    true, the channel may have several bots. For every bot except the first, the prefix is followed by the
    bot's name and `-`, as in `tgwork-123`. If `people` is true, the names are those of `[people.NAME]`, and
    no chat is a group. If `later` is true, people read and answer later: no question can wait during a turn.
    """

    text: str
    channel: str
    numbers: bool = False
    groups: str = ""
    bots: bool = False
    people: bool = False
    later: bool = False

    def of_bot(self, chat: str) -> str:
        """Return the prefix of the bot to which the chat belongs, such as `tg` or `tgwork-`."""
        named = _NAMED.match(chat, len(self.text)) if self.bots else None
        return self.text if named is None else chat[: named.end()]

    def owns(self, chat: str) -> bool:
        """Return True if the chat belongs to the channel."""
        return chat.startswith(self.text)


@dataclass(frozen=True, slots=True)
class ChatIds:
    """The prefixes of all channels, including channels that do not run, because their chats remain stored."""

    prefixes: tuple[ChannelPrefix, ...]

    def __post_init__(self) -> None:
        """Check that no chat id can belong to two channels.

        Raises:
            ValueError: A chat id could belong to two channels.
        """
        for one in self.prefixes:
            others = [other for other in self.prefixes if other not in (one, VIA)]
            if not one.text or any(other.owns(one.text) for other in others):
                raise ValueError(f"the prefix {one.text!r} does not tell one channel's chats from others")

    def including(self, others: Iterable[ChannelPrefix | None]) -> "ChatIds":
        """Return a copy with the prefixes in `others` added. A None in `others` is ignored."""
        return ChatIds(tuple(dict.fromkeys((*self.prefixes, *(one for one in others if one is not None)))))

    def owner_of(self, chat: str) -> str:
        """Return the owner of a chat: a user or a group of a channel, or `LOCAL`.

        All topics of a group have the group as their owner: `tg-100777_5` belongs to `tg-100777`.
        """
        return chat.partition("_")[0] if self._of_channel(chat) else LOCAL

    def user_of(self, chat: str) -> int | None:
        """Return the numeric id of a private chat's user; None for a group or a chat without a number."""
        prefix, owner = self._of_channel(chat), self.owner_of(chat)
        if prefix is None or not prefix.numbers or self.may_be_group(chat):
            return None
        number = owner.removeprefix(prefix.of_bot(chat))
        return int(number) if _NUMBER.fullmatch(number) else None

    def may_be_group(self, chat: str) -> bool:
        """Return True if more than one person may write in the chat."""
        prefix = self._of_channel(chat)
        if prefix is None or prefix.people:
            return False
        return chat.startswith(f"{prefix.of_bot(chat)}{prefix.groups}")

    def person_of(self, chat: str) -> str:
        """Return the name in `[people]` of a chat's or an owner's person; empty if it has none."""
        prefix = self._of_channel(chat)
        return self.owner_of(chat).removeprefix(prefix.text) if prefix is not None and prefix.people else ""

    def answers_later(self, chat: str) -> bool:
        """Return True if nobody can answer a question while a turn of the chat runs."""
        prefix = self._of_channel(chat)
        return prefix is not None and prefix.later

    def private_owner(self, chat: str, user: int) -> str:
        """Return the owner of the private chats that `user` has with the bot of the given chat."""
        prefix = self._of_channel(chat)
        return self.owner(str(user)) if prefix is None else f"{prefix.of_bot(chat)}{user}"

    def owner(self, name: object) -> str:
        """Parse a name that a person typed for an owner: an owner id, a chat id, or a number alone.

        Raises:
            UsageError: The name does not identify an owner.
        """
        if not isinstance(name, str) or CHAT_ID.fullmatch(name) is None:
            example = f"{next((one.text for one in self.prefixes), '')}11111111"
            raise UsageError(
                "This is not a valid owner.",
                "Owners are local, and users and groups of channels, such as {example}.",
                example=example,
            )
        numbered = next((one for one in self.prefixes if one.numbers), None)
        if numbered is not None and _NUMBER.fullmatch(name):
            return f"{numbered.text}{name}"
        return self.owner_of(name) if self._of_channel(name) else name

    def check_chosen(self, chat: str) -> str:
        """Check that a client may choose this id for a new chat, and return the id unchanged.

        Raises:
            UsageError: The id is not a valid chat id, or it starts with the prefix of a channel.
        """
        if (prefix := self._of_channel(check_chat_id(chat))) is not None:
            raise UsageError(
                "{chat} would be one of {channel}'s chats.",
                "Choose a name without {text} in front.",
                chat=f"{chat!r}",
                channel=prefix.channel,
                text=prefix.text,
            )
        return chat

    def _of_channel(self, chat: str) -> ChannelPrefix | None:
        found = [prefix for prefix in self.prefixes if prefix.owns(chat)]
        # Only `VIA` begins other prefixes: that of the plugin's channel itself says more.
        return max(found, key=lambda prefix: len(prefix.text), default=None)


def chat_of_folder(folder: str, ids: ChatIds) -> str:
    """Return the id of the chat that works on a folder, made from its name and its real path.

    `folder` is the real path, in which undecodable bytes are escaped as Python does.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", unaccented(os.path.basename(folder))).strip("-")[:40].strip("-")
    name = name or "folder"
    if ids.owner_of(name) != LOCAL:
        name = f"in-{name}"
    return f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


def matrix_number(user: str) -> int:
    """Return the number of a Matrix user, such as `@ana:example.org`: a digest, above all Telegram ids.

    Records of messages have numbers of users, as Telegram has them.
    """
    return 2**52 | int.from_bytes(hashlib.sha256(user.encode("utf-8", "replace")).digest()[:8]) >> 12


def unknown_chat(chat: str) -> UsageError:
    """Return the error for a chat that does not exist."""
    return UsageError("Unknown chat {chat}.", "Check its name: rumi chats list shows the chats.", chat=chat)


TELEGRAM = ChannelPrefix("tg", "Telegram", numbers=True, groups="-", bots=True)

MAIL = ChannelPrefix("mail-", "mail", people=True, later=True)

VIA = ChannelPrefix("via-", "a plugin")
"""The beginning of the chat ids of all channels of plugins: `via-irc-…`. Ids of a channel that does not run
begin with it too, so its chats keep their owners; whether they are groups is then not known."""

MATRIX = ChannelPrefix("mx-", "Matrix", numbers=True, groups="r", bots=True)
"""Each account at a homeserver has a name, which is part of its chats: `mx-home-4611686018427387_k3` is a
direct room of the user with this number, `mx-home-rk4` a room of several people, `mx-home-rk4_x7` a thread.
"""

BUILT_IN = ChatIds((TELEGRAM, MAIL, MATRIX, VIA))
"""The chat id prefixes of Rumi's built-in channels. They apply even if no such channel runs: chats of these
channels keep their owners, and no client can choose their ids."""
