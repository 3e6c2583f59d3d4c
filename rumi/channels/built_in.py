"""The chat id prefixes of the built-in channels, available without loading a channel."""

from rumi.platform.chat_ids import ChannelPrefix, ChatIds

TELEGRAM = ChannelPrefix("tg", "Telegram", numbers=True, groups="-", bots=True)

BUILT_IN = ChatIds((TELEGRAM,))
"""The chat ids of the built-in channels. Even if no such channel runs, their chats keep their owners, and no
client may choose one of their ids."""
