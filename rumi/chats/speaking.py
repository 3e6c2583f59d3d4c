"""Answers by voice: the command `/voice`, and the speaking of a chat's answers.

The text of an answer is stored and delivered like any other. Its speech exists only in memory: the end of the
process loses it, and nothing speaks an answer twice.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from actors import ActorError, ActorRef
from rumi.chats.commands import ChatCommand
from rumi.errors import RumiError
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import voice as voice_texts
from rumi.platform.texts.voice import Spoken
from rumi.store.journal.records import Incoming
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.voices import set_spoken_answers, spoken_answers
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 3
"""Maximum number of a chat's answers that are being spoken or wait for it; any more stay unspoken."""

_WORDS: Final[dict[str, Spoken]] = {"on": "to_voice", "always": "always", "all": "always", "off": "never"}


@dataclass(frozen=True, slots=True)
class SpeechService:
    """What speaks answers. `default` counts in chats that have not chosen.

    `can` returns True if answers in a chat can be spoken. `speak` speaks an answer in a chat, after the
    replies that are queued for it; it raises a `RumiError` if that fails.
    """

    journal: ActorRef[JournalMessage]
    default: Spoken
    can: Callable[[str], bool]
    speak: Callable[[str, str, Language], Awaitable[None]]

    async def spoken_in(self, chat: str) -> Spoken:
        """Return which answers are spoken in a chat."""
        stored = await self.journal.ask(spoken_answers(chat))
        return next((spoken for spoken in _WORDS.values() if spoken == stored), self.default)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Execute `/voice on`, `/voice always`, `/voice off` or `/voice`; return the reply."""
        if not self.can(message.chat):
            return voice_texts.cannot_speak(language)
        word, yes = command.rest.casefold(), question_texts.yes_or_no(command.rest)
        spoken = _WORDS.get(word) or (None if yes is None else "to_voice" if yes else "never")
        try:
            if spoken is not None:
                await self.journal.ask(set_spoken_answers(message.chat, spoken))
            elif word:
                return voice_texts.voice_usage(language)
            return voice_texts.spoken_is(language, await self.spoken_in(message.chat))
        except ActorError as error:
            logger.warning("the choice about spoken answers was not stored: %r", error)
            return f"❌ {gettext(language, 'This cannot be stored now. Try again in a moment.')}"


class Speaking:
    """Speaks the answers of one chat, one after the other, in tasks that `start` starts in the chat.

    An answer that cannot be spoken is logged; its text is not affected.
    """

    def __init__(
        self,
        chat: str,
        service: SpeechService | None,
        start: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._chat = chat
        self._service = service
        self._start = start
        self._scopes: set[trio.CancelScope] = set()
        self._one_by_one = trio.Lock()

    @property
    def active(self) -> bool:
        """Return True while an answer is being spoken, or waits for it."""
        return bool(self._scopes)

    def begin(self, message: Incoming, answer: str, language: Language) -> None:
        """Have the answer to a message spoken, if the chat wants that. Never blocks."""
        service = self._service
        if service is None or not service.can(self._chat) or len(self._scopes) >= MOST_WAITING:
            return
        # A forwarded recording is not the sender's voice.
        heard = any(part.kind == "voice" and not part.source for part in message.attachments)
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._start(partial(self._run, service, scope, heard, answer, language))

    def stop(self) -> bool:
        """Stop speaking; what Telegram has already got stays. Return True if there was something to stop."""
        was_active = self.active
        for scope in self._scopes:
            scope.cancel()
        return was_active

    async def _run(
        self, service: SpeechService, scope: trio.CancelScope, heard: bool, answer: str, language: Language
    ) -> None:
        try:
            with scope:
                async with self._one_by_one:
                    spoken = await service.spoken_in(self._chat)
                    if spoken == "always" or (spoken == "to_voice" and heard):
                        await service.speak(self._chat, answer, language)
        except (RumiError, ActorError) as error:
            logger.warning("chat %s: an answer was not spoken: %s", self._chat, error)
        except Exception:  # speech is an extra: its faults must not end the chat
            logger.exception("chat %s: an answer was not spoken", self._chat)
        finally:
            self._scopes.discard(scope)
