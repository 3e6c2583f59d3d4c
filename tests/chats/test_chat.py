"""The chat actor: busy, stop, reset, retry, history, crashes and restarts."""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors import NodeStatus
from rumi.chats.commands import parse_chat_command
from rumi.chats.events import ChatEvent, Happening, Replied, TurnStarted
from rumi.errors import ConfigError, RumiError
from rumi.models.model import Emit, Model, ModelRequest, Reply, TextDelta, ToolCall
from rumi.platform.texts.replies import went_on
from rumi.sandbox.engine import SandboxError
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Attachment, Incoming
from rumi.store.journal.store import JournalError
from rumi.tasks.schedules.schedules import Schedules
from tests.chats.house import FunctionModel, House, MemorySandboxes, echo, house, reasons, reply_to

T = TypeVar("T")


class FailingDisk:
    """Blocking work in place, which cannot be cancelled; it fails where it is told to."""

    def __init__(self, slow_s: float = 0.0) -> None:
        self.failures = 0
        self.slow_s = slow_s

    async def __call__(self, work: Callable[[], T]) -> T:
        with trio.CancelScope(shield=True):
            await trio.sleep(self.slow_s)
        if self.failures:
            self.failures -= 1
            raise JournalError("the disk failed")
        return work()


def bash(command: str) -> Reply:
    return Reply("", (ToolCall("c1", "bash", json.dumps({"command": command})),))


async def slow(request: ModelRequest, emit: Emit) -> Reply:
    await trio.sleep(100)
    return Reply("finally")


