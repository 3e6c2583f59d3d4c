"""The `forget` tool: deletes facts that are no longer true, or that the user wants deleted."""

from collections.abc import Callable, Collection, Mapping

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.memory.actor import AskMemory
from rumi.memory.filter import asks_to_forget
from rumi.memory.rows import forget_key
from rumi.memory.writing import written
from rumi.models.model import ToolSpec
from rumi.platform.texts import memory as memory_texts
from rumi.texts import Language, Text

SPEC = ToolSpec(
    name="forget",
    description="Delete all facts under a key, when the user asks or they hold no longer.",
    parameters={
        "type": "object",
        "properties": {"key": {"type": "string", "description": "As it is shown"}},
        "required": ["key"],
    },
)


class ForgetTool(Tool):
    """The `forget` tool, bound to one owner. `ask` queries the memory.

    Each call of the tool calls `language` to get the current language.
    """

    spec = SPEC
    concurrent = False

    def __init__(self, ask: AskMemory, owner: str, language: Callable[[], Language]) -> None:
        self._ask = ask
        self._owner = owner
        self._language = language

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question to the user, which names the key whose facts would be deleted."""
        key = arguments.get("key")
        if not isinstance(key, str) or not written(key):
            return None
        return Question("forget", {"key": written(key)}, (written(key),), asks_to_forget)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Delete the facts stored under the key. On cancellation, either all or none of them are deleted."""
        key = arguments.get("key")
        if not isinstance(key, str) or not written(key):
            return ToolResult(False, Text("forget needs `key`, a string"))
        count = await self._ask(forget_key(self._owner, key))
        return ToolResult(True, memory_texts.forgotten(self._language(), written(key), count))
