"""A chat's session: what was said in it, and what of it came from outside; in step with the journal.

The beginning of its history gives way seldom, and in large steps. Between two steps prompts only grow, so
that each begins with all of the one before: servers charge less for what they have seen, and answer sooner.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import trio

from actors import ActorRef
from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.prompts.prompt_notes import exchanges, is_whole
from rumi.agent.turn import TurnMessage
from rumi.models.fitting import in_short, messages_tokens
from rumi.models.model import Message
from rumi.store.journal.history import Append, MarkFiles, NewSession, SessionApart, Shorten, Summarize
from rumi.store.journal.inbox import Load
from rumi.store.journal.parked import KeepParked, LoadParked
from rumi.store.journal.records import ChatRecord, HistoryEntry, Parked, Reason, Summary
from rumi.store.journal.transaction import JournalMessage

MAX_LINKS = 500

SUMMED_AT: Final = 0.6
"""How much of the room for a prompt is taken when the beginning of the history is summed up."""

CUT_AT: Final = 0.85
"""How much of it is taken when a turn begins with a cut, because there is no summary."""

LEAST: Final = 0.55
"""How much of what instructions and tools leave the history has in any case, before it is summed up."""

RETAINED_BY_SUMMARY: Final = 0.35
RETAINED_BY_CUT: Final = 0.5
"""How much of the history stays, of as much as there may be: then the next step is many turns away."""


@dataclass(frozen=True, slots=True)
class HistoryBudget:
    """The room for prompts in tokens, what of it is taken before any history, and the most messages."""

    tokens: int
    taken: int
    messages: int | None = None

    def outgrown(self, entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """The oldest exchanges, which a summary should stand for; nothing while there is room."""
        left = self.tokens - self.taken
        most = max(int(self.tokens * SUMMED_AT) - self.taken, int(left * LEAST))
        return self._beginning(entries, most, SUMMED_AT, RETAINED_BY_SUMMARY)

    def too_long(self, entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """The oldest exchanges, which have to go although there is no summary; never the last one."""
        left = self.tokens - self.taken
        most = max(int(self.tokens * CUT_AT) - self.taken, int(left * LEAST))
        gone = self._beginning(entries, most, 1, RETAINED_BY_CUT)
        return gone if len(gone) < len(entries) else gone[: len(gone) - len(exchanges(entries)[-1])]

    def _beginning(
        self, entries: Sequence[HistoryEntry], most_tokens: int, share: float, retained_share: float
    ) -> tuple[HistoryEntry, ...]:
        most = (most_tokens, float("inf") if self.messages is None else self.messages * share)
        if not _exceeds(_cost(entries), most, 1):
            return ()
        retained = tokens = messages = 0
        for exchange in reversed(exchanges(entries)):
            more = _cost(exchange)
            tokens, messages = tokens + more[0], messages + more[1]
            # The last exchange is what the user is talking about: it stays, unless it fills the room alone.
            if _exceeds((tokens, messages), most, retained_share if retained else 1):
                break
            retained += len(exchange)
        return tuple(entries[: len(entries) - retained])


def _cost(entries: Sequence[HistoryEntry]) -> tuple[int, int]:
    """Tokens without the whole note, which stands with the instructions; messages without any note."""
    messages = [entry.message for entry in entries if entry.message.role != "system" or not is_whole(entry)]
    return messages_tokens(messages), sum([message.role != "system" for message in messages])


def _exceeds(cost: tuple[int, int], most: tuple[float, float], share: float) -> bool:
    return cost[0] > most[0] * share or cost[1] > most[1] * share


@dataclass(frozen=True, slots=True)
class _Held:
    """The session that goes on, while a turn runs apart from it."""

    session: int
    due: float
    entries: tuple[HistoryEntry, ...]
    summary: Summary | None
    budget: HistoryBudget | None
    tainted: bool


StartSoon: TypeAlias = Callable[..., None]

Stored: TypeAlias = Append | Shorten | KeepParked
"""What is stored while a turn runs, also where the turn is cancelled meanwhile."""


class ChatSession:
    """The session's number, when it is due to end, and its history.

    `tainted`: something in the session came from outside, also where its history is cut by now.
    `files_tainted`: something in the chat's files did, in whichever session. `summary` stands for
    what was said before the `entries`, which are as prompts show them. `room` is what the last turn had.
    `turn` is the one that runs, empty between turns. `parked` are the calls that wait for a yes, of all
    sessions. `max_tokens` bounds what is read of an earlier process's session; `start_soon` starts tasks of
    the chat.
    """

    def __init__(
        self, chat_id: str, journal: ActorRef[JournalMessage], max_tokens: int, start_soon: StartSoon
    ) -> None:
        self.chat = chat_id
        self._journal = journal
        self._max_tokens = max_tokens
        self._start_soon = start_soon
        self._writing: trio.Event | None = None
        self.turn = ""
        self.session = 0
        self.due = 0.0
        self.entries: tuple[HistoryEntry, ...] = ()
        self.summary: Summary | None = None
        self.budget: HistoryBudget | None = None
        self.tainted = False
        self.files_tainted = False
        self.parked = ParkedCalls((), self._store_parked)
        self._held: _Held | None = None

    @property
    def known_urls(self) -> frozenset[str]:
        """The addresses that the user or a page gave, as far back as the history is in memory."""
        summed_up = self.summary.links if self.summary is not None else ()
        return frozenset(summed_up).union(*(entry.links for entry in self.entries))

    @property
    def said(self) -> int:
        """Return how many messages prompts show, without the notes of what is known."""
        return sum(entry.message.role != "system" for entry in self.entries)

    @property
    def said_in_turn(self) -> list[Message]:
        """The messages that began the turn that runs, without words of others."""
        mine = [entry for entry in self.entries if entry.turn == self.turn and not entry.tainted]
        return [entry.message for entry in mine if entry.message.role == "user"]

    async def load(self) -> ChatRecord:
        """Read what the journal knows."""
        record = await self._journal.ask(Load(self.chat, self._max_tokens, self._max_tokens))
        self.session, self.due, self.entries = record.session, record.due, record.history
        self.summary = record.summary
        self.tainted, self.files_tainted = record.tainted, record.files_tainted
        # A yes is for one turn, and none runs: a call of an earlier process's that was not made waits again.
        again = [
            replace(parked_call, state="waits") if parked_call.state == "allowed" else parked_call
            for parked_call in record.parked
        ]
        self.parked = ParkedCalls(again, self._store_parked)
        return record

    async def begin_session(self, *, forget: bool, extract_first: bool = False) -> None:
        """Start another session with an empty history.

        `forget` deletes the old one from the disk too; with `learn`, as soon as it was learned from. It also
        forgets the parked calls.
        """
        self.session = await self._journal.ask(
            NewSession(self.chat, forget=forget, extract_first=extract_first)
        )
        self.due, self.entries, self.summary, self.tainted = 0.0, (), None, False
        self.budget = None
        if forget:
            self.parked = ParkedCalls(await self._journal.ask(LoadParked(self.chat)), self._store_parked)

    async def step_apart(self) -> None:
        """Begin a history for one turn; the session that goes on is held, and not read."""
        number = await self._journal.ask(SessionApart(self.chat))
        self._held = _Held(self.session, self.due, self.entries, self.summary, self.budget, self.tainted)
        self.session = number
        self.due, self.entries, self.summary, self.budget, self.tainted = 0.0, (), None, None, False

    def step_back(self) -> None:
        """Go on with the session that was held, if one was."""
        held, self._held = self._held, None
        if held is not None:
            self.session, self.due, self.entries = held.session, held.due, held.entries
            self.summary, self.budget, self.tainted = held.summary, held.budget, held.tainted

    def stand_in(self, session: int, summary: Summary) -> None:
        """Let a summary that is stored stand for the entries up to the end of its turn."""
        if self._held is not None and session == self._held.session:
            entries = _behind(self._held.entries, summary)
            self._held = replace(self._held, summary=summary, entries=entries)
        if session == self.session:
            self.summary, self.entries = summary, _behind(self.entries, summary)

    async def cut(self, gone: Sequence[HistoryEntry]) -> None:
        """Leave these oldest entries out of prompts, on the disk too. A later summary stands for them."""
        request = Summarize(self.chat, self.session, over(self.summary, gone), leave_out=True)
        summary = await self._journal.ask(request)
        if summary is not None:
            self.stand_in(self.session, summary)

    async def shorten(self, last: Message) -> None:
        """Show this result and all before it shortened from now on, also in a later process."""
        index = next((n for n, entry in enumerate(self.entries) if entry.message is last), None)
        if index is None:  # a summary stands for it by now
            return
        head = [replace(entry, message=in_short(entry.message)) for entry in self.entries[: index + 1]]
        self.entries = (*head, *self.entries[index + 1 :])
        await self._store(Shorten(self.chat, self.session, len(self.entries) - index - 1))

    async def set_files_tainted(self, tainted: bool) -> None:
        """Something in the files came from outside, or nothing any more; on the disk when this returns."""
        if tainted:
            self.files_tainted = True
        await self._journal.ask(MarkFiles(self.chat, tainted))
        self.files_tainted = tainted

    async def append(self, turn: str, added: TurnMessage) -> None:
        """Append a message; it is on the disk when this returns. Cancelled, it is stored all the same."""
        entry = HistoryEntry(turn, added.message, added.tainted, added.links)
        self.remember(entry)
        await self._store(Append(self.chat, self.session, (entry,)))

    async def written(self) -> None:
        """Return when all is on the disk that a cancelled call has left behind."""
        if self._writing is not None:
            await self._writing.wait()

    async def _store_parked(self, parked: Sequence[Parked]) -> None:
        await self._store(KeepParked(self.chat, tuple(parked), self.turn))

    async def _store(self, request: Stored) -> None:
        """Store it in a task of the chat's own.

        Prompts of later processes have to begin like those of this one, also where a turn was stopped.
        """
        before, done = self._writing, trio.Event()
        self._writing = done
        self._start_soon(self._write, request, before, done)
        await done.wait()

    async def _write(self, request: Stored, before: trio.Event | None, done: trio.Event) -> None:
        if before is not None:
            await before.wait()
        await self._journal.ask(request)
        done.set()
        if self._writing is done:
            self._writing = None

    def remember(self, *entries: HistoryEntry) -> None:
        """Append what the journal stores by itself, with a turn's beginning or its reply."""
        self.entries = (*self.entries, *entries)
        self.tainted = self.tainted or any(entry.tainted for entry in entries)


