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
from rumi.channels.telegram.formatting.spans import units
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import storage as storage_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts import waiting as waiting_texts
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Fault, Injected, Late, Reset, Silent, Slow, Truncated
from tests.fakes.bot_api_text import settled
from tests.fakes.bot_api_world import Message
from tests.simulation.asking import is_question, thing_in
from tests.simulation.book import Book, Row
from tests.simulation.sim_chats import ADMIN, STRANGERS, WHOLE_STATUS, SimChat, strays
from tests.simulation.stopping import names_chats
from tests.simulation.world import World

Shown = tuple[str, tuple[tuple[tuple[str, Any], ...], ...]]
"""What a message shows: its words, and how they look."""

SAID_TO_STRANGERS = frozenset(
    telegram_texts.stranger(language, number) for number in STRANGERS for language in ("es", "en")
)

NOT_STORED = frozenset(
    storage_texts.kept_at_telegram(language, trouble)
    for language in ("es", "en")
    for trouble in ("full", "locked")
)
"""What people read while nothing can be written."""

SAID_TO_WHO_WAITS = frozenset(
    reply_texts.queued(language, place, most)
    for language in ("es", "en")
    for most in (5, 20)
    for place in range(1, most + 1)
)

SAID_TO_WHO_WAITS |= {
    text
    for language in ("es", "en")
    for text in (waiting_texts.steers(language), reply_texts.goes_on_later(language))
}

SENT_AGAIN = frozenset(telegram_texts.sent_again(language) for language in ("es", "en"))
"""What stands above a part of a reply that may be there twice, or in a message of its own before it."""

OUTSIDE_THE_OUTBOX = SAID_TO_STRANGERS | NOT_STORED | SAID_TO_WHO_WAITS | SENT_AGAIN

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


def _unmarked(message: Message) -> Shown:
    """What a message shows, without the mark of one that was sent again."""
    for mark in SENT_AGAIN:
        if message.text.startswith(f"{mark}\n\n"):
            above = units(f"{mark}\n\n")
            moved = [{**entity, "offset": entity["offset"] - above} for entity in message.entities]
            return _shown(message.text.removeprefix(f"{mark}\n\n"), moved)
    return _shown(message.text, message.entities)


