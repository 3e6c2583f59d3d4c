"""What was said, run and replied to, through all kills: what `bench.chaos` checks.

The fake Telegram knows what people said and see, the journal what was accepted, replied to and marked as
sent, the workspaces what ran. A reply may be seen twice only where a kill fell between "Telegram took it" and
"marked"; at each kill it is counted how many such windows are open.
"""

import json
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from rumi.channels.telegram.formatting.reply import format_reply
from rumi.chats.resuming import MOST_RESUMED
from rumi.platform.chat_ids import TASK
from rumi.platform.texts.telegram import sent_again
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_chats import EPOCH
from tests.fakes.bot_api_world import Message

WORK = re.compile(r"\b(?:answer|stream|long|command|pair|note|tend) (\d+)\b")


REMINDED = re.compile(r"\b(?:cup|drop) \d+\b")
ASKED = re.compile(r"/research |/bot ")
MISSED_BEFORE = re.compile(r"Missed before it: (\d+)")
MISSED = re.compile(r"^- (\d+) “.*”: (\d+) ", re.MULTILINE)
MINUTE_S = 60

NOTICE = re.compile(r"⚠️ I cannot store messages|⏸ I am being restarted|⏳ Queued \(")
"""Said at once, and no reply: nothing was accepted, the message waits, or its turn goes on later."""

SENT_AGAIN = sent_again("en")
"""The mark of a reply that may be there already; a long one has it in a message of its own."""

WINDOW_S = 1.0
"""What Telegram took longer ago has been marked, also on a busy machine."""


@dataclass(frozen=True)
class Accepted:
    """A row of the journal's messages."""

    chat: str
    text: str
    turn: str | None
    reason: str | None
    reply: int | None
    origin: int | None
    preview: int | None
    task: int | None
    schedule: int | None
    resumed: int = 0


@dataclass(frozen=True)
class Ended:
    """A row of the tasks that one asked for; `ended` is None for one that has not."""

    question: str
    state: str
    ended: float | None


@dataclass(frozen=True)
class Scheduled:
    """A row of the schedules, and the instants of its fires; `missed` nobody was told of yet."""

    text: str
    cron: str
    state: str
    missed: int
    fires: tuple[float, ...]

    @property
    def waits(self) -> bool:
        """Whether it is a reminder that has still to come."""
        return self.state == "active" and not self.cron


@dataclass(frozen=True)
class Reply:
    """A row of the outbox; `parts` is what of it is marked as sent, `delivered` when all was."""

    chat: str
    text: str
    delivered: float | None
    parts: int
    failure: str | None

    def texts(self) -> tuple[str, ...]:
        """What people read of it: a text for each message."""
        return formatted(self.text)

    def marked(self) -> tuple[str, ...]:
        """The part of that which is marked as sent."""
        return self.texts() if self.delivered is not None else self.texts()[: self.parts]


@cache
def formatted(text: str) -> tuple[str, ...]:
    """A reply as the messages that people read."""
    return tuple(part.text for part in format_reply(text))


@dataclass(frozen=True)
class Books:
    """The journal at one moment. `updates` are the numbers that it knows."""

    updates: frozenset[int] = frozenset()
    messages: tuple[Accepted, ...] = ()
    outbox: dict[int, Reply] = field(default_factory=dict)
    tasks: dict[int, Ended] = field(default_factory=dict)
    schedules: dict[int, Scheduled] = field(default_factory=dict)
    reserved: int = 0
    iterations: dict[int, list[int]] = field(default_factory=dict)
    """The numbers of those that are stored, by the number of a bot's session."""

    @property
    def settled(self) -> bool:
        """Whether everything has been replied to, every reply was sent, every task has ended, and every
        reminder has come.
        """
        replied = all(message.reply is not None for message in self.messages)
        ended = all(task.ended is not None for task in self.tasks.values())
        ended = ended and not any(schedule.waits for schedule in self.schedules.values())
        return replied and ended and all(reply.delivered is not None for reply in self.outbox.values())


def read_books(home: Path) -> Books:
    """Read a copy, so that nothing of the journal's own files changes, whoever has them open."""
    if not (home / "state.db").exists():
        return Books()
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as folder:
        for name in ("state.db", "state.db-wal"):
            if (home / name).exists():
                shutil.copy(home / name, Path(folder) / name)
        db = sqlite3.connect(Path(folder) / "state.db")
        try:
            if not db.execute("PRAGMA user_version").fetchone()[0]:
                return Books()  # killed before it was made
            return books_of(lambda sql: db.execute(sql).fetchall())
        finally:
            db.close()


