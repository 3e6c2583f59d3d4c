"""The calendars of the services part: the tools of a chat, and the rows of the status dump."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rumi.agent.tool import Tool
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.store import StorePart
from rumi.chats.context import ChatView
from rumi.store.journal.actor import AskJournal

if TYPE_CHECKING:
    from rumi.services.calendar.calendars import Calendars


@dataclass(slots=True)
class CalendarsPart:
    """The configured calendars. They and their modules are loaded when a chat first gets their tools."""

    inputs: TreeInputs
    store: StorePart
    _calendars: "Calendars | None" = None

    def tools_for(
        self, view: ChatView, belongs: Callable[[str, Sequence[str], Sequence[str]], bool]
    ) -> tuple[Tool, ...]:
        """Return the tools of a chat; none if no calendar belongs to it.

        `belongs` says whether what belongs to people and groups may be used in a chat.
        """
        sections = self.inputs.loaded.settings.calendars
        names = tuple(
            name for name, section in sections.items() if belongs(view.chat, section.people, section.groups)
        )
        if not names:
            return ()
        return calendar_tools(self.calendars(), names, self.store.journal.ask, view)

    def calendars(self) -> "Calendars":
        """Return the calendars."""
        if self._calendars is None:
            from rumi.services.calendar.calendars import configured_calendars

            self._calendars = configured_calendars(self.inputs.loaded)
        return self._calendars

    def state(self) -> list[dict[str, object]]:
        """Return the rows of the status dump: one for each configured calendar."""
        if self._calendars is None:
            names = self.inputs.loaded.settings.calendars
            return [{"name": name, "read": None, "error": ""} for name in names]
        return self._calendars.state(self.inputs.language)


def calendar_tools(
    calendars: "Calendars",
    names: Sequence[str],
    ask: AskJournal,
    view: ChatView,
    now: Callable[[], float] = time.time,
) -> tuple[Tool, ...]:
    """Return the tools for the calendars of these names; the one that writes only if one can be written."""
    from rumi.agent.tools.calendar_read import CalendarFree, CalendarRead, ChatCalendars
    from rumi.agent.tools.calendar_times import ChatClock
    from rumi.agent.tools.calendar_write import CalendarWrite
    from rumi.services.calendar.changes import EventChanges

    of_chat = ChatCalendars(calendars, tuple(names), ChatClock(now, view.zone))
    tools: tuple[Tool, ...] = (CalendarRead(of_chat), CalendarFree(of_chat))
    if any(calendars.configured[name].may_write for name in names):
        tools = (*tools, CalendarWrite(of_chat, EventChanges(calendars, ask, view.chat, view.turn)))
    return tools
