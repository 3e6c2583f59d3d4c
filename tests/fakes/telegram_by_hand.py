"""A Telegram to type into: lines say what people write, and what the bot does is printed."""

import re
from pathlib import Path
from typing import TextIO

import trio

from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Action, Chat, Draft, Message, Person, Query

_LINE = re.compile(r"(?P<user>\d+)(?:@(?P<chat>-\d+)(?:/(?P<topic>\d+))?)?\s+(?P<text>.+)", re.DOTALL)
USAGE = (
    "USER TEXT, USER@-GROUP TEXT, USER@-GROUP/TOPIC TEXT,"
    " USER !file PATH, USER !press WORD, USER !block, USER !unblock"
)


class Console:
    """Reads lines until the input ends, prints until it is cancelled. `\\n` in a line is a line break."""

    def __init__(self, api: BotApi, lines: TextIO, out: TextIO) -> None:
        self._api = api
        self._lines = lines
        self._out = out
        self._printed: dict[int, int] = {}

    async def run(self) -> None:
        self._api.on_change.append(self._show)
        prompt = self._lines.isatty()
        while True:
            if prompt:
                print("tg> ", end="", file=self._out, flush=True)
            line = await trio.to_thread.run_sync(self._lines.readline, abandon_on_cancel=True)
            if not line:
                return
            if line.strip():
                try:
                    await self.obey(line.strip())
                except (ValueError, OSError) as error:
                    print(f"?? {error}", file=self._out, flush=True)

    async def obey(self, line: str) -> None:
        """Do what a line says; `ValueError` where it says nothing."""
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(USAGE)
        person, chat = self._person(int(found["user"])), None
        topic = int(found["topic"]) if found["topic"] else None
        if found["chat"]:
            chat = self._group(int(found["chat"]), person, topic)
        text = found["text"].replace("\\n", "\n")
        if text.startswith("!file "):
            path = Path(text.removeprefix("!file ").strip())
            self._api.send_document(person, path.name, await trio.Path(path).read_bytes(), chat, topic=topic)
        elif text.startswith("!press "):
            room = self._api.chat(chat, person)
            offering = [
                message
                for message in room.said
                # Outside of forums a reply's topic is the thread that it began: anything may be pressed.
                if message.buttons and (message.topic == topic or not room.forum)
            ]
            if not offering:
                raise ValueError("there is no button to press")
            self._api.press_word(person, offering[-1], text.removeprefix("!press ").strip())
        elif text in ("!block", "!unblock"):
            (self._api.block if text == "!block" else self._api.unblock)(person)
        else:
            self._api.say(person, text, chat, topic=topic)

    def _person(self, number: int) -> Person:
        return self._api.people.get(number) or self._api.user(number)

    def _group(self, number: int, person: Person, topic: int | None) -> Chat:
        chat = self._api.chats.get(number) or self._api.group(number, forum=topic is not None)
        if topic is not None and topic not in chat.topics:
            chat.topics[topic] = self._api.write(
                chat, person, content={"forum_topic_created": {"name": "Topic"}}
            )
        return chat

    def _show(self) -> None:
        for chat in self._api.chats.values():
            start = self._printed.get(chat.id, 0)
            for event in chat.events[start:]:
                print(f"[{chat.id}] {_described(event)}", file=self._out, flush=True)
            self._printed[chat.id] = len(chat.events)


def _described(event: object) -> str:
    match event:
        case Message(document=None):
            return f"#{event.id}: {event.text}{_buttons(event)}"
        case Message():
            return f"#{event.id}: file {event.document.name}, {event.document.size} bytes"
        case ("edit", Message() as message):
            return f"#{message.id} now: {message.text}{_buttons(message)}"
        case ("delete", Message() as message):
            return f"#{message.id} is deleted"
        case Draft():
            return f"draft {event.draft_id}: {event.text}"
        case Action():
            return f"({event.action})"
        case Query():
            return f"({event.person.first_name} reads: {event.toast})"
    return repr(event)


def _buttons(message: Message) -> str:
    return "".join(f" [{button['text']}]" for button in message.buttons)
