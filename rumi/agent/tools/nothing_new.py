"""The `nothing_new` tool: ends a scheduled turn that has nothing to tell the user."""

from collections.abc import Collection, Mapping
from typing import Final

import trio

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tool_names import NOTHING_NEW
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import one_line
from rumi.texts import Text

MOST_WHY_CHARS: Final = 200
"""Maximum length of the reason, which lists of schedules show."""


class NothingNew(Tool):
    """Tool that ends a scheduled turn without a message to the user. Only scheduled turns have it.

    The other calls of the same reply are made. If a call of the turn has failed or waits for a yes, the user
    gets a message nevertheless.
    """

    spec = ToolSpec(
        NOTHING_NEW,
        "End this scheduled turn: nothing is sent to the user. Use it if there is nothing that they would "
        "want to read now, instead of writing so.",
        {
            "type": "object",
            "properties": {
                "why": {"type": "string", "description": "A few words, for the list of schedules"}
            },
            "required": ["why"],
        },
    )
    concurrent = False
    turn_only = True
    only_reads = True

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a call has no effect outside of the turn."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Check the reason, and end the turn."""
        await trio.lowlevel.checkpoint()
        why = arguments.get("why")
        if not isinstance(why, str) or not why.strip():
            return ToolResult(
                False, Text("nothing_new needs `why`, a string that is not empty"), refused=True
            )
        return ToolResult(True, one_line(why, MOST_WHY_CHARS), ends_turn=True)