def books_of(query: Callable[[str], list[Any]]) -> Books:
    """Read the journal with a function that asks a database, whatever kind it is."""
    updates = frozenset(number for (number,) in query("SELECT number FROM updates"))
    rows = query(
        "SELECT chat, text, turn, reason, reply, origin, preview, task, schedule, resumed FROM messages"
    )
    messages = tuple(Accepted(*row) for row in rows)
    rows = query("SELECT id, chat, text, delivered, parts, failure FROM outbox")
    outbox = {number: Reply(*row) for number, *row in rows}
    rows = query("SELECT id, question, state, ended FROM tasks")
    tasks = {number: Ended(*row) for number, *row in rows}
    iterations: dict[int, list[int]] = {}
    for number, iteration in query("SELECT task, number FROM iterations ORDER BY number"):
        iterations.setdefault(number, []).append(iteration)
    fires: dict[int, list[float]] = {}
    for number, instant in query("SELECT schedule, instant FROM fires ORDER BY instant"):
        fires.setdefault(number, []).append(instant)
    rows = query("SELECT id, text, cron, state, missed FROM schedules")
    schedules = {number: Scheduled(*row, tuple(fires.get(number, ()))) for number, *row in rows}
    ((reserved,),) = query("SELECT count(*) FROM reservations")
    return Books(updates, messages, outbox, tasks, schedules, reserved, iterations)


