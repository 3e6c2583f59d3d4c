"""The chat ids of the channels that come with Rumi, known without loading a channel."""

from rumi.platform.chat_ids import ChannelPrefix, ChatIds

TELEGRAM = ChannelPrefix("tg", "Telegram", numbers=True, groups="-", bots=True)

BUILT_IN = ChatIds((TELEGRAM,))
"""The chat ids of Rumi's own channels: where none of them runs, their chats keep their owners, and no client
chooses their ids."""
