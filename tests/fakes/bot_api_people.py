"""What people do on this Telegram."""

from collections.abc import Sequence
from typing import Any

from tests.fakes.bot_api_chats import EPOCH, Chats, Where
from tests.fakes.bot_api_text import detected
from tests.fakes.bot_api_world import Chat, Document, Edit, Json, Message, Person, Query


class People(Chats):
    """Everything that can be done without the bot, which learns of it by an update.

    `chat` is a chat, a person (their private chat) or a number; without one, the private chat of who does it.
    """

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
        room = self.chat(chat, person)
        room.started = True
        if room.person is None:
            room.members[person.id] = person
        message = self.write(room, person, text, entities, topic, reply_to, content=content)
        message.document = document
        return self.deliver(message)

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
            "id": str(self.number()),
            "question": question,
            "options": options,
            "total_voter_count": 0,
        }
        flags = {
            "is_closed": False,
            "is_anonymous": True,
            "type": "regular",
            "allows_multiple_answers": False,
            "allows_revoting": True,
            "members_only": False,
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
        group = str(10**16 + self.number())
        return [
            self.send_document(
                person, name, content, chat, caption="" if index else caption, media_group_id=group, **where
            )
            for index, (name, content) in enumerate(files)
        ]

    def forward(
        self, person: Person, origin: Json, chat: Where = None, *, text: str = "", **content: Any
    ) -> Message:
        """Forward what somebody wrote: a text, or what `content` says. Who wrote it is told by `origin_…`."""
        found = detected(text)
        return self.send(person, chat, text=text, entities=found, forward_origin=origin, **content)

    def quote(self, person: Person, text: str, message: Message, part: str, chat: Where = None) -> Message:
        """Answer a message of the same chat, and quote a part of it."""
        found = detected(text)
        quote = _quote(message.text, part)
        return self.send(person, chat, text=text, entities=found, reply_to=message, quote=quote)

    def answer_elsewhere(
        self, person: Person, text: str, origin: Json, chat: Where = None, *, part: str = "", **media: Any
    ) -> Message:
        """Answer, in this chat, a message of another one; perhaps with a quote of it."""
        content: Json = {"external_reply": {"origin": origin, **media}}
        if part:
            content["quote"] = _quote(part, part)
        return self.send(person, chat, text=text, entities=detected(text), **content)

    def origin_of(self, author: Person | Chat | str, *, signature: str | None = None) -> Json:
        """Who wrote a message, as Telegram tells it: a name alone is somebody who hides their account."""
        origin: Json = {"date": int(EPOCH + self.now())}
        match author:
            case str():
                return {"type": "hidden_user", **origin, "sender_user_name": author}
            case Person():
                return {"type": "user", **origin, "sender_user": author.json()}
            case Chat(kind="channel"):
                origin |= {"type": "channel", "chat": author.json(), "message_id": self.number()}
            case Chat():
                origin |= {"type": "chat", "sender_chat": author.json()}
        return origin if signature is None else {**origin, "author_signature": signature}

    def edit(self, message: Message, text: str) -> Message:
        """A person changes what they wrote."""
        message.edits.append(Edit(self.now(), message.text, message.entities))
        message.text, message.entities = text, detected(text)
        message.edit_date = int(EPOCH + self.now())
        self.queue_update("edited_message", message.json())
        return message

    def press(self, person: Person, message: Message, data: str | None = None) -> Query:
        """Press a button under the bot's message: the first, or the one with this data.

        Whoever looks at an old version of it may press what is not there any more: then say the data.
        """
        if data is None:
            assert message.buttons, "there is no button to press"
            data = str(message.buttons[0]["callback_data"])
        query = Query(str(10**17 + self.number()), self.now(), person, message, data)
        self.queries[query.id] = query
        told: Json = {"id": query.id, "from": person.json(), "message": message.json(), "data": data}
        self.queue_update("callback_query", {**told, "chat_instance": str(message.chat.id)})
        return query

    def press_word(self, person: Person, message: Message, word: str) -> Query:
        """Press the button on which this word stands."""
        for button in message.buttons:
            if word.casefold() in str(button["text"]).casefold().split():
                return self.press(person, message, button["callback_data"])
        raise ValueError(f"no button says {word!r}")

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

    def migrate(self, chat: Chat, new_id: int, *, forum: bool = False, notified: bool = True) -> Chat:
        """A basic group becomes a supergroup with another number, in which messages are numbered from 1.

        Not `told`: the bot missed what both groups say of it, and finds out when it writes.
        """
        new = self.group(new_id, title=chat.title, members=list(chat.members.values()), forum=forum)
        chat.migrated_to = new_id
        if not notified:
            return new
        someone = next(iter(chat.members.values()), self.bot)
        self.deliver(self.write(chat, someone, content={"migrate_to_chat_id": new_id}))
        self.deliver(self.write(new, someone, content={"migrate_from_chat_id": chat.id}))
        return new

    def _membership(self, chat: Chat, person: Person, old: str, new: str) -> None:
        bot = self.bot.json()
        until = {"until_date": 0}
        sides = [
            {"user": bot, "status": status, **(until if status == "kicked" else {})} for status in (old, new)
        ]
        change: Json = {"chat": chat.json(), "from": person.json(), "date": int(EPOCH + self.now())}
        self.queue_update(
            "my_chat_member", {**change, "old_chat_member": sides[0], "new_chat_member": sides[1]}
        )


def _quote(text: str, part: str) -> Json:
    """A `TextQuote`; Telegram counts in UTF-16."""
    assert part in text, "only what stands there can be quoted"
    before = text[: text.index(part)].encode("utf-16-le")
    return {"text": part, "position": len(before) // 2, "is_manual": True}


def _caption(caption: str) -> Json:
    return {"caption": caption} if caption else {}


def _plain(file: Document) -> Json:
    return {"file_id": file.id, "file_unique_id": f"u{file.id}", "file_size": file.size}
