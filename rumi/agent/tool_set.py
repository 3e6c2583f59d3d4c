"""The tools of a turn: how a call finds its tool, and which calls may run at the same time."""

from collections.abc import Mapping, Sequence

from rumi.agent.tool import BringsTools, Delegates, MaySave, Tool


class ToolSet:
    """The first tools of a turn, and those that tools have added."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        # Found once, because each model call reads the tools, and the check of a runtime protocol is slow.
        self._bringing = [
            tool for tool in tools if hasattr(tool, "brought") and isinstance(tool, BringsTools)
        ]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model can call now."""
        return (*self._tools.values(), *(more for tool in self._bringing for more in tool.brought))

    def named(self, name: str) -> Tool | None:
        """Return the tool with the given name, or None."""
        found = self._tools.get(name) or next((t for t in self.tools if t.spec.name == name), None)
        return found or next((tool for b in self._bringing if (tool := b.named(name)) is not None), None)


def is_concurrent(tool: Tool | None, arguments: Mapping[str, object]) -> bool:
    """Return True if a call of the tool may run at the same time as its neighbours."""
    if tool is None:
        return False
    if isinstance(tool, Delegates):
        return tool.is_concurrent(arguments)
    return tool.concurrent and not (isinstance(tool, MaySave) and tool.saves(arguments))
