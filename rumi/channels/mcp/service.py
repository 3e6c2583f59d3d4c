"""What programs may ask for: a turn, research, tasks, facts and what was said."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import trio

from rumi.agent.events import ToolProgress, ToolStarted, TurnFinished
from rumi.channels.attach.client import RemoteChat, run_task
from rumi.channels.attach.connection import ControlClient
from rumi.chats.events import Replied, turn_of
from rumi.errors import RumiError
from rumi.models.model import Waiting
from rumi.platform.texts.language import Language
from rumi.store.journal.records import Reason

CHAT: Final = "mcp"
"""The chat of programs; each other name that one gives becomes `mcp-NAME`, so that it meets no other chat."""

MOST_CALLS: Final = 16
"""Calls that work at the same time; further ones wait."""

STEP_CHARS: Final = 200

NO_ANSWER: Final[frozenset[Reason]] = frozenset({"crashed", "model_error", "stopped", "interrupted"})
"""Ends of a turn whose reply is an error, not an answer."""

Report: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows the program a step of its call."""


class DaemonAccess(Protocol):
    """Ways to the process that holds the home, for a caller that sees the rows of the home's owner alone.

    Each starts that process if none runs and it may.
    """

    def client(self) -> AbstractAsyncContextManager[ControlClient]:
        """Connect to its control socket."""
        ...

    def attach(self, chat: str, *, tainted: bool) -> AbstractAsyncContextManager[RemoteChat]:
        """Open a program's window on a chat: the turn that it begins ends with it."""
        ...


@dataclass(frozen=True, slots=True)
class McpService:
    """The work behind the tools.

    What a program sends is from outside: its turn is tainted from the start, its text is no command, and a
    question of the turn is answered with no. With `trusted` it counts as what the user says. Every method
    raises `RumiError` with a sentence for the program. Cancelled, the turn or task that it began is stopped.
    """

    daemon: DaemonAccess
    language: Language
    trusted: bool
    call_slots: trio.CapacityLimiter

    async def ask(self, text: str, chat: str, report: Report) -> str:
        """Run a turn about the text in the chat of that name; return its answer."""
        if not text.strip():
            raise RumiError("There is no text.", "Say in `text` what to do.")
        id = f"{CHAT}-{chat}" if chat else CHAT
        async with self.call_slots, self.daemon.attach(id, tainted=not self.trusted) as port:
            return await self._turn(port, text, report)

    async def _turn(self, port: RemoteChat, text: str, report: Report) -> str:
        events = port.subscribe()
        number = await port.send(text)
        reason: Reason | None = None
        while True:
            event = await events.receive()
            match event.what:
                case Replied(delivery, messages, said) if number in messages:
                    await port.delivered(delivery)
                    if reason is None or reason in NO_ANSWER:
                        raise RumiError(said)
                    return said
                case _ if event.turn != turn_of(number):
                    pass
                case ToolStarted(call):
                    await report(f"{call.name} {call.arguments}"[:STEP_CHARS])
                case ToolProgress(_, step):
                    await report(step[:STEP_CHARS])
                case Waiting(_, why):
                    await report(why)
                case TurnFinished(ended):
                    reason = ended

    async def research(self, kind: str, question: str, options: Mapping[str, object], report: Report) -> str:
        """Run a research; return its answer with its sources."""
        if not question.strip():
            raise RumiError("There is no question.", "Say in `question` what to find out.")
        request = {"kind": kind, "question": question, "options": options, "model": ""}
        steps, seen = trio.open_memory_channel[str](1)

        def step(text: str) -> None:
            with suppress(trio.WouldBlock):  # the program is slow, and the next step says more
                steps.send_nowait(text)

        async def show() -> None:
            async for text in seen:
                await report(text[:STEP_CHARS])

        async with self.call_slots, self.daemon.client() as client, trio.open_nursery() as nursery:
            nursery.start_soon(show)
            done = await run_task(client, {**request, "language": self.language}, step)
            nursery.cancel_scope.cancel()
        if done["state"] == "failed":
            raise RumiError(str(done["answer"]))
        return str(done["answer"])

    async def tasks(self, id: int) -> str:
        """Return the task of that number with its answer, or with 0 all tasks, the latest first, as JSON."""
        async with self.daemon.client() as client:
            request: dict[str, Any] = {"do": "show", "id": id} if id else {"do": "list"}
            return json.dumps(await client.call("tasks", **request), ensure_ascii=False, indent=2)

    async def recall(self, query: str, since: str, until: str) -> str:
        """Return what was said, the best passages first, with dates, and facts about the user, as JSON."""
        asked = {"query": query, **({"since": since} if since else {})}
        async with self.daemon.client() as client:
            passages = await client.call("recall", **asked, **({"until": until} if until else {}))
            facts = await client.call("memory", do="list", after=0)
        return json.dumps({"passages": passages, "facts": facts["facts"]}, ensure_ascii=False, indent=2)

    async def remember(self, key: str, value: str) -> str:
        """Store a fact about the user. A program that is not trusted would need a yes, so it is refused."""
        if not self.trusted:
            raise RumiError(
                "What a program wants remembered needs a yes of the user, so it was refused.",
                "The user may serve with: rumi mcp serve --trusted",
            )
        async with self.daemon.client() as client:
            answer = await client.call("memory", do="set", key=key, value=value)
        return json.dumps(answer, ensure_ascii=False)
