"""What carries the mark of what came from outside, in the middle of a call and across resets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio
from trio.testing import MockClock

from rumi.agent.events import ConfirmationAsked
from rumi.agent.tool import Calls, Question, Tool, ToolResult
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.write_file import WriteFile
from rumi.chats.context import ChatView
from rumi.chats.events import Replied
from rumi.chats.services import ChatShell
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.sandbox.engine import SandboxError
from tests.chats.house import House, MemorySandboxes, house
from tests.chats.test_confirmations import Page, Visit, obedient
from tests.fakes.tools import Unasked


@dataclass
class Skill(Unasked):
    """Code that reads a page, and goes on with what stands there before its call has ended."""

    view: ChatView
    seen: list[bool] = field(default_factory=list)
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("skill", "Runs code.", {}))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        raise NotImplementedError

    async def call_within(self, arguments: Mapping[str, object], calls: Calls) -> ToolResult:
        read = await calls("page", {})
        self.seen.append(self.view.tainted())
        await calls("bash", {"command": "tee note", "stdin": read.content})
        return ToolResult(True, "it is in the file")


async def test_what_code_writes_between_two_calls_of_its_own_carries_the_mark(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    skills: list[Skill] = []
    visit = Visit()

    def tools_for(view: ChatView) -> tuple[Tool, ...]:
        skills.append(Skill(view))
        return (Page(), visit, skills[-1])

    async with house(tmp_path, obedient, tools_for=tools_for) as home:
        await home.ask("skill")
        assert skills[0].seen == [True]
        await home.ask("/reset")
        assert await _asks(home, "bash cat note ; leak one")
    assert visit.went == []


@dataclass
class Marks:
    """A session that has read something from outside."""

    tainted: bool = True
    files_tainted: bool = False
    turn: str = ""

    async def set_files_tainted(self, tainted: bool) -> None:
        await trio.lowlevel.checkpoint()
        self.files_tainted = tainted


async def test_a_tainted_turn_marks_the_files_when_it_writes_one_and_not_when_it_reads() -> None:
    marks = Marks()
    shell = ChatShell("cli", MemorySandboxes(), marks)  # type: ignore[arg-type]
    await ReadFile(shell).call({"path": "a"})
    await WriteFile(shell).look("/workspace/a")
    assert not marks.files_tainted
    await WriteFile(shell).put("/workspace/a", b"words of others")
    assert marks.files_tainted
    assert (await ReadFile(shell).call({"path": "a"})).tainted, (
        "also where the sandbox's answer is not as expected"
    )
    assert ReadFile(shell).question({"path": "a"}, ()) is None
    assert WriteFile(shell).question({"path": "a", "content": "x"}, ()) is None


class Stubborn(MemorySandboxes):
    """Sandboxes of which nobody can say, for a while, that they are gone."""

    stubborn = True

    async def stop(self, chat_id: str) -> None:
        if self.stubborn:
            raise SandboxError("The sandbox is not known to be gone.", "")
        await super().stop(chat_id)


async def test_files_keep_the_mark_while_a_sandbox_may_still_write_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    visit = Visit()
    sandboxes = Stubborn()
    async with house(tmp_path, obedient, tools_for=lambda view: (Page(), visit), sandboxes=sandboxes) as home:
        await home.ask("page ; bash tee note")
        assert "not known to be gone" in await home.ask("/reset files")
        assert await _asks(home, "bash cat note ; leak one")
        sandboxes.stubborn = False
        await home.ask("/reset files")
        assert not await _asks(home, "bash cat note ; leak two")


async def _asks(home: House, text: str) -> bool:
    """Whether a turn asks for a yes; it gets none."""
    with home.services.hub.listening("cli") as events, trio.fail_after(2000):
        number = await home.inbox.accept("cli", text)
        asked = False
        while True:
            what = (await events.receive()).what
            if isinstance(what, ConfirmationAsked):
                asked = True
                assert await home.inbox.chats.answer("cli", what.id, False)
            if isinstance(what, Replied) and number in what.messages:
                return asked


@dataclass
class Saves(Visit):
    """Saves a word, which needs no yes where the user's message has it."""

    spec: ToolSpec = field(default_factory=lambda: ToolSpec("visit", "Saves.", {}))

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return Question("send_file", {"path": str(arguments["url"])}, (str(arguments["url"]),))


async def test_only_the_words_of_its_own_message_consent_in_a_chat(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    saves = Saves()
    words = "the boiler is old"

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        last = max(place for place, m in enumerate(request.messages) if m.role == "user")
        done = sum(m.role == "tool" for m in request.messages[last:])
        page, save = ToolCall("c0", "page", "{}"), ToolCall("c1", "visit", f'{{"url": "{words}"}}')
        return Reply("", ((page, save)[done],)) if done < 2 else Reply("did it")

    async with house(tmp_path, model, tools_for=lambda view: (Page(), saves)) as home:
        await home.ask("Note that the boiler is old")
        assert saves.went == [words]
        assert await _asks(home, "And the heating?")
        await home.ask("Note again: the boiler is old")
        assert saves.went == [words] * 2
