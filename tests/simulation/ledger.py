"""What stands in the chats, held against what the journal says that was sent.

Each final reply has to be seen once, whole and in its order. What is seen besides needs an excuse, which is
an event that this simulation caused itself: an answer lost after its effect, or a process that ended between
"Telegram took it" and the journal's note of it.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import trio

from rumi.channels.telegram.formatting.reply import format_reply
from rumi.platform import texts
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Fault, Injected, Late, Reset, Silent, Slow, Truncated
from tests.fakes.bot_api_text import settled
from tests.fakes.bot_api_world import Message
from tests.simulation.asking import is_question, thing_in
from tests.simulation.book import Book, Row
from tests.simulation.places import ADMIN, STRANGERS, WHOLE_STATUS, Place, strays
from tests.simulation.stopping import names_chats
from tests.simulation.world import World

Shown = tuple[str, tuple[tuple[tuple[str, Any], ...], ...]]
"""What a message shows: its words, and how they look."""

SAID_TO_STRANGERS = frozenset(
    texts.stranger(language, number) for number in STRANGERS for language in ("es", "en")
)

NOT_STORED = frozenset(
    texts.kept_at_telegram(language, trouble) for language in ("es", "en") for trouble in ("full", "locked")
)
"""What people read while nothing can be written."""

SAID_TO_WHO_WAITS = frozenset(
    texts.queued(language, place, 5) for language in ("es", "en") for place in range(1, 6)
)

OUTSIDE_THE_OUTBOX = SAID_TO_STRANGERS | NOT_STORED | SAID_TO_WHO_WAITS

LOST_AFTER_S = 4.0
"""An answer that takes longer than this may find nobody any more who waits for it."""

AT_ONCE = 2
"""What may have reached a chat and not be noted when a process ends: a part of a reply, and a preview."""


NOTED_S = 4.0
"""How long after Telegram took something it may take, with a disk that works, until it is noted."""


@lru_cache(maxsize=4096)
def parts_of(text: str) -> tuple[Shown, ...]:
    """A reply's messages, as Telegram shows them."""
    return tuple(
        _shown(*settled(part.text, [entity.to_dict() for entity in part.entities]))
        for part in format_reply(text)
    )


def _shown(text: str, entities: Sequence[dict[str, Any]]) -> Shown:
    return text, tuple(tuple(sorted(entity.items())) for entity in entities)


