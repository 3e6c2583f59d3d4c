"""What there is on this Telegram: people, chats, messages, files. Plain data that a test may read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
ChatKind: TypeAlias = Literal["private", "group", "supergroup", "channel"]


class Refused(Exception):
    """A request that is answered with an error. `parameters` is Telegram's ResponseParameters."""

    def __init__(self, status: int, description: str, parameters: Json | None = None) -> None:
        super().__init__(status, description)
        self.status = status
        self.description = description
        self.parameters = parameters


@dataclass(slots=True, eq=False)
class Person:
    """Somebody, or the bot."""

    id: int
    first_name: str
    username: str | None = None
    language_code: str | None = None
    is_bot: bool = False
    blocked: bool = False
    """They blocked the bot."""
    gone: bool = False
    """The account is deleted."""

    def json(self) -> Json:
        user: Json = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        if self.username is not None:
            user["username"] = self.username
        if self.language_code is not None:
            user["language_code"] = self.language_code
        return user


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a request: what the client named it, its bytes, its media type."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Document:
    """A file on Telegram. `size` may be more than there are bytes: a large file needs no memory."""

    id: str
    name: str
    content: bytes
    media_type: str
    size: int
    path: str

    def json(self) -> Json:
        return {
            "file_id": self.id,
            "file_unique_id": f"u{self.id}",
            "file_name": self.name,
            "mime_type": self.media_type,
            "file_size": self.size,
        }


@dataclass(frozen=True, slots=True)
class Edit:
    """What a message said before an edit at `time`."""

    time: float
    text: str
    entities: list[Json]


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that showed for a while (30 s, or until the bot's next message)."""

    time: float
    draft_id: int
    text: str
    entities: list[Json]
    topic: int | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """Something like "typing"."""

    time: float
    action: str
    topic: int | None = None


@dataclass(slots=True, eq=False)
class Query:
    """A button that somebody pressed. `toast` is what the bot answered, None as long as the button spins."""

    id: str
    time: float
    person: Person
    message: "Message"
    data: str
    toast: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """A message as people see it now. `edits` is what it said before, oldest first."""

    id: int
    chat: "Chat"
    sender: Person
    text: str
    entities: list[Json]
    time: float
    date: int
    topic: int | None = None
    reply_to: "Message | None" = None
    document: Document | None = None
    content: Json = field(default_factory=dict)
    """What it has besides a text, as it stands in the JSON: `photo`, `voice`, `caption`, `media_group_id`."""
    reply_markup: Json | None = None
    options: Json = field(default_factory=dict)
    """What the bot asked for: `link_preview_options`, `disable_notification`, `protect_content`."""
    edits: list[Edit] = field(default_factory=list)
    edit_date: int | None = None
    deleted: bool = False
    update_id: int | None = None
    """The update that told the bot of it; None for the bot's own and for what it does not get to see."""

    def __repr__(self) -> str:
        what = self.document.name if self.document else self.text or "/".join(self.content)
        return f"<message {self.id} in {self.chat.id} by {self.sender.first_name}: {what!r}>"

    @property
    def from_bot(self) -> bool:
        return self.sender.is_bot

    @property
    def buttons(self) -> list[Json]:
        """The buttons below it, from the first."""
        return [button for row in (self.reply_markup or {}).get("inline_keyboard", []) for button in row]

    def json(self, *, deep: bool = True) -> Json:
        told: Json = {"message_id": self.id, "from": self.sender.json(), "chat": self.chat.json()}
        told["date"] = self.date
        if self.edit_date is not None:
            told["edit_date"] = self.edit_date
        if self.topic is not None:
            told["message_thread_id"] = self.topic
            if self.topic in self.chat.topics:
                told["is_topic_message"] = True
        if deep and self.reply_to is not None and not self.reply_to.deleted:
            told["reply_to_message"] = self.reply_to.json(deep=False)
        if self.text:
            told["text"] = self.text
            if self.entities:
                told["entities"] = self.entities
        if self.document is not None and not {"photo", "voice"} & set(self.content):
            told["document"] = self.document.json()
        if self.reply_markup is not None and "inline_keyboard" in self.reply_markup:
            told["reply_markup"] = self.reply_markup
        told.update(self.content)
        return told


@dataclass(slots=True, eq=False, repr=False)
class Chat:
    """A chat as its people see it.

    `events` is all that the bot did here that can be seen, in order: messages sent, ("edit", message),
    ("delete", message), drafts, actions, queries that were answered.
    """

    id: int
    kind: ChatKind
    title: str = ""
    person: Person | None = None
    members: dict[int, Person] = field(default_factory=dict)
    forum: bool = False
    topics: dict[int, Message] = field(default_factory=dict)
    """A topic's number and the service message that opened it."""
    messages: list[Message] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    started: bool = True
    """The person has written to the bot before: otherwise there is no such chat for it."""
    kicked: bool = False
    migrated_to: int | None = None
    by_id: dict[int, Message] = field(default_factory=dict, repr=False)
    ids: Callable[[], int] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id}: {len(self.messages)} messages>"

    @property
    def seen(self) -> list[Message]:
        """The messages that are there now."""
        return [message for message in self.messages if not message.deleted]

    @property
    def said(self) -> list[Message]:
        """The bot's messages that are there now."""
        return [message for message in self.messages if message.from_bot and not message.deleted]

    @property
    def texts(self) -> list[str]:
        """What the bot's messages say now."""
        return [message.text for message in self.said]

    def draft(self, now: float) -> Draft | None:
        """The draft that shows now."""
        if not self.drafts or now >= self.drafts[-1].time + 30:
            return None
        last = self.drafts[-1]
        for event in reversed(self.events):
            if event is last:
                return last
            if isinstance(event, Message):
                return None
        return None

    def json(self) -> Json:
        if self.person is not None:
            chat = {"id": self.id, "type": "private", "first_name": self.person.first_name}
            if self.person.username is not None:
                chat["username"] = self.person.username
            return chat
        chat = {"id": self.id, "type": self.kind, "title": self.title}
        if self.forum:
            chat["is_forum"] = True
        return chat
