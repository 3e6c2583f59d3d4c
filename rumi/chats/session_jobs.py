"""Jobs that begin, reopen and compact the session of a chat, and answers of commands about it."""

from contextlib import suppress
from typing import Final

import trio

from rumi.chats.budgets.amounts import amount_text
from rumi.chats.events import Replied
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices, CommandReply
from rumi.chats.session import ChatSession
from rumi.chats.sessions import MOST_BUTTONS, MOST_LISTED, compact_now, context_use, line_of
from rumi.chats.settling import Done, Settling
from rumi.chats.turn_tools import TurnTools
from rumi.errors import RumiError
from rumi.models.token_budget import context_of, prompt_share
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import sessions as session_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import FinalReply, Incoming
from rumi.store.journal.reopening import find_session, list_sessions
from rumi.texts import Language, Text

MOST_DIGITS: Final = 9
"""Longer numbers are no session's."""


class SessionJobs:
    """Works on the session of one chat. The chat's worker runs the jobs, one at a time."""

    def __init__(
        self, services: ChatServices, chat_session: ChatSession, settling: Settling, tools: TurnTools
    ) -> None:
        self._services = services
        self._context = services.context
        self._chat = chat_session.chat
        self._session = chat_session
        self._settling = settling
        self._tools = tools

    async def renew(self, job: Job) -> Done:
        """Begin a new session; the old one stays stored but no longer appears in prompts."""
        before = self._session.session
        found = await self._services.journal.ask(find_session(self._chat, before))
        await self._session.begin_session(forget=False)
        self._services.fact_extraction.session_ended()
        job.sealed = True
        text = session_texts.renewed(job.language, before if found is not None else 0)
        return Done(await self._settling.settle(FinalReply(job.messages, text), job))

    async def reopen(self, job: Job) -> Done:
        """Continue an earlier session, whose number is the job's text. The current one stays stored.

        One transaction stores the change and the reply, so that a kill leaves both or none.
        """
        job.sealed = True
        ask, language, wanted = self._services.journal.ask, job.language, job.message.text.strip()
        before = await ask(find_session(self._chat, self._session.session))
        number = int(wanted) if wanted.isdecimal() and len(wanted) < MOST_DIGITS else 0
        found = await ask(find_session(self._chat, number))
        if found is not None and not found.current:
            zone = await self._context.zone(self._chat)
            left = 0 if before is None else before.number
            text = session_texts.reopened(language, line_of(found, zone), left)
            reply = FinalReply(job.messages, job.final_reply(text))
            due = self._context.now() + self._context.settings.session.ttl_s
            delivery = await self._session.reopen(number, due, reply)
            if delivery is not None:
                self._services.fact_extraction.session_ended()
                self._measure(job)
                return Done(
                    Replied(delivery, reply.messages, reply.text, figures=self._settling.figures(job))
                )
        text = session_texts.no_session(language, wanted)
        if found is not None and found.current:
            text = session_texts.already_current(language, number)
        return Done(await self._settling.settle(FinalReply(job.messages, job.final_reply(text))))

    async def compact(self, job: Job) -> Done:
        """Replace the conversation in prompts by a summary. A `/stop` cancels this, and nothing changes."""
        job.stage = Text("summarizing the conversation")
        text = reply_texts.stopped(job.language)
        with job.scope:
            await trio.lowlevel.checkpoint()
            text = await self._compacted(job)
        job.sealed = True
        if job.scope.cancelled_caught and job.ended_by == "interrupted":
            text = reply_texts.lost_command(job.language, "/compact")
        reply = FinalReply(job.messages, job.final_reply(text), session=self._session.session, nano=job.nano)
        self._session.nano += job.nano
        return Done(await self._settling.settle(reply, job))

    async def _compacted(self, job: Job) -> str:
        language, summarizes = job.language, self._context.sums_up(job.message.model)
        try:
            model = self._context.model_of(job.message, language)
            window = context_of(model, self._context.context_tokens)
            self._measure(job)
            sizes = await compact_now(
                self._session,
                self._services.journal,
                model if summarizes else None,
                prompt_share(window),
                one_line(job.message.text),
            )
        except RumiError as error:
            return session_texts.not_compacted(language, error_text(language, error))
        if sizes is None:
            return session_texts.nothing_to_compact(language)
        return session_texts.compacted(language, *sizes, summarized=summarizes)

    async def listed(self, language: Language) -> CommandReply:
        """Return the list of the chat's sessions, with buttons that reopen the latest ones."""
        zone = await self._context.zone(self._chat)
        found = await self._services.journal.ask(list_sessions(self._chat, MOST_LISTED))
        lines = [line_of(session, zone) for session in found]
        buttons = [
            (session_texts.button(language, line), f"/sessions {line.number}")
            for line in lines
            if not line.current
        ]
        return CommandReply(session_texts.session_list(language, lines), buttons[:MOST_BUTTONS])

    async def context(self, message: Incoming, language: Language) -> str:
        """Return a table of what fills the context of the next turn."""
        await trio.lowlevel.checkpoint()
        try:
            model = self._context.model_of(message, language)
        except RumiError as error:
            return reply_texts.model_failed(language, error_text(language, error))
        window = context_of(model, self._context.context_tokens)
        tools, _ = self._tools.of(Job("turn", message, self._context.now(), language))
        use = context_use(self._session, self._context.instructions, tools, window)
        cost = amount_text(language, "usd", self._session.nano) if self._session.nano else ""
        return session_texts.context_table(language, use, window, cost)

    def _measure(self, job: Job) -> None:
        """Estimate the size of the session's next prompt; without a usable model it stays unknown."""
        with suppress(RumiError):
            model = self._context.model_of(job.message, job.language)
            self._context.measure(self._session, self._tools.of(job)[0], model)
