"""What people do on this Telegram, and the updates that tell the bot of it."""

import mimetypes
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

from tests.fakes.bot_api_text import detected
from tests.fakes.bot_api_updates import Updates
from tests.fakes.bot_api_world import Chat, Document, Edit, Json, Message, Person

EPOCH = 1_790_000_000
"""Added to the clock, which may start at 0, for the dates in messages."""

Where = Chat | Person | int | None


class People:
    """Everything that can be done without the bot, which learns of it by an update.

    `chat` is a chat, a person (their private chat) or a number; without one, the private chat of who does it.
    """

    def __init__(self, now: Callable[[], float], *, seed: int, first_update: int, privacy: bool) -> None:
        self.now = now
        self.random = Random(seed)
        self.bot = Person(7_000_000_001, "Rumi", "rumi_test_bot", is_bot=True)
        self.updates = Updates(now, self.random, first_update)
        self.people: dict[int, Person] = {}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, Document] = {}
        self.queries: dict[str, float] = {}
        """When which button was pressed."""
        self.privacy = privacy
        self.on_change: list[Callable[[], None]] = []
        """Called after each call and each deed: whoever waits for something looks again."""
        self._message_ids = count(1)
        self._numbers = count(1)

    # Who there is

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
        self._told(message)
        return message.id

    def chat(self, where: Where, default: Person | None = None) -> Chat:
        """The chat that is meant."""
        if isinstance(where, Chat):
            return where
        if where is None:
            assert default is not None
            where = default
        return self.chats[where.id if isinstance(where, Person) else where]

    # What they say

    def say(
        self,
        person: Person,
        text: str,
        chat: Where = None,
        *,
        topic: int | None = None,
        reply_to: Message | None = None,
        entities: list[Json] | None = None,
    ) -> Message:
        """Write a message."""
        found = detected(text) if entities is None else entities
        return self.send(person, chat, text=text, entities=found, topic=topic, reply_to=reply_to)

    def send(
        self,
        person: Person,
        chat: Where = None,
        *,
        text: str = "",
        entities: list[Json] | None = None,
        topic: int | None = None,
        reply_to: Message | None = None,
        document: Document | None = None,
        **content: Any,
    ) -> Message:
        """Send anything: `content` is what stands in the message's JSON (`contact={…}`)."""
        place = self.chat(chat, person)
        place.started = True
        if place.person is None:
            place.members[person.id] = person
        message = self.write(place, person, text, entities, topic, reply_to, content=content)
        message.document = document
        return self._told(message)

    def send_document(
        self,
        person: Person,
        name: str,
        content: bytes,
        chat: Where = None,
        *,
        caption: str = "",
        media_type: str | None = None,
        size: int | None = None,
        **where: Any,
    ) -> Message:
        """Send a file. `size` may say that it is larger than `content`."""
        document = self.file(name, content, media_type=media_type, size=size)
        return self.send(person, chat, document=document, **_caption(caption), **where)

    def send_photo(
        self, person: Person, content: bytes, chat: Where = None, *, caption: str = "", **where: Any
    ) -> Message:
        small = self.file("photo_s.jpg", content[: len(content) // 2], folder="photos")
        large = self.file("photo_y.jpg", content, folder="photos")
        sizes = [
            {**_plain(small), "width": 90, "height": 67},
            {**_plain(large), "width": 1280, "height": 960},
        ]
        return self.send(person, chat, photo=sizes, **_caption(caption), **where)

    def send_voice(
        self,
        person: Person,
        content: bytes,
        chat: Where = None,
        *,
        duration: int = 3,
        size: int | None = None,
        **where: Any,
    ) -> Message:
        file = self.file("voice.oga", content, media_type="audio/ogg", size=size, folder="voice")
        voice = {**_plain(file), "duration": duration, "mime_type": "audio/ogg"}
        return self.send(person, chat, voice=voice, **where)

    def send_sticker(self, person: Person, chat: Where = None, *, emoji: str = "👍", **where: Any) -> Message:
        file = self.file("sticker.webp", b"RIFF", folder="stickers")
        shape = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
        return self.send(person, chat, sticker={**_plain(file), **shape, "emoji": emoji}, **where)

    def send_poll(self, person: Person, question: str, chat: Where = None, **where: Any) -> Message:
        options = [{"text": text, "voter_count": 0, "persistent_id": text} for text in ("yes", "no")]
        poll = {
            "id": str(next(self._numbers)),
            "question": question,
            "options": options,
            "total_voter_count": 0,
        }
        flags = {
            "is_closed": False,
            "is_anonymous": True,
            "type": "regular",
            "allows_multiple_answers": False,
        }
        return self.send(person, chat, poll={**poll, **flags}, **where)

    def send_location(
        self, person: Person, latitude: float, longitude: float, chat: Where = None, **where: Any
    ) -> Message:
        return self.send(person, chat, location={"latitude": latitude, "longitude": longitude}, **where)

    def send_album(
        self,
        person: Person,
        files: Sequence[tuple[str, bytes]],
        chat: Where = None,
        *,
        caption: str = "",
        **where: Any,
    ) -> list[Message]:
        """Several files at once: each is a message of its own, the first has the caption."""
        group = str(10**16 + next(self._numbers))
        return [
            self.send_document(
                person, name, content, chat, caption="" if index else caption, media_group_id=group, **where
            )
            for index, (name, content) in enumerate(files)
        ]

    def edit(self, message: Message, text: str) -> Message:
        """A person changes what they wrote."""
        message.edits.append(Edit(self.now(), message.text, message.entities))
        message.text, message.entities = text, detected(text)
        message.edit_date = int(EPOCH + self.now())
        self._update("edited_message", message.json())
        return message

    def press(self, person: Person, message: Message, data: str | None = None) -> str:
        """Press a button under the bot's message (the first, or the one with this data); the query's id."""
        rows = (message.reply_markup or {}).get("inline_keyboard", [])
        offered = [button["callback_data"] for row in rows for button in row if "callback_data" in button]
        assert offered, "there is no button to press"
        data = offered[0] if data is None else data
        assert data in offered, f"no button says {data!r}"
        number = str(10**17 + next(self._numbers))
        self.queries[number] = self.now()
        query = {"id": number, "from": person.json(), "message": message.json(), "data": data}
        self._update("callback_query", {**query, "chat_instance": str(message.chat.id)})
        return number

    # What they do to the bot

    def block(self, person: Person) -> None:
        """Stop the bot: it gets no messages and may send none."""
        person.blocked = True
        self._membership(self.chats[person.id], person, "member", "kicked")

    def unblock(self, person: Person) -> None:
        person.blocked = False
        self._membership(self.chats[person.id], person, "kicked", "member")

    def kick(self, chat: Chat, person: Person) -> None:
        """Throw the bot out of a group."""
        chat.kicked = True
        self._membership(chat, person, "member", "kicked")

    def migrate(self, chat: Chat, new_id: int) -> Chat:
        """A basic group becomes a supergroup with another number."""
        new = self.group(new_id, title=chat.title, members=list(chat.members.values()))
        chat.migrated_to = new_id
        someone = next(iter(chat.members.values()), self.bot)
        self._told(self.write(chat, someone, content={"migrate_to_chat_id": new_id}))
        self._told(self.write(new, someone, content={"migrate_from_chat_id": chat.id}))
        return new

    def _membership(self, chat: Chat, person: Person, old: str, new: str) -> None:
        bot = self.bot.json()
        until = {"until_date": 0}
        sides = [
            {"user": bot, "status": status, **(until if status == "kicked" else {})} for status in (old, new)
        ]
        change: Json = {"chat": chat.json(), "from": person.json(), "date": int(EPOCH + self.now())}
        self._update("my_chat_member", {**change, "old_chat_member": sides[0], "new_chat_member": sides[1]})

    # How it is told

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
        number = next(self._numbers)
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
        elif reply_to is not None and chat.kind == "supergroup":
            # In a group without topics a thread of answers has a number too, which is no topic's.
            message.topic = reply_to.topic if chat.forum else reply_to.topic or reply_to.id
        chat.messages.append(message)
        chat.by_id[number] = message
        return message

    def _told(self, message: Message) -> Message:
        if self._may_see(message):
            message.update_id = self._update("message", message.json())
        else:
            self._changed()
        return message

    def _may_see(self, message: Message) -> bool:
        if message.sender.blocked or message.chat.kicked:
            return False
        if not self.privacy or message.chat.kind == "private" or not message.text:
            return True
        if message.reply_to is not None and message.reply_to.from_bot:
            return True
        own = f"@{self.bot.username}"
        words = message.text.split()
        # Offsets are not needed here: a command or mention of the bot stands in the text as a word.
        return own in message.text or any(word.startswith("/") and "@" not in word for word in words)

    def _update(self, kind: str, content: Json) -> int | None:
        number = self.updates.add(kind, content)
        self._changed()
        return number

    def _changed(self) -> None:
        for changed in self.on_change:
            changed()


def _caption(caption: str) -> Json:
    return {"caption": caption} if caption else {}


def _plain(file: Document) -> Json:
    return {"file_id": file.id, "file_unique_id": f"u{file.id}", "file_size": file.size}
