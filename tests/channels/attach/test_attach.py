"""Windows on the chats of another process: real sockets, the real journal and chats."""

from pathlib import Path

import pytest
import trio
import trio.testing

from actors import ChildSpec, Supervisor
from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.channels.attach.client import DaemonGone, NotAccepting, OpenRequest, attach
from rumi.channels.attach.wire import WireClosed
from rumi.channels.control.attach_server import About
from rumi.channels.control.server import ControlServer
from rumi.chats import events
from rumi.chats.events import VERSION, Queued, Replied, TurnStarted
from rumi.errors import ConfigError, RumiError, UsageError
from rumi.models.model import Emit, Model, ModelRequest, Reply, ToolCall
from rumi.platform.caller import TERMINAL, Caller
from rumi.platform.config.schema import SessionSection
from rumi.platform.logs.audit import read_audit
from rumi.platform.texts.replies import goes_on_later
from rumi.store.journal.inbox import count_messages
from rumi.store.journal.records import Attachment
from tests.agent.skills.making import asked, write_skill
from tests.channels.attach.daemon import DAEMON, attach_server_of, running_daemon
from tests.channels.attach.daemon import obedient as at_work
from tests.channels.attach.test_event_stream import until
from tests.chats.house import FunctionModel, house
from tests.chats.test_confirmations import Page, Visit
from tests.chats.test_confirmations import obedient as asking
from tests.fakes.tools import Reporting

BUSY = "⏳ Already working on something. Wait for it, or send /stop."
STOPPED = "⏹ Stopped."


