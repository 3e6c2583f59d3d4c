"""What turns ask, what people answer, and what is done.

Whether something might be done is judged by what people saw and did, and not by what the house says of it: a
button counts for what the message says that it hangs on.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import trio

from rumi.channels.telegram.address import TelegramAddress
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.questions import Verdict
from tests.fakes.bot_api_world import Message, Person, Query
from tests.simulation.ports import Life
from tests.simulation.sim_chats import SimChat
from tests.simulation.world import World

CONFIRM_S = 90.0
"""How long a question waits: longer than a turn may take."""

MOST_NOS = 3

HEARD_S = 15.0
"""After this time an answer has been heard, where nothing is disturbed."""

FIRST_LINES = tuple(question_texts.question(language, "send_file", {}).text for language in ("es", "en"))
TOASTS = {question_texts.verdict(language, word): word for language in ("es", "en") for word in ("yes", "no")}
CLOSED = frozenset(telegram_texts.question_closed(language) for language in ("es", "en"))

_THING = re.compile(r"^ *(?:file|archivo): (\S+)", re.MULTILINE)


def is_question(text: str) -> bool:
    """Whether a message of the bot's is one, with its verdict or without."""
    return text.startswith(FIRST_LINES)


def thing_in(text: str) -> str:
    """What a question is about."""
    found = _THING.search(text)
    assert found is not None, text
    return found[1]


@dataclass(eq=False)
class Press:
    """Somebody pressed a button. `late`: its question was over."""

    query: Query
    yes: bool
    late: bool


@dataclass(eq=False)
class Typed:
    """Somebody wrote a yes or a no. It is `used` when something was done because of it."""

    message: Message
    yes: bool
    used: bool = False


