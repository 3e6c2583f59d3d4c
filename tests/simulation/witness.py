"""Watches what the chats tell, through all processes, and notes what must not be."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from rumi.channels.telegram.address import TelegramAddress
from rumi.chats.events import ChatEvent, Queued, Replied, TurnStarted
from rumi.models.model import Waiting
from rumi.platform.chat_ids import TASK
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import replies as reply_texts
from rumi.texts import Language
from tests.simulation.asking import Asked, Asking
from tests.simulation.book import Book
from tests.simulation.containers import Daemon
from tests.simulation.sim_chats import CYN, GUEST
from tests.simulation.stopping import Stops
from tests.simulation.tasks import Doings
from tests.simulation.world import World

LANGUAGES: tuple[Language, ...] = ("es", "en")

BUSY = frozenset(reply_texts.busy(language) for language in LANGUAGES)

MOST_DROPPED = 40

OVER = frozenset(
    text
    for language in LANGUAGES
    for text in (reply_texts.crashed(language), operation_texts.gave_up(language))
)
"""What people read when a chat has crashed."""

TYPING_S = 6.0
"""How long after a turn a call that shows it may still be on its way."""

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Witness:
    """Stands at the hub of each process. A turn has `turn_s` for its work."""

    turn_s = 60.0

    def __init__(
        self,
        world: World,
        book: Book,
        daemon: Daemon,
        asking: Asking,
        doings: Doings,
        stops: Stops,
        react: Callable[[Asked], None],
    ) -> None:
        self._world = world
        self._asking = asking
        self._doings = doings
        self._stops = stops
        self._react = react
        self._book = book
        self._daemon = daemon
        self._process: Process | None = None
        self._received: dict[int, str] = {}
        self._started: dict[str, str] = {}
        self._starts: Counter[str] = Counter()
        self._open_calls: dict[tuple[str, str], Process] = {}
        """Commands without a result, and the process that began them."""
        self._finished: dict[str, str] = {}
        self._replied: set[str] = set()
        self._queued: defaultdict[str, list[int]] = defaultdict(list)
        """What waits in a chat, or was dropped and has no reply yet."""
        self._begun: dict[str, int] = {}
        """The message with which a chat's last turn began."""
        self._steps: dict[tuple[str, str], int] = {}
        """How many steps the calls that run have shown, by turn and call."""
        self.turn_now: dict[str, str] = {}
        self._turn_was: dict[str, float] = {}
        self._ending: set[str] = set()
        """Where turns are being ended, and it may not be told when that is done."""

    def begin(self, process: "Process") -> None:
        """What the dead process had begun is finished by nobody it told."""
        self._process = process
        self.turn_now.clear()
        self._ending.clear()
        self._queued.clear()
        self._begun.clear()

    def lose_sight(self) -> None:
        """The journal crashed, and with it every turn: what was stored just then is not told any more."""
        # A chat that has just come back had still to tell that its crashed turn ended.
        recent = {chat for chat, was in self._turn_was.items() if was > trio.current_time() - TYPING_S}
        self._ending |= self.turn_now.keys() | recent
        self.turn_now.clear()

    def begins_afresh(self, chat: str) -> None:
        """A chat is back after a crash. Of a turn whose reply was sent by then, the end is not told again."""
        if self.turn_now.pop(chat, None) is not None:
            self._turn_was[chat] = trio.current_time()

    def typing(self, number: int, topic: int | None) -> None:
        """Somebody seems to be typing there: a turn runs, or did until just now."""
        chat = self._asking.chat_of(TelegramAddress(number, topic))
        runs = chat in self.turn_now or chat in self._ending
        if not runs and self._turn_was.get(chat, 0.0) < trio.current_time() - TYPING_S:
            self._world.complain(f"{chat}: somebody seems to be typing, and nothing runs")
        if self._asking.asks_since(chat) < trio.current_time() - TYPING_S:
            self._world.complain(f"{chat}: somebody seems to be typing, and a question waits")

    def see(self, event: ChatEvent) -> None:
        process = self._process
        assert process is not None
        if process.life.dead:
            return
        self._doings.see(event)
        if event.chat.startswith(TASK):
            return
        chat, turn = event.chat, event.turn
        complain = self._world.complain
        match event.what:
            case Queued(message, _, place):
                self._world.counts["queued"] += 1
                self._queued[chat].append(message)
                if place > self._world.most_queued:
                    complain(f"{chat}: {message} waits at place {place}")
            case TurnStarted(text, message, _, origin):
                if message < self._begun.get(chat, 0):
                    complain(f"{chat}: {message} begins behind a later one")
                self._begun[chat] = message
                self._queued[chat] = [number for number in self._queued[chat] if number != message]
                retry = bool(self._book.ask("SELECT 1 FROM messages WHERE retried = ?", message))
                self._asking.begin(chat, turn, origin, text, retry=retry)
                self._world.note(chat, f"{turn} begins", lambda: repr(text))
                self._starts[turn] += 1
                ((resumed,),) = self._book.ask("SELECT resumed FROM messages WHERE id = ?", message)
                if self._starts[turn] > 1 + resumed:
                    complain(f"{chat} {turn}: started {self._starts[turn]} times, resumed {resumed} times")
                if self._starts[turn] > 1:
                    self._world.counts["resumed"] += 1
                if chat in self.turn_now:
                    complain(f"{chat} {turn}: started while {self.turn_now[chat]} runs")
                if (
                    any(
                        self._finished.get(t) == "complete"
                        for t, said in self._started.items()
                        if said == text
                    )
                    and text.strip()
                ):
                    complain(f"{chat} {turn}: runs {text!r} again, which was complete")
                self._started[turn] = text
                self.turn_now[chat] = turn
                if self._starts[turn] > 1:
                    process.life.moment("resumes")
            case Waiting(seconds):
                self._world.waits.until(trio.current_time() + seconds, chat)
            case ToolStarted(call):
                self._steps[turn, call.id] = 0
                if call.name == "bash":
                    if self._open_calls.get((turn, call.id), process) is not process:
                        complain(f"{chat} {turn}: the command {call.arguments} is run again")
                    self._open_calls[turn, call.id] = process
            case ToolProgress(id, _, step):
                self._world.counts["steps"] += 1
                before = self._steps.get((turn, id))
                if before is None or step != before + 1:
                    complain(f"{chat} {turn}: {id} tells step {step} behind {before}")
                self._steps[turn, id] = step
            case ToolFinished(call, result, steps):
                self._is_allowed(chat, turn, call.name, ran=result.ok or result.exit_code is not None)
                before = self._steps.pop((turn, call.id), None)
                self._open_calls.pop((turn, call.id), None)
                if steps != before:
                    complain(f"{chat} {turn}: {call.id} ends with {steps} steps and told {before}")
            case ConfirmationAsked(id, text):
                for key in [key for key in self._open_calls if key[0] == turn]:
                    del self._open_calls[key]  # it waits, and may be asked about again
                self._react(self._asking.ask(chat, turn, id, text, process.life))
                process.life.moment("asked")
            case ConfirmationEnded(id, verdict):
                self._asking.end(chat, id, verdict)
                process.life.moment("answered")
            case TurnFinished(reason, answer):
                self._world.note(chat, f"{turn} ends", lambda: f"{reason}: {answer[:60]!r}")
                self._world.counts[f"turns {reason}"] += 1
                if turn in self._finished:
                    complain(f"{chat} {turn}: finished twice, {self._finished[turn]} and {reason}")
                if reason == "timeout":
                    self._asking.timed_out(chat, turn, self.turn_s)
                if turn in self._replied:
                    complain(f"{chat} {turn}: finished behind its reply")
                self._finished[turn] = reason
                if self.turn_now.get(chat) == turn:
                    del self.turn_now[chat]
                    self._turn_was[chat] = trio.current_time()
                    self._nothing_runs(process, chat, turn)
            case Replied(delivery, messages, text):
                self._world.note(chat, f"reply {delivery} to {messages}", lambda: repr(text[:60]))
                for number in messages:
                    if number in self._received:
                        before = self._received[number]
                        complain(f"{chat}: {number} replied to twice: {before!r} and {text!r}")
                    self._received[number] = text
                self._dropped(chat, messages, text)
                if turn:
                    self._replied.add(turn)
                    if turn in self._started and turn not in self._finished:
                        complain(f"{chat} {turn}: replied to and not finished")
                self._is_stored(chat, delivery, messages)
                self._stops.see(event)

    def _is_allowed(self, chat: str, turn: str, tool: str, *, ran: bool) -> None:
        """No tool has run for a person whose role does not allow it: the one who sent the turn's message."""
        if not self._world.guests:
            return
        asked = self._book.ask("SELECT user FROM messages WHERE id = ?", self._begun.get(chat, 0))
        if asked == [(CYN,)] and not GUEST.may_use(tool):
            self._world.counts["withheld" if not ran else "let through"] += 1
            if ran:
                self._world.complain(f"{chat} {turn}: {tool} ran for a guest")

    def _dropped(self, chat: str, messages: tuple[int, ...], text: str) -> None:
        """What waited is told that it was dropped, with all that were, or that something came over it."""
        dropped = [number for number in self._queued[chat] if number in messages]
        if self._world.pieces:  # then some are parts of the turn, or came together with what ended so
            alone = "SELECT 1 FROM messages WHERE id = ? AND turn IS NULL AND part_of IS NULL"
            dropped = [number for number in dropped if self._book.ask(alone, number)]
            dropped = [] if text in OVER else dropped
        self._queued[chat] = [number for number in self._queued[chat] if number not in messages]
        if not dropped or len(messages) == 1:
            if dropped and text in BUSY:
                self._world.complain(f"{chat}: {dropped} waited, and was told that the chat is busy")
            return
        self._world.counts["dropped"] += len(dropped)
        most = MOST_DROPPED if self._world.pieces else 0  # each of them may have several parts
        counts = range(len(dropped), len(dropped) + most + 1)
        if not any(reply_texts.dropped(language, n) in text for language in LANGUAGES for n in counts):
            self._world.complain(f"{chat}: {dropped} were dropped, and nobody was told how many: {text!r}")

    def _nothing_runs(self, process: "Process", chat: str, turn: str) -> None:
        if process.calls[chat]:
            self._world.complain(f"{chat} {turn}: said to be over, and its model still works")
        box = self._daemon.live.get(chat)
        if box is not None and box.client is process.client and box.running and not box.doubtful:
            self._world.complain(f"{chat} {turn}: said to be over, and {box.running} still runs")
        self._doings.nothing_runs(chat, turn)

    def _is_stored(self, chat: str, delivery: int, messages: tuple[int, ...]) -> None:
        found = self._book.ask("SELECT chat FROM outbox WHERE id = ?", delivery)
        replies = [self._book.ask("SELECT reply FROM messages WHERE id = ?", number) for number in messages]
        if found != [(chat,)] or any(reply != [(delivery,)] for reply in replies):
            self._world.complain(f"{chat}: the reply {delivery} to {messages} is told and not stored")
