"""Thoughts that come in pieces, in the simulation: what people write in several messages, and correct.

What must hold: each piece reaches the model in exactly one turn, the turn of its own message or of the
message that it is a part of. Pieces that came together to an idle chat share one reply. A correction counts
once, and the turn that it corrects shows nothing of the old text.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import trio

from rumi.agent.prompts.message_entries import ANSWERED
from rumi.platform.texts.telegram import not_brought
from tests.fakes.bot_api_world import Message
from tests.simulation.book import Book
from tests.simulation.model import OBEY
from tests.simulation.sim_chats import Said, SimChat
from tests.simulation.stopping import LANGUAGES
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.people import People

PAUSES_S = (0, 0.3, 1, 2, 4, 9, 25)
GAPS_S = (0, 0, 0.06, 0.4)
"""Time between two pieces of one thought."""

LATER_S = (0, 0.06, 0.4, 3, 30)
"""Time until a person corrects what they wrote."""

KINDS = (
    *("lines", "lines", "comment", "comment", "forwards", "documents", "paste", "edit", "edit"),
    *("location", "reply"),
)
MOMENTS = ("write", "written", "written")
"""When a process may die where people write in pieces, besides at other times."""

NOT_BROUGHT = tuple(not_brought(language, "#").partition("#")[0] for language in LANGUAGES)
"""How a reply begins that says that a file could not be fetched."""

HELD = ("comment", "forwards", "documents", "paste")
"""Thoughts whose first piece shows that more will come: an idle chat waits for it."""

ALONE_S = 1.0

CUT_CHARS = 4096
"""Telegram's clients cut a longer text into several messages of this length."""


@dataclass(eq=False)
class Thought:
    """Something that a person wrote in several messages."""

    sim_chat: SimChat
    kind: str
    messages: list[Message] = field(default_factory=list)
    idle: bool = False
    """Nothing ran in the chat when it began."""


@dataclass(eq=False)
class Correction:
    """An edit of a message: the text of before and the text of then, of which each was said only there."""

    sim_chat: SimChat
    message: Message
    before: str
    after: str