class Ledger:
    """Counts what may be seen besides the replies, place by place."""

    def __init__(
        self, world: World, api: BotApi, sim_chats: Sequence[SimChat], book: Book, noted_s: float = NOTED_S
    ) -> None:
        """`noted_s` is how long it may take until the journal notes what Telegram took."""
        self._noted_s = noted_s
        self._world = world
        self._api = api
        self._sim_chats = sim_chats
        self._book = book
        self.excused: Counter[SimChat] = Counter()
        self._unknown: defaultdict[SimChat, set[Message]] = defaultdict(set)
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
            for sim_chat in self._sim_chats:
                if sim_chat.has(one.chat):
                    self.excused[sim_chat] += _leaves(one.method, one.fault)
        self._faults_seen = len(injected)
        for sim_chat in self._sim_chats:
            self.excused[sim_chat] += sum(self._world.undeleted[room.id] for room in sim_chat.telegram_chats)
        self._world.undeleted.clear()

    def sender_lost(self, life: object) -> None:
        """Excuse messages that this process sent and did not note in the journal.

        Another worker may have sent the same part just now, and still notes it: it took the chat over while
        this one was paused.
        """
        self.look_at_faults()
        for sim_chat in self._sim_chats:
            unknown = [message for message in self._unnoted(sim_chat, life) if self._may_be_of(message, life)]
            new = [message for message in unknown if message not in self._unknown[sim_chat]]
            self._unknown[sim_chat].update(new)
            due = self._due(sim_chat) if new else set()
            parts = [message for message in new if _unmarked(message)[0] in due]
            if len(parts) > self.excused[sim_chat] + 1:  # the next one goes only when the last one is noted
                self._world.complain(f"{sim_chat.chat}: of the parts {parts} nothing was noted")
            late = [
                message for message in new if self._changed_at(message) < trio.current_time() - self._noted_s
            ]
            if len(late) > self.excused[sim_chat] and not self._world.counts["disk"]:
                self._world.complain(f"{sim_chat.chat}: of {late} nothing was noted")
            if len(new) > self.excused[sim_chat] + AT_ONCE:
                self._world.complain(f"{sim_chat.chat}: of {new} nothing was noted")
            if new:  # also where a fault may have caused it: which one, nobody can tell
                self.excused[sim_chat] += len(new)
                self._world.counts["excused by a violent end"] += len(new)
                self._world.note(sim_chat.chat, f"nobody knows any more of {new}, which is excused")

    def names_lost(self, message: Message) -> bool:
        """Whether the answer was lost, by a fault, that would have told the program about this message."""
        return any(
            one.chat == message.chat.id
            and one.method == "sendMessage"
            and _leaves(one.method, one.fault)
            and abs(_done_at(one) - message.time) < 1e-6
            for one in self._api.faults.injected
        )

    def moved(self, sim_chat: SimChat) -> None:
        """A group is about to get another number: previews stay in the old one, and no chat owns them."""
        previews, due = self._book.previews(sim_chat.chat), self._due(sim_chat)
        noted = [message for message in self._messages(sim_chat) if message.id in previews]
        under_way = [m for m in self._unnoted(sim_chat) if _unmarked(m)[0] not in due]
        left = {*noted, *under_way} - self._unknown[sim_chat]
        self._unknown[sim_chat] |= left
        self.excused[sim_chat] += len(left)

    def _due(self, sim_chat: SimChat) -> set[str]:
        """The parts that have still to be sent, as far as the journal knows."""
        return {
            text
            for row in self._book.replies(sim_chat.chat)
            if row.delivered is None
            for text, _ in parts_of(row.text)[row.parts :]
        }

    def _may_be_of(self, message: Message, life: object) -> bool:
        return self._world.sent_by.get((message.chat.id, message.id), life) is life

    def _unnoted(self, sim_chat: SimChat, life: object = None) -> list[Message]:
        """What the bot said and the journal does not account for, neither as a preview nor as a part.

        Of messages that read the same, those of `life` count as noted last.
        """
        seen = [m for m in self._messages(sim_chat) if m.text not in OUTSIDE_THE_OUTBOX]
        if not seen:
            return []
        previews = self._book.previews(sim_chat.chat)
        noted: Counter[str] = Counter()
        for row in self._book.replies(sim_chat.chat):
            whole = row.delivered is not None and row.failure is None
            parts = parts_of(row.text)
            noted.update(text for text, _ in (parts if whole else parts[: row.parts]))
        unnoted = []
        unknown = self._unknown[sim_chat]
        # What a person took away may never have been noted: it must not stand for another that says the same.
        for message in sorted(
            seen,
            key=lambda seen_message: (
                seen_message in sim_chat.wiped,
                seen_message in unknown,
                self._may_be_of(seen_message, life),
            ),
        ):
            if noted[_unmarked(message)[0]]:
                noted[_unmarked(message)[0]] -= 1
            elif message.id not in previews and message not in sim_chat.wiped:
                unnoted.append(message)
        return unnoted

    def _changed_at(self, message: Message) -> float:
        return message.edits[-1].time if message.edits else message.time

    # The chats

    def _messages(self, sim_chat: SimChat) -> list[Message]:
        """What the bot said in a place and is there, or was until a person took it away."""
        return [
            message
            for message in sim_chat.messages
            if message.from_bot
            and sim_chat.holds(message)
            and message.document is None
            and not is_question(message.text)
            and (not message.deleted or message in sim_chat.wiped)
        ]

    def check(self) -> None:
        """All places, when everything is done."""
        self.look_at_faults()
        for sim_chat in self._sim_chats:
            if any(room.events for room in sim_chat.telegram_chats):
                self._check_strays(sim_chat)
            self._check_replies(sim_chat)
            self._check_questions(sim_chat)

    def _check_strays(self, sim_chat: SimChat) -> None:
        """Nothing of one place is ever shown in another."""
        for message in sim_chat.messages:
            if message.from_bot and sim_chat.holds(message):
                self._is_of(sim_chat, message.text)
                for edit in message.edits:
                    self._is_of(sim_chat, edit.text)
                if message.document is not None:
                    self._is_of(sim_chat, message.document.content.decode())
        for draft in sim_chat.telegram_chat.drafts:  # no group has any
            if draft.topic == sim_chat.topic:
                self._is_of(sim_chat, draft.text)

    def _is_of(self, sim_chat: SimChat, text: str) -> None:
        if (found := strays(text, sim_chat)) and not (names_chats(text) and sim_chat.has_admin):
            self._world.complain(f"{sim_chat.chat} is shown something of {found}: {text[:80]!r}")
        if WHOLE_STATUS in text and sim_chat.mark != ADMIN:
            self._world.complain(f"{sim_chat.chat} is shown how the whole house is")

    def _check_replies(self, sim_chat: SimChat) -> None:
        rows = self._book.replies(sim_chat.chat)
        wanted: list[tuple[Row, int, Shown]] = []
        loose: list[Shown] = []
        for row in rows:
            if row.failure is not None:
                loose.extend(parts_of(row.text))
                self._check_failure(sim_chat, row)
            elif row.known and row.delivered is None:
                self._world.complain(f"{sim_chat.chat}: the reply {row.delivery} was never delivered")
            elif row.known:
                wanted.extend((row, n, part) for n, part in enumerate(parts_of(row.text)))
        seen = self._in_order(sim_chat)
        besides: list[Shown] = []
        ahead = iter(wanted)
        due = next(ahead, None)
        for shown in seen:
            if due is not None and self._same(sim_chat, shown, due[2]):
                due = next(ahead, None)
            else:
                besides.append(shown)
        if due is None:
            # A reply to somebody outside may have passed for one that reads the same.
            outside = sum(not row.known and row.delivered is not None for row in rows)
            self._check_besides(sim_chat, besides, [part for _, _, part in wanted], loose, outside)
            return
        row, n, part = due
        there = any(self._same(sim_chat, shown, part) for shown in seen)
        how = "out of its order" if there else "nowhere"
        self._world.complain(
            f"{sim_chat.chat}: part {n + 1} of the reply {row.delivery} is {how} in the chat: "
            f"{part[0][:80]!r}"
        )

    def _check_besides(
        self, sim_chat: SimChat, besides: list[Shown], wanted: list[Shown], loose: list[Shown], outside: int
    ) -> None:
        """What is there besides the replies, each of which may have left a part or a preview if it failed."""
        repeats: list[str] = []
        left: list[str] = []
        for shown in besides:
            if shown[0] not in OUTSIDE_THE_OUTBOX and shown not in loose:
                again = any(self._same(sim_chat, shown, part) for part in wanted)
                (repeats if again else left).append(shown[0][:60])
        self._world.counts["repeated"] += len(repeats)
        self._world.counts["left behind"] += len(left)
        excuses = self.excused[sim_chat] + len(loose) + len(sim_chat.wiped)
        if len(repeats) + len(left) > excuses + min(outside, len(repeats)):
            self._world.complain(
                f"{sim_chat.chat}: {excuses} excuses, but shown again: {repeats}, left behind: {left}"
            )

    def _check_questions(self, sim_chat: SimChat) -> None:
        """Each is asked once; where an answer was lost, or its turn was resumed, it may stand there again."""
        asked = Counter(
            thing_in(message.text)
            for message in sim_chat.messages
            if message.from_bot and sim_chat.holds(message) and is_question(message.text)
        )
        ((resumed,),) = self._book.ask(
            "SELECT coalesce(sum(resumed), 0) FROM messages WHERE chat = ?", sim_chat.chat
        )
        if asked.total() - len(asked) > self.excused[sim_chat] + resumed:
            again = [thing for thing, times in asked.items() if times > 1]
            self._world.complain(
                f"{sim_chat.chat}: {self.excused[sim_chat]} excuses, but asked again: {again}"
            )

    def _same(self, sim_chat: SimChat, shown: Shown, part: Shown) -> bool:
        plain = any(room.id in self._world.plain for room in sim_chat.telegram_chats)
        return shown == part or (plain and shown == (part[0], ()))

    def _in_order(self, sim_chat: SimChat) -> list[Shown]:
        """What is shown, in the order in which it came to say that."""
        last: dict[Message, int] = {}
        for index, event in enumerate(chain.from_iterable(room.events for room in sim_chat.telegram_chats)):
            match event:
                case Message():
                    last[event] = index
                case ("edit", Message() as message):
                    last[message] = index
        seen = sorted(self._messages(sim_chat), key=lambda message: last[message])
        return [_unmarked(message) for message in seen]

    def _check_failure(self, sim_chat: SimChat, row: Row) -> None:
        """A reply is given up only where nobody could be reached."""
        assert row.delivered is not None
        if not any(begin <= row.delivered and row.created <= end for begin, end in sim_chat.gone):
            self._world.complain(
                f"{sim_chat.chat}: the reply {row.delivery} was given up without need: {row.failure}"
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
