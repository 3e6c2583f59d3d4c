"""The mailboxes of people, and the tools that reach them. Without a mailbox, nothing is loaded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rumi.agent.tool import Tool
from rumi.agent.tools.mail_access import MailAccess
from rumi.agent.tools.mail_read import MailRead, MailSave
from rumi.agent.tools.mail_search import MailSearch
from rumi.agent.tools.mail_send import MailDraft, MailSend
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.store import StorePart
from rumi.chats.context import ChatView
from rumi.errors import ConfigError
from rumi.platform.config.secrets import mail_key
from rumi.platform.threads import Threads
from rumi.platform.timestamps import utc
from rumi.sandbox.incoming import PlacedFile
from rumi.web.files_from_web import FilesFromWeb

if TYPE_CHECKING:
    from rumi.services.mail.client import Mailbox
    from rumi.services.mail.html import HtmlToText


@dataclass(frozen=True, slots=True)
class MailPart:
    """The configured mailboxes. Each client is made at its first use; it keeps no connection."""

    inputs: TreeInputs
    store: StorePart
    files: FilesFromWeb
    _mailboxes: dict[str, Mailbox] = field(default_factory=dict)
    _readers: list[HtmlToText] = field(default_factory=list)
    _threads: Threads = field(default_factory=Threads)

    def mailbox(self, name: str) -> Mailbox:
        """Return the client of a configured mailbox.

        Raises:
            ConfigError: It has no password, or the password cannot be read.
        """
        from rumi.services.mail.client import Mailbox

        if (known := self._mailboxes.get(name)) is not None:
            return known
        loaded = self.inputs.loaded
        key = loaded.secrets.keys.get(mail_key(name))
        if key is None:
            raise loaded.secrets.faults.get(mail_key(name)) or ConfigError(
                "The mailbox {name} has no password.", "Set it with: rumi setup", name=name
            )
        made = self._mailboxes[name] = Mailbox(name, loaded.settings.mail[name], key.reveal())
        return made

    def tools(self, name: str, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of a mailbox for a chat to which it belongs."""
        section = self.inputs.loaded.settings.mail[name]

        async def save(path: str, body: bytes, suggested: str) -> PlacedFile:
            async def before() -> None:
                await view.touch_files()
                await view.mark_files_tainted()

            return await self.files.put(view.chat, path, body, suggested, before)

        access = MailAccess(
            name,
            section,
            lambda: self.mailbox(name),
            self.store.journal.ask,
            view.chat,
            view.turn,
            self.html_to_text,
            save,
            lambda: self.inputs.files.shown(view.chat),
            self._threads,
            time.time,
            view.zone,
        )
        sends: tuple[Tool, ...] = () if section.smtp is None else (MailSend(access),)
        return (MailSearch(access), MailRead(access), MailSave(access), MailDraft(access), *sends)

    def status(self) -> Sequence[Mapping[str, object]]:
        """Return a row for each mailbox: its last use, and the error that it ended with."""
        return tuple(
            {
                "name": name,
                "address": section.address,
                "used": utc(used) if (used := self._used(name)) else None,
                "error": self._mailboxes[name].last_error if name in self._mailboxes else "",
            }
            for name, section in self.inputs.loaded.settings.mail.items()
        )

    def _used(self, name: str) -> float:
        return self._mailboxes[name].last_used if name in self._mailboxes else 0.0

    async def html_to_text(self, html: str) -> str:
        """Return the visible text of a mail in HTML. Raises `ViewRefused` if it cannot be read."""
        from rumi.services.mail.html import html_reader
        from rumi.web.readers.files.reading import Looks, ViewLimits

        if not self._readers:
            self._readers.append(html_reader(Looks(ViewLimits())))
        return await self._readers[0](html)
