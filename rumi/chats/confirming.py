"""Asks the person who started a job for a yes: before a tool call, or before what a command asks for."""

from collections.abc import Callable
from functools import partial
from secrets import token_hex

import trio

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded, TurnFinished
from rumi.chats.events import TurnStarted
from rumi.chats.jobs import Asked, Job
from rumi.chats.resuming import asking_mark
from rumi.chats.services import ChatServices
from rumi.chats.session import ChatSession
from rumi.chats.settling import Done, Settling
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.questions import Verdict
from rumi.store.journal.inbox import note_asking
from rumi.store.journal.records import FinalReply, Reason


class Confirming:
    """Asks the questions of one chat's jobs, one at a time."""

    def __init__(self, services: ChatServices, chat_session: ChatSession, settling: Settling) -> None:
        self._services = services
        self._chat = chat_session.chat
        self._session = chat_session
        self._settling = settling

    async def confirm(self, job: Job, asked: ConfirmationAsked) -> Verdict:
        """Wait for the user's yes or no, at most `confirm_timeout_s`.

        The question can be answered once, and only during this wait. On cancellation, the question is
        withdrawn.
        """
        # Only a call that runs alone surely waits here: nothing else of the turn has an effect meanwhile.
        running = tuple(self._services.hub.turn(self._chat).calls)
        job.waits_for_yes = len(running) == 1
        until = trio.current_time() + self._services.context.settings.agent.confirm_timeout_s
        job.asked = waiting = Asked(asked.id)
        job.has_asked = True
        self._services.hub.questions[asked.id] = None
        try:
            if job.waits_for_yes:
                await self._note_asking(job, running[0])
            verdict = await waiting.wait(until - trio.current_time())
            job.waits_for_yes = job.waits_for_yes and verdict == "yes"
            return "nobody" if verdict == "no" and asked.id in self._services.hub.unasked else verdict
        finally:
            job.asked = None
            del self._services.hub.questions[asked.id]
            self._services.hub.unasked.discard(asked.id)

    async def approved(self, job: Job) -> None:
        """Record that the call for which a person said yes is made now, and may have an effect."""
        if job.waits_for_yes:
            await self._note_asking(job, "")
            job.waits_for_yes = False

    async def _note_asking(self, job: Job, call: str) -> None:
        """Store which call waits for a person's yes; `call` is empty after a yes, before the call is made."""
        turn = [entry for entry in self._session.entries if entry.turn == job.turn]
        asking = asking_mark(turn, call) if call else ""
        await self._services.journal.ask(note_asking(self._chat, job.message.id, asking))

    async def without_yes(
        self, job: Job, command: str, question: str, refused: Callable[[bool], str], lost: str
    ) -> Done | None:
        """Ask whether to do what a command asks for. Return None for a yes, otherwise the `Done` of the job.

        The question is published as a turn. `refused` returns the reply if there is no yes; its argument is
        True if a person has said no. `lost` is the reply if the process ends meanwhile.
        """
        asked = ConfirmationAsked(token_hex(8), question)
        verdict: Verdict = "no"
        publish = partial(self._services.publisher.publish, self._chat)
        job.shown.happened(asked)
        publish(job.turn, TurnStarted(command, job.message.id, job.language, job.message.origin))
        with job.scope:
            await trio.lowlevel.checkpoint()
            publish(job.turn, asked)
            try:
                verdict = await self.confirm(job, asked)
            finally:
                ended = ConfirmationEnded(asked.id, verdict)
                job.shown.happened(ended)
                publish(job.turn, ended)
        if verdict == "yes":
            # A scope cannot be entered twice, and what the command does may need one.
            job.scope = trio.CancelScope()
            return None
        job.sealed = True
        reason: Reason = "complete"
        answer = refused(verdict == "no")
        if job.scope.cancelled_caught:
            reason, answer = job.ended_by, reply_texts.stopped(job.language)
            if job.ended_by == "interrupted":
                answer = lost
        answer = job.final_reply(answer)
        reply = FinalReply(job.messages, answer, questions=job.shown.questions, turn=job.turn)
        replied = await self._settling.settle(reply)
        return Done(replied, TurnFinished(reason, answer))
