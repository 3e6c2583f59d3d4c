"""The mailboxes of people, and the tools that reach them. Without a mailbox, nothing is loaded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Never

from typing_extensions import override

from actors import Actor, ChildSpec
from rumi.agent.tool import Tool
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.store import StorePart
from rumi.chats.context import ChatView
from rumi.errors import ConfigError
from rumi.platform.config.secrets import mail_key
from rumi.platform.threads import Threads
from rumi.platform.timestamps import utc
from rumi.sandbox.incoming import PlacedFile
from rumi.texts import translate
from rumi.web.files_from_web import FilesFromWeb

if TYPE_CHECKING:
    from rumi.agent.tools.mail_access import KnownMails
    from rumi.services.mail.client import Mailbox
    from rumi.web.readers.files.reading import Looks


@dataclass(frozen=True, slots=True)
class MailPart:
    """The configured mailboxes. Each client is made at its first use; it keeps no connection."""

    inputs: TreeInputs
    store: StorePart
    files: FilesFromWeb
    _mailboxes: dict[str, Mailbox] = field(default_factory=dict)
    _known: dict[str, KnownMails] = field(default_factory=dict)
    _looks: list[Looks] = field(default_factory=list)
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
        from rumi.agent.tools.mail_access import KnownMails, MailAccess
        from rumi.agent.tools.mail_read import MailRead, MailSave
        from rumi.agent.tools.mail_search import MailSearch
        from rumi.agent.tools.mail_send import MailDraft, MailSend

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
            self._known.setdefault(name, KnownMails()),
            self._threads,
            time.time,
            view.zone,
        )
        sends: tuple[Tool, ...] = () if section.smtp is None else (MailSend(access),)
        return (MailSearch(access), MailRead(access), MailSave(access), MailDraft(access), *sends)

    def figures(self, name: str) -> Mapping[str, object]:
        """Return a mailbox's address, its last use with its error, and whether it is Rumi's own."""
        known, section = self._mailboxes.get(name), self.inputs.loaded.settings.mail[name]
        used = known.last_used if known is not None else 0.0
        return {
            "address": section.address,
            "channel": section.channel,
            "used": utc(used) if used else None,
            "failure": translate(self.inputs.language, known.last_error) if known is not None else "",
        }

    async def html_to_text(self, html: str) -> str:
        """Return the visible text of a mail in HTML. Raises `ViewRefused` if it cannot be read."""
        from rumi.web.readers.files.reading import Looks, ViewLimits

        if not self._looks:
            self._looks.append(Looks(ViewLimits()))
        async with self._looks[0].slots:
            return await self._looks[0].html(html)


class MailFigures(Actor[Never]):
    """Shows one mailbox in the status. Connections belong to the calls that use them, not to this actor."""

    def __init__(self, part: MailPart, name: str) -> None:
        self._part = part
        self._name = name

    @override
    def activity(self) -> str:
        """Return the error of the last use; empty if it worked."""
        return str(self._part.figures(self._name)["failure"])

    @override
    def metrics(self) -> Mapping[str, object]:
        """Return the address, the last use and its error."""
        return self._part.figures(self._name)


def add_mail(inputs: TreeInputs, store: StorePart, files: FilesFromWeb) -> MailPart | None:
    """Add a row of the status for each mailbox; return None if there is no mailbox."""
    if not inputs.loaded.settings.mail:
        return None
    part = MailPart(inputs, store, files)
    for name in inputs.loaded.settings.mail:
        inputs.root.add(ChildSpec(f"mail:{name}", partial(MailFigures, part, name)))
    return part
