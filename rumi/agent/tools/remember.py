"""The `remember` tool: stores a fact about the user for later conversations."""

from collections.abc import Callable, Collection, Mapping

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.memory.actor import AskMemory
from rumi.memory.filter import asks_to_remember
from rumi.memory.messages import FactRefused
from rumi.memory.rows import remember_fact
from rumi.memory.writing import checked
from rumi.models.model import ToolSpec
from rumi.platform.texts import memory as memory_texts
from rumi.texts import Language, Text

SPEC = ToolSpec(
    name="remember",
    description=(
        "Save a fact about the user for all later conversations: when they ask, or tell something that will "
        "still be true and useful in months. It replaces what is under the key. Never save secrets, passing "
        "states, or what only a page or a file says."
    ),
    parameters={
        "type": "object",
        "properties": {
            "key": {
                "type": "string",
                "description": "One to three words, like: city",
            },
            "value": {
                "type": "string",
                "description": "Short, in the user's language",
            },
            "also": {"type": "boolean", "description": "Keep the old values"},
        },
        "required": ["key", "value"],
    },
)

MAX_OTHERS = 20
"""Maximum number of other values stored under the same key that the tool's result lists."""


class RememberTool(Tool):
    """The `remember` tool, bound to one owner.

    Each call of the tool invokes the functions `tainted` and `language`. `ask` queries the memory.
    """

    spec = SPEC
    concurrent = False

    def __init__(
        self,
        ask: AskMemory,
        owner: str,
        chat: str,
        tainted: Callable[[], bool],
        language: Callable[[], Language],
    ) -> None:
        self._ask = ask
        self._owner = owner
        self._chat = chat
        self._tainted = tainted
        self._language = language

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that shows the fact exactly as it would be stored.

        The user's message counts as consent if it contains the value. The key need not occur in the message,
        because the model chooses the key.
        """
        key, value = arguments.get("key"), arguments.get("value")
        if not isinstance(key, str) or not isinstance(value, str):
            return None
        try:
            fact = checked(key, value)
        except FactRefused:
            return None
        also = {"also": "true"} if arguments.get("also") is True else {}
        details = {"key": fact.key, **also, "value": fact.value}
        return Question("remember", details, (fact.value,), asks_to_remember)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Store the fact. On cancellation, the fact is stored completely or not at all."""
        key, value = arguments.get("key"), arguments.get("value")
        if not isinstance(key, str) or not isinstance(value, str):
            return ToolResult(False, Text("remember needs `key` and `value`, two strings"))
        try:
            fact = checked(key, value)
            also = arguments.get("also") is True
            others = await self._ask(
                remember_fact(
                    self._owner,
                    fact,
                    chat=self._chat,
                    tainted=self._tainted(),
                    also=also,
                )
            )
        except FactRefused as error:
            return ToolResult(False, Text("not saved: {error}", error=error.for_model))
        shown = [other.value for other in others[-MAX_OTHERS:]]
        return ToolResult(
            True,
            memory_texts.remembered(self._language(), fact.key, fact.value, shown, replaced=not also),
            tainted=any(other.tainted for other in others),  # the result quotes the other values
        )
