"""Stores the final replies of one chat's jobs."""

from contextlib import suppress
from dataclasses import dataclass

from rumi.agent.events import TurnFinished
from rumi.chats.events import Replied, SessionFigures
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices
from rumi.chats.session import ChatSession
from rumi.errors import RumiError
from rumi.models.token_budget import context_of
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply


@dataclass(frozen=True, slots=True)
class Done:
    """A job's final reply, stored but not yet published. If the job was a turn, also the end of the turn.

    Without a reply, the process ends, and the next one goes on with the job.
    """

    replied: Replied | None
    finished: TurnFinished | None = None


class Settling:
    """Stores final replies, one at a time, in the journal."""

    def __init__(self, services: ChatServices, chat_session: ChatSession) -> None:
        self._services = services
        self._chat = chat_session.chat
        self._session = chat_session

    async def settle(self, reply: FinalReply, job: Job | None = None) -> Replied:
        """Store the final reply of a job; return it, with what clients show of the session if it has a `job`.

        It is not published yet.
        """
        # A cancelled turn may have left a write behind; its entry belongs before the final one.
        await self._session.written()
        delivery = await self._services.journal.ask(settle(self._chat, reply))
        self._session.parked.note_asked(reply.asked)
        self._services.noticed(reply.noticed)
        figures = None if job is None else self.figures(job)
        return Replied(
            delivery, reply.messages, reply.text, silent=reply.silent, figures=figures, note=reply.note
        )

    def figures(self, job: Job) -> SessionFigures | None:
        """Return what clients show of the session; None for a turn with a session of its own."""
        if self._session.apart:
            return None
        window = 0
        with suppress(RumiError):
            model = self._services.context.model_of(job.message, job.language)
            window = context_of(model, self._services.context.context_tokens)
        return SessionFigures(
            self._session.session,
            self._session.tokens,
            window,
            self._session.nano,
            begun=job.begins_session or bool(job.message.branches),
        )
