"""A chat whose commands really change files, and a turn that changes all that can be taken back."""

import json
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import trio

from rumi.agent.tool import Tool
from rumi.agent.tools.forget import ForgetTool
from rumi.agent.tools.remember import RememberTool
from rumi.chats.context import ChatView
from rumi.memory.actor import asking_for_turn
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.chat_ids import LOCAL
from rumi.platform.config.schema import SchedulesSection
from rumi.sandbox.engine import Command, CommandResult, Output
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.tools import schedule_tools
from tests.chats.house import House, InlineOffload, MemorySandboxes, house

NOW = 1_700_000_000.0


class FolderSandboxes(MemorySandboxes):
    """Runs commands in the chat's folder, as this process's user."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        await self.prepare(chat_id)
        workspace = self._folder / chat_id
        workspace.mkdir(parents=True, exist_ok=True)
        return _done(command, workspace)


def _done(command: Command, workspace: Path) -> CommandResult:
    """Run it in place: under a virtual clock, a thread's time would not count."""
    done = subprocess.run(command.argv, input=command.stdin, cwd=workspace, capture_output=True, check=False)
    output = Output(done.stdout, b"", len(done.stdout))
    return CommandResult(done.returncode, output, Output(), 1, "exited", "box")


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(f"c-{name}", name, json.dumps(arguments))


def bash(command: str) -> ToolCall:
    return ToolCall(f"c-{command}", "bash", json.dumps({"command": command}))


FIRST = (
    bash("mkdir d; echo one > d/one; echo two > two; echo keep > keep"),
    call("remember", key="city", value="Rosario"),
    call("remind", text="call", in_minutes=1000),
)
SECOND = (
    bash("rm -r d; echo changed > two; echo new > new"),
    ToolCall("c1", "remember", json.dumps({"key": "dog", "value": "Toby"})),
    ToolCall("c2", "forget", json.dumps({"key": "city"})),
    ToolCall("c3", "remind", json.dumps({"text": "walk", "in_minutes": 2000})),
    ToolCall("c4", "cancel_schedule", json.dumps({"id": 1})),
    ToolCall("c5", "send_file", json.dumps({"path": "two"})),
)
CALLS = {"first": FIRST, "second": SECOND}


async def works(request: ModelRequest, emit: Emit) -> Reply:
    """Makes the calls of its turn, and answers when they are done."""
    await trio.lowlevel.checkpoint()
    last = max(index for index, m in enumerate(request.messages) if m.role == "user")
    if any(m.role == "tool" for m in request.messages[last:]):
        return Reply("done")
    calls = CALLS.get(request.messages[last].content, ())
    return Reply("" if calls else f"heard {request.messages[last].content}", calls)


@asynccontextmanager
async def undoing(path: Path, sandboxes: MemorySandboxes | None = None) -> AsyncIterator[House]:
    """Start a house with memory and schedules whose tools note what turns change."""
    offload = InlineOffload()
    found: list[House] = []

    def schedules() -> Schedules:
        return found[0].schedules

    def tools(view: ChatView) -> tuple[Tool, ...]:
        memory = found[0].services.context.memory
        assert memory is not None
        ask = asking_for_turn(memory, view.turn)

        def present() -> ScheduleRecord:
            return ScheduleRecord(
                *(LOCAL, view.chat, "text", ""),
                language=view.language(),
                model=view.model(),
                tainted=view.tainted(),
                turn=view.turn,
            )

        return (
            RememberTool(ask, LOCAL, view.chat, view.tainted, view.language),
            ForgetTool(ask, LOCAL, view.language),
            *schedule_tools(schedules, present),
        )

    async with house(
        path,
        works,
        sandboxes=sandboxes or FolderSandboxes(path / "workspace"),
        offload=offload,
        remembers=True,
        extract=None,
        now=lambda: NOW,
        tools_for=tools,
        schedule_limits=SchedulesSection(),
    ) as running:
        found.append(running)
        yield running


def state(path: Path) -> dict[str, object]:
    """All that a turn changes: files, facts, schedules, and what prompts show."""
    workspace = path / "workspace" / "cli"
    files = {
        str(entry.relative_to(workspace)): entry.is_dir() or entry.read_text()
        for entry in workspace.rglob("*")
    }
    with closing(sqlite3.connect(path / "state.db")) as db:
        schedules = db.execute("SELECT * FROM schedules ORDER BY id").fetchall()
        history = db.execute("SELECT message FROM history WHERE NOT undone ORDER BY id").fetchall()
    with closing(sqlite3.connect(path / "memory.db")) as db:
        facts = db.execute("SELECT owner, key, value, created, updated FROM facts ORDER BY key").fetchall()
    return {"files": files, "schedules": schedules, "history": history, "facts": facts}
