"""Brings files to the turns of one chat: the chat's own, and what came with a message."""

import logging
from dataclasses import replace
from itertools import dropwhile

from rumi.agent.prompts.message_entries import attachment_message, beyond_last_exchange, to_fetch
from rumi.agent.turn_input import TurnMessage
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices, ChatShell
from rumi.chats.session import ChatSession
from rumi.errors import RumiError
from rumi.models.model import Message, Model, Waiting
from rumi.models.token_budget import context_of, takes_pictures
from rumi.platform.texts import models as model_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.inbox import last_origin
from rumi.store.journal.records import Attachment
from rumi.texts import Text
from rumi.web.links import urls_in_words
from rumi.web.readers.files.viewer import Seen

logger = logging.getLogger(__name__)


class TurnFiles:
    """The files of one chat's turns. The chat's worker calls it, one call at a time."""

    def __init__(self, services: ChatServices, chat_session: ChatSession, shell: ChatShell) -> None:
        self._services = services
        self._context = services.context
        self._chat = chat_session.chat
        self._session = chat_session
        self._shell = shell
        self._are_here = False

    async def fetch_early(self) -> None:
        """Fetch the chat's files in the state that the previous worker process stored.

        A failure is only logged: the next turn fetches again and reports a failure to the user.
        """
        try:
            await self.fetch()
        except RumiError as error:
            logger.warning("the files of chat %s are not here: %s", self._chat, error)

    async def fetch(self) -> None:
        """Fetch the chat's files, unless they are here.

        Raises:
            RumiError: they cannot be fetched.
        """
        if not self._are_here:
            await self._services.workspaces.carry.fetch(self._chat, self._chat)
            self._are_here = True

    async def store(self, job: Job) -> None:
        """Store the chat's files for the next worker process; the job's reply reports a failure."""
        # Files that were never fetched must not overwrite those that the previous worker stored.
        if self._are_here:
            error = await self._services.workspaces.carry.store(self._chat, self._chat)
            if error is not None:
                job.note = "\n\n".join(filter(None, (job.note, error_text(job.language, error))))

    async def bring(self, job: Job, model: Model) -> None:
        """Fetch the attachments of the job's message, and store what they contain, then the user's text."""
        entries = () if job.broken is None else job.broken.entries
        # Before the message, a line may say when it was written.
        opened = dropwhile(lambda entry: entry.message.role == "system", entries)
        works = any(entry.message.role != "user" for entry in opened)
        if not to_fetch(job.message.attachments) or works:  # a resumed turn that went further has all of them
            return
        own = TurnMessage(Message("user", job.message.text), links=urls_in_words(job.message.text))
        for brought_message in (*await self.attached(job, model), own)[self._brought(job) :]:
            if brought_message.message.content.strip():
                await self._session.append(job.turn, brought_message)

    @staticmethod
    def _brought(job: Job) -> int:
        """Return how many of the messages about attachments an earlier process has stored already."""
        if job.broken is None:
            return 0
        roles = [entry.message.role for entry in job.broken.entries]
        words = sum(attachment.kind == "words" for attachment in job.message.attachments)
        return max(0, roles.count("user") - words - 1)

    async def attached(self, job: Job, model: Model) -> list[TurnMessage]:
        """Fetch the attachments of the job's message, unless this was done; return what they contain."""
        files = to_fetch(job.message.attachments)
        if not files:
            return []
        job.stage = Text("fetching what came with the message")
        if any(attachment.kind == "file" for attachment in files if attachment not in job.brought):
            await self._shell.snapshot_files()
            # Before the file is there, so that no crash can leave an untrusted file without taint.
            await self._session.set_files_tainted(True)
        # A character for each token of the context: a quarter of it, because a token is about 4 characters.
        left = min(
            self._context.settings.session.handed_chars, context_of(model, self._context.context_tokens)
        )
        came = list[TurnMessage]()
        for attachment in files:
            if attachment not in job.brought:  # otherwise fetched before the turn began again
                if attachment.kind == "voice":
                    listening = Text("listening to the recording")
                    job.stage = listening
                    self._services.publisher.publish(
                        self._chat, job.turn, Waiting(0.0, listening.in_language(job.language))
                    )
                job.brought[attachment] = await self._message_about(attachment, left)
            message = job.brought[attachment]
            left -= len(message.message.content)
            came.append(message)
            if message.message.pictures and not takes_pictures(model):
                job.note = model_texts.takes_no_pictures(job.language, model.name, self._context.sighted)
        job.stage = ""
        return came

    async def _message_about(self, attachment: Attachment, max_chars: int) -> TurnMessage:
        """Fetch an attachment; return the history message about it, with at most `max_chars` of its text."""
        seen = Seen(await self._text_of(attachment))
        if self._context.seen_of is not None:
            seen = await self._context.seen_of(self._chat, seen.about, max_chars)
        message = attachment_message(attachment, seen.about)
        # The history stores references; the bytes are loaded from the files for each request.
        references = tuple(replace(picture, data=b"") for picture in seen.pictures)
        return replace(message, message=replace(message.message, pictures=references))

    async def _text_of(self, attachment: Attachment) -> str:
        """Fetch an attachment; return its text.

        If a file of an answered message cannot be fetched, the text says why.
        """
        try:
            return await self._context.bring(self._chat, attachment)
        except RumiError as error:
            if attachment.answered is None:
                raise
            return f"(The file {one_line(attachment.name, 100)} could not be fetched: {error})"

    async def leave_out_last_exchange(self, job: Job) -> None:
        """Remove what the job's message answers, if that is the last exchange, which the model knows."""
        message = None
        while message is not job.message:  # it may be replaced meanwhile
            message = job.message
            if any(attachment.answered is not None for attachment in message.attachments):
                last = await self._services.journal.ask(last_origin(self._chat, message.id))
                zone = await self._context.zone(self._chat)
                if message is job.message:
                    left = beyond_last_exchange(message, self._session.entries, last, zone)
                    job.message = message = replace(message, attachments=left)
