"""The services part: the calendars and mailboxes that the tools of a chat may use."""

from collections.abc import Sequence
from dataclasses import dataclass

from rumi.agent.tool import Tool
from rumi.app.parts.calendars import CalendarsPart
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.store import StorePart
from rumi.chats.context import ChatView
from rumi.chats.people.people import People
from rumi.platform.chat_ids import LOCAL
from rumi.platform.config.groups import keys_of


@dataclass(frozen=True, slots=True)
class ServicesPart:
    """The services of people. Without a configured one, nothing is loaded and nothing runs."""

    inputs: TreeInputs
    people: People
    calendars: CalendarsPart

    def tools_for(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the tools of a chat that reach services: only those whose accounts belong to the chat."""
        return self.calendars.tools_for(view, self.belongs_to)

    def state(self) -> dict[str, object]:
        """Return the parts of the status dump about services; empty if none is configured."""
        calendars = self.calendars.state()
        return {"calendars": calendars} if calendars else {}

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


def add_services(inputs: TreeInputs, store: StorePart, people: People) -> ServicesPart:
    """Add the services that are configured."""
    return ServicesPart(inputs, people, CalendarsPart(inputs, store))
