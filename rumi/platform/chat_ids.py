"""Chat ids: what one looks like, which ones belong to channels, and who owns the facts of a chat."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rumi.errors import UsageError

DEFAULT_CHAT = "cli"
"""The chat of `rumi chat` without `--chat`: there from the beginning."""

LOCAL = "local"
"""The owner of the chats whose names clients choose: those of the terminal and of the page."""

CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

TASK = "task."
"""The history, sandbox and files of the task 7 are those of `task.7`, which can be no chat's id."""

BOT = "bot."
"""The sandbox, files and memory of the bot `tidy` are those of `bot.tidy`."""

_NUMBER = re.compile(r"-?[0-9]{1,20}")

BOT_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
"""The name of one of several bots of a channel, as it stands in the ids of its chats."""

_NAMED = re.compile(BOT_NAME.pattern + "-")


def check_chat_id(chat: str) -> str:
    """Return the id.

    Raises:
        UsageError: It has other characters, or is too long.
    """
    if CHAT_ID.fullmatch(chat) is None:
        raise UsageError(
            f"{chat!r} is not a chat id.", "Use up to 64 letters, digits, - and _, for example: work-notes."
        )
    return chat


def bot_key(name: str) -> str:
    """Return the name of a bot where others are called by their chat's id."""
    return f"{BOT}{name}"


def task_key(id: int) -> str:
    """Return the name of a task where others are called by their chat's id."""
    return f"{TASK}{id}"


@dataclass(frozen=True, slots=True)
class ChannelPrefix:
    """The beginning of all chat ids of one channel, such as `tg`, and the channel's name in sentences.

    An id below it is the prefix, the name of a user or a group, and, after a `_`, the topic if there is one.
    `numbers`: the names are numbers, so that an owner may be given as a number alone. `groups`: how the names
    of groups begin; without it, every chat of the channel may be one. `bots`: the channel may have several
    bots, and the ids of all but the first have the bot's name and a `-` behind the prefix: `tgwork-123`.
    """

    text: str
    channel: str
    numbers: bool = False
    groups: str = ""
    bots: bool = False

    def of_bot(self, chat: str) -> str:
        """Return the part of an id that all chats of its bot begin with: `tg`, `tgwork-`."""
        named = _NAMED.match(chat, len(self.text)) if self.bots else None
        return self.text if named is None else chat[: named.end()]

    def owns(self, chat: str) -> bool:
        """Return True if the chat is one of the channel's."""
        return chat.startswith(self.text)


@dataclass(frozen=True, slots=True)
class ChatIds:
    """The prefixes of all channels, also of those that do not run: their chats and facts are stored."""

    prefixes: tuple[ChannelPrefix, ...]

    def __post_init__(self) -> None:
        """Raise `ValueError` if an id could belong to two channels."""
        for one in self.prefixes:
            if not one.text or any(one is not other and other.owns(one.text) for other in self.prefixes):
                raise ValueError(f"the prefix {one.text!r} does not tell one channel's chats from others")

    def including(self, others: Iterable[ChannelPrefix | None]) -> "ChatIds":
        """Return these and other channels' prefixes."""
        return ChatIds(tuple(dict.fromkeys((*self.prefixes, *(one for one in others if one is not None)))))

    def owner_of(self, chat: str) -> str:
        """Return the owner of a chat's facts: a user or a group of a channel, or `LOCAL`.

        The topics of one group share its owner: `tg-100777_5` belongs to `tg-100777`.
        """
        return chat.partition("_")[0] if self._of_channel(chat) else LOCAL

    def user_of(self, chat: str) -> int | None:
        """Return the number of the one person who writes in a chat; None for a group, and for no number."""
        prefix, owner = self._of_channel(chat), self.owner_of(chat)
        if prefix is None or not prefix.numbers or self.may_be_group(chat):
            return None
        number = owner.removeprefix(prefix.of_bot(chat))
        return int(number) if _NUMBER.fullmatch(number) else None

    def may_be_group(self, chat: str) -> bool:
        """Return True if more than one person may write in the chat."""
        prefix = self._of_channel(chat)
        return prefix is not None and chat.startswith(f"{prefix.of_bot(chat)}{prefix.groups}")

    def private_owner(self, chat: str, user: int) -> str:
        """Return the owner of the private chats that a person in a chat has with the same bot."""
        prefix = self._of_channel(chat)
        return self.owner(str(user)) if prefix is None else f"{prefix.of_bot(chat)}{user}"

    def owner(self, name: object) -> str:
        """Return the owner that a person names: an owner, one of its chats, or a number alone.

        Raises:
            UsageError: It cannot be an owner.
        """
        if not isinstance(name, str) or CHAT_ID.fullmatch(name) is None:
            example = f"{next((one.text for one in self.prefixes), '')}11111111"
            raise UsageError(
                "This is not a valid owner.",
                f"Owners are local, and users and groups of channels, such as {example}.",
            )
        numbered = next((one for one in self.prefixes if one.numbers), None)
        if numbered is not None and _NUMBER.fullmatch(name):
            return f"{numbered.text}{name}"
        return self.owner_of(name) if self._of_channel(name) else name

    def check_chosen(self, chat: str) -> str:
        """Return the id, if a client may choose it.

        Raises:
            UsageError: It is not a chat id, or it would be a channel's.
        """
        if (prefix := self._of_channel(check_chat_id(chat))) is not None:
            raise UsageError(
                f"{chat!r} would be one of {prefix.channel}'s chats.",
                f"Choose a name without {prefix.text} in front.",
            )
        return chat

    def _of_channel(self, chat: str) -> ChannelPrefix | None:
        return next((prefix for prefix in self.prefixes if prefix.owns(chat)), None)


def unknown_chat(chat: str) -> UsageError:
    """Return the error for a chat in which nothing was ever said."""
    return UsageError(f"Unknown chat {chat}.", "Check its name: rumi chats list shows the chats.")


TELEGRAM = ChannelPrefix("tg", "Telegram", numbers=True, groups="-", bots=True)


BUILT_IN = ChatIds((TELEGRAM,))
"""The chat ids of Rumi's own channels: where none of them runs, their chats keep their owners, and no client
chooses their ids."""
