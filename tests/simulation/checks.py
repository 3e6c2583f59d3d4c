"""What must hold when a history has come to its end."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from rumi.chats.resuming import MOST_RESUMED
from rumi.platform.texts import telegram as telegram_texts
from tests.fakes.bot_api_world import Query
from tests.simulation.asking import CLOSED, thing_in
from tests.simulation.book import Book
from tests.simulation.ledger import NOT_STORED
from tests.simulation.people import BEHIND_S
from tests.simulation.pieces import numbered
from tests.simulation.ports import wait_key
from tests.simulation.process import SESSION_S, Process
from tests.simulation.sim_chats import STRANGE, STRANGERS, Said, chat_of_moved, strays
from tests.simulation.tasks import left_of
from tests.simulation.witness import BUSY
from tests.simulation.world import EPOCH

if TYPE_CHECKING:
    from tests.simulation.history import History

HOUR_S = 3600.0
AT_ONCE_S = 5.0
CRASH_S = 1.0
"""How long a chat may take to be back after each crash, with what it owes replied to."""
SENT_S = 8.0
"""How long a reply may wait behind the chat's last one, and for the rate at which a chat may be sent to."""
ITS_OWN_S = 5.0
"""How long a message may wait for something that is neither its chat's nor everybody's."""

_REOPENED = re.compile(r"(?:Reopened session|Reabrí la sesión) (\d+):")

_OF_A_STRANGER = re.compile(
    rf"(?<![A-Za-z]){STRANGE}#|(?<![0-9.])(?:{'|'.join(map(str, STRANGERS))})(?![0-9])"
)
"""What a stranger wrote, or a stranger's number: not one that others' numbers happen to contain, as
`0.6661` does, which a tool may have been given."""


def of_a_stranger(words: str) -> bool:
    """Whether something in these words comes from a stranger."""
    return _OF_A_STRANGER.search(words) is not None


