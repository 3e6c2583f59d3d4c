"""A chat's session: its history and its taint (True after it read untrusted content), both in the journal.

The beginning of the history is rarely summarized or cut, and then a large part at once. Until the next time,
prompts only grow, so that each prompt begins with the complete previous one: model servers charge less for a
beginning that they have seen before, and answer sooner.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import trio

from actors import ActorRef
from rumi.agent.compaction.record import last_todo
from rumi.agent.compaction.summaries import KEPT_TOKENS
from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.prompts.prompt_notes import exchanges, is_whole
from rumi.agent.todo_list import TodoItem
from rumi.agent.turn_input import TurnMessage
from rumi.models.fitting import in_short, messages_tokens
from rumi.models.model import Message
from rumi.store.journal.branches import branch_session
from rumi.store.journal.history import (
    append_history,
    load_session,
    mark_files,
    new_session,
    session_apart,
    shorten_history,
    summarize,
)
from rumi.store.journal.inbox import extend_turn, load_chat
from rumi.store.journal.parked import keep_parked, load_parked
from rumi.store.journal.records import ChatRecord, FinalReply, HistoryEntry, Parked, Reason, Summary
from rumi.store.journal.reopening import reopen_session
from rumi.store.journal.transaction import JournalMessage
from rumi.store.steps import Run

MAX_LINKS = 500

SUMMED_AT: Final = 0.6
"""The beginning of the history is summarized when this share of the prompt's token budget is used."""

CUT_AT: Final = 0.85
"""A turn first cuts the history if this share of the prompt's budget is used and there is no summary yet."""

MOST_HIDDEN: Final = 50
"""Maximum number of hidden turns that are remembered; a summary that is being made ends with a recent one."""

LEAST: Final = 0.55
"""The history's token limit is at least this share of the budget that instructions and tools leave."""

RETAINED_BY_SUMMARY: Final = 0.35
RETAINED_BY_CUT: Final = 0.5
"""Shares of the history's limit that a summary or a cut retains: then the next one is many turns away."""