@dataclass
class Ledger:
    """`homes` have written the same journal, which `read` returns, and share the folder of `workspaces`.

    `windows` counts by chat and text what Telegram took and was not marked when a kill came.

    `confirmed` are the numbers of the commands of which the model was told that they ended well; `wrong` is
    what must not be, in words.
    """

    api: BotApi
    homes: Sequence[Path]
    confirmed: set[int]
    read: Callable[[], Books]
    workspaces: Path
    wrong: list[str] = field(default_factory=list)
    windows: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost: set[int] = field(default_factory=set)

    def after_kill(self, killed_at: float) -> None:
        """Look at both sides while no program runs."""
        books = self.read()
        lost = set(self.api.confirmed) - books.updates - self.lost
        if lost:
            self.lost |= lost
            self.wrong.append(f"confirmed and not stored: updates {sorted(lost)}")
        marked = Counter((reply.chat, text) for reply in books.outbox.values() for text in reply.marked())
        due = {(reply.chat, text) for reply in books.outbox.values() for text in reply.texts()}
        # A reply that goes into a message that is known goes there again, and nobody sees the difference.
        known = {
            (message.chat, message.preview)
            for message in books.messages
            if message.preview is not None and not self._begun(books, message.reply)
        }
        seen: Counter[tuple[str, str]] = Counter()
        fresh: Counter[tuple[str, str]] = Counter()
        for chat, message in self._seen():
            if (chat, message.id) not in known:
                seen[chat, message.text] += 1
                # A preview should have been noted when it was sent, however often it has changed since then.
                reply = (chat, message.text) in due and message.edits
                taken_at = message.edits[-1].time if reply else message.time
                fresh[chat, message.text] += taken_at > killed_at - WINDOW_S
        for key, number in seen.items():
            unmarked = number - marked[key] - self.windows[key]
            self.windows[key] += max(0, min(unmarked, fresh[key]))

    def _begun(self, books: Books, reply: int | None) -> bool:
        return reply is not None and bool(books.outbox[reply].marked())

    def _seen(self) -> Iterator[tuple[str, Message]]:
        for chat in self.api.chats.values():
            for message in chat.said:
                text = message.text.removeprefix(SENT_AGAIN).removeprefix("\n\n")
                if text and not NOTICE.match(text):
                    yield f"tg{chat.id}", message if text == message.text else replace(message, text=text)

    def _said(self) -> Iterator[tuple[str, Message]]:
        for chat in self.api.chats.values():
            for message in chat.messages:
                if not message.from_bot:
                    yield f"tg{chat.id}", message

    # At the end

    def close(self) -> "Closing":
        """Check everything, when everything has settled."""
        books = self.read()
        closing = Closing()
        self._check_replies(books, closing)
        self._check_seen(books, closing)
        self._check_runs(books, closing)
        self._check_tasks(books, closing)
        self._check_schedules(books, closing)
        return closing

    def _check_replies(self, books: Books, closing: "Closing") -> None:
        """Every message has one row and one reply."""
        rows = Counter(
            (message.chat, message.origin) for message in books.messages if not from_inside(message)
        )
        said = {(chat, message.id): message for chat, message in self._said()}
        for key, message in said.items():
            if rows[key] != 1:
                self.wrong.append(f"{key}: {message.text!r} stands {rows[key]} times in the journal")
        if unknown := set(rows) - set(said):
            self.wrong.append(f"in the journal and said by nobody: {sorted(unknown)[:5]}")
        if waiting := [message for message in books.messages if message.reply is None]:
            self.wrong.append(f"{len(waiting)} messages have no reply: {waiting[:3]}")
        for reply in books.outbox.values():
            if reply.delivered is None or reply.failure is not None:
                self.wrong.append(f"{reply.chat}: {reply.text[:60]!r} was not sent, {reply.failure}")
        if self.api.pending:
            self.wrong.append(f"updates that nobody fetched: {self.api.pending[:5]}")
        closing.messages = len(said)
        closing.previewed = sum(message.preview is not None for message in books.messages)
        closing.replies = len(books.outbox)
        closing.reasons = Counter(message.reason for message in books.messages if message.reason)

    def _check_seen(self, books: Books, closing: "Closing") -> None:
        """Every reply is seen, once but for what the windows explain."""
        due = Counter((reply.chat, text) for reply in books.outbox.values() for text in reply.texts())
        seen = Counter((chat, message.text) for chat, message in self._seen())
        for key in due - seen:
            self.wrong.append(f"{key[0]} never saw {key[1][:60]!r}")
        for key, number in (seen - due).items():
            within = min(number, self.windows[key])
            if key in due:
                closing.duplicates += within
                closing.duplicates_elsewhere += number - within
            else:
                closing.previews += within
                closing.previews_elsewhere += number - within
            if number > within:
                self.wrong.append(
                    f"{key[0]} saw {key[1][:60]!r} {number} times too often, {within} explained"
                )
        closing.windows = sum(self.windows.values())
        taken_at = {
            (chat, message.text): message.edits[-1].time if message.edits else message.time
            for chat, message in self._seen()
            if seen[chat, message.text] == 1
        }
        for reply in books.outbox.values():
            key = (reply.chat, reply.texts()[0])
            if due[key] == 1 and key in taken_at and len(reply.texts()) == 1 and reply.delivered is not None:
                closing.marking_s.append(reply.delivered - EPOCH - taken_at[key])

    def _check_runs(self, books: Books, closing: "Closing") -> None:
        """Nothing ran twice that was not retried."""
        turns = Counter(
            line["turn"]
            for line in self._audit()
            if line["event"] == "turn_started" and not line["chat_id"].startswith(TASK)  # which goes on
        )
        resumed = {message.turn: message.resumed for message in books.messages if message.turn}
        closing.resumed = sum(bool(times) for times in resumed.values())
        closing.resumptions = sum(resumed.values())
        closing.went_on = sum(
            message.resumed > 0 and message.reason == "complete" for message in books.messages
        )
        if again := [turn for turn, times in resumed.items() if times > MOST_RESUMED]:
            self.wrong.append(f"turns were resumed too often: {again}")
        for turn, number in turns.items():
            if (
                number > 1 + resumed.get(turn, 0) and len(self.homes) == 1
            ):  # another worker begins what was not stored as begun
                self.wrong.append(f"turn {turn} began {number} times")
        said = {(chat, message.id): message.text for chat, message in self._said()}
        begun: Counter[int] = Counter()
        for message in books.messages:
            asked = WORK.search(message.text)
            if asked is None or message.turn is None:
                continue
            begun[int(asked[1])] += 1
            own = said.get((message.chat, message.origin or 0), "")
            if asked[0] not in own and not own.startswith("/retry"):
                self.wrong.append(f"{message.chat}: {own!r} ran {message.text!r}")
            closing.retried += own.startswith("/retry")
        for session in books.iterations:
            begun[int(books.tasks[session].question.split()[1])] += 1  # each of its steps once
        ran = self.workspaces.glob("*/ran.txt")
        lines = [line for path in ran for line in path.read_text().split()]
        for line, number in Counter(lines).items():
            if number > 1:
                self.wrong.append(f"the command that writes {line} ran {number} times")
        for step, number in Counter(line.rpartition(".")[0] for line in lines).items():
            if number > begun[int(step.split(".")[0])]:
                self.wrong.append(f"step {step} ran {number} times in {begun[int(step.split('.')[0])]} turns")
        if missing := self.confirmed - {int(line.rpartition(".")[2]) for line in lines}:
            self.wrong.append(f"said to have run, and left nothing: {sorted(missing)[:5]}")
        closing.turns = len(turns)
        closing.lines = len(lines)

    def _check_tasks(self, books: Books, closing: "Closing") -> None:
        """Each task has ended and brings one result; what it noted, it noted once."""
        results = Counter(message.task for message in books.messages if message.task)
        for number, task in books.tasks.items():
            if results[number] != 1:
                self.wrong.append(f"the task {number} ({task.state}) brings {results[number]} results")
            if task.state != "succeeded":
                self.wrong.append(f"the task {number} is {task.state}")
        asked = Counter(text for _, message in self._said() if ASKED.search(text := message.text))
        if asked.total() != len(books.tasks):
            self.wrong.append(f"{asked.total()} tasks were asked for, and there are {len(books.tasks)}")
        for path in (path for home in self.homes for path in home.glob("tasks/*/notes.json")):
            steps = Counter(note.rpartition(".")[0] for note in json.loads(path.read_bytes()))
            closing.notes += steps.total()
            if again := [step for step, times in steps.items() if times > 1]:
                self.wrong.append(f"the task {path.parent.name} noted {again} more than once")
        for session, numbers in books.iterations.items():
            if numbers != list(range(1, len(numbers) + 1)):
                self.wrong.append(f"the bot's session {session} has the iterations {numbers}")
            closing.iterations.append(len(numbers))
        if bots := len(books.iterations) - sum("/bot " in message.text for _, message in self._said()):
            self.wrong.append(f"{bots:+d} bots have worked")
        closing.tasks = len(books.tasks)

    def _check_schedules(self, books: Books, closing: "Closing") -> None:
        """Each reminder came once, and each minute of a recurring one fired once or is told as missed."""
        fired = [message for message in books.messages if message.schedule]
        said = Counter(found[0] for reminder in fired if (found := REMINDED.search(reminder.text)))
        told = Counter({number: schedule.missed for number, schedule in books.schedules.items()})
        for reminder in fired:
            for number, times in MISSED.findall(reminder.text):
                told[int(number)] += int(times)
            for times in MISSED_BEFORE.findall(reminder.text):
                told[reminder.schedule or 0] += int(times)
        asked = Counter(found[0] for _, message in self._said() if (found := REMINDED.search(message.text)))
        if again := asked - Counter(schedule.text for schedule in books.schedules.values()):
            self.wrong.append(f"reminders were asked for and not stored: {again}")
        for number, schedule in books.schedules.items():
            texts = sum(reminder.schedule == number and schedule.text in reminder.text for reminder in fired)
            texts -= sum(
                reminder.schedule == number and bool(MISSED.search(reminder.text)) for reminder in fired
            )
            if not schedule.cron and (said[schedule.text], len(schedule.fires)) != (1, 1):
                self.wrong.append(f"the reminder {schedule.text} came {said[schedule.text]} times")
            if schedule.cron and schedule.fires:
                minutes = round((schedule.fires[-1] - schedule.fires[0]) / MINUTE_S) + 1
                if texts != len(schedule.fires) or len(schedule.fires) + told[number] < minutes:
                    self.wrong.append(
                        f"of {minutes} minutes of {schedule.text} {len(schedule.fires)} fired, {texts} were "
                        f"said, {told[number]} are told as missed"
                    )
            closing.missed += told[number]
            closing.fires += len(schedule.fires)
        closing.schedules = len(books.schedules)
        if books.reserved:
            self.wrong.append(f"{books.reserved} model calls are still reserved")

    def _audit(self) -> Iterator[dict[str, str]]:
        for path in (path for home in self.homes for path in sorted(home.glob("logs/audit.jsonl*"))):
            for line in path.read_text().splitlines():
                try:
                    yield json.loads(line)
                except ValueError:  # torn by a kill
                    continue


@dataclass
class Closing:
    """The figures at the end."""

    messages: int = 0
    replies: int = 0
    turns: int = 0
    retried: int = 0
    resumed: int = 0
    """Turns that went on after the end of a process, or asked then."""
    resumptions: int = 0
    went_on: int = 0
    """Of these, the turns that came to their end by themselves."""
    lines: int = 0
    previewed: int = 0
    marking_s: list[float] = field(default_factory=list)
    """From "Telegram took it" to "marked", of replies that were sent once and are like no other."""
    windows: int = 0
    duplicates: int = 0
    duplicates_elsewhere: int = 0
    previews: int = 0
    previews_elsewhere: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    tasks: int = 0
    iterations: list[int] = field(default_factory=list)
    notes: int = 0
    schedules: int = 0
    fires: int = 0
    missed: int = 0


def from_inside(message: Accepted) -> bool:
    """Whether nobody said the message: it brings the result of a task, or is a schedule's."""
    return bool(message.task or message.schedule)