async def test_a_window_sends_and_sees_the_turn_and_others_see_it_too(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached() as one, daemon.attached() as two:
        assert await one.ask("hello") == "you said hello"
        assert (await two.until(TurnStarted)).text == "hello"
        assert (await two.until(Replied)).text == "you said hello"
        assert (one.words, two.words) == ("you said hello", "you said hello")
        assert (one.remote.model, one.remote.engine) == ("groq:big", "bubblewrap")


async def test_a_windows_time_zone_is_taken_once_and_a_programs_is_not(tmp_path: Path) -> None:
    told = "🕰 I take Pacific/Auckland for your time zone, as your device says."
    async with running_daemon(tmp_path) as daemon:
        for person, tz, tells in (
            (False, "Pacific/Auckland", False),
            (True, "UTC", False),
            (True, ":Pacific/Auckland", True),
            (True, "/usr/share/zoneinfo/Pacific/Auckland", False),
            (True, "America/Lima", False),
        ):
            async with daemon.attached(person=person, tz=tz) as window:
                assert (told in await window.ask("hello")) is tells, tz
                if tells:
                    assert "Pacific/Auckland" in await window.ask("/remind tomorrow 09:00: swim")
        assert await daemon.home.schedules.zone_of("local") == "Pacific/Auckland"


async def test_each_window_has_the_skills_of_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for name in ("one", "two"):
        write_skill(tmp_path / name / ".rumi" / "skills", f"build-{name}")

    def catalogue(project: Path | None = None) -> Catalogue:
        return Catalogue(sources(tmp_path / "home", (), project))

    seen: list[str] = []

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        seen.append("\n".join(message.content for message in request.messages))
        return Reply("done")

    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    async with (
        asked(catalogue(), of_project=catalogue) as skills,
        running_daemon(tmp_path / "home", answer, skills=skills.ask) as daemon,
        daemon.attached("a", project=one) as first,
        daemon.attached("b", project=two) as second,
        daemon.attached("c", project="relative") as third,
    ):
        await first.ask("hello")
        await second.ask("hello")
        await third.ask("hello")
        assert "build-one" in await first.ask("/skills")
        assert "build-one" not in await second.ask("/skills")
        async with daemon.attached("a", project=two) as other:  # the same chat from another folder
            await other.ask("hello")
    names = [{name for name in ("build-one", "build-two") if name in prompt} for prompt in seen]
    assert names[:3] == [{"build-one"}, {"build-two"}, set()]
    assert "build-two" in names[3]
    assert (
        "build-one can not be used" in seen[3] or "build-one" in seen[3].split("what has changed since")[-1]
    )


async def test_a_window_in_the_middle_of_a_turn_gets_its_state(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached() as one:
        await one.send("sleep 60")
        await daemon.until_running("cli", 1)
        async with daemon.attached() as two:
            assert (await two.until(TurnStarted)).text == "sleep 60"
            assert (await two.until(ToolStarted)).arguments == {"command": "sleep 60"}
            assert await two.ask("hi") == BUSY
            assert await two.ask("/stop") == STOPPED
        assert (await one.until(TurnFinished)).reason == "stopped"


async def test_steps_of_a_call_reach_windows_live_events_and_in_number_the_audit_log(tmp_path: Path) -> None:
    tool = Reporting("page one", 0.3, "page two\nis\x1b[2J long", 0.3, "page three", 60.0)

    async def digging(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        return Reply("", (ToolCall("c1", "dig", "{}"),))

    async with (
        running_daemon(tmp_path, digging, tools_for=lambda view: (tool,)) as daemon,
        daemon.stream("events") as wire,
        daemon.attached() as one,
    ):
        await one.send("dig")
        while (step := await one.until(ToolProgress)).step < 3:
            pass
        async with daemon.attached() as late:
            steps = [await late.until(ToolProgress) for _ in range(3)]
            assert steps == [
                ToolProgress("c1", "page one", 1),
                ToolProgress("c1", "page two is[2J long", 2),
                ToolProgress("c1", "page three", 3),
            ]
            assert step == steps[-1]
            assert await late.ask("/stop") == STOPPED
            told = [event.what for event in late.seen]
        assert [what.steps for what in told if isinstance(what, ToolFinished)] == [3]
        await wire.receive()
        live = await until(wire, "replied")
    found = [event for event in live if event["event"] in ("progress", "tool")]
    assert [(event["event"], event["id"], event.get("step"), event.get("steps")) for event in found] == [
        ("progress", "c1", 1, None), ("progress", "c1", 2, None), ("progress", "c1", 3, None),
        ("tool", "c1", None, 3),
    ]  # fmt: skip
    assert found[2]["text"] == "page three"
    audit = list(read_audit(tmp_path / "logs" / "audit.jsonl"))
    assert [line["steps"] for line in audit if line["event"] == "tool"] == [3]
    assert "page" not in (tmp_path / "logs" / "audit.jsonl").read_text()


async def test_what_a_window_hands_on_travels_marked_and_the_holder_bounds_it(tmp_path: Path) -> None:
    seen: list[str] = []

    async def reading(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        seen.extend(message.content for message in request.messages if message.role == "user")
        return Reply("done")

    async with running_daemon(tmp_path, reading) as daemon, daemon.attached() as one:
        context = daemon.home.services.context
        settings = context.settings.model_copy(update={"session": SessionSection(handed_chars=5)})
        object.__setattr__(context, "settings", settings)
        data = Attachment("words", source="standard input", text="\ud800234\n6789")
        number = await one.remote.send("sum it up", (data,))
        assert number in (await one.until(Replied)).messages
    handed_on, own = seen
    assert handed_on.endswith('<page source="standard input">\n234\n</page>')
    assert "Its end is missing" in handed_on
    assert own == "sum it up"


@pytest.mark.parametrize("words", [None, "x", [1], [{}], [{"source": "x"}], [{}] * 11])
async def test_words_that_cannot_be_read_end_the_window_and_nothing_is_sent(
    tmp_path: Path, words: object
) -> None:
    async with running_daemon(tmp_path) as daemon:
        wish = {"version": VERSION, "chat": "cli", "person": True, "language": "en"}
        async with daemon.stream("window", **wish) as wire:
            assert "opened" in await wire.receive()
            await wire.send({"do": "send", "id": 1, "text": "hello", "words": words})
            with pytest.raises(WireClosed):
                await wire.receive()
        assert await daemon.home.open_chats() == ()
        assert not (await daemon.home.services.journal.ask(count_messages())).last_message


async def test_a_question_is_put_in_every_window_and_answered_once(tmp_path: Path) -> None:
    visit = Visit()
    async with running_daemon(tmp_path, asking, tools_for=lambda view: (Page(), visit)) as daemon:
        async with daemon.attached() as one, daemon.attached() as two:
            await one.send("page ; leak WORD")
            question = await one.until(ConfirmationAsked)
            assert (await two.until(ConfirmationAsked)).text == question.text
            assert await two.ask("yes") == BUSY, "nobody has said that it can be read"
            one.remote.shown(question.id)
            async with daemon.attached() as late:
                assert (await late.until(ConfirmationAsked)).id == question.id
                assert await late.ask("yes") == "did it"
            assert (await one.until(ConfirmationEnded)).verdict == "yes"
            assert (await one.until(Replied)).text == "did it"
            assert visit.went == ["http://e.example/?d=WORD"]


async def test_the_turn_of_a_person_whose_window_is_gone_goes_on(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        async with daemon.attached() as one:
            await one.send("sleep 0.3")
            await daemon.until_running("cli", 1)
        async with daemon.attached() as two:
            assert (await two.until(Replied)).text == "you said sleep 0.3"


async def test_a_process_for_windows_alone_ends_when_no_window_turn_or_call_is_left(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, at_work) as home:
        windows = attach_server_of(home, About("bubblewrap", marks={"a.b": "1", "KEY": "2"}))
        windows.open()
        began, ended = trio.Event(), trio.Event()

        async def slow(caller: Caller, request: object) -> None:
            await trio.sleep(7)

        async def end() -> None:
            await windows.wait_until_unused(10, began.wait)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            await trio.sleep(60)
            assert not ended.is_set(), "the command that started it has no window yet"
            assert (await windows.yield_home(TERMINAL, marks={"a.b": "1", "KEY": "2"}))["ends"] is False
            begun = trio.current_time()
            began.set()
            await trio.sleep(5)
            await windows.keeping_alive(slow)(TERMINAL, {})
            await home.inbox.accept("cli", "sleep 0.2")
            assert (await windows.yield_home(TERMINAL))["ends"] is False, "it is at work"
            await ended.wait()
            assert trio.current_time() >= begun + 22


async def test_a_process_for_windows_alone_makes_way_where_nothing_goes_on(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        marks = {"a.b": "1"}
        windows = attach_server_of(daemon.home, About("bubblewrap", marks=marks))
        windows.open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(windows.wait_until_unused, 600, trio.lowlevel.checkpoint)
            assert (await windows.yield_home(TERMINAL, marks=marks))["ends"] is False
            assert (await windows.yield_home(TERMINAL, marks={"a.b": "2"}))["ends"] is True
        service = attach_server_of(daemon.home, About("bubblewrap", service=True))
        service.open()
        assert (await service.yield_home(TERMINAL))["ends"] is False
        async with daemon.attached(marks={"x.y": "1"}) as one:
            assert one.remote.differing_settings == ("x.y",)


async def test_a_window_that_is_gone_has_its_turn_stopped_and_nobody_elses(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached("calm") as calm:
        await calm.send("sleep 60")
        async with daemon.attached("cli", person=False) as one:
            await one.send("sleep 60")
            async with daemon.attached("calm") as guest:
                assert await guest.ask("me too") == BUSY
            await daemon.until_running("calm", 1)
            await daemon.until_running("cli", 1)
        await daemon.until_running("cli", 0)
        await trio.sleep(0.05)
        await daemon.until_running("calm", 1)
        assert await calm.ask("/stop") == STOPPED
        (reply,) = await daemon.home.chat("cli").undelivered()
        assert reply.text == STOPPED, "whoever comes next is shown it"


async def test_what_nobody_has_read_is_shown_to_the_next_window_once(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await daemon.home.ask("hello")
        async with daemon.attached() as one:
            (reply,) = await one.remote.undelivered()
            assert reply.text == "you said hello"
            await one.remote.delivered(reply.delivery)
        async with daemon.attached() as one:
            assert await one.remote.undelivered() == []


async def test_what_another_window_is_just_being_told_is_no_earlier_reply(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        async with daemon.attached() as one:
            await one.ask("hello")
            async with daemon.attached() as two:
                assert await two.remote.undelivered() == []
        async with daemon.attached() as two:
            assert [reply.text for reply in await two.remote.undelivered()] == ["you said hello"]


async def test_a_window_that_reads_nothing_holds_up_neither_its_chat_nor_other_windows(
    tmp_path: Path,
) -> None:
    long = "x" * 300_000
    async with running_daemon(tmp_path) as daemon:
        wish = {"version": VERSION, "chat": "cli", "person": True, "language": "en"}
        async with daemon.stream("window", **wish), daemon.attached() as other:
            for _ in range(5):
                assert await other.ask(long) == f"you said {long}"
            assert await other.ask("/stop") == "Nothing is running."


async def test_when_the_holder_ends_its_windows_get_the_last_words_and_then_the_news(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        opened, replied = trio.Event(), trio.Event()

        async def look() -> None:
            with pytest.raises(BaseExceptionGroup) as raised:
                async with attach(tmp_path / "run" / "control.sock", TERMINAL, wish, DAEMON) as remote:
                    events = remote.subscribe()
                    await remote.send("hello")
                    opened.set()
                    while True:
                        if isinstance((await events.receive()).what, Replied):
                            replied.set()
            (error,) = raised.value.exceptions
            assert isinstance(error, DaemonGone)
            assert str(error) == f"{DAEMON} has ended, and this window with it. Start again with: rumi chat"

        wish = OpenRequest("cli", True, "en")
        async with running_daemon(tmp_path) as daemon:
            nursery.start_soon(look)
            await opened.wait()
            await daemon.home.services.pending.all_replied()
            await daemon.server.wait_until_idle()
        with trio.fail_after(30):
            await replied.wait()


async def test_a_home_is_not_taken_while_its_service_restarts(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = attach_server_of(daemon.home, About("docker", service=True))
        control = Supervisor("control")
        path = tmp_path / "run" / "service.sock"
        control.add(ChildSpec("server", lambda: ControlServer(path, {}, {"window": service.serve})))
        async with control.running():
            with pytest.raises(NotAccepting):  # it starts: it is waited for
                async with attach(path, TERMINAL, OpenRequest("cli", True, "en"), DAEMON):
                    pass
            service.open()
            service.wind_down()
            with pytest.raises(RumiError, match="about to end") as raised:
                async with attach(path, TERMINAL, OpenRequest("cli", True, "en"), DAEMON):
                    pass
            assert not isinstance(raised.value, NotAccepting)


async def test_where_nobody_listens_or_somebody_is_about_to_end_there_is_no_window(tmp_path: Path) -> None:
    with pytest.raises(NotAccepting):
        async with attach(tmp_path / "none", TERMINAL, OpenRequest("cli", True, "en"), DAEMON):
            pass
    async with running_daemon(tmp_path) as daemon, daemon.attached() as one:
        daemon.server.wind_down()
        with pytest.raises(NotAccepting):
            async with attach(daemon.path, TERMINAL, OpenRequest("cli", True, "en"), DAEMON):
                pass
        with pytest.raises(RumiError, match="about to end"):
            await one.send("hello")
        daemon.server.open()
        await one.send("sleep 60")
        daemon.server.wind_down()
        await daemon.until_running("cli", 1)
        assert await one.ask("/stop") == STOPPED, "what runs can be stopped to the end"


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"chat": "tg1"}, "one of Telegram's chats"),
        ({"chat": "no id"}, "not a chat id"),
    ],
)
async def test_what_a_window_cannot_have_is_wrong_usage(
    tmp_path: Path, wish: dict[str, str], why: str
) -> None:
    async with running_daemon(tmp_path) as daemon:
        with pytest.raises(UsageError, match=why):
            async with daemon.attached(**wish):
                pass


async def test_each_window_has_a_model_of_its_own_and_one_that_cannot_be_used_is_refused(
    tmp_path: Path,
) -> None:
    def model_for(chat: str, language: str, chosen: str) -> Model:
        if chosen == "groq:none":
            raise ConfigError("The model 'groq:none' needs GROQ_API_KEY.", "Set it.")

        async def answer(request: ModelRequest, emit: Emit) -> Reply:
            await trio.lowlevel.checkpoint()
            return Reply(f"of {chosen or 'the process'}")

        return FunctionModel(answer)

    marks = {"model.default": "another", "sandbox.backend": "another"}
    async with running_daemon(tmp_path, model_for=model_for) as daemon:
        async with (
            daemon.attached(model="groq:big") as one,
            daemon.attached(model="offline", marks=marks) as two,
        ):
            assert (one.remote.model, two.remote.model) == ("groq:big", "offline")
            assert two.remote.differing_settings == ("sandbox.backend",), "its model is its own"
            assert await one.ask("hello") == "of the process"
            assert await two.ask("hello") == "of offline"
            with pytest.raises(UsageError, match="needs GROQ_API_KEY"):
                await two.remote.use_model("groq:none")
            await two.remote.use_model("groq:big")
            assert await two.ask("hello") == "of the process"
            assert [exchange.answer for exchange in await one.remote.recent()] == [
                "of the process", "of offline", "of the process",
            ]  # fmt: skip
        async with daemon.attached(model="groq:none", marks=marks) as three:
            assert three.remote.model == "groq:big"
            assert three.remote.differing_settings == ("model.default", "sandbox.backend")
        with pytest.raises(UsageError, match="needs GROQ_API_KEY"):
            async with daemon.attached(model="groq:none", must=True):
                pass


async def test_a_new_session_begins_unless_somebody_is_at_work_in_the_old_one(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached() as one:
        await one.ask("hello")
        async with daemon.attached(new=True) as two:
            assert await two.ask("again") == "you said again"
            model = daemon.home.services.context.model_for("cli", "en", "")
            assert "hello" not in [message.content for message in model.requests[-1].messages]  # type: ignore[attr-defined]
            await one.send("sleep 60")
            await daemon.until_running("cli", 1)
            with pytest.raises(RumiError, match="Already working"):
                async with daemon.attached(new=True):
                    pass
            assert await two.ask("/stop") == STOPPED


async def test_at_the_end_of_the_process_turns_are_interrupted_and_windows_told(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached() as one:
        await one.send("sleep 60")
        await daemon.until_running("cli", 1)
        await daemon.server.finish()
        assert (await one.until(Queued)).text == goes_on_later("en")


async def test_a_window_that_does_not_understand_an_event_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(events._NAMES, Thinking, "from the future")
    async with running_daemon(tmp_path) as daemon, daemon.attached() as client:
        await client.send("hello")
        with pytest.raises(DaemonGone, match="another version"):
            await client.until(Replied)
        over = client.remote.final_error()
    assert over is not None
    assert "another version" in over.message


async def test_nonsense_and_other_versions_are_no_windows(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        async with daemon.stream("window", version=99, chat="cli") as wire:
            assert "another version" in str((await wire.receive())["error"])
        for nonsense in ({"do": "dance"}, {"do": "delivered", "delivery": 10**30}):
            async with daemon.stream("window", version=VERSION, chat="cli", person=True) as wire:
                await wire.receive()
                await wire.send(nonsense)
                with pytest.raises(WireClosed):
                    await wire.receive()
        async with daemon.attached() as one:
            assert await one.ask("hello") == "you said hello"