@dataclass(frozen=True, slots=True)
class HistoryBudget:
    """Limits on the history in prompts.

    `tokens` is the budget of a whole prompt, `taken` the part that instructions and tools use. `messages` is
    the maximum number of messages; None means no limit.
    """

    tokens: int
    taken: int
    messages: int | None = None

    def outgrown(self, entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """Return the oldest entries, to be replaced by a summary; nothing while the history fits.

        They end with an exchange, or with a step within a long exchange.
        """
        # If instructions and tools fill most of a small budget, the history still gets `LEAST` of the rest:
        # otherwise every turn would summarize.
        left = self.tokens - self.taken
        most = max(int(self.tokens * SUMMED_AT) - self.taken, int(left * LEAST))
        messages = self._messages * SUMMED_AT
        kept = (min(KEPT_TOKENS, most * RETAINED_BY_SUMMARY), messages * RETAINED_BY_SUMMARY)
        gone = self._beginning(entries, (most, messages), kept)
        if not gone:
            return ()
        retained = _cost(entries[len(gone) :])
        if _exceeds(retained, kept):  # the last exchange alone
            steps = _last_steps(entries[len(gone) :], kept)
            return tuple(entries[: len(entries) - steps]) if steps else gone
        spare = (kept[0] - retained[0], kept[1] - retained[1])
        return gone[: len(gone) - _last_steps(exchanges(gone)[-1], spare)]

    def too_long(self, entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """Return the oldest exchanges, which must be cut even without a summary; never the last exchange."""
        left = self.tokens - self.taken
        most = max(int(self.tokens * CUT_AT) - self.taken, int(left * LEAST))
        kept = (most * RETAINED_BY_CUT, self._messages * RETAINED_BY_CUT)
        gone = self._beginning(entries, (most, self._messages), kept)
        return gone if len(gone) < len(entries) else gone[: len(gone) - len(exchanges(entries)[-1])]

    @property
    def _messages(self) -> float:
        return float("inf") if self.messages is None else self.messages

    def _beginning(
        self, entries: Sequence[HistoryEntry], most: tuple[float, float], kept: tuple[float, float]
    ) -> tuple[HistoryEntry, ...]:
        """Return the oldest exchanges, so that the others cost at most `kept`; none if all fit `most`.

        Both limits are numbers of tokens and of messages.
        """
        if not _exceeds(_cost(entries), most):
            return ()
        retained = tokens = messages = 0
        for exchange in reversed(exchanges(entries)):
            more = _cost(exchange)
            tokens, messages = tokens + more[0], messages + more[1]
            # The user is talking about the last exchange: it stays unless it alone exceeds the limits.
            if _exceeds((tokens, messages), kept if retained else most):
                break
            retained += len(exchange)
        return tuple(entries[: len(entries) - retained])


def _last_steps(exchange: Sequence[HistoryEntry], spare: tuple[float, float]) -> int:
    """Return how many entries at the end of a long exchange stay: whole steps within `spare`, and their end.

    A step is a reply of the model and the results of its calls. An exchange of a single step stays or goes as
    a whole.
    """
    first = next((n for n, entry in enumerate(exchange) if entry.message.role == "assistant"), 0)
    stay = tokens = messages = 0
    for index in range(len(exchange) - 1, first, -1):
        more = _cost(exchange[index : index + 1])
        tokens, messages = tokens + more[0], messages + more[1]
        if _exceeds((tokens, messages), spare):
            break
        if exchange[index].message.role == "assistant":
            stay = len(exchange) - index
    return stay


def _cost(entries: Sequence[HistoryEntry]) -> tuple[int, int]:
    """Return the number of tokens and the number of messages of these entries.

    The full prompt note is not counted as tokens, because prompts show it with the instructions. No note is
    counted as a message.
    """
    messages = [entry.message for entry in entries if entry.message.role != "system" or not is_whole(entry)]
    return messages_tokens(messages), sum([message.role != "system" for message in messages])


def _exceeds(cost: tuple[int, int], most: tuple[float, float]) -> bool:
    return cost[0] > most[0] or cost[1] > most[1]


@dataclass(frozen=True, slots=True)
class _Held:
    """The suspended session of a chat, held while a turn runs with a separate history."""

    session: int
    due: float
    entries: tuple[HistoryEntry, ...]
    summary: Summary | None
    budget: HistoryBudget | None
    tainted: bool
    nano: int


StartSoon: TypeAlias = Callable[..., None]


class ChatSession:
    """The current session of a chat: its number, the time at which it is `due` to end, and its history.

    `tainted` is true if the session has seen untrusted content, even if that content has been cut from the
    history. `files_tainted` is true if the chat's files may contain untrusted content, from any session.
    `entries` is the history as prompts show it; `summary` replaces everything before these entries. `budget`
    is the history budget of the last turn. `nano` is the price of the session's turns so far, in billionths
    of a USD. `turn` is the id of the running turn, empty between turns.
    `parked` are the tool calls of all sessions that wait for approval. `max_tokens` limits how much of an
    earlier process's session is read; `start_soon` starts tasks of the chat's actor.
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
        self.nano = 0
        self.parked = ParkedCalls((), self._store_parked)
        self._held: _Held | None = None
        # The turn before each turn that prompts leave out: a summary that ends with one ends there.
        self._before_hidden: dict[str, str] = {}

    @property
    def known_urls(self) -> frozenset[str]:
        """Return the URLs from the user or from web pages that occur in the history and its summary."""
        summed_up = self.summary.links if self.summary is not None else ()
        return frozenset(summed_up).union(*(entry.links for entry in self.entries))

    @property
    def todo(self) -> tuple[TodoItem, ...]:
        """Return the latest todo list of the session; empty if it has none."""
        summary = self.summary.text if self.summary is not None else ""
        return last_todo((entry.message for entry in self.entries), summary)

    @property
    def said(self) -> int:
        """Return the number of messages in prompts, not counting prompt notes."""
        return sum(entry.message.role != "system" for entry in self.entries)

    @property
    def said_in_turn(self) -> list[Message]:
        """Return the user messages of the running turn, except tainted ones, which others wrote."""
        mine = [entry for entry in self.entries if entry.turn == self.turn and not entry.tainted]
        return [entry.message for entry in mine if entry.message.role == "user"]

    async def load(self) -> ChatRecord:
        """Read the chat's record from the journal and return it."""
        record = await self._journal.ask(load_chat(self.chat, self._max_tokens, self._max_tokens))
        self.session, self.due, self.entries = record.session, record.due, record.history
        self.summary, self.nano = record.summary, record.nano
        self.tainted, self.files_tainted = record.tainted, record.files_tainted
        # A yes is valid for one turn, and no turn runs: an allowed call that an earlier process did not make
        # waits for a yes again.
        again = [
            replace(parked_call, state="waits") if parked_call.state == "allowed" else parked_call
            for parked_call in record.parked
        ]
        self.parked = ParkedCalls(again, self._store_parked)
        return record

    async def begin_session(self, *, forget: bool, extract_first: bool = False) -> None:
        """Start another session with an empty history.

        With `forget`, also delete the old session from the disk, and the parked calls. With `extract_first`,
        the old session is deleted only after facts were extracted from it.
        """
        self.session = await self._journal.ask(
            new_session(self.chat, forget=forget, extract_first=extract_first)
        )
        self.due, self.entries, self.summary, self.tainted = 0.0, (), None, False
        self.budget, self.nano = None, 0
        self._before_hidden.clear()
        if forget:
            self.parked = ParkedCalls(await self._journal.ask(load_parked(self.chat)), self._store_parked)

    async def reopen(self, number: int, due: float, reply: FinalReply) -> int | None:
        """Continue the session `number` of the chat, and store the `reply` in the same transaction.

        Return the reply's delivery number; None, without a change, if the session cannot be reopened.
        """
        delivery = await self._journal.ask(reopen_session(self.chat, number, due, reply))
        if delivery is not None:
            self.budget = None
            self._before_hidden.clear()
            await self.load()
        return delivery

    async def branch(self, message: int) -> bool:
        """Begin the session of a `message` that branches the chat; `branch_session` says what it shares.

        Return False, without a change, if what came before the earlier message is not stored any more.
        """
        if await self._journal.ask(branch_session(self.chat, message)) is None:
            return False
        self.budget = None
        self._before_hidden.clear()
        await self.load()
        return True

    @property
    def tokens(self) -> int:
        """Return the estimated size of the next prompt in tokens; 0 if it was not measured yet."""
        return 0 if self.budget is None else self.budget.taken + _cost(self.entries)[0]

    @property
    def apart(self) -> bool:
        """Return True while a turn runs that has a session of its own."""
        return self._held is not None

    async def step_apart(self) -> None:
        """Suspend the session, and begin a separate history for one turn, which does not read the session."""
        number = await self._journal.ask(session_apart(self.chat))
        self._held = self._hold()
        self.session = number
        self.due, self.entries, self.summary, self.budget, self.tainted = 0.0, (), None, None, False
        self.nano = 0

    def _hold(self) -> _Held:
        return _Held(
            *(self.session, self.due, self.entries, self.summary, self.budget, self.tainted, self.nano)
        )

    async def step_into(self, session: int) -> None:
        """Suspend the session, and load another one for a turn that began there, if it is another one."""
        if session == self.session:
            return
        loaded = await self._journal.ask(load_session(self.chat, session, self._max_tokens, self._max_tokens))
        self._held = self._hold()
        self.session, self.due, self.budget = session, 0.0, None
        self.summary, self.entries, self.tainted = loaded

    def step_back(self) -> None:
        """Resume the suspended session, if any."""
        held, self._held = self._held, None
        if held is not None:
            self.session, self.due, self.entries = held.session, held.due, held.entries
            self.summary, self.budget, self.tainted = held.summary, held.budget, held.tainted
            self.nano = held.nano

    def stand_in(self, session: int, summary: Summary) -> None:
        """Replace the entries that the `summary` covers with this summary."""
        # The summary may be ready while a separate turn runs: then it belongs to the suspended session.
        if self._held is not None and session == self._held.session:
            entries = self._behind(self._held.entries, summary)
            self._held = replace(self._held, summary=summary, entries=entries)
        if session == self.session:
            self.summary, self.entries = summary, self._behind(self.entries, summary)

    def _behind(self, entries: tuple[HistoryEntry, ...], summary: Summary) -> tuple[HistoryEntry, ...]:
        """Return the entries after those that a summary covers."""
        turn, kept = summary.turn, summary.kept
        while turn in self._before_hidden:
            turn, kept = self._before_hidden[turn], 0
        ends = [end for end, entry in enumerate(entries, 1) if entry.turn == turn]
        return entries[max(max(ends, default=0) - kept, 0) :]

    def silent_before(self, schedule: int) -> tuple[str, ...]:
        """Return the turns of a schedule that have ended silently: the next such turn takes their place.

        A turn with the full prompt note is not among them, because prompts need the note.
        """
        turns = dict.fromkeys(entry.turn for entry in self.entries if schedule and entry.silent == schedule)
        whole = {entry.turn for entry in self.entries if is_whole(entry)}
        return tuple(turn for turn in turns if turn not in whole)

    def note_silent(self, turn: str, schedule: int, hides: Collection[str]) -> None:
        """Mark the entries of a turn that has ended silently; leave out the turns that it `hides`.

        The journal stores the same with the turn's reply.
        """
        before = ""
        for exchange in exchanges(self.entries):
            if exchange[0].turn in hides:
                self._before_hidden[exchange[0].turn] = before
                if len(self._before_hidden) > MOST_HIDDEN:
                    del self._before_hidden[next(iter(self._before_hidden))]
            before = exchange[0].turn
        self.entries = tuple(
            replace(entry, silent=schedule) if entry.turn == turn else entry
            for entry in self.entries
            if entry.turn not in hides
        )

    async def cut(self, gone: Sequence[HistoryEntry]) -> None:
        """Remove these oldest entries from prompts, and store this cut. A later summary covers them, too."""
        request = summarize(self.chat, self.session, over(self.summary, gone), leave_out=True)
        summary = await self._journal.ask(request)
        if summary is not None:
            self.stand_in(self.session, summary)

    async def shorten(self, last: Message) -> None:
        """From now on, shorten this tool result and all entries before it in prompts.

        The shortening is stored, so that it also applies in later processes.
        """
        index = next((n for n, entry in enumerate(self.entries) if entry.message is last), None)
        if index is None:  # a summary has replaced it meanwhile
            return
        head = [replace(entry, message=in_short(entry.message)) for entry in self.entries[: index + 1]]
        self.entries = (*head, *self.entries[index + 1 :])
        await self._store(shorten_history(self.chat, self.session, len(self.entries) - index - 1))

    async def set_files_tainted(self, tainted: bool) -> None:
        """Set or clear the taint of the chat's files; it is on the disk when this returns."""
        # In memory, set before the write and clear only after it: a failed write errs on the safe side.
        if tainted:
            self.files_tainted = True
        await self._journal.ask(mark_files(self.chat, tainted))
        self.files_tainted = tainted

    async def append(self, turn: str, added: TurnMessage) -> None:
        """Append a message; it is on the disk when this returns. On cancellation it is still stored."""
        entry = HistoryEntry(turn, added.message, added.tainted, added.links)
        self.remember(entry)
        # Only the journal keeps what people saw: it may be large, and prompts do not need it.
        await self._store(append_history(self.chat, self.session, (replace(entry, shown=added.shown),)))

    async def extend_turn(
        self, message: int, entries: tuple[HistoryEntry, ...], parts: tuple[int, ...], *, afresh: bool
    ) -> None:
        """Add entries to the running turn, because messages have come that are `parts` of its `message`.

        With `afresh`, the turn has done nothing yet, and the entries replace its entries. On cancellation
        this is still stored.
        """
        turn = self.turn
        if afresh:
            self.entries = tuple(entry for entry in self.entries if entry.turn != turn)
        self.remember(*entries)
        await self._store(extend_turn(self.chat, message, turn, self.session, entries, parts, afresh))

    async def written(self) -> None:
        """Wait until everything is on the disk that cancelled calls were writing."""
        if self._writing is not None:
            await self._writing.wait()

    async def _store_parked(self, parked: Sequence[Parked]) -> None:
        await self._store(keep_parked(self.chat, tuple(parked), self.turn))

    async def _store(self, request: Run[None]) -> None:
        """Store the request in a task of the chat's actor, so that a cancelled turn cannot lose it.

        Prompts of later processes must begin like those of this one, even after a stopped turn.
        """
        # Each write waits for the one before it: tasks start in no order, but the history has one.
        before, done = self._writing, trio.Event()
        self._writing = done
        self._start_soon(self._write, request, before, done)
        await done.wait()

    async def _write(self, request: Run[None], before: trio.Event | None, done: trio.Event) -> None:
        if before is not None:
            await before.wait()
        await self._journal.ask(request)
        done.set()
        if self._writing is done:
            self._writing = None

    def remember(self, *entries: HistoryEntry) -> None:
        """Append entries in memory only; the caller stores them with the turn's beginning or its reply."""
        self.entries = (*self.entries, *entries)
        self.tainted = self.tainted or any(entry.tainted for entry in entries)


def over(earlier: Summary | None, entries: Sequence[HistoryEntry]) -> Summary:
    """Create a summary of these whole exchanges and of an `earlier` summary; its text is added later."""
    tainted = any(entry.tainted for entry in entries) or (earlier is not None and earlier.tainted)
    return Summary(entries[-1].turn, "", tainted, merged(*([earlier] if earlier else []), *entries))


def merged(*parts: Summary | HistoryEntry) -> tuple[str, ...]:
    """Return the URLs of all `parts`, without duplicates, at most the last `MAX_LINKS`."""
    return tuple(dict.fromkeys(link for one in parts for link in one.links))[-MAX_LINKS:]


WITHOUT_ANSWER: Final[tuple[Reason, ...]] = ("stopped", "interrupted", "model_error", "budget", "crashed")
"""Reasons of turns that ended without an answer. Views show their reply below what the turn has said."""

_ENDED = re.compile(rf"\n*\[({'|'.join(WITHOUT_ANSWER)}): this attempt ended without an answer\]")


def ending(turn: str, reason: Reason, said: str = "", tainted: bool = False) -> HistoryEntry:
    """Return the history entry of an unfinished answer: the partial text `said`, then the reason."""
    mark = f"[{reason}: this attempt ended without an answer]"
    return HistoryEntry(turn, Message("assistant", f"{said}\n\n{mark}" if said else mark), tainted)


def ended(content: str) -> tuple[str, str]:
    """Return a history message without the reason that `ending` appends, and this reason.

    The reason is empty if `ending` appended none.
    """
    text, reason, rest = (*_ENDED.split(content, maxsplit=1), "", "")[:3]
    return (text, reason) if reason and not rest else (content, "")
