"""The MCP server that offers Rumi's tools on standard input and output; built on the official MCP package."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import trio
from pydantic import Field

from rumi import __version__
from rumi.channels.mcp.service import McpService, Report
from rumi.errors import RumiError
from rumi.memory.recall.request import Query, Since, Tokens, Until
from rumi.platform.texts.translation import error_text

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp_types import ToolAnnotations

Work: TypeAlias = Callable[..., Awaitable[str]]

INSTRUCTIONS: Final = (
    "Rumi is the personal assistant of this user. `ask` runs a turn: Rumi has a sandbox, the web, and the "
    "user's facts. The research tools take minutes and give sources. What would need a person's yes is "
    "refused."
)


def make_server(service: McpService) -> "MCPServer":
    """Return a server with Rumi's tools. The first call imports the MCP package, which takes about 0.5 s."""
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations

    server = MCPServer("rumi", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    looks = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    searches = ToolAnnotations(read_only_hint=True, open_world_hint=True)

    def reporting(context: "Context") -> Report:
        count = 0

        async def report(step: str) -> None:
            nonlocal count
            count += 1
            await context.report_progress(count, None, step)

        return report

    def tool(annotations: "ToolAnnotations | None" = None) -> "Callable[[Work], Work]":
        """Register a tool. A `RumiError` of the tool becomes a protocol error, in the user's language."""

        def add(work: Work) -> Work:
            @wraps(work)
            async def explained(*args: Any, **kwargs: Any) -> str:
                try:
                    return await work(*args, **kwargs)
                except RumiError as error:
                    raise ToolError(error_text(service.language, error)) from None

            server.tool(annotations=annotations)(explained)
            return work

        return add

    @tool()
    async def ask(
        context: Context,
        text: Annotated[str, Field(description="What to do or to answer.")],
        chat: Annotated[str, Field(description="Which conversation to go on with.")] = "",
    ) -> str:
        """Ask Rumi, the user's assistant, for anything; it works in its sandbox and answers in words."""
        return await service.ask(text, chat, reporting(context))

    @tool(searches)
    async def research_web(
        context: Context,
        question: str,
        urls: Annotated[list[str] | None, Field(description="Pages to begin with.")] = None,
    ) -> str:
        """Research a question on the web; the answer cites its sources. It takes minutes."""
        return await service.research("web", question, {"urls": urls or []}, reporting(context))

    @tool(searches)
    async def research_repo(
        context: Context,
        question: str,
        uri: Annotated[str, Field(description="The https address of a git repository.")],
        ref: Annotated[str, Field(description="A branch, tag or commit.")] = "",
    ) -> str:
        """Answer a question from a git repository, with the lines and commits that show it."""
        return await service.research("repo", question, {"uri": uri, "ref": ref}, reporting(context))

    @tool(looks)
    async def tasks(
        id: Annotated[int, Field(ge=0, description="One task, with its answer; 0 lists all.")] = 0,
    ) -> str:
        """List the user's tasks, or show one: state, question, answer."""
        return await service.tasks(id)

    @tool(looks)
    async def recall(query: Query, since: Since = "", until: Until = "", tokens: Tokens = 0) -> str:
        """Find what the user and Rumi said in earlier conversations, and the facts about the user."""
        return await service.recall(query, since, until, tokens)

    @tool()
    async def remember(key: str, value: str) -> str:
        """Remember a fact about the user for all later conversations."""
        return await service.remember(key, value)

    return server


async def serve_stdio(service: McpService) -> None:
    """Serve one program over standard input and output, until the program closes them or until cancelled."""
    # In a thread, because the import would block the event loop.
    server = await trio.to_thread.run_sync(make_server, service)
    await server.run_stdio_async()
