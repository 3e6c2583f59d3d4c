"""`rumi telegram` in a process of its own, as its operator and its users see it."""

import json
import os
import select
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.forks import CLONE, Forked
from tests.cli.program import RUMI, Program
from tests.cli.telegram_world import FIRST_PERSON, World
from tests.fakes.bot_api_world import Chat, Message, Person

PEOPLE = 300
"""So many people of the world, from `FIRST_PERSON` on, may talk to the bot."""

ADMIN = FIRST_PERSON + PEOPLE

OPEN_FILES = 256
"""So many files may it have open when it starts. Many chats need more: it sees to that itself."""


@dataclass
class TelegramBot:
    """The program on a home of its own, between a Telegram and a Groq. What it prints goes into `printed`."""

    program: Program
    world: World
    started: "list[subprocess.Popen[Any]]" = field(default_factory=list)
    printed: Path = field(init=False)

    def __post_init__(self) -> None:
        self.printed = self.program.home.with_name(f"{self.program.home.name}.printed")
        self.program.env = {
            "RUMI_SANDBOX__BACKEND": "bubblewrap",
            "RUMI_TELEGRAM__ALLOWED_USERS": json.dumps(list(range(FIRST_PERSON, FIRST_PERSON + PEOPLE))),
            "RUMI_TELEGRAM__ADMINS": json.dumps([ADMIN]),
            "TELEGRAM_TOKEN": self.world.api.token,
            "TELEGRAM_BASE_URL": self.world.telegram.root,
            "GROQ_API_KEY": self.world.groq.key or "",
            "GROQ_BASE_URL": self.world.groq.base_url,
            **self.program.env,
        }

    @property
    def output(self) -> str:
        return self.printed.read_text() if self.printed.exists() else ""

    def start(self, *words: str, says: str = "Serving @", command: str = "telegram") -> None:
        """Start it; returns when it says that it serves."""
        before = len(self.output)
        with self.printed.open("ab") as printed:
            line = [RUMI, command, *words]
            how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": printed}
            how["env"] = self.program.environment()
            process: subprocess.Popen[Any]
            if CLONE:
                process = Forked(line, open_files=OPEN_FILES, text=True, **how)
            else:
                limited = ["sh", "-c", f'ulimit -S -n {OPEN_FILES}; exec "$0" "$@"']
                process = subprocess.Popen(limited + line, **how)
        self.started.append(process)
        wait_for(lambda: says in self.output[before:] or not self.lives, self.state)
        assert self.lives, self.state()

    @property
    def process(self) -> "subprocess.Popen[Any]":
        """The one that was started last."""
        return self.started[-1]

    @property
    def lives(self) -> bool:
        return bool(self.started) and self.process.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, bound_s: float = 60.0) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(bound_s)

    def kill(self) -> None:
        """As `kill -9` does, if it lives."""
        if self.lives:
            self.process.kill()
            self.end(10)

    def cut_short(self) -> None:
        """Have it end at once, if it lives."""
        if self.lives:
            self.send_signal(signal.SIGTERM)
            wait_for(lambda: self.output.endswith("short.\n") or not self.lives, self.state)
            self.send_signal(signal.SIGTERM)
            self.end()

    def state(self) -> str:
        """What is known of it, for a failure."""
        log = self.program.home / "logs" / "rumi.jsonl"
        return f"{self.output}\n{log.read_text() if log.exists() else ''}"

    def idle(self) -> None:
        """Wait until all that was sent to it is judged, replied to, and what it replied has arrived."""
        self.world.until(lambda: not self.world.api.pending, what=self.state)
        wait_for(lambda: self.open == 0 and self.unsent == 0, self.state)

    # What it stored

    def rows(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.program.home}/state.db?mode=ro", uri=True)) as db:
            return db.execute(query, values).fetchall()

    @property
    def stored(self) -> int:
        """How many messages were accepted."""
        return int(self.rows("SELECT count(*) FROM messages")[0][0])

    @property
    def open(self) -> int:
        """How many of them have no final reply."""
        return int(self.rows("SELECT count(*) FROM messages WHERE reply IS NULL")[0][0])

    @property
    def unsent(self) -> int:
        """How many replies nobody has yet."""
        return int(self.rows("SELECT count(*) FROM outbox WHERE delivered IS NULL")[0][0])

    def workspace(self, chat: str) -> Path:
        return self.program.home / "workspace" / chat

    def status(self) -> dict[str, Any]:
        """Each actor of `rumi status`, by its path."""
        return dict(_walk(json.loads(self.program.run("status", "--json").stdout)["tree"], ""))


