"""Questions of a turn. A pending question is a message with two buttons; later it shows the verdict instead.

A question is the only message of a running turn that the user must see. So a pending question is sent like a
reply: in order, and with retries after errors. If Telegram's response is lost, the chat may show the question
twice; the buttons of both copies work.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Final

import trio
from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity
from telegram.error import ChatMigrated, TelegramError

from rumi.agent.events import ConfirmationAsked
from rumi.channels.telegram.api.bot import in_words
from rumi.channels.telegram.api.refusals import RefusalReason, refusal_of
from rumi.channels.telegram.callback import data_of
from rumi.channels.telegram.formatting.reply import MessagePart
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, characters_within, clean, units
from rumi.channels.telegram.sending.delivery import REMOVALS, DeliveryTimes
from rumi.channels.telegram.sending.destination import Destination, Sent
from rumi.channels.telegram.sending.preview import Preview
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.questions import Verdict
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

VERDICT_UNITS: Final = 64
"""Maximum size of the verdict below a question, in UTF-16 units."""

NOTE_UNITS: Final = 128
"""Maximum size of the note that replaces the omitted part of a question, in UTF-16 units."""

FILE_NAME: Final = "question.txt"
"""Name of the file with the full text of a question that is longer than a message. The file is sent first."""

FILE_ATTEMPTS: Final = 3
"""Number of refusals of the file after which the question is not asked. The chat then gets an explanation."""

FINISH_ATTEMPTS: Final = 6
"""Number of failures after which the sender no longer tries to remove the buttons."""

FINISH_S: Final = 180.0
"""Maximum time for removing the buttons, in seconds, including the wait for the chat's rate limit."""


class Questions:
    """The questions of one chat that are pending, or whose messages do not show the verdict (the answer) yet.

    `start` starts a task. `changed` is called when a question needs no more messages, and `gone` when the
    chat is unreachable. `shown` is called with a question's id and message number when a person can read the
    question.
    """

    def __init__(
        self,
        to: Destination,
        *,
        start: Callable[[Callable[[], Awaitable[None]]], None],
        changed: Callable[[], None],
        gone: Callable[[], None],
        shown: Callable[[str, int], None],
        random: Random,
        patience: DeliveryTimes,
    ) -> None:
        self._to = to
        self._shown = shown
        self._start = start
        self._changed = changed
        self._gone = gone
        self._random = random
        self._patience = patience
        self._questions: dict[str, AskedQuestion] = {}

    def __len__(self) -> int:
        """Return the number of questions that are pending or whose messages do not show the verdict yet."""
        return len(self._questions)

    def find(self, id: str) -> "AskedQuestion | None":
        """Return the question with this id; None if this chat has no such question."""
        return self._questions.get(id)

    @property
    def settling(self) -> bool:
        """Return True if a question has a verdict that its messages do not show yet."""
        return any(not question.open for question in self._questions.values())

    def ask(self, asked: ConfirmationAsked, above: Preview) -> None:
        """Ask a question. This ends earlier questions, because a turn asks one question at a time."""
        self.close()
        question = AskedQuestion(
            self._to,
            asked,
            above,
            gone=self._gone,
            shown=self._shown,
            random=self._random,
            patience=self._patience,
        )
        self._questions[asked.id] = question
        self._start(partial(self._see_through, question))

    def settle(self, id: str, verdict: Verdict) -> bool:
        """End a question with its verdict. Return True if the question was asked in this chat."""
        question = self._questions.get(id)
        if question is not None:
            question.end(verdict)
        return question is not None

    def close(self) -> None:
        """End all questions, because no question outlives its turn."""
        for question in self._questions.values():
            question.end("no")

    def moved(self) -> None:
        """Record that the group has a new number. Typed answers now count for all questions sent earlier.

        Messages in the new group are numbered from 1. So every message there is later than the questions that
        were sent to the old group.
        """
        for question in self._questions.values():
            if question.open and question.sent:
                # 0 is below every message number of the new group.
                self._shown(question.id, 0)

    async def _see_through(self, question: "AskedQuestion") -> None:
        await question.run()
        del self._questions[question.id]
        self._changed()


