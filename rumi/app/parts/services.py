"""The services part: the calendars and mailboxes that the tools of a chat may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rumi.agent.tool import Tool
from rumi.app.parts.calendars import CalendarsPart
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.mail import MailPart, add_mail
from rumi.app.parts.store import StorePart
from rumi.channels.triggers.triggers import Triggers
from rumi.chats.context import ChatView
from rumi.chats.people.people import People
from rumi.platform.chat_ids import LOCAL
from rumi.platform.config.groups import keys_of
from rumi.platform.threads import Threads
from rumi.web.files_from_web import FilesFromWeb

if TYPE_CHECKING:
    from rumi.channels.mail.watcher import WatchedMailbox


@dataclass(frozen=True, slots=True)
class ServicesPart:
    """The services of people. Without a configured one, nothing is loaded and nothing runs."""

    inputs: TreeInputs
    people: People
    calendars: CalendarsPart
    mail: MailPart | None = None

    def tools_for(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of a chat that reach services: only those whose accounts belong to the chat."""
        return (*self.calendars.tools_for(view, self.belongs_to), *self._mail_tools(view))

    def state(self) -> dict[str, object]:
        """Return the parts of the status dump about services; empty if none is configured."""
        calendars = self.calendars.state()
        return {"calendars": calendars} if calendars else {}

    def _mail_tools(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of the mailbox of a chat's person. In a group, nobody's mailbox is reached."""
        if self.mail is None or self.inputs.ids.may_be_group(view.chat):
            return ()
        for name, section in self.inputs.loaded.settings.mail.items():
            if not section.channel and self.belongs_to(view.chat, section.people):
                return self.mail.tools(name, view)
        return ()

    def watched_by(self, triggers: Triggers) -> tuple[WatchedMailbox, ...]:
        """Return the mailboxes that the rules of triggers look at.

        Raises:
            ConfigError: A mailbox has no password, or the password cannot be read.
        """
        if self.mail is None or all(one.section.mail is None for one in triggers.triggers.values()):
            return ()
        from rumi.channels.mail.channel import account_of
        from rumi.channels.triggers.mail_rules import watched_by_rules

        sections = self.inputs.loaded.settings.mail
        names = {one.section.mail for one in triggers.triggers.values() if one.section.mail is not None}
        boxes = {name: (sections[name], self.mail.mailbox(name)) for name in sorted(names)}
        return watched_by_rules(triggers, boxes, account_of, Threads(2), self.mail.html_to_text)

    def belongs_to(self, chat: str, people: Sequence[str], groups: Sequence[str] = ()) -> bool:
        """Return True if an account that belongs to `people` and `groups` may be used in a chat.

        In a group, only the accounts of that group may be used, and never those of its members.
        """
        ids = self.inputs.ids
        owner = ids.owner_of(chat)
        if ids.may_be_group(chat):
            names = self.inputs.channel_of(chat).names_of(chat)
            return any(key in groups for name in names for key in keys_of(name))
        person = LOCAL if owner == LOCAL else self.people.name_of(owner)
        return person in (people or (() if groups else (LOCAL,)))


def add_services(inputs: TreeInputs, store: StorePart, people: People, files: FilesFromWeb) -> ServicesPart:
    """Add the services that are configured."""
    return ServicesPart(inputs, people, CalendarsPart(inputs, store), add_mail(inputs, store, files))