class Pieces:
    """All thoughts in pieces of a history."""

    def __init__(self, world: World, book: Book) -> None:
        self._world = world
        self._book = book
        self._dice = Random(f"people's pieces {world.seed}")
        self.thoughts: list[Thought] = []
        self.corrections: list[Correction] = []
        self._marks_of_turns: list[tuple[int, set[str]]] | None = None

    def draw_death(self) -> tuple[str, int] | None:
        """Return when a process dies, if that has to do with pieces."""
        if self._world.pieces and self._dice.random() < 0.4:
            return self._dice.choice(MOMENTS), self._dice.choice((1, 2, 3, 4, 5, 7, 9, 12))
        return None

    async def live(self, people: "People", sim_chats: Sequence[SimChat]) -> None:
        """Write some thoughts in pieces, in private chats."""
        async with trio.open_nursery() as nursery:
            for sim_chat in sim_chats:
                if sim_chat.people and sim_chat.private and self._world.pieces:
                    nursery.start_soon(self._live_in, people, sim_chat)

    async def _live_in(self, people: "People", sim_chat: SimChat) -> None:
        dice = self._dice
        for _ in range(dice.choice((1, 2, 3, 5))):
            await trio.sleep(dice.choice(PAUSES_S))
            kind = dice.choice(KINDS)
            thought = Thought(sim_chat, kind, idle=people.quiet(sim_chat))
            self.thoughts.append(thought)
            await getattr(self, f"_{kind}")(people, thought)
            self._world.counts[f"pieces {kind}"] += 1

    async def _gap(self, number: int = 1) -> None:
        if number:
            await trio.sleep(self._dice.choice(GAPS_S))

    def _words(self, people: "People", thought: Thought) -> str:
        """Return something that was not said before."""
        people.numbered += 1
        action = self._dice.choice(("echo", "slow", "slow", "stream", "tools"))
        return f"{thought.sim_chat.mark}#{people.numbered} {action}"

    def _say(self, people: "People", thought: Thought, text: str, reply_to: Message | None = None) -> Message:
        message = people.say(thought.sim_chat, text, thought.sim_chat.people[0], reply_to)
        thought.messages.append(message)
        return message

    async def _lines(self, people: "People", thought: Thought) -> None:
        for number in range(3):
            await self._gap(number)
            self._say(people, thought, self._words(people, thought))

    async def _comment(self, people: "People", thought: Thought) -> None:
        self._say(people, thought, f"{self._words(people, thought)} sum up this:")
        await self._gap()
        thought.messages.append(people.hand_on(thought.sim_chat, self._words(people, thought), "Somebody"))

    async def _forwards(self, people: "People", thought: Thought) -> None:
        for number in range(3):
            await self._gap(number)
            people.numbered += 1
            text = f"{thought.sim_chat.mark}#{people.numbered} {self._dice.choice(('echo', OBEY))}"
            thought.messages.append(people.hand_on(thought.sim_chat, text, "Somebody"))

    async def _documents(self, people: "People", thought: Thought) -> None:
        for number in range(2):
            await self._gap(number)
            thought.messages.append(people.send_file(thought.sim_chat, f"piece-{number}.txt"))

    async def _paste(self, people: "People", thought: Thought) -> None:
        begin = f"{self._words(people, thought)} "
        self._say(people, thought, begin + "x" * (CUT_CHARS - len(begin) - 1) + ".")
        await self._gap()
        self._say(people, thought, self._words(people, thought))

    async def _edit(self, people: "People", thought: Thought) -> None:
        before = self._words(people, thought)
        message = self._say(people, thought, before)
        await trio.sleep(self._dice.choice(LATER_S))
        after = self._words(people, thought)
        people.correct(thought.sim_chat, message, after)
        self.corrections.append(Correction(thought.sim_chat, message, before, after))

    async def _location(self, people: "People", thought: Thought) -> None:
        thought.messages.append(people.send_location(thought.sim_chat))
        await self._gap()
        self._say(people, thought, self._words(people, thought))

    async def _reply(self, people: "People", thought: Thought) -> None:
        said = [message for message in thought.sim_chat.telegram_chat.messages if not message.deleted]
        self._say(people, thought, self._words(people, thought), self._dice.choice(said) if said else None)

    # What must hold

    def check(self, said: Sequence[Said], *, undisturbed: bool) -> None:
        """All of them, when everything is done; `said` is all that was sent.

        `undisturbed`: nothing came over the program, and messages reach it at once.
        """
        if not self._world.pieces:
            return
        self._check_parts()
        self._check_corrections()
        for thought in self.thoughts:
            replies = {reply for _, reply in self._rows(thought)}
            self._world.counts["thoughts"] += 1
            self._world.counts["thoughts in one turn"] += len(replies) == 1
            held = undisturbed and thought.idle and thought.kind in HELD
            if held and len(replies) > 1 and self._alone(thought, said):
                self._world.complain(
                    f"{thought.sim_chat.chat}: the pieces of one thought have {len(replies)} replies: "
                    f"{thought.kind} {[message.text[:30] for message in thought.messages]}"
                )

    def asked(self, text: str, said: Sequence[Said]) -> int:
        """Return how many turns a person asked for in which a text could have been what was said.

        A text without a numbered mark counts as none.
        """
        if self._marks_of_turns is None:
            self._marks_of_turns = self._said_to_turns(said)
        marks = numbered(text)
        return sum(times for times, words in self._marks_of_turns if marks and marks <= words)

    def _said_to_turns(self, said: Sequence[Said]) -> list[tuple[int, set[str]]]:
        """Return what was said to each turn, in all its parts, before and after it was corrected.

        The number is how often the turn may have begun: each part begins it again, even without words, and
        each process that resumes it.
        """
        edited: dict[tuple[str, int], Said] = {
            (one.sim_chat.chat, one.message.id): one for one in said if one.edits and one.text is not None
        }
        turns: dict[int, set[str]] = {}
        begun = Counter[int]()
        for first, resumed, chat, number, origin, text in self._book.ask(
            "SELECT first.id, first.resumed, part.chat, part.id, part.origin, part.text FROM messages AS part"
            " JOIN messages AS first ON first.id = coalesce(part.part_of, part.id)"
            " WHERE first.turn IS NOT NULL"
        ):
            words = turns.setdefault(first, set())
            words.update(numbered(text))
            begun[first] += 1 + (resumed if number == first else 0)
            if (one := edited.get((chat, origin))) is not None:
                words.update(*map(numbered, (one.text or "", *one.edits)))
        return [(begun[first], words) for first, words in turns.items()]

    def _alone(self, thought: Thought, said: Sequence[Said]) -> bool:
        """Whether nothing else was said in the chat while the thought was."""
        first, last = thought.messages[0].time, thought.messages[-1].time
        return not thought.sim_chat.meddled and not any(
            one.sim_chat is thought.sim_chat
            and one.message not in thought.messages
            and first - ALONE_S <= one.message.time <= last + ALONE_S
            for one in said
        )

    def _rows(self, thought: Thought) -> list[tuple[int, int]]:
        """Return the number and the reply of each stored message of a thought."""
        origins = ", ".join(str(message.id) for message in thought.messages)
        return [
            (number, reply)
            for number, reply in self._book.ask(
                "SELECT id, reply FROM messages WHERE chat = ? AND corrects = 0"
                f" AND origin IN ({origins}) ORDER BY id",
                thought.sim_chat.chat,
            )
        ]

    def _not_brought(self, message: int) -> bool:
        """Whether the reply to a message says that its file could not be fetched."""
        reply = self._book.ask(
            "SELECT outbox.text FROM messages JOIN outbox ON outbox.id = reply WHERE messages.id = ?", message
        )
        return any(text.startswith(NOT_BROUGHT) for (text,) in reply)

    def _check_parts(self) -> None:
        """A piece is in the turn of its first message, and in no other turn that is not a retry of that."""
        turns = self._said_in_turns()
        retried = dict(self._book.ask("SELECT id, retried FROM messages WHERE retried IS NOT NULL"))
        retries = {retry: number for number, retry in retried.items()}
        rows = self._book.ask(
            "SELECT part.id, part.chat, part.text, first.id, first.turn, first.reason FROM messages AS part"
            " JOIN messages AS first ON first.id = coalesce(part.part_of, part.id)"
            " WHERE part.origin IS NOT NULL AND part.corrects = 0 AND first.turn IS NOT NULL"
            " AND first.task IS NULL AND first.schedule IS NULL AND part.text NOT LIKE '/%'"
        )
        corrected = {(one.sim_chat.chat, one.message.id) for one in self.corrections}
        for number, chat, text, first, turn, reason in rows:
            mark = min(numbered(text), default="")
            if not mark:
                continue
            held = {name for name, words in turns.items() if name[0] == chat and mark in words}
            ran_again = {(chat, f"t{retry}") for retry in (*_chain(retried, first), *_chain(retries, first))}
            others = held - {(chat, turn)} - ran_again
            was = self._book.ask("SELECT origin FROM messages WHERE id = ?", number)[0][0]
            if others:
                self._world.complain(f"{chat}: {number} {mark} of the turn {turn} is also in {others}")
            if reason in ("stopped", "crashed"):  # perhaps before it was begun again with this part
                continue
            if reason == "model_error" and self._not_brought(first):  # the words come behind the file
                continue
            if (chat, turn) in turns and (chat, turn) not in held and (chat, was) not in corrected:
                self._world.complain(f"{chat}: {number} {mark} is lost, a part of the turn {turn} ({reason})")

    def _said_in_turns(self) -> dict[tuple[str, str], set[str]]:
        """Return what people's messages said in each turn whose history is kept: the numbered marks."""
        said: dict[tuple[str, str], set[str]] = {}
        for chat, turn, text in self._book.ask("SELECT chat, turn, message FROM history"):
            message = json.loads(text)
            if message["role"] == "user" and ANSWERED not in message["content"]:
                said.setdefault((chat, turn), set()).update(numbered(message["content"]))
        return said

    def _check_corrections(self) -> None:
        """A correction is stored once, and its turn has the old text or the new one, never both."""
        turns = self._said_in_turns()
        for one in self.corrections:
            chat = one.sim_chat.chat
            rows = self._book.ask(
                "SELECT id, text FROM messages WHERE chat = ? AND origin = ? AND corrects > 0",
                chat,
                one.message.id,
            )
            self._world.counts["corrections"] += 1
            self._world.counts["corrections stored"] += len(rows)
            if len(rows) > 1:
                self._world.complain(f"{chat}: the correction {one.after!r} is stored {len(rows)} times")
            before, after = one.before.split()[0], one.after.split()[0]
            for (where, turn), words in turns.items():
                if where == chat and {before, after} <= words:
                    self._world.complain(f"{chat} {turn}: has {before} and what corrects it, {after}")
            self._world.counts["corrections taken"] += any(after in words for words in turns.values())


def numbered(text: str) -> set[str]:
    """Return the numbered marks in a text: each was said once."""
    return set(re.findall(r"\b[a-z]{3}#\d+\b", text))


def _chain(ran: dict[int, int], number: int) -> list[int]:
    """Return the retries of a message, or the messages that a retry ran again, one after another."""
    found: list[int] = []
    while (number := ran.get(number, 0)) and number not in found:
        found.append(number)
    return found
