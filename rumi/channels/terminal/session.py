"""The client's state of a conversation: sent messages, unanswered messages, and replies already shown."""

import signal
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Protocol

import trio

from rumi.agent.events import BY_HAND, ConfirmationAsked, ConfirmationEnded, ToolFinished, TurnFinished
from rumi.channels.terminal.words import Reader, help_of_own, is_answer, is_stop
from rumi.chats.events import (
    ChatEvent,
    Happening,
    Moved,
    Queued,
    Replied,
    SessionFigures,
    TurnRestarted,
    TurnStarted,
    TurnState,
    turn_of,
)
from rumi.chats.port import ChatPort, PastTurn
from rumi.errors import NotTaken
from rumi.platform.texts.operating import short_size
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Attachment
from rumi.texts import gettext

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Handled signals: SIGINT is Ctrl-C, which stops the running turn; the others end the process."""

INTERRUPTED = 130
"""Exit code of an interrupted chat."""

UNCONFIRMED = 5
"""Exit code if an action was not done because nobody could confirm it."""

NOT_RUN = 126
"""Exit code for a command that the policy does not allow: a shell's for a program that cannot be run."""

STOP_WAIT_S = 15.0
"""Maximum wait in seconds until a stop is confirmed: the sandbox first checks that no process is left."""

FAILURES = frozenset({"model_error", "crashed", "stopped", "interrupted"})
"""Reasons of turns that ended without an answer."""

_MAX_RESULTS = 256
"""How many of its latest messages the session remembers, and how many replies to its messages."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The final reply to a message. `finished` reports how the turn ended; None if there was no turn."""

    reply: Replied
    finished: TurnFinished | None


class ConversationView(Protocol):
    """A view of a conversation. Each call returns when its output has been written."""

    async def event(self, event: ChatEvent) -> None:
        """Show an event other than `Replied`."""
        ...

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """Show a final reply."""
        ...

    async def earlier(self, reply: Replied) -> None:
        """Show an earlier final reply that no one has read yet."""
        ...

    async def elsewhere(self, text: str, source: str) -> None:
        """Show a message from another sender that started a turn; `source` names the sender."""
        ...

    async def stopping(self, presses: int) -> None:
        """Show that the user requests a stop; `presses` counts the requests, from 1."""
        ...

    async def notice(self, text: str) -> None:
        """Show a notice of the terminal itself."""
        ...