def _behind(entries: tuple[HistoryEntry, ...], summary: Summary) -> tuple[HistoryEntry, ...]:
    """Return the entries after those that a summary stands for."""
    ends = [end for end, entry in enumerate(entries, 1) if entry.turn == summary.turn]
    return entries[max(ends, default=0) :]


def over(earlier: Summary | None, entries: Sequence[HistoryEntry]) -> Summary:
    """A summary of whole exchanges, and of what an earlier one stands for, that has no words yet."""
    tainted = any(entry.tainted for entry in entries) or (earlier is not None and earlier.tainted)
    return Summary(entries[-1].turn, "", tainted, merged(*([earlier] if earlier else []), *entries))


def merged(*parts: Summary | HistoryEntry) -> tuple[str, ...]:
    """The latest of the addresses that were given in all these."""
    return tuple(dict.fromkeys(link for one in parts for link in one.links))[-MAX_LINKS:]


_ENDED = re.compile(
    r"\n*\[(stopped|interrupted|model_error|budget|crashed): this attempt ended without an answer\]"
)


def ending(turn: str, reason: Reason, said: str = "", tainted: bool = False) -> HistoryEntry:
    """Return the history's entry for an answer that never came: what was `said` of it, and a mark."""
    mark = f"[{reason}: this attempt ended without an answer]"
    return HistoryEntry(turn, Message("assistant", f"{said}\n\n{mark}" if said else mark), tainted)


def ended(content: str) -> tuple[str, str]:
    """Return what a message of the history says without the mark of `ending`, and the mark's reason."""
    text, reason, rest = (*_ENDED.split(content, maxsplit=1), "", "")[:3]
    return (text, reason) if reason and not rest else (content, "")