def _walk(node: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    path = f"{above}/{node['id']}"
    yield path, node
    for child in node["children"]:
        yield from _walk(child, path)


def wait_for(what: Callable[[], object], why: Callable[[], str] = str, bound_s: float = 180.0) -> None:
    """Real processes need real time: look until it is so."""
    until = time.monotonic() + bound_s
    while not what():
        assert time.monotonic() < until, why()
        time.sleep(0.05)


class Talk:
    """A person's talk with the bot: in their private chat, or in a group or a topic of it.

    `chat` is what the house calls it.
    """

    def __init__(
        self,
        world: World,
        person: Person | None = None,
        *,
        language: str | None = "en",
        group: Chat | None = None,
        topic: int | None = None,
    ) -> None:
        self.world = world
        self.person = person or world.person(language_code=language)
        self.room = group or world.api.chats[self.person.id]
        self.topic = topic
        self.chat = f"tg{self.room.id}" if topic is None else f"tg{self.room.id}_{topic}"

    @property
    def texts(self) -> list[str]:
        """What the bot's messages say now."""
        return self.world.do(lambda: [message.text for message in self.said])

    @property
    def said(self) -> list[Message]:
        said = self.room.said  # elsewhere than in a forum, `topic` is a thread of answers
        return [message for message in said if message.topic == self.topic] if self.room.forum else said

    def say(self, text: str, **how: Any) -> Message:
        return self.world.do(self.world.api.say, self.person, text, self.room, topic=self.topic, **how)

    def hear(self, number: int, bound_s: float = 90.0) -> list[str]:
        """Wait until the bot has said so many things here; all of them."""
        self.world.until(lambda: len(self.said) >= number, bound_s, lambda: self.room.messages)
        return self.texts

    def ask(self, text: str, bound_s: float = 90.0) -> str:
        """Say something, and wait for the next thing that the bot says here."""
        number = len(self.texts) + 1
        self.say(text)
        return self.hear(number, bound_s)[number - 1]


@contextmanager
def running(folder: Path, world: World, *words: str, **env: str) -> Iterator[TelegramBot]:
    """The bot on a home in this folder, until the block ends; then it is gone, however that is."""
    bot = TelegramBot(Program(folder / "home", env), world)
    bot.start(*words)
    try:
        yield bot
    finally:
        try:
            bot.cut_short()
        finally:
            bot.kill()


class Gate:
    """A turn in a chat that goes on until the test lets it: a command that waits for a word in a pipe.

    When it is made, the command runs.
    """

    def __init__(self, bot: TelegramBot, talk: Talk, words: str = "") -> None:
        """`words` make the command run again in a chat that has its pipe."""
        group = "" if talk.room.person else "@rumi_test_bot "
        path = bot.workspace(talk.chat) / "gate"
        if not words:
            talk.ask(f"{group}sh ls")  # the workspace is there from now on
            os.mkfifo(path)
            path.chmod(0o666)
            # A kill behind this repeats no reply.
            unsent = "SELECT id FROM outbox WHERE chat = ? AND delivered IS NULL"
            wait_for(lambda: not bot.rows(unsent, talk.chat), bot.state)
        talk.say(words or f"{group}sh cat gate")
        self._pipe = -1
        wait_for(lambda: self._reached(path), lambda: f"{bot.state()}\nin the chat: {talk.texts}")

    def _reached(self, path: Path) -> bool:
        try:
            self._pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            return False
        return True

    def held(self) -> bool:
        """True if the command still runs: it has the pipe open."""
        writable = select.poll()
        writable.register(self._pipe, 0)
        return not writable.poll(0)  # the kernel reports an error when nothing can read

    def open(self) -> str:
        """Let the command end; the word that it prints."""
        os.write(self._pipe, b"open sesame")
        self.close()
        return "open sesame"

    def close(self) -> None:
        os.close(self._pipe)