class TerminalSession:
    """A conversation with the chat of `port`: sends messages and shows events and replies, until cancelled.

    Other senders may use the same chat. A person also sees the turns of other senders, but not their
    commands; a session that is `alone` shows only events of its own messages. If `yes` is True, the session
    answers all questions of its own turns with yes.

    `confirming` is the pending question of the turn. `sent` counts the sent messages, `not_taken` counts the
    messages that the chat refused, and `unconfirmed` counts the questions that nobody could answer.
    `last_answer` is the answer that was shown last. `figures` describe the chat's session after its last
    reply; None before the first one.
    """

    def __init__(
        self,
        port: ChatPort,
        view: ConversationView,
        reader: Reader,
        *,
        yes: bool = False,
        alone: bool = False,
    ) -> None:
        self.view = view
        self.confirming: ConfirmationAsked | None = None
        self.last_answer = ""
        self.figures: SessionFigures | None = None
        self.show_past: Callable[[Sequence[PastTurn]], Awaitable[None]] | None = None
        """Shows the end of a session that was reopened; None to show nothing."""
        self.not_taken = 0
        self.unconfirmed = 0
        self.sent = 0
        self.command_code = 1
        """Exit code of the last command that this session has run without the model."""
        self.attached_names: tuple[str, ...] = ()
        """The files that will be attached to the next typed message."""
        self.refused: Callable[[str], None] | None = None
        """Called with the text of a message that the chat did not take because it is busy."""
        self.port = port
        self._reader = reader
        self._yes = yes
        self._alone = alone
        self._others_interrupted = False
        self._sending = 0
        self._open: dict[int, str] = {}
        self._own: OrderedDict[int, str] = OrderedDict()
        self._results: OrderedDict[int, Settled] = OrderedDict()
        self._seen: set[int] = set()
        self._turn = TurnState()
        self._turn_is_own = False
        self._judged = ("", False)
        self._scheduled: list[ChatEvent] = []
        """The beginning and the end of a schedule's turn, which is shown only if its reply is."""
        self._presses = 0
        self._changed = trio.Event()

    @property
    def busy(self) -> bool:
        """Return True if a message is unanswered, or a turn runs."""
        return bool(self._open or self._sending or self._turn.turn)

    @property
    def owing(self) -> bool:
        """Return True if a message of this session is unanswered, or its turn runs."""
        return bool(self._open or self._sending or (self._turn.turn and self._turn_is_own))

    @property
    def queued(self) -> int:
        """Return the number of messages that wait for the running turn."""
        return len(self._turn.queued)

    @property
    def stopping(self) -> bool:
        """Return True if the person has stopped the running turn, and it has not ended yet."""
        return self._presses > 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Show unread earlier replies, then all events, until cancelled.

        Raises:
            OutputClosedError: the output is closed.
        """
        # Subscribed before the query: a reply in between arrives both ways, and `_seen` filters the second.
        subscription = self.port.subscribe()
        try:
            await self.show_earlier()
            task_status.started()
            while True:
                await self._take(await subscription.receive())
        finally:
            subscription.close()

    async def show_earlier(self, before: int | None = None) -> None:
        """Show the unread earlier replies; with `before`, only of interrupted turns before that message.

        Replies to other turns belong to the windows that asked for them.
        """
        for reply in await self.port.undelivered():
            interrupted = reply.reason == "interrupted"
            shown = before is None or (interrupted and max(reply.messages, default=before) < before)
            if shown and reply.delivery not in self._seen:
                self._seen.add(reply.delivery)
                # Acknowledged only after it was written, so that a closed terminal loses no reply.
                await self.view.earlier(reply)
                await self.port.delivered(reply.delivery)

    async def recall(self) -> list[PastTurn]:
        """Return the session's last turns, except those with unread answers, because `run` shows them."""
        unseen = {turn_of(message) for reply in await self.port.undelivered() for message in reply.messages}
        turns = await self.port.recent()
        self.last_answer = next((turn.answer for turn in reversed(turns) if turn.answer), "")
        return [replace(turn, answer="") if turn.turn in unseen else turn for turn in turns]

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Send a message, a command, or a yes or no; return its number.

        Files are stored in the chat's workspace first, and a notice names each of them.

        Raises:
            NotTaken: the chat refused the message.
            RumiError: a file cannot be read or stored, and so the message was not sent.
        """
        attachments = [await self._stored(one) if one.kind == "file" else one for one in attachments]
        # While this is positive, `_is_own` waits: the message may be answered before its number is known.
        self._sending += 1
        self.sent += 1
        try:
            number = await self.port.send(text, attachments)
            self._open[number] = self._own[number] = text
            while len(self._own) > _MAX_RESULTS:
                self._own.popitem(last=False)
        finally:
            self._sending -= 1
            self._notify()
        return number

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Send a text. If the chat refuses it, show a notice and continue."""
        try:
            await self.send(text, attachments)
        except NotTaken as error:
            self.not_taken += 1
            await self.view.notice(error_text(self._reader.language, error))

    async def _stored(self, attachment: Attachment) -> Attachment:
        """Store a file of this machine in the chat's workspace."""
        language, uploaded = self._reader.language, await self.port.upload(attachment)
        stored = uploaded.attachment
        got_in = f"📎 {stored.name}, {short_size(stored.size_bytes or 0)}"
        if PurePath(stored.reference).name != stored.name:
            got_in = gettext(
                language, "{file}, stored as {path}", file=got_in, path=f"/workspace/{stored.reference}"
            )
        await self.view.notice(got_in)
        if uploaded.changed:
            await self.view.notice(
                gettext(
                    language,
                    "{name} changed while it was read: the chat has what was read of it.",
                    name=stored.name,
                )
            )
        return stored

    async def refuse(self) -> None:
        """Answer the pending question with no, because nobody can answer it.

        A notice tells the user how to allow the action.
        """
        # Reported before the no is sent, so that the chat records "nobody" and not a person's no.
        if self.confirming is not None:
            self.unconfirmed += 1
            self.port.unasked(self.confirming.id)
        await self.view.notice(
            gettext(
                self._reader.language,
                "not done: it needed your confirmation; run again with --yes to allow it",
            )
        )
        await self.answer(False)

    async def answer(self, yes: bool) -> None:
        """Answer the pending question with yes or no."""
        self.confirming = None
        await self.say(gettext(self._reader.language, "yes") if yes else gettext(self._reader.language, "no"))

    async def interrupt(self) -> bool:
        """Handle a Ctrl-C while the chat is busy: the first one stops the turn. Return True to leave.

        The result is True at the third Ctrl-C. If the session is `alone` and its message is queued, it is
        True at the first Ctrl-C: the running turn belongs to another sender and must not be stopped, and
        leaving withdraws the queued message.
        """
        if self._alone and self.queued:
            return True
        self._presses += 1
        presses = self._presses
        await self.view.stopping(presses)
        if presses == 1 and not any(is_stop(text) for text in self._open.values()):
            await self.say("/stop")
        return presses >= 3

    async def settled(self, number: int) -> Settled:
        """Wait until the reply to the message with this `number` has been shown; return the reply."""
        while number not in self._results:
            await self.changed()
        return self._results[number]

    async def until_stopped(self) -> None:
        """Wait until all messages of the session are answered; give up with a notice after `STOP_WAIT_S`."""
        with trio.move_on_after(STOP_WAIT_S) as bound:
            while self.owing:
                await self.changed()
        if bound.cancelled_caught:
            await self.view.notice(gettext(self._reader.language, "The stop was not confirmed in time."))

    async def changed(self) -> None:
        """Return after the next change in the conversation."""
        await self._changed.wait()

    def _notify(self) -> None:
        if not self.busy:
            self._presses = 0
        self._changed.set()
        self._changed = trio.Event()

    async def _moved(self, moved: Moved) -> None:
        """Continue the conversation after the chat has moved to another process.

        The turn of the old process has ended; the new process returns the turn's reply as undelivered.
        """
        if moved.note:
            await self.view.notice(moved.note)
        self.confirming = None
        if not moved.back:
            return
        # The new process does not report the end of another sender's turn. Own turns end with their replies.
        if self._turn.turn and not self._turn_is_own:
            ended = TurnFinished("interrupted", "")
            await self.view.event(ChatEvent(self.port.chat, self._turn.turn, time.time(), ended))
            self._turn = TurnState()
        self._turn = replace(self._turn, queued=())
        for reply in await self.port.undelivered(tuple(self._open)):
            own = next((number for number in reply.messages if number in self._open), None)
            if own is None and self._alone:
                continue  # another client shows it: its own, which has moved too, or the next one
            if own is None:
                self._seen.add(reply.delivery)
                await self.view.earlier(reply)
                await self.port.delivered(reply.delivery)
                continue
            turn = turn_of(reply.messages[0]) if reply.reason is not None else ""
            if reply.reason is not None:
                ended = TurnFinished(reply.reason, reply.text)
                await self._take(ChatEvent(self.port.chat, turn, time.time(), ended))
            await self._take(ChatEvent(self.port.chat, turn, time.time(), reply))

    async def _take(self, event: ChatEvent) -> None:
        if isinstance(event.what, Moved):
            await self._moved(event.what)
            self._notify()
            return
        # The reply of a turn was found before the events of the process that resumed or reported it came.
        if isinstance(event.what, TurnStarted | TurnFinished) and self._is_settled(event.turn):
            return
        own = await self._is_own(event)
        if isinstance(event.what, Replied) and event.what.figures is not None:
            self.figures = event.what.figures
            if self.figures.begun and not own and not self._alone:
                await self.view.notice(
                    gettext(
                        self._reader.language,
                        "Another window switched this chat to session {number}.",
                        number=self.figures.session,
                    )
                )
        if not own and self._alone:
            if isinstance(event.what, TurnFinished | Replied):
                self._others_interrupted |= event.what.reason == "interrupted"
            return
        before, self._turn = self._turn, self._turn.apply(event)
        told = isinstance(event.what, Replied) and (event.what.task or event.what.schedule)
        # Commands and queued messages of other senders only change the counts.
        if not (own or told) and (not event.turn or isinstance(event.what, Queued)):
            self._notify()
            return
        if self._turn.turn != before.turn:
            self._turn_is_own = own
        if await self._holds(event):
            self._notify()
            return
        match event.what:
            case Replied() as reply:
                await self._reply(event, reply, before)
                if reply.figures is not None and reply.figures.begun and self.show_past is not None:
                    await self.show_past(await self.recall())
            case TurnStarted(text):
                if not own:
                    await self.view.elsewhere(text, self._source(event.what))
                await self.view.event(event)
            case TurnRestarted(text):
                if not own:
                    started = None if self._turn.started is None else self._turn.started.what
                    await self.view.elsewhere(text, self._source(started))
                await self.view.event(event)
            case TurnFinished():
                self.confirming = None
                await self.view.event(event)
            case ConfirmationAsked() as asked:
                await self.view.event(event)
                self.port.shown(asked.id)
                if self._yes and own:
                    await self.view.notice(gettext(self._reader.language, "Yes (--yes)."))
                    await self.answer(True)
                else:  # only now: no line may answer a question that has not been shown
                    self.confirming = asked
            case ToolFinished(call, result) if call.id == BY_HAND:
                self.command_code = NOT_RUN if result.refused else _code_of(result.exit_code)
                await self.view.event(event)
            case ConfirmationEnded(id, _):
                if self.confirming is not None and self.confirming.id == id:
                    self.confirming = None
                await self.view.event(event)
            case _:
                await self.view.event(event)
        self._notify()

    def _source(self, started: Happening | None) -> str:
        """Name the sender of the message that started a turn, by the turn's beginning."""
        match started:
            case TurnStarted(schedule=schedule) if schedule:
                return gettext(self._reader.language, "(schedule {id})", id=schedule)
            case TurnStarted(trigger=trigger) if trigger:
                return gettext(self._reader.language, "(trigger {name})", name=trigger)
            case _:
                pass
        return gettext(self._reader.language, "(in another window)")

    async def _holds(self, event: ChatEvent) -> bool:
        """Return True if an event of a schedule's turn must not be shown, now or at all.

        Before the turn's reply, show its beginning and its end, unless the reply is silent.
        """
        if isinstance(event.what, TurnStarted) and event.what.schedule:
            self._scheduled = [event]
            return True
        if not event.turn or not self._scheduled or self._scheduled[0].turn != event.turn:
            return isinstance(event.what, Replied) and event.what.silent
        if not isinstance(event.what, Replied):
            if isinstance(event.what, TurnFinished):
                self._scheduled.append(event)
            return True
        held, self._scheduled = self._scheduled, []
        if event.what.silent:
            return True
        await self.view.elsewhere(str(getattr(held[0].what, "text", "")), self._source(held[0].what))
        for one in held:
            await self.view.event(one)
        return False

    def _is_settled(self, turn: str) -> bool:
        return any(turn_of(number) == turn for number in self._results)

    async def _is_own(self, event: ChatEvent) -> bool:
        """Return True if the event belongs to a message of this session.

        First wait until no message is being sent. A message that is being sent has no number yet, but the
        event may belong to it.
        """
        numbers = event.what.messages if isinstance(event.what, Replied) else ()
        if event.turn == self._judged[0] and not numbers:
            return self._judged[1]
        while True:
            own = any(event.turn == turn_of(number) or number in numbers for number in self._own)
            if own or not self._sending:
                break
            await self.changed()
        if not numbers:
            self._judged = (event.turn, own)
        return own

    async def _reply(self, event: ChatEvent, reply: Replied, turn: TurnState) -> None:
        if self._others_interrupted:
            # A turn that an earlier process left has ended since this session began: no window showed it.
            self._others_interrupted = False
            await self.show_earlier(min(self._own, default=0))
        finished = await self._end_of_turn(event, reply, turn)
        if any(self._own.get(number, "").lower() == "/help" for number in reply.messages):
            reply = replace(reply, text=f"{reply.text}\n{help_of_own(self._reader.language)}")
        if finished is not None and finished.reason not in FAILURES:
            self.last_answer = reply.text
        settled = Settled(reply, finished)
        if reply.delivery not in self._seen:
            self._seen.add(reply.delivery)
            await self.view.reply(event, settled)
            await self.port.delivered(reply.delivery)
        waited = {queued.what.message for queued in turn.queued}  # dropped on purpose, if it has no turn
        for number in reply.messages:
            if (text := self._open.pop(number, None)) is None:
                continue
            self._results[number] = settled
            lost = finished is None and not event.turn and number not in waited
            if lost and self.refused is not None and not (text.startswith("/") or is_answer(text)):
                self.refused(text)
        while len(self._results) > _MAX_RESULTS:
            self._results.popitem(last=False)

    async def _end_of_turn(self, event: ChatEvent, reply: Replied, turn: TurnState) -> TurnFinished | None:
        """Return the `TurnFinished` of the turn that this reply ends; None for a reply without a turn."""
        if not event.turn or event.turn != turn.turn:
            return None
        if turn.finished is not None:
            return turn.finished.what
        # No event reported the end of this turn: its chat was restarted, and then replied to the message.
        finished = TurnFinished("crashed", reply.text)
        await self.view.event(ChatEvent(event.chat, event.turn, event.time, finished))
        return finished


def _code_of(code: int | None) -> int:
    return 1 if code is None else code & 0xFF