class AskedQuestion:
    """One question, from asking it until its messages show the verdict.

    `above` is the turn's current preview: it is deleted, and the next preview appears below the question.
    `gone` is called when the chat is unreachable.
    """

    def __init__(
        self,
        to: Destination,
        asked: ConfirmationAsked,
        above: Preview,
        *,
        gone: Callable[[], None],
        shown: Callable[[str, int], None],
        random: Random,
        patience: DeliveryTimes,
    ) -> None:
        self._shown = shown
        self.id = asked.id
        self._to = to
        self._above = above
        self._gone = gone
        self._random = random
        self._patience = patience
        self._language: Language = above.language
        self._origin = above.origin
        self._part = question_part(asked.text, above.language)
        self._file = question_file(asked)
        self._buttons = True
        self._verdict: Verdict | None = None
        self._ended = trio.Event()
        self._waiting = trio.CancelScope()
        self._armed: deque[Sent] = deque()  # messages of this question that have buttons
        self._finished: set[Sent] = set()

    @property
    def open(self) -> bool:
        """Return True if the question has no verdict yet."""
        return self._verdict is None

    @property
    def sent(self) -> bool:
        """Return True if the chat has a message that shows the question."""
        return bool(self._armed)

    def end(self, verdict: Verdict) -> None:
        """Set the verdict. If the question has not been sent yet, it will not be sent."""
        if self._verdict is None:
            self._verdict = verdict
            self._ended.set()
            self._waiting.cancel()

    def stands_at(self, message: Sent) -> None:
        """Record a message that shows this question, so that this message shows the verdict too.

        The message may be a second copy, sent by a request whose response was lost.
        """
        if message not in self._armed and message not in self._finished:
            self._armed.append(message)

    async def run(self) -> None:
        """Ask the question, wait until `end` is called, and show the verdict. Never raises an error."""
        try:
            cleared = await self._above.vanish()
            await self._ask()
            async with trio.open_nursery() as nursery:
                if not cleared:
                    # In the background: a preview that cannot be deleted must not delay the question or its
                    # verdict.
                    nursery.start_soon(self._clear)
                await self._ended.wait()
                await self._show_verdict()
        except Exception:
            logger.exception("a question failed")

    async def _clear(self) -> None:
        """Try again to delete a preview that could not be deleted before the question was sent."""
        for attempt in range(1, REMOVALS + 1):
            await self._pause(attempt)
            if await self._above.vanish():
                return

    async def _ask(self) -> None:
        failures = 0
        while self.open:
            try:
                # `end` cancels only this wait: a cancelled send could leave a question with buttons whose
                # message is unknown.
                with trio.CancelScope() as self._waiting:
                    await self._to.turn()
                # The file comes first: nobody may press a button before the complete text can be read.
                if self.open and self._file:
                    await self._to.upload(FILE_NAME, self._file)
                    self._file = b""
                    continue
                if self.open:
                    keyboard = self._keyboard() if self._buttons else None
                    message = await self._to.send(self._part, self._origin, keyboard=keyboard)
                    if keyboard is None:  # without the complete text, the question must not be answered
                        return
                    self.stands_at(message)
                    self._shown(self.id, message.id if self._to.has(message) else 0)
                return
            except TelegramError as error:
                failures += 1
                if self._file and refusal_of(error) is RefusalReason.OTHER and failures >= FILE_ATTEMPTS:
                    self._part, self._file, self._buttons = _unshown(self._language), b"", False
                    continue
                await self._not_asked(error, failures)

    def _keyboard(self) -> InlineKeyboardMarkup:
        buttons = [
            InlineKeyboardButton(
                telegram_texts.answer_button(self._language, yes), callback_data=data_of(self.id, yes)
            )
            for yes in (True, False)
        ]
        return InlineKeyboardMarkup([buttons])

    async def _not_asked(self, error: TelegramError, failures: int) -> None:
        """Handle a failed attempt to ask: depending on the error, change the next attempt, or wait."""
        logger.warning("a question was not sent: %s", in_words(error))
        may_repeat = self._to.note_error(error)  # limits and moves also apply to the next attempt
        if not self.open:
            return
        if may_repeat:
            if isinstance(error, ChatMigrated):
                self._origin = None
            return
        match refusal_of(error):
            case RefusalReason.QUOTED if self._origin is not None:
                self._origin = None
            case RefusalReason.ENTITIES if self._part.entities:
                self._part = self._part.plain()
            case refusal:
                if refusal is RefusalReason.GONE:
                    self._gone()
                with trio.CancelScope() as self._waiting:
                    await self._pause(failures)

    async def _show_verdict(self) -> None:
        """Replace the buttons with the verdict in every copy of the question, with a few retries."""
        assert self._verdict is not None
        ending = f"\n\n{question_texts.verdict(self._language, self._verdict)}"
        failures = 0
        with trio.move_on_after(FINISH_S):
            while self._armed and failures < FINISH_ATTEMPTS:
                message = self._armed[0]
                try:
                    await self._to.turn()
                    await self._to.edit(message, MessagePart(self._part.text + ending, self._part.entities))
                except TelegramError as error:
                    failures += 1
                    logger.warning("a question kept its buttons: %s", in_words(error))
                    if not await self._again(error, failures):
                        self._done(message)
                else:
                    self._done(message)

    async def _again(self, error: TelegramError, failures: int) -> bool:
        """Prepare another attempt after an error, pausing if needed. Return False if that is useless."""
        if isinstance(error, ChatMigrated):  # messages stay in the old group
            return False
        if self._to.note_error(error):
            return True
        if refusal_of(error) is RefusalReason.ENTITIES and self._part.entities:
            self._part = self._part.plain()
            return True
        if refusal_of(error) is not None:
            return False
        await self._pause(failures)
        return True

    async def _pause(self, failures: int) -> None:
        await trio.sleep(self._patience.backoff_s(failures, self._random))

    def _done(self, message: Sent) -> None:
        self._armed.remove(message)
        self._finished.add(message)