async def test_a_message_is_answered_and_remembered(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        assert await home.ask("one") == "you said one"
        assert await home.ask("two") == "you said two"
        contents = [m.content for m in home.services.context.model_for("cli", "en", "").requests[-1].messages]  # type: ignore[attr-defined]
        assert contents[1:] == ["one", "you said one", "two"]


async def test_a_message_during_a_turn_is_told_that_the_chat_is_busy(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            second = await home.inbox.accept("cli", "hello?")
            assert (await reply_to(events, second)).startswith("⏳ Already working")
            assert await reply_to(events, first) == "finally"


async def test_the_first_message_and_one_behind_a_visible_reply_are_never_busy(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        for number in range(50):
            assert await home.ask(str(number)) == f"you said {number}"


async def thinking(request: ModelRequest, emit: Emit) -> Reply:
    await trio.sleep_forever()
    raise AssertionError


async def streaming(request: ModelRequest, emit: Emit) -> Reply:
    while True:
        emit(TextDelta("more "))
        await trio.sleep(1)


async def working(request: ModelRequest, emit: Emit) -> Reply:
    await trio.lowlevel.checkpoint()
    return bash("sleep 600") if request.messages[-1].role == "user" else Reply("done")


@pytest.mark.parametrize("answer", [thinking, streaming, working])
async def test_stop_ends_the_turn_in_any_phase_and_shares_its_reply(
    autojump_clock: MockClock, tmp_path: Path, answer: Callable[[ModelRequest, Emit], Awaitable[Reply]]
) -> None:
    async with house(tmp_path, answer) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            await trio.sleep(10)
            stop = await home.inbox.accept("cli", "/stop")
            seen: list[ChatEvent] = []
            while True:
                seen.append(await events.receive())
                what = seen[-1].what
                if isinstance(what, Replied) and first in what.messages:
                    break
            assert what.text == "⏹ Stopped."
            assert what.messages == (first, stop)
            assert reasons(seen) == ["stopped"]
        assert not any(home.sandboxes.running.values())
        assert await home.ask("/status") != ""


async def test_a_stop_right_behind_a_message_finds_its_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, thinking) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            await home.inbox.accept("cli", "/stop")
            assert await reply_to(events, first) == "⏹ Stopped."


async def test_the_stop_is_confirmed_only_when_the_sandbox_is_quiet(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    containers = MemorySandboxes()
    containers.quiet_s = 3
    async with house(tmp_path, working, sandboxes=containers) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            await trio.sleep(1)
            began = trio.current_time()
            await home.inbox.accept("cli", "/stop")
            await reply_to(events, first)
            assert trio.current_time() - began >= 3


async def test_stop_without_a_turn_says_so(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        assert await home.ask("/stop") == "Nothing is running."


async def test_many_stops_at_once_share_one_reply(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path, thinking) as home:
        with home.services.hub.listening("cli") as events:
            await home.inbox.accept("cli", "work")
            stops = [await home.inbox.accept("cli", "/stop") for _ in range(5)]
            assert {await reply_to(events, stops[-1])} <= {"⏹ Stopped.", "Nothing is running."}


async def test_reset_removes_sandbox_and_history_and_keeps_files(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, working) as home:
        (tmp_path / "workspace" / "cli").mkdir(parents=True)
        (tmp_path / "workspace" / "cli" / "kept.txt").write_text("x")
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            await trio.sleep(1)
            reset = await home.inbox.accept("cli", "/reset")
            assert await reply_to(events, first) == "⏹ Stopped."
            assert await reply_to(events, reset) == "✨ Session reset: container and history cleared."
        assert home.sandboxes.live == {}
        assert (tmp_path / "workspace" / "cli" / "kept.txt").exists()
        rows = sqlite3.connect(tmp_path / "state.db").execute("SELECT count(*) FROM history").fetchone()
        assert rows == (0,)


async def test_new_begins_a_session_without_the_history_which_stays_stored(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, thinking) as home:
        await home.sandboxes.prepare("cli")
        await home.inbox.accept("cli", "work")
        await trio.sleep(1)
        assert (await home.ask("/new")).startswith("⏳ Already working")
        await home.ask("/stop")
        assert (await home.ask("/new")).startswith(
            "✨ Started a new session. Your earlier conversation is saved"
        )
        assert home.sandboxes.live, "the sandbox and its files go on"
    async with house(tmp_path) as home:
        await home.ask("hello")
        request = home.services.context.model_for("cli", "en", "").requests[-1]  # type: ignore[attr-defined]
        assert [m.content for m in request.messages if m.role == "user"] == ["hello"]
    rows = sqlite3.connect(tmp_path / "state.db").execute("SELECT message FROM history WHERE session = 1")
    assert any("work" in row[0] for row in rows)


async def test_a_messages_model_works_on_its_turn_alone(autojump_clock: MockClock, tmp_path: Path) -> None:
    used: list[str] = []

    def model_for(chat: str, language: str, chosen: str) -> Model:
        if chosen == "gone":
            raise ConfigError("The model 'gone' needs GROQ_API_KEY.", "Set it.")
        used.append(chosen)
        return FunctionModel(echo)

    async with house(tmp_path, model_for=model_for, own_model="own") as home:
        chat = home.chat()
        assert chat.model == "own"
        await chat.use_model("other")
        with pytest.raises(ConfigError):
            await chat.use_model("gone")
        assert chat.model == "other"
        used.clear()
        with home.services.hub.listening("cli") as events:
            assert await reply_to(events, await chat.send("one")) == "you said one"
            assert set(used) == {"other"}
            used.clear()
            assert await home.ask("two") == "you said two"
            assert set(used) == {""}
            number = await home.inbox.accept("cli", "three", model="gone")
            assert await reply_to(events, number) == (
                "❌ The model did not answer: The model 'gone' needs GROQ_API_KEY. Set it. "
                "Send /retry to try again."
            )
            used.clear()
            assert await reply_to(events, await chat.send("/retry")) == "you said three"
            assert set(used) == {"other"}
            used.clear()
            missed = Incoming(chat="cli", text="four", model="fourth")
            (stored,) = await home.services.journal.ask(accept_messages((missed,)))  # type: ignore[misc]
            await home.inbox.accept("cli", "/status")  # the chat reads what it was not woken for
            assert await reply_to(events, stored.id) == "you said four"
            assert set(used) == {"fourth"}


async def test_the_last_exchanges_are_those_of_the_session_without_the_turn_that_runs(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        said = next(m.content for m in reversed(request.messages) if m.role == "user")
        return await (thinking if said == "work" else echo)(request, emit)

    async with house(tmp_path, answer) as home:
        for text in ("old", "/new", "one", "/status", "two", "three", "four"):
            await home.ask(text)
        with home.services.hub.listening("cli") as events:
            data = Attachment("words", source="standard input", text="DATA")
            await reply_to(events, await home.chat().send("five", (data,)))
            await reply_to(events, await home.inbox.accept("cli", "beside it", apart=True))
        said = [("three", "you said three"), ("four", "you said four"), ("five", "you said five")]
        assert [(exchange.question, exchange.answer) for exchange in await home.chat().recent()] == said
        await home.inbox.accept("cli", "work")
        await trio.sleep(1)
        assert [(exchange.question, exchange.answer) for exchange in await home.chat().recent()] == said
        await home.ask("/stop")
        last = (await home.chat().recent())[-1]
        assert (last.question, last.answer) == ("work", "")


async def test_history_survives_a_restart_of_the_program(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.ask("my dog is called Firulais")
    async with house(tmp_path) as home:
        await home.ask("what is its name?")
        request = home.services.context.model_for("cli", "en", "").requests[-1]  # type: ignore[attr-defined]
        assert "my dog is called Firulais" in [m.content for m in request.messages]


async def test_a_session_that_is_over_is_not_in_the_next_prompt(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    clock = [1000.0]
    async with house(tmp_path, session_ttl_s=60, now=lambda: clock[0]) as home:
        await home.ask("old")
        clock[0] += 59
        await home.ask("still there")
        clock[0] += 61
        await home.ask("new")
        request = home.services.context.model_for("cli", "en", "").requests[-1]  # type: ignore[attr-defined]
        assert [m.content for m in request.messages[1:]] == ["new"]


async def test_retry_runs_the_last_message_that_did_not_complete(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    failing = [True]

    async def moody(request: ModelRequest, emit: Emit) -> Reply:
        if failing[0]:
            await trio.sleep_forever()
        return await echo(request, emit)

    async with house(tmp_path, moody) as home:
        assert await home.ask("/retry") == "There is nothing to retry."
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "hard work")
            await home.inbox.accept("cli", "/stop")
            await reply_to(events, first)
        failing[0] = False
        assert await home.ask("something else") == "you said something else"
        assert await home.ask("/retry") == "you said hard work"
        assert await home.ask("/retry") == "There is nothing to retry."


class Bang(Exception):
    pass


def node_of(home: House, chat: str) -> NodeStatus:
    chats = next(child for child in home.root.status().children if child.id == "chats")
    return next(child for child in chats.children if child.id == chat)


async def test_a_crash_is_told_keeps_history_and_queue_and_no_other_chat_notices(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def fragile(request: ModelRequest, emit: Emit) -> Reply:
        if request.messages[-1].content == "bang":
            await trio.sleep(5)
            raise Bang
        await trio.sleep(10)
        return await echo(request, emit)

    async with house(tmp_path, fragile) as home:
        await home.ask("before")
        with home.services.hub.listening() as events:
            other = await home.inbox.accept("other", "calm")
            crashing = await home.inbox.accept("cli", "bang")
            seen: dict[int, str] = {}
            while len(seen) < 2:
                what = (await events.receive()).what
                if isinstance(what, Replied):
                    seen |= dict.fromkeys(what.messages, what.text)
        assert seen[crashing].startswith("❌ Something failed and was restarted.")
        assert seen[other] == "you said calm"
        assert await home.ask("after") == "you said after"
        request = home.services.context.model_for("cli", "en", "").requests[-1]  # type: ignore[attr-defined]
        assert "before" in [m.content for m in request.messages]
        assert "cli" in home.sandboxes.stops


async def test_a_crash_while_judging_loses_neither_that_message_nor_those_behind_it(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rumi.chats import chat as module

    def fragile(text: str) -> object:
        if text == "bang":
            raise Bang
        return parse_chat_command(text)

    monkeypatch.setattr(module, "parse_chat_command", fragile)
    async with house(tmp_path) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "bang")
            second = await home.inbox.accept("cli", "hello")
            replies = {first: "", second: ""}
            while not all(replies.values()):
                what = (await events.receive()).what
                if isinstance(what, Replied):
                    replies |= dict.fromkeys(what.messages, what.text)
        assert replies[first].startswith("❌")
        assert replies[second] == "you said hello"


async def test_a_chat_that_keeps_crashing_is_given_up_and_the_next_message_starts_it_afresh(
    autojump_clock: MockClock,
    tmp_path: Path,
) -> None:
    async def fragile(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        if request.messages[-1].content == "bang":
            raise Bang
        return Reply("fine")

    async with house(tmp_path, fragile) as home:
        assert await home.ask("hello", "other") == "fine"
        told = [await home.ask("bang") for _ in range(4)]
        assert all(text.startswith("❌ Something failed and was restarted.") for text in told[:3])
        assert told[3].startswith("❌ This chat failed several times in a row and was stopped.")
        assert home.inbox.chats.failed["cli"].error == "Bang"
        assert node_of(home, "other").restarts == 0
        assert await home.ask("hello") == "fine"
        assert not home.inbox.chats.failed
        assert node_of(home, "cli").restarts == 0, "it is another one"


async def test_a_turn_that_a_restart_cut_off_goes_on_by_itself(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, thinking) as home:
        await home.inbox.accept("cli", "a long story")
        await wait_all_tasks_blocked()
    async with house(tmp_path) as home:
        await home.inbox.chats.open("cli")
        await home.services.pending.all_replied()
        (waiting,) = await home.chat().undelivered()
        assert waiting.text == f"you said a long story\n\n{went_on('en')}"
        await home.chat().delivered(waiting.delivery)
        assert await home.ask("/retry") == "There is nothing to retry."
    async with house(tmp_path) as home:
        assert await home.chat().undelivered() != []  # the last reply: nobody said that they have it


async def test_every_message_has_exactly_one_reply_in_the_journal(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        with home.services.hub.listening("cli") as events:
            for text in ("a", "b", "/stop", "c", "/nonsense", "/help", "/reset", "/stop"):
                last = await home.inbox.accept("cli", text)
                await trio.sleep(0.5)
            await reply_to(events, last)
            await trio.sleep(300)
    rows = sqlite3.connect(tmp_path / "state.db").execute("SELECT id, reply FROM messages").fetchall()
    assert len(rows) == 8
    assert all(reply is not None for _, reply in rows)


async def test_an_idle_chat_leaves_memory_and_comes_back_with_its_history(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        await home.ask("remember me")
        await trio.sleep(1000)
        assert home.inbox.chats.lookup("cli") is None
        await home.ask("who am I?")
        request = home.services.context.model_for("cli", "en", "").requests[-1]  # type: ignore[attr-defined]
        assert "remember me" in [m.content for m in request.messages]


async def test_chats_go_on_where_the_journal_was_restarted(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The chats stand below the journal and are suspended with it: their mailboxes stay open."""
    disk = FailingDisk()
    async with house(tmp_path, offload=disk) as home:
        assert await home.ask("before") == "you said before"
        disk.failures = 1
        with pytest.raises(RumiError, match="could not be stored"):
            await home.inbox.accept("cli", "lost")
        with trio.fail_after(10):
            assert await home.ask("after") == "you said after"


async def test_what_a_model_writes_can_always_be_stored(autojump_clock: MockClock, tmp_path: Path) -> None:
    async def odd(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        return Reply("half a character: \ud83d")

    async with house(tmp_path, odd) as home:
        assert await home.ask("hello \udcff") == "half a character: \ud83d"
        assert home.root.status().children[0].restarts == 0
    async with house(tmp_path) as home:
        (waiting,) = await home.chat().undelivered()
        assert waiting.text == "half a character: ?"


async def test_a_message_whose_sender_leaves_is_delivered_or_was_never_stored(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    disk = FailingDisk(slow_s=1)
    async with house(tmp_path, offload=disk) as home:
        with home.services.hub.listening("cli") as events:
            with trio.move_on_after(0.5):
                await home.inbox.accept("cli", "hello")
            assert await reply_to(events, 1) == "you said hello"


async def test_a_stop_that_nobody_can_confirm_says_so(autojump_clock: MockClock, tmp_path: Path) -> None:
    class Hanging(MemorySandboxes):
        async def quiet(self, chat_id: str) -> None:
            await trio.sleep(1)
            raise SandboxError("It is not confirmed.")

        async def stop(self, chat_id: str) -> None:
            await self.quiet(chat_id)

    async with house(tmp_path, working, sandboxes=Hanging()) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            await trio.sleep(1)
            await home.inbox.accept("cli", "/stop")
            assert await reply_to(events, first) == "⏹ Stopped.\n⚠️ It is not confirmed."
        assert (await home.ask("/reset")).endswith("cleared.\n⚠️ It is not confirmed.")


async def test_a_stop_right_behind_a_retry_leaves_what_to_retry(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, thinking) as home:
        with home.services.hub.listening("cli") as events:
            for text in ("hard work", "/retry", "/retry"):
                number = await home.inbox.accept("cli", text)
                await home.inbox.accept("cli", "/stop")
                assert await reply_to(events, number) == "⏹ Stopped."
    async with house(tmp_path) as home:
        assert await home.ask("/retry") == "you said hard work"


async def test_commands_that_a_crash_lost_are_told_so_and_are_nothing_to_retry(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, thinking) as home:
        await home.inbox.accept("cli", "work")
        await trio.sleep(1)
        home.sandboxes.quiet_s = 1000
        await home.inbox.accept("cli", "/stop")
        await home.inbox.accept("cli", "/reset")
        await trio.sleep(1)
    async with house(tmp_path) as home:
        texts = [reply.text for reply in await home.chat().undelivered()]
        # The stop was said to this turn, so the turn does not go on; both share a reply.
        assert texts == ["⏹ Stopped.", "⚠️ I was restarted before /reset was done. Send it again."]
        assert await home.ask("/retry") == "you said work"


@pytest.mark.parametrize("command", ["/remind in 5 minutes: tea", "/schedules", "/timezone Europe/Madrid"])
async def test_a_command_that_crashes_its_chat_each_time_ends_and_the_chat_goes_on(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    async def broken(self: Schedules, *_: object) -> str:
        await trio.lowlevel.checkpoint()
        raise ValueError("year 0 is out of range")

    async with house(tmp_path) as home:
        with monkeypatch.context() as patched:
            patched.setattr(Schedules, "command", broken)
            name = command.split()[0]
            assert await home.ask(command) == f"⚠️ I was restarted before {name} was done. Send it again."
            assert await home.ask("one") == "you said one"
        assert "I was restarted" not in await home.ask(command)


async def test_reset_files_in_a_chat_without_files_is_no_crash(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        assert await home.ask("/reset files") == "✨ Session reset: container and history cleared."


def test_a_reader_that_is_far_behind_loses_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    from rumi.chats import hub as module

    monkeypatch.setattr(module, "MAX_WAITING", 3)
    hub = module.Hub()
    events = hub.subscribe("cli")
    told: tuple[Happening, ...] = (
        Replied(1, (1,), "a"),
        *(TurnStarted(str(n)) for n in range(5)),
        Replied(2, (2,), "b"),
    )
    for what in told:
        hub.publish(ChatEvent("cli", "", 0.0, what))
    left = [event.what for event in events._queue]
    assert left == [Replied(1, (1,), "a"), TurnStarted("4"), Replied(2, (2,), "b")]


async def test_a_conversation_that_knows_only_commands_goes_on_with_file_tools(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    calls = {"first": ("bash", {"command": "tee a.txt"}), "then": ("read_file", {"path": "a.txt"})}
    prompts: list[ModelRequest] = []

    async def works(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        prompts.append(request)
        last = request.messages[-1]
        if last.role != "user":
            return Reply(f"that was {last.content[:9]}")
        tool, arguments = calls[last.content]
        return Reply("", (ToolCall(f"c-{tool}", tool, json.dumps(arguments)),))

    async with house(tmp_path, works) as home:
        assert await home.ask("first") == "that was exit code"
    async with house(tmp_path, works) as home:
        await home.ask("then")
    asked = [call.name for message in prompts[-1].messages for call in message.tool_calls]
    assert asked == ["bash", "read_file"]
    assert {"bash", "read_file", "edit_file", "write_file"} <= {tool.name for tool in prompts[-1].tools}
    assert [message.role for message in prompts[-1].messages[1:]] == [
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool"),
    ]