@dataclass(eq=False)
class Asked:
    """A question, as the house told it."""

    sim_chat: SimChat
    turn: str
    id: str
    thing: str
    owner: Person
    life: Life
    at: float
    ended_at: float = 0.0
    verdict: Verdict | None = None
    presses: list[Press] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether no answer counts any more."""
        return self.verdict is not None or self.life.dead


class Asking:
    """All questions of a history."""

    def __init__(self, world: World, sim_chats: Mapping[str, SimChat]) -> None:
        self._world = world
        self._sim_chats = sim_chats
        self.questions: dict[str, Asked] = {}
        """By what they are about, which is said once."""
        self._last: dict[str, Asked] = {}
        self._owners: dict[tuple[str, str], tuple[Person, float]] = {}
        self._nos: Counter[str] = Counter()
        self._waited: Counter[tuple[str, str]] = Counter()
        self._typed: defaultdict[str, list[Typed]] = defaultdict(list)
        self._done: set[str] = set()

    def chat_of(self, address: TelegramAddress) -> str:
        """Which chat is there."""
        sim_chat = self._sim_chats.get(address.chat)
        return address.chat if sim_chat is None else sim_chat.chat

    # What the house tells

    def begin(self, chat: str, turn: str, origin: int | None, text: str, *, retry: bool) -> None:
        """A turn begins: it belongs to the sender of its message. `retry`: the message is a /retry."""
        assert origin is not None
        owner = self._sim_chats[chat].sender_of(origin, text, retry=retry)
        self._owners[chat, turn] = (owner, trio.current_time())

    def ask(self, chat: str, turn: str, id: str, text: str, life: Life) -> Asked:
        """A turn asks something."""
        world, last = self._world, self._last.get(chat)
        world.note(chat, f"{turn} asks {id}", lambda: repr(text))
        world.counts["asked"] += 1
        if last is not None and not last.over:
            world.complain(f"{chat} {turn}: asks {text!r} while {last.thing} is asked")
        if self._nos[turn] >= MOST_NOS:
            world.complain(f"{chat} {turn}: asks though there was no yes so often")
        owner, _ = self._owners[chat, turn]
        thing = thing_in(text)
        asked = Asked(self._sim_chats[chat], turn, id, thing, owner, life, trio.current_time())
        self._last[chat] = self.questions[thing] = asked
        return asked

    def end(self, chat: str, id: str, verdict: Verdict) -> None:
        """A question is over."""
        world, asked = self._world, self._last[chat]
        world.note(chat, f"{id} is over: {verdict}")
        world.counts[f"verdict {verdict}"] += 1
        if asked.id != id or asked.verdict is not None:
            world.complain(f"{chat}: {id} is over, and not asked")
            return
        asked.verdict, asked.ended_at = verdict, trio.current_time()
        world.waits.until(asked.ended_at, chat, since=asked.at)
        self._waited[chat, asked.turn] += asked.ended_at - asked.at  # type: ignore[assignment]
        self._nos[asked.turn] = {"yes": 0, "no": self._nos[asked.turn] + 1, "expired": MOST_NOS}[verdict]
        if asked.ended_at > asked.at + CONFIRM_S + 1e-6:
            world.complain(f"{chat}: {asked.thing} was asked for {asked.ended_at - asked.at:.0f} s")

    def asks_since(self, chat: str) -> float:
        """Since when a question waits in a chat; infinity where none does."""
        last = self._last.get(chat)
        return float("inf") if last is None or last.over else last.at

    def timed_out(self, chat: str, turn: str, limit_s: float) -> None:
        """A turn's time is over: that in which it waited for an answer does not count."""
        _, began = self._owners[chat, turn]
        worked_s = trio.current_time() - began - self._waited[chat, turn]
        if worked_s < limit_s - 1e-3:
            self._world.complain(f"{chat} {turn}: its time was over after {worked_s:.0f} s of work")

    # What people do

    def pressed(self, query: Query, yes: bool) -> None:
        """Somebody pressed a button of a question."""
        self._world.counts["presses"] += 1
        asked = self.questions[thing_in(query.message.text)]
        asked.presses.append(Press(query, yes, late=asked.over))

    def typed(self, sim_chat: SimChat, message: Message, yes: bool) -> None:
        """Somebody wrote a yes or a no."""
        self._world.counts["typed"] += 1
        self._typed[sim_chat.chat].append(Typed(message, yes))

    # What is done

    def do(self, sim_chat: SimChat, thing: str) -> None:
        """Something is done that has to be asked for."""
        complain, what = self._world.complain, f"{sim_chat.chat}: {thing} was done"
        self._world.note(sim_chat.chat, f"{thing} is done")
        self._world.counts["done"] += 1
        if thing in self._done:
            complain(f"{what} twice")
        self._done.add(thing)
        asked = self.questions.get(thing)
        if asked is None or asked.sim_chat is not sim_chat:
            complain(f"{what}, and nobody was asked")
        elif asked.verdict != "yes":
            complain(f"{what}, and its question is {asked.verdict}")
        elif not self._may(asked):
            complain(f"{what} without a yes of {asked.owner.first_name} to it")

    def sent(self, sim_chat: SimChat, name: str) -> None:
        """A file was sent. Only in a chat that had read something from outside there was a question."""
        asked = self.questions.get(name)
        if name in self._done:  # the same file again, because an answer was lost
            return
        self._done.add(name)
        if asked is not None and not (asked.verdict == "yes" and self._may(asked)):
            self._world.complain(f"{sim_chat.chat}: {name} was sent without a yes, but {asked.verdict}")

    def _may(self, asked: Asked) -> bool:
        """Whether its person has said yes to this very question."""
        if any(press.yes and press.query.person is asked.owner for press in asked.presses):
            return True
        order = {message: at for at, message in enumerate(asked.sim_chat.messages)}
        standing = [message for message in order if shows(message, asked.thing)]
        for typed in self._typed[asked.sim_chat.chat]:
            theirs = typed.yes and not typed.used and typed.message.sender is asked.owner
            if theirs and standing and order[typed.message] > order[standing[0]]:
                typed.used = True
                return True
        return False

    # In the end

    def check(self, *, undisturbed: bool) -> None:
        """What people were told, and what still stands in the chats."""
        for asked in self.questions.values():
            self._check_toasts(asked)
            if undisturbed:
                self._check_heard(asked)

    def _check_toasts(self, asked: Asked) -> None:
        what = f"{asked.sim_chat.chat}: the press for {asked.thing}"
        told = [(press, TOASTS[toast]) for press in asked.presses if (toast := press.query.toast) in TOASTS]
        if len(told) > 1:
            self._world.complain(f"{what} counted {len(told)} times")
        for press, word in told:
            who = press.query.person
            if who is not asked.owner or press.late:
                self._world.complain(f"{what} by {who.first_name} counted, late: {press.late}")
            elif word != ("yes" if press.yes else "no") or (asked.verdict or word) != word:
                self._world.complain(f"{what} was told {word}, and it was {asked.verdict}")

    def _check_heard(self, asked: Asked) -> None:
        """Who answers in time is heard, and whoever presses is told what came of it."""
        for press in asked.presses:
            if press.query.toast is None and press.query.person in asked.sim_chat.people:
                self._world.complain(f"{asked.sim_chat.chat}: the press for {asked.thing} was told nothing")
        if asked.verdict != "expired":
            return
        if not any(shows(message, asked.thing) for message in asked.sim_chat.messages):
            self._world.complain(f"{asked.sim_chat.chat}: nobody could read what was asked of {asked.thing}")
        for press in asked.presses:
            if press.query.person is asked.owner and press.query.time < asked.ended_at - HEARD_S:
                self._world.complain(f"{asked.sim_chat.chat}: nobody heard the answer to {asked.thing}")


def shows(message: Message, thing: str) -> bool:
    """Whether a message asks for this."""
    return message.from_bot and is_question(message.text) and thing_in(message.text) == thing