def _unshown(language: Language) -> MessagePart:
    return MessagePart(
        gettext(
            language,
            "Telegram refused the file with the whole question, so I can't ask you. I did not do it.",
        ),
        (),
    )


def question_file(asked: ConfirmationAsked) -> bytes:
    """Return the full question as a file to send first; empty if the message shows all of it."""
    whole = asked.whole or asked.text
    shown = not asked.whole and units(clean(whole).strip()) <= LIMIT_UNITS - VERDICT_UNITS
    return b"" if shown else whole.encode("utf-8", "replace")


def question_part(text: str, language: Language) -> MessagePart:
    """Return a question as a message, shortened with a note if it is longer than a message allows.

    The first line asks the question. The lines below are formatted as code, so that Telegram turns nothing in
    them into links or commands. The file that is sent before a shortened question contains its full text.
    """
    shown = _cut(clean(text).strip(), LIMIT_UNITS - VERDICT_UNITS, language)
    first, *details = shown.split("\n")
    entities, offset = [], units(first) + 1
    for line in details:
        indent = len(line) - len(line.lstrip())
        if length := units(line.strip()):
            entities.append(MessageEntity(MessageEntity.CODE, offset + indent, length))
        offset += units(line) + 1
    return MessagePart(shown, tuple(entities))


def _cut(text: str, limit: int, language: Language) -> str:
    if units(text) <= limit:
        return text
    half = (limit - NOTE_UNITS) // 2
    head = text[: characters_within(text, half)]
    tail = text[len(text) - characters_within(text[::-1], half) :]
    return (
        head
        + gettext(
            language,
            "… ({characters} characters are left out here: they are in the file above) …",
            characters=len(text) - len(head) - len(tail),
        )
        + tail
    )
