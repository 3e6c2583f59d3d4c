"""Operations for MCP programs: run turns and research, list tasks, store facts, search conversations."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import trio

from rumi.agent.events import ToolOutput, ToolProgress, ToolStarted, TurnFinished
from rumi.channels.attach.client import RemoteChat, run_task
from rumi.channels.attach.connection import ControlClient
from rumi.chats.events import Replied, turn_of
from rumi.errors import RumiError
from rumi.models.model import Waiting
from rumi.platform.printable import last_lines
from rumi.store.journal.records import Reason
from rumi.texts import Language

CHAT: Final = "mcp"
"""Default chat of MCP programs.

A chat name that a program gives becomes `mcp-NAME`, so that it cannot be the id of another chat.
"""

MOST_CALLS: Final = 16
"""Maximum number of concurrent calls. Additional calls wait."""

STEP_CHARS: Final = 200

NO_ANSWER: Final[frozenset[Reason]] = frozenset({"crashed", "model_error", "stopped", "interrupted"})
"""Reasons for the end of a turn for which the reply is an error message and not an answer."""

Report: TypeAlias = Callable[[str], Awaitable[None]]
"""Reports a progress step of a call to the program."""


class DaemonAccess(Protocol):
    """Connections to the Rumi daemon. They give access only to the data of the local owner.

    Each method starts the daemon if no daemon runs and if starting one is allowed.
    """

    def client(self) -> AbstractAsyncContextManager[ControlClient]:
        """Connect to the daemon's control socket."""
        ...

    def attach(self, chat: str, *, tainted: bool) -> AbstractAsyncContextManager[RemoteChat]:
        """Attach a program to a chat. A turn that the program started ends when the program detaches."""
        ...


@dataclass(frozen=True, slots=True)
class McpService:
    """The operations behind the MCP tools.

    Input from a program is untrusted: its turn is tainted (marked as influenced by untrusted content) from
    the start, its text is never a command, and the turn's questions are answered with no. If `trusted` is
    True, input counts as the user's own. Every method raises `RumiError` with a message for the program. On
    cancellation, a method stops the turn or task that it started.
    """

    daemon: DaemonAccess
    language: Language
    trusted: bool
    call_slots: trio.CapacityLimiter

    async def ask(self, text: str, chat: str, report: Report) -> str:
        """Run a turn with the text as its message, in the chat with that name; return the answer."""
        if not text.strip():
            raise RumiError("There is no text.", "Say in `text` what to do.")
        id = f"{CHAT}-{chat}" if chat else CHAT
        # The slot comes first: calls that wait for it hold no connection to the daemon.
        async with self.call_slots, self.daemon.attach(id, tainted=not self.trusted) as port:
            return await self._turn(port, text, report)

    async def _turn(self, port: RemoteChat, text: str, report: Report) -> str:
        # Before sending, so that no event of the turn is missed.
        events = port.subscribe()
        number = await port.send(text)
        reason: Reason | None = None
        while True:
            event = await events.receive()
            match event.what:
                case Replied(delivery, messages, said) if number in messages:
                    await port.delivered(delivery)
                    if reason is None or reason in NO_ANSWER:
                        raise RumiError("{said}", said=said)
                    return said
                case _ if event.turn != turn_of(number):
                    pass
                case ToolStarted(call):
                    await report(f"{call.name} {call.arguments}"[:STEP_CHARS])
                case ToolProgress(_, step):
                    await report(step[:STEP_CHARS])
                case ToolOutput(_, text):
                    for line in last_lines(text, 1):
                        await report(line[:STEP_CHARS])
                case Waiting(_, why):
                    await report(why)
                case TurnFinished(ended):
                    reason = ended

    async def research(self, kind: str, question: str, options: Mapping[str, object], report: Report) -> str:
        """Run a research task; return its answer with its sources."""
        if not question.strip():
            raise RumiError("There is no question.", "Say in `question` what to find out.")
        request = {"kind": kind, "question": question, "options": options, "model": ""}
        steps, seen = trio.open_memory_channel[str](1)

        def step(text: str) -> None:
            with suppress(trio.WouldBlock):  # a slow program misses steps; the next one replaces this one
                steps.send_nowait(text)

        async def show() -> None:
            async for text in seen:
                await report(text[:STEP_CHARS])

        async with self.call_slots, self.daemon.client() as client, trio.open_nursery() as nursery:
            nursery.start_soon(show)
            done = await run_task(client, {**request, "language": self.language}, step)
            nursery.cancel_scope.cancel()
        if done["state"] == "failed":
            raise RumiError("{answer}", answer=done["answer"])
        return str(done["answer"])

    async def tasks(self, id: int) -> str:
        """Return one task with its answer as JSON; if `id` is 0, return all tasks, latest first."""
        async with self.daemon.client() as client:
            request: dict[str, Any] = {"do": "show", "id": id} if id else {"do": "list"}
            return json.dumps(await client.call("tasks", **request), ensure_ascii=False, indent=2)

    async def recall(self, query: str, since: str, until: str, tokens: int) -> str:
        """Return matching passages of earlier conversations (best first) and facts about the user as JSON."""
        asked = {"query": query, "tokens": tokens, **({"since": since} if since else {})}
        async with self.daemon.client() as client:
            passages = await client.call("recall", **asked, **({"until": until} if until else {}))
            facts = await client.call("memory", do="list", after=0)
        return json.dumps({"passages": passages, "facts": facts["facts"]}, ensure_ascii=False, indent=2)

    async def remember(self, key: str, value: str) -> str:
        """Store a fact about the user.

        An untrusted program is refused, because only the user could confirm its fact.
        """
        if not self.trusted:
            raise RumiError(
                "What a program wants remembered needs a yes of the user, so it was refused.",
                "The user may serve with: rumi mcp serve --trusted",
            )
        async with self.daemon.client() as client:
            answer = await client.call("memory", do="set", key=key, value=value)
        return json.dumps(answer, ensure_ascii=False)