class Ledger:
    """Counts what may be seen besides the replies, place by place."""

    def __init__(
        self, world: World, api: BotApi, places: Sequence[Place], book: Book, noted_s: float = NOTED_S
    ) -> None:
        """`noted_s` is how long it may take until the journal notes what Telegram took."""
        self._noted_s = noted_s
        self._world = world
        self._api = api
        self._places = places
        self._book = book
        self.excused: Counter[Place] = Counter()
        self._unknown: defaultdict[Place, set[Message]] = defaultdict(set)
        """The messages of which nothing was noted when a process came to a violent end."""
        self._faults_seen = 0

    # Excuses

    def look_at_faults(self) -> None:
        """Excuse what the line's faults may leave behind."""
        injected = self._api.faults.injected
        for one in injected[self._faults_seen :]:
            self._world.counts[f"fault {type(one.fault).__name__}"] += 1
            self._world.note("telegram", f"at {one.time:.3f} in {one.chat}: {one.method} {one.fault}")
            if one.chat is None:
                continue
            for place in self._places:
                if place.has(one.chat):
                    self.excused[place] += _leaves(one.method, one.fault)
        self._faults_seen = len(injected)
        for place in self._places:
            self.excused[place] += sum(self._world.undeleted[room.id] for room in place.rooms)
        self._world.undeleted.clear()

    def sender_lost(self, life: object) -> None:
        """Excuse messages that this process sent and did not note in the journal.

        Another worker may have sent the same part just now, and still notes it: it took the chat over while
        this one was paused.
        """
        self.look_at_faults()
        for place in self._places:
            unknown = [message for message in self._unnoted(place, life) if self._may_be_of(message, life)]
            new = [message for message in unknown if message not in self._unknown[place]]
            self._unknown[place].update(new)
            due = self._due(place) if new else set()
            parts = [message for message in new if message.text in due]
            if len(parts) > self.excused[place] + 1:  # the next one goes only when the last one is noted
                self._world.complain(f"{place.chat}: of the parts {parts} nothing was noted")
            late = [
                message for message in new if self._changed_at(message) < trio.current_time() - self._noted_s
            ]
            if len(late) > self.excused[place] and not self._world.counts["disk"]:
                self._world.complain(f"{place.chat}: of {late} nothing was noted")
            if len(new) > self.excused[place] + AT_ONCE:
                self._world.complain(f"{place.chat}: of {new} nothing was noted")
            if new:  # also where a fault may have caused it: which one, nobody can tell
                self.excused[place] += len(new)
                self._world.counts["excused by a violent end"] += len(new)
                self._world.note(place.chat, f"nobody knows any more of {new}, which is excused")

    def names_lost(self, message: Message) -> bool:
        """Whether the answer was lost, by a fault, that would have told the program about this message."""
        return any(
            one.chat == message.chat.id
            and one.method == "sendMessage"
            and _leaves(one.method, one.fault)
            and abs(_done_at(one) - message.time) < 1e-6
            for one in self._api.faults.injected
        )

    def moved(self, place: Place) -> None:
        """A group is about to get another number: previews stay in the old one, and no chat owns them."""
        previews, due = self._book.previews(place.chat), self._due(place)
        noted = [message for message in self._messages(place) if message.id in previews]
        under_way = [message for message in self._unnoted(place) if message.text not in due]
        left = {*noted, *under_way} - self._unknown[place]
        self._unknown[place] |= left
        self.excused[place] += len(left)

    def _due(self, place: Place) -> set[str]:
        """The parts that have still to be sent, as far as the journal knows."""
        return {
            text
            for row in self._book.replies(place.chat)
            if row.delivered is None
            for text, _ in parts_of(row.text)[row.parts :]
        }

    def _may_be_of(self, message: Message, life: object) -> bool:
        return self._world.sent_by.get((message.chat.id, message.id), life) is life

    def _unnoted(self, place: Place, life: object = None) -> list[Message]:
        """What the bot said and the journal does not account for, neither as a preview nor as a part.

        Of messages that read the same, those of `life` count as noted last.
        """
        seen = [m for m in self._messages(place) if m.text not in OUTSIDE_THE_OUTBOX]
        if not seen:
            return []
        previews = self._book.previews(place.chat)
        noted: Counter[str] = Counter()
        for row in self._book.replies(place.chat):
            whole = row.delivered is not None and row.failure is None
            parts = parts_of(row.text)
            noted.update(text for text, _ in (parts if whole else parts[: row.parts]))
        unnoted = []
        unknown = self._unknown[place]
        # What a person took away may never have been noted: it must not stand for another that says the same.
        for message in sorted(
            seen,
            key=lambda seen_message: (
                seen_message in place.wiped,
                seen_message in unknown,
                self._may_be_of(seen_message, life),
            ),
        ):
            if noted[message.text]:
                noted[message.text] -= 1
            elif message.id not in previews and message not in place.wiped:
                unnoted.append(message)
        return unnoted

    def _changed_at(self, message: Message) -> float:
        return message.edits[-1].time if message.edits else message.time

    # The chats

    def _messages(self, place: Place) -> list[Message]:
        """What the bot said in a place and is there, or was until a person took it away."""
        return [
            message
            for message in place.messages
            if message.from_bot
            and place.holds(message)
            and message.document is None
            and not is_question(message.text)
            and (not message.deleted or message in place.wiped)
        ]

    def check(self) -> None:
        """All places, when everything is done."""
        self.look_at_faults()
        for place in self._places:
            if any(room.events for room in place.rooms):
                self._check_strays(place)
            self._check_replies(place)
            self._check_questions(place)

    def _check_strays(self, place: Place) -> None:
        """Nothing of one place is ever shown in another."""
        for message in place.messages:
            if message.from_bot and place.holds(message):
                self._is_of(place, message.text)
                for edit in message.edits:
                    self._is_of(place, edit.text)
                if message.document is not None:
                    self._is_of(place, message.document.content.decode())
        for draft in place.room.drafts:  # no group has any
            if draft.topic == place.topic:
                self._is_of(place, draft.text)

    def _is_of(self, place: Place, text: str) -> None:
        if (found := strays(text, place)) and not (names_chats(text) and place.has_admin):
            self._world.complain(f"{place.chat} is shown something of {found}: {text[:80]!r}")
        if WHOLE_STATUS in text and place.mark != ADMIN:
            self._world.complain(f"{place.chat} is shown how the whole house is")

    def _check_replies(self, place: Place) -> None:
        rows = self._book.replies(place.chat)
        wanted: list[tuple[Row, int, Shown]] = []
        loose: list[Shown] = []
        for row in rows:
            if row.failure is not None:
                loose.extend(parts_of(row.text))
                self._check_failure(place, row)
            elif row.known and row.delivered is None:
                self._world.complain(f"{place.chat}: the reply {row.delivery} was never delivered")
            elif row.known:
                wanted.extend((row, n, part) for n, part in enumerate(parts_of(row.text)))
        seen = self._in_order(place)
        besides: list[Shown] = []
        ahead = iter(wanted)
        due = next(ahead, None)
        for shown in seen:
            if due is not None and self._same(place, shown, due[2]):
                due = next(ahead, None)
            else:
                besides.append(shown)
        if due is None:
            # A reply to somebody outside may have passed for one that reads the same.
            outside = sum(not row.known and row.delivered is not None for row in rows)
            self._check_besides(place, besides, [part for _, _, part in wanted], loose, outside)
            return
        row, n, part = due
        there = any(self._same(place, shown, part) for shown in seen)
        how = "out of its order" if there else "nowhere"
        self._world.complain(
            f"{place.chat}: part {n + 1} of the reply {row.delivery} is {how} in the chat: {part[0][:80]!r}"
        )

    def _check_besides(
        self, place: Place, besides: list[Shown], wanted: list[Shown], loose: list[Shown], outside: int
    ) -> None:
        """What is there besides the replies, each of which may have left a part or a preview if it failed."""
        repeats: list[str] = []
        left: list[str] = []
        for shown in besides:
            if shown[0] not in OUTSIDE_THE_OUTBOX and shown not in loose:
                again = any(self._same(place, shown, part) for part in wanted)
                (repeats if again else left).append(shown[0][:60])
        self._world.counts["repeated"] += len(repeats)
        self._world.counts["left behind"] += len(left)
        excuses = self.excused[place] + len(loose) + len(place.wiped)
        if len(repeats) + len(left) > excuses + min(outside, len(repeats)):
            self._world.complain(
                f"{place.chat}: {excuses} excuses, but shown again: {repeats}, left behind: {left}"
            )

    def _check_questions(self, place: Place) -> None:
        """Each is asked once; where an answer was lost, it may stand there again."""
        asked = Counter(
            thing_in(message.text)
            for message in place.messages
            if message.from_bot and place.holds(message) and is_question(message.text)
        )
        if asked.total() - len(asked) > self.excused[place]:
            again = [thing for thing, times in asked.items() if times > 1]
            self._world.complain(f"{place.chat}: {self.excused[place]} excuses, but asked again: {again}")

    def _same(self, place: Place, shown: Shown, part: Shown) -> bool:
        plain = any(room.id in self._world.plain for room in place.rooms)
        return shown == part or (plain and shown == (part[0], ()))

    def _in_order(self, place: Place) -> list[Shown]:
        """What is shown, in the order in which it came to say that."""
        last: dict[Message, int] = {}
        for index, event in enumerate(chain.from_iterable(room.events for room in place.rooms)):
            match event:
                case Message():
                    last[event] = index
                case ("edit", Message() as message):
                    last[message] = index
        seen = sorted(self._messages(place), key=lambda message: last[message])
        return [_shown(message.text, message.entities) for message in seen]

    def _check_failure(self, place: Place, row: Row) -> None:
        """A reply is given up only where nobody could be reached."""
        assert row.delivered is not None
        if not any(begin <= row.delivered and row.created <= end for begin, end in place.gone):
            self._world.complain(
                f"{place.chat}: the reply {row.delivery} was given up without need: {row.failure}"
            )


def _done_at(one: Injected) -> float:
    """When what was asked for was done, though the answer was not what it should be."""
    return one.time + (one.fault.seconds if isinstance(one.fault, Late) else 0.0)


def _leaves(method: str, fault: Fault) -> int:
    """How many messages more a fault may leave in a chat."""
    if method == "deleteMessage":
        return 1
    if method != "sendMessage":
        return 0
    match fault:
        case Reset(after=True) | Silent(after=True) | Truncated() | Late():
            return 1
        case Slow(seconds):
            return int(seconds > LOST_AFTER_S)
    return 0
