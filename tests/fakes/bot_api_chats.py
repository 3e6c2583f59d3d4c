"""Who and what there is on this Telegram, and how the bot is told of what happens."""

import mimetypes
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from tests.fakes.bot_api_updates import Updates
from tests.fakes.bot_api_world import Chat, Document, Json, Message, Person, Query

EPOCH = 1_790_000_000
"""Added to the clock, which may start at 0, for the dates in messages."""

MEDIA = frozenset({"photo", "voice", "sticker", "poll", "location"})

Where = Chat | Person | int | None


class Chats:
    """People, chats, messages, files, and the queue of updates."""

    def __init__(self, now: Callable[[], float], *, seed: int, first_update: int, privacy: bool) -> None:
        self.now = now
        self.random = Random(seed)
        self.bot = Person(7_000_000_001, "Rumi", "rumi_test_bot", is_bot=True)
        self.updates = Updates(now, self.random, first_update)
        self.people: dict[int, Person] = {}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, Document] = {}
        self.queries: dict[str, Query] = {}
        self.privacy = privacy
        self.on_change: list[Callable[[], None]] = []
        """Called after each call and each deed: whoever waits for something looks again."""
        self._message_ids = count(1)
        self._numbers = count(1)

    def user(
        self,
        id: int,
        *,
        language_code: str | None = "en",
        username: str | None = None,
        first_name: str | None = None,
        started: bool = True,
        topics: bool = False,
    ) -> Person:
        """Somebody with a private chat with the bot (`started=False`: who never wrote to it)."""
        person = Person(id, first_name or f"User {id}", username, language_code)
        self.people[id] = person
        self.chats[id] = Chat(id, "private", person=person, started=started, forum=topics)
        return person

    def group(
        self,
        id: int,
        *,
        title: str = "",
        forum: bool = False,
        basic: bool = False,
        members: Sequence[Person] = (),
    ) -> Chat:
        """A group that the bot is a member of: a supergroup, or a basic group."""
        assert id < 0, "a group's number is negative"
        chat = Chat(id, "group" if basic else "supergroup", title or f"Group {id}", forum=forum)
        chat.members = {member.id: member for member in members}
        if not basic:
            chat.ids = count(1).__next__
        self.chats[id] = chat
        return chat

    def topic(self, chat: Chat, creator: Person, name: str = "Topic") -> int:
        """Open a topic; its number."""
        assert chat.forum, "only a forum has topics"
        about = {"forum_topic_created": {"name": name, "icon_color": 7322096}}
        message = self.write(chat, creator, content=about)
        message.topic = message.id
        chat.topics[message.id] = message
        self.deliver(message)
        return message.id

    def chat(self, where: Where, default: Person | None = None) -> Chat:
        """The chat that is meant."""
        if isinstance(where, Chat):
            return where
        if where is None:
            assert default is not None
            where = default
        return self.chats[where.id if isinstance(where, Person) else where]

    def number(self) -> int:
        """A number that nothing here had."""
        return next(self._numbers)

    def file(
        self,
        name: str,
        content: bytes,
        *,
        media_type: str | None = None,
        size: int | None = None,
        folder: str = "documents",
    ) -> Document:
        """Lay a file on Telegram."""
        number = self.number()
        media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        path = f"{folder}/file_{number}{name[name.rfind('.') :] if '.' in name else ''}"
        size = len(content) if size is None else size
        document = Document(f"BQACfile{number:06}", name, content, media_type, size, path)
        self.files[document.id] = document
        return document

    def write(
        self,
        chat: Chat,
        sender: Person,
        text: str = "",
        entities: list[Json] | None = None,
        topic: int | None = None,
        reply_to: Message | None = None,
        content: Json | None = None,
    ) -> Message:
        """A new message in a chat, of which nobody is told."""
        now = self.now()
        number = chat.ids() if chat.ids is not None else next(self._message_ids)
        message = Message(number, chat, sender, text, entities or [], now, int(EPOCH + now))
        message.content = content or {}
        message.reply_to = reply_to
        if topic is not None:
            assert topic in chat.topics, f"no topic {topic}"
            message.topic = topic
            if reply_to is None and not sender.is_bot:
                # So that a message in a topic is, for a bot, an answer to the topic's beginning.
                message.reply_to = chat.topics[topic]
        elif reply_to is not None and (chat.forum or chat.kind == "supergroup"):
            # In a group without topics a thread of answers has a number too, which is no topic's.
            message.topic = reply_to.topic if chat.forum else reply_to.topic or reply_to.id
        chat.messages.append(message)
        chat.by_id[number] = message
        return message

    def deliver(self, message: Message) -> Message:
        """The bot is told of a message, if it may see it."""
        if self._may_see(message):
            message.update_id = self.queue_update("message", message.json())
        else:
            self.changed()
        return message

    def _may_see(self, message: Message) -> bool:
        # Who blocks the bot has no private chat with it any more; in groups it sees what they write.
        if message.chat.kicked or (message.chat.kind == "private" and message.sender.blocked):
            return False
        text = message.text or message.content.get("caption", "")
        service = not text and message.document is None and not MEDIA & message.content.keys()
        if not self.privacy or message.chat.kind == "private" or service:
            return True
        if message.reply_to is not None and message.reply_to.from_bot:
            return True
        # A command or a mention of the bot stands in the text as a word.
        to_any = any(word.startswith("/") and "@" not in word for word in text.split())
        return to_any or f"@{self.bot.username}" in text

    def queue_update(self, kind: str, content: Json) -> int | None:
        """Queue an update; its number, or None where the bot did not ask for that kind."""
        number = self.updates.add(kind, content)
        self.changed()
        return number

    def changed(self) -> None:
        for changed in self.on_change:
            changed()
