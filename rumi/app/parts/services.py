"""The services part: the calendars and mailboxes that the tools of a chat may use."""

from collections.abc import Sequence
from dataclasses import dataclass

from rumi.agent.tool import Tool
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.mail import MailPart, add_mail
from rumi.app.parts.store import StorePart
from rumi.chats.context import ChatView
from rumi.chats.people.people import People
from rumi.platform.chat_ids import LOCAL
from rumi.platform.config.groups import keys_of
from rumi.web.files_from_web import FilesFromWeb


@dataclass(frozen=True, slots=True)
class ServicesPart:
    """The services of people. Without a configured one, nothing is loaded and nothing runs."""

    inputs: TreeInputs
    people: People
    mail: MailPart | None = None

    def tools_for(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of a chat that reach services: only those whose accounts belong to the chat."""
        return self._mail_tools(view)

    def _mail_tools(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of the mailbox of a chat's person. In a group, nobody's mailbox is reached."""
        if self.mail is None or self.inputs.ids.may_be_group(view.chat):
            return ()
        for name, section in self.inputs.loaded.settings.mail.items():
            if not section.channel and self.belongs_to(view.chat, section.people):
                return self.mail.tools(name, view)
        return ()

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
    return ServicesPart(inputs, people, add_mail(inputs, store, files))