class Checks:
    """Of one history."""

    def __init__(self, history: "History") -> None:
        self._history = history
        self._world = history.world
        self._book = history.book
        self._complain = history.world.complain

    def when_idle(self, process: Process) -> None:
        """Nothing is kept for ever, and nothing runs."""
        pending, sender, inbox = process.pending, process.sender, process.inbox
        limits = process.telegram._limits
        limits._sweep()
        kept = {
            "messages without a reply": pending.unreplied,
            "cursors": pending.cursors,
            "chats": list(inbox.chats._chats.keys()),
            "lanes": sender._outboxes,
            "ends": sender._ending,
            "commands": process.sandboxes._running,
            "listeners": self._listening(process),
            "limits": len(limits._windows),
            "boxes": sorted(self._history.daemon.live),
            "questions": process.services.hub.questions,
            "turns": process.services.hub.turns,
            "toasts": sender._toasts._under_way,
            "model calls": +process.calls,
            "permits": process.models.activity() if process.models.busy() else "",
            "lessons": list(process.extractor._attempts),
            "sessions": self._sessions_to_extract(),
            **({} if process.tasks is None else left_of(process.tasks, boxes_fail=self._world.boxes_fail)),
        }
        for what, found in kept.items():
            if found:
                self._complain(f"kept for ever: {what} {found}")

    def _listening(self, process: Process) -> list[str]:
        """Return the chats with a listener, except for chats that wait for a person who can read them."""
        lost = {chat for (chat,) in self._book.ask("SELECT chat FROM unreachable")}
        listening = process.services.hub._topic.subscribed()
        return [chat for chat in listening if chat is not None and chat not in lost]

    def _sessions_to_extract(self) -> list[object]:
        """Sessions that are over, and were neither learned from nor ever tried in vain."""
        return self._book.ask(
            "SELECT chat, number FROM sessions WHERE fresh AND tries = 0"
            " AND (ended IS NOT NULL OR asked OR (due > 0 AND due < ?))",
            self._world.now() - HOUR_S / 60,
        ) + self._book.ask("SELECT chat, number, 'forget' FROM sessions WHERE forget AND tries = 0")

    def after_all(self) -> None:
        """The journal, the chats, the boxes."""
        self._check_messages()
        self._check_moved()
        self._check_turns()
        self._check_retries()
        self._check_sessions()
        self._check_strangers()
        self._history.ledger.check()
        self._check_said_to_strangers()
        self._check_not_stored()
        self._check_boxes()
        self._check_rates()
        self._check_at_once()
        self._check_waits()
        self._check_facts()
        self._check_questions()
        self._history.doings.check(undisturbed=self._undisturbed)
        self._history.purse.check(self._book)
        self._history.reminders.check()
        prompt = self._undisturbed and not self._history.latency[1] and not self._world.stops
        self._history.pieces.check(self._history.people.said, undisturbed=prompt)

    @property
    def _undisturbed(self) -> bool:
        """Whether nothing came over the program: neither an end, nor its disk or its line."""
        history, world = self._history, self._world
        trouble = any(world.measure[family] for family in ("telegram", "updates", "disk"))
        gone = any(sim_chat.gone for sim_chat in history.sim_chats)
        return len(history.starts) == 1 and not world.counts["crashes"] and not trouble and not gone

    def of_buttons(self, pressed: Sequence[Query]) -> None:
        """What was still to be pressed in the end says that it is over, and is pressed no more.

        What nobody has told the program of, neither Telegram nor a press in time, it cannot take away.
        """
        known = [query.message for query in pressed if not self._unknown(query)]
        if known and self._undisturbed:
            self._complain(f"questions kept their buttons: {known}")
        for query in pressed:
            if query.toast not in CLOSED:
                self._complain(f"the button of {query.message}, which is over, said {query.toast!r}")
            if query.message.buttons and not query.message.deleted:
                self._complain(f"{query.message} has kept its buttons")

    def _unknown(self, query: Query) -> bool:
        """Whether a question's message is a copy of which the program did not hear while it was open."""
        asked = self._history.asking.questions[thing_in(query.message.text)]
        heard = any(press.query.message is query.message and not press.late for press in asked.presses)
        return not heard and self._history.ledger.names_lost(query.message)

    def _check_questions(self) -> None:
        """Nothing was done without a yes, and everybody was told the truth."""
        self._history.asking.check(undisturbed=self._undisturbed)
        for sim_chat in self._history.all_sim_chats:
            for message in sim_chat.messages:
                if message.from_bot and message.document is not None:
                    self._history.asking.sent(sim_chat, message.document.name)

    def _check_messages(self) -> None:
        """What was said is stored once, and has one reply."""
        found: defaultdict[Said | None, list[int]] = defaultdict(list)
        corrected: set[str] = set()
        rows = self._book.ask(
            "SELECT messages.id, messages.chat, messages.text, turn, reason, origin, reply, outbox.text,"
            " corrects FROM messages LEFT JOIN outbox ON reply = outbox.id ORDER BY messages.id"
        )
        for number, chat, text, turn, reason, origin, reply, answer, corrects in rows:
            if reply is None:
                self._complain(f"{chat}: the message {number} {text!r} has no reply")
            if turn and reason is None:
                self._complain(f"{chat}: the turn {turn} has no end")
            if reason and text.startswith("/") and "#" not in text:  # which is a caption
                self._complain(f"{chat}: {number} {text!r} could be retried")
            if origin is None:
                continue
            said = self._said(chat, origin, text, found)
            if corrects:
                if said is None or text not in said.edits or text in corrected:
                    self._complain(f"{chat}: the correction {number} {text!r} was not made, or counted twice")
                corrected.add(text)
                continue
            found[said].append(number)
            if said is not None and text in said.edits:
                continue
            if said is None or (said.text is None and not said.behind):
                self._complain(f"{chat}: the message {number} {text!r} was not meant for the house")
            elif said.text is not None and said.text != "/retry" and not self._is(said, text):
                self._complain(f"{chat}: {said.text!r} was stored as {text!r}")
            elif said.polite and answer in BUSY and not said.sim_chat.meddled:
                self._complain(f"{chat}: {number} was wrongly told that the chat is busy")
        for said in self._history.people.said:
            stored = found[said]
            if len(stored) > 1 and not said.album:
                self._complain(f"{said.sim_chat.chat}: {said.text!r} was stored more than once: {stored}")
            elif said.text is not None and not stored and not said.lost and said.message.update_id:
                self._complain(f"{said.sim_chat.chat}: {said.text!r} was confirmed and not stored")
        orphans = self._book.ask(
            "SELECT id FROM outbox WHERE id NOT IN (SELECT reply FROM messages WHERE reply IS NOT NULL)"
        )
        if orphans:
            self._complain(f"replies to nothing: {orphans}")

    def _said(self, chat: str, origin: int, text: str, found: Mapping[Said | None, list[int]]) -> Said | None:
        """What a stored message was.

        In a group that moved, two messages may have a number, and 0 is one that counts no more: then it is
        the one that says so, and was not found yet.
        """
        here = [said for said in self._history.people.said if said.sim_chat.chat == chat]
        known = [said for said in here if said.message.id == origin or not origin]
        if not any(said.sim_chat.moved for said in known):
            return known[0] if known else None
        fits = [said for said in known if self._fits(said, text) and said.message.update_id]
        return min(fits, key=lambda said: (bool(found.get(said)), said.text != text), default=None)

    def _fits(self, said: Said, text: str) -> bool:
        """Whether a stored text may be what was said, and not another message of the same number."""
        if said.text is None:
            return said.behind and text == said.made
        return said.text in (text, "/retry")

    def _is(self, said: Said, text: str) -> bool:
        """Whether a stored text is what was said, perhaps behind what its sender handed to a group."""
        if text in (said.text, *said.edits):
            return True
        before, _, own = text.rpartition(f"\n{said.text}")
        made = [
            other.made
            for other in self._history.people.said
            if other.text is None
            and other.sim_chat is said.sim_chat
            and other.message.sender is said.message.sender
            and 0 <= said.message.time - other.message.time <= BEHIND_S
        ]
        return not own and any(before == "\n".join(made[first:]) for first in range(len(made)))

    def _check_moved(self) -> None:
        """A group keeps its chat when its number changes."""
        if self._world.theme != "move":
            return
        chat = chat_of_moved()
        for table in ("messages", "outbox", "history", "sessions"):
            if found := self._book.ask(f"SELECT count(*) FROM {table} WHERE chat = ?", chat)[0][0]:
                self._complain(f"{chat}: a group that moved has another chat, {found} in {table}")

    def _check_turns(self) -> None:
        """Nothing is run twice without /retry, and turns are answered in the order of their messages."""
        rows = self._book.ask("SELECT id, chat, text, reply FROM messages WHERE turn IS NOT NULL ORDER BY id")
        allowed = Counter(text for _, _, text, _ in rows)
        for number, chat, text, resumed in self._book.ask(
            "SELECT id, chat, text, resumed FROM messages WHERE resumed > 0"
        ):
            allowed[text] += resumed
            if resumed > MOST_RESUMED:
                self._complain(f"{chat}: {number} {text!r} was resumed {resumed} times")
        for text, times in self._history.setting.begun.items():
            if text.startswith("[") or (
                self._world.pieces and not numbered(text)
            ):  # a file, or not only one's
                continue
            asked = allowed[text]
            if numbered(text):
                asked = self._history.pieces.asked(text, self._history.people.said)
            if times > asked:
                self._complain(f"{text!r} was worked on {times} times, and {asked} were asked for")
        last: dict[str, int] = {}
        for number, chat, text, reply in rows:
            if reply is not None and reply < last.get(chat, 0):
                self._complain(f"{chat}: {number} {text!r} was answered before an earlier turn")
            last[chat] = max(last.get(chat, 0), reply or 0)

    def _check_retries(self) -> None:
        """What was run again is the last turn of the session that had not completed by then."""
        first = dict(self._book.ask("SELECT turn, min(id) FROM history GROUP BY turn"))
        turns = self._book.ask(
            "SELECT id, chat, session, turn, reason, retried FROM messages WHERE turn IS NOT NULL"
        )
        turn_of = {row[0]: row[3] for row in turns}
        for old, chat, session, turn, _, retry in turns:
            began = first.get(turn_of.get(retry, ""))
            if began is None or turn not in first:
                continue
            for other, where, when, between, reason, retried in turns:
                if (where, when) != (chat, session) or reason == "complete" or other <= old:
                    continue
                if first.get(between, began) < began and (retried is None or retried > retry):
                    self._complain(f"{chat}: {retry} ran {old} again, and not {other}")

    def _check_sessions(self) -> None:
        """A chat has one open session at most; one that is reopened has all that it had, and its taint."""
        for chat, count in self._book.ask(
            "SELECT chat, count(*) FROM sessions WHERE ended IS NULL GROUP BY chat HAVING count(*) > 1"
        ):
            self._complain(f"{chat} has {count} open sessions")
        rows = self._book.ask(
            "SELECT messages.id, messages.chat, messages.text, messages.session, turn, received, apart,"
            " outbox.text, outbox.created FROM messages LEFT JOIN outbox ON outbox.id = reply"
            " WHERE NOT notice AND task IS NULL ORDER BY messages.id"
        )
        expected: dict[str, tuple[int, float]] = {}
        for number, chat, text, session, turn, received, apart, reply, at in rows:
            if text.startswith(("/new", "/reset")):
                expected.pop(chat, None)
            elif text.startswith("/sessions "):
                expected.pop(chat, None)
                if (found := _REOPENED.match(reply or "")) is not None:
                    self._world.counts["reopened"] += 1
                    expected[chat] = (int(found[1]), at)
            elif turn is not None and session is not None and not apart and chat in expected:
                wanted, since = expected[chat]
                if received - since > SESSION_S / 2:  # it may have ended in silence
                    expected.pop(chat)
                elif session != wanted:
                    self._complain(f"{chat}: {number} is not in the session {wanted} that was reopened")
                else:
                    expected[chat] = (wanted, max(since, at or since))
        self._check_taint()

    def _check_taint(self) -> None:
        """In a session that has read something from outside, each later answer is tainted."""
        tainted: set[tuple[str, int]] = set()
        for chat, session, role, is_tainted, id in self._book.ask(
            "SELECT history.chat, history.session, message ->> 'role', history.tainted, history.id"
            " FROM history"
            " JOIN messages ON messages.chat = history.chat AND messages.turn = history.turn"
            " WHERE NOT undone AND reason NOT IN ('crashed', 'interrupted') ORDER BY history.id"
        ):
            if is_tainted:
                tainted.add((chat, session))
            elif role == "assistant" and (chat, session) in tainted:
                self._complain(f"{chat}: the entry {id} of the session {session} has lost its taint")

    def _check_strangers(self) -> None:
        """Of strangers only the update's number is kept."""
        for table in ("messages", "outbox", "history", "sessions", "updates"):
            for row in self._book.ask(f"SELECT * FROM {table}"):
                words = " ".join(str(value) for value in row if not isinstance(value, float))
                if of_a_stranger(words):
                    self._complain(f"something of a stranger is kept in {table}: {words[:80]}")

    def _check_said_to_strangers(self) -> None:
        """They are told at most once an hour, as far as a process knows."""
        told: dict[int, list[float]] = defaultdict(list)
        for sim_chat in self._history.all_sim_chats:
            if sim_chat.stranger is not None:
                words = {telegram_texts.stranger(language, sim_chat.stranger.id) for language in ("es", "en")}
                for message in sim_chat.messages:
                    if message.from_bot and message.text in words:
                        told[sim_chat.stranger.id].append(message.time)
        for who, times in told.items():
            times.sort()
            for before, after in pairwise(times):
                restarted = any(before - 60 < start <= after for start in self._history.starts)
                if after - before < HOUR_S - 60 and not restarted:
                    self._complain(f"the stranger {who} was told at {before:.0f} and {after:.0f}")

    def _check_boxes(self) -> None:
        """Commands stay with their chat."""
        for box in self._history.daemon.made:
            sim_chat = self._history.doings.sim_chat_of(box.chat)
            if sim_chat.mark == STRANGE:
                self._complain(f"a box was made for a stranger: {box.chat}")
            for command in box.commands:
                words = " ".join(command.argv) + command.stdin.decode()
                if found := strays(words, sim_chat):
                    self._complain(f"{box.chat}: the command {words[:60]!r} is of {found}")

    def _check_not_stored(self) -> None:
        """Nobody is told that nothing can be written where that was never so."""
        if self._history.world.counts["disk"]:
            return
        for sim_chat in self._history.sim_chats:
            said = [message for room in sim_chat.telegram_chats for message in room.said]
            if found := [message for message in said if message.text in NOT_STORED]:
                self._complain(f"{sim_chat.chat}: {found[0]} although the disk worked")

    def _check_rates(self) -> None:
        """A sender that nothing came over is never too fast."""
        history = self._history
        disturbed = (
            len(history.starts) > 1
            or history.world.theme in ("stuck", "late")
            or any(history.world.measure[family] for family in ("telegram", "disk"))
        )
        if history.api.rates.refused and not disturbed and history.latency[1] < 1:
            self._complain(f"the sender was too fast: {history.api.rates.refused[0]}")

    def _check_at_once(self) -> None:
        """Whatever a chat does, a command or a message that finds it busy is answered at once."""
        history = self._history
        if history.world.measure["disk"] or history.world.boxes_fail:
            return
        rows = self._book.ask(
            "SELECT messages.chat, messages.text, received, created, outbox.text FROM messages"
            " JOIN outbox ON reply = outbox.id WHERE messages.turn IS NULL"
        )
        starts = [EPOCH + start for start in history.starts]
        crashed = defaultdict(list)
        for chat, created in self._book.ask(
            "SELECT messages.chat, created FROM messages JOIN outbox ON reply = outbox.id"
            " WHERE reason = 'crashed'"
        ):
            crashed[chat].append(created)
        for chat, text, received, created, answer in rows:
            quick = text in ("/stop", "/status", "/help") or answer in BUSY
            restarted = any(received < start <= created for start in starts)
            crashes = sum(received < crash <= created for crash in crashed[chat])
            if quick and created > received + AT_ONCE_S + crashes * CRASH_S and not restarted:
                self._complain(f"{chat}: {text!r} was answered only after {created - received:.1f} s")

    def _check_waits(self) -> None:
        """No chat waits for another: what a message waited for was its own, or the disk.

        A reset waits a while for the extraction of facts, which may be busy with another chat's; so a reset
        is not looked at, and is the chat's own for a message that waits behind it. So is a file, which is
        sent behind the chat's replies.
        """
        history = self._history
        rows = self._book.ask(
            "SELECT messages.chat, messages.text, received, created FROM messages"
            " JOIN outbox ON reply = outbox.id WHERE messages.text NOT LIKE '/reset%'"
        )
        starts = [EPOCH + start for start in history.starts]
        for chat, text, received, created in rows:
            began = max([received, *(start for start in starts if start <= created)])
            rooms = (wait_key(room.id) for room in history.setting.sim_chats[chat].telegram_chats)
            besides = self._resetting(chat) + self._sending_files(chat)
            waited = self._world.waits.unexplained_s(
                began - EPOCH, created - EPOCH, chat, *rooms, besides=besides
            )
            if waited > ITS_OWN_S:
                self._complain(f"{chat}: {text!r} waited {waited:.1f} s for something of others")
        self._check_deliveries(starts)

    def _resetting(self, chat: str) -> list[tuple[float, float]]:
        """When the chat had a reset to do."""
        return self._answering(chat, "/reset%")

    def _sending_files(self, chat: str) -> list[tuple[float, float]]:
        """When the chat had a file to send, and replies before it that were still on their way."""
        return [
            (max(since, begin), min(until, end))
            for since, until in self._answering(chat, "%file")
            for begin, end in self._sending(chat)
            if begin < until and end > since
        ]

    def _answering(self, chat: str, like: str) -> list[tuple[float, float]]:
        """When the chat had messages without a reply whose text is like that."""
        return [
            (received - EPOCH, created - EPOCH)
            for received, created in self._book.ask(
                "SELECT received, created FROM messages JOIN outbox ON reply = outbox.id"
                " WHERE messages.chat = ? AND messages.text LIKE ?",
                chat,
                like,
            )
        ]

    def _sending(self, chat: str) -> list[tuple[float, float]]:
        """When replies were on their way to the chat's room: a file goes behind them."""
        sim_chats = self._history.setting.sim_chats
        return [
            (created - EPOCH, (delivered or inf) - EPOCH)
            for other, sim_chat in sim_chats.items()
            if sim_chat.telegram_chat is sim_chats[chat].telegram_chat
            for created, delivered in self._book.ask(
                "SELECT created, delivered FROM outbox WHERE chat = ?", other
            )
        ]

    def _check_deliveries(self, starts: Sequence[float]) -> None:
        """No chat's replies wait for another's, where nothing comes over the line to it."""
        history = self._history
        disturbed = {one.chat for one in history.api.faults.injected}
        if history.world.measure["telegram"] or history.latency[1] > 1:
            return
        for chat, sim_chat in history.setting.sim_chats.items():
            if sim_chat.telegram_chat.id < 0 or sim_chat.telegram_chat.id in disturbed or sim_chat.gone:
                continue  # a group's replies may wait for a minute, so many may be sent in it
            rows = self._book.ask(
                "SELECT DISTINCT outbox.id, created, delivered FROM outbox JOIN messages ON reply = outbox.id"
                " WHERE outbox.chat = ? AND origin IS NOT NULL AND delivered IS NOT NULL ORDER BY outbox.id",
                chat,
            )
            free_at = 0.0
            for reply, created, delivered in rows:
                began = max([created, free_at, *(start for start in starts if start <= delivered)])
                waited = self._world.waits.unexplained_s(
                    began - EPOCH, delivered - EPOCH, chat, wait_key(sim_chat.telegram_chat.id)
                )
                if waited > SENT_S:
                    self._complain(f"{chat}: the reply {reply} waited {waited:.1f} s for something of others")
                free_at = delivered

    def _check_facts(self) -> None:
        """Each belongs to whom it came from."""
        memory = Book(self._history.home.memory_db)
        for owner, chat, value in memory.ask("SELECT owner, chat, value FROM facts"):
            if owner != chat.partition("_")[0] or strays(value, self._history.setting.sim_chats[chat]):
                self._complain(f"{owner} has a fact of {chat}: {value}")
        memory.close()
