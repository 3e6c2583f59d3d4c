"""The sandbox actor and the keeper of intents, over an engine of dicts and in virtual time."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from actors import Supervisor
from rumi.sandbox.disk import Disk
from rumi.sandbox.engine import Command, SandboxError, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.use import Processes, only_frees
from tests.fakes.containers import FakeBox, FakeEngine, disk_with_space

LIMITS = SandboxLimits(timeout_s=5, workspace_bytes=1000, workspace_files=10, idle_ttl_s=60, output_limit=100)


@dataclass
class FakeUse:
    bytes: int = 0
    files: int = 0
    hidden: bool = False


class Scale:
    """What the workspaces hold, by what the test says."""

    def __init__(self) -> None:
        self.use = FakeUse()
        self.asked = 0

    async def __call__(self, path: Path, processes: Processes) -> FakeUse:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        return replace(self.use)


@dataclass
class Bench:
    engine: FakeEngine
    sandboxes: Sandboxes
    scale: Scale
    root: Supervisor


@asynccontextmanager
async def running(
    home: Path, engine: FakeEngine | None = None, limits: SandboxLimits = LIMITS
) -> AsyncIterator[Bench]:
    engine, scale, root = engine or FakeEngine(), Scale(), Supervisor("root")
    disk = Disk(home, statvfs=disk_with_space)
    sandboxes = add_sandboxes(root, engine, limits, home, measure=scale, disk=disk)
    async with root.running():
        yield Bench(engine, sandboxes, scale, root)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running(tmp_path) as bench:
        yield bench


def sleep(seconds: float) -> Command:
    return Command(("sleep", str(seconds)))


async def test_a_box_is_made_once_for_a_chat_and_once_for_all_who_ask_at_the_same_time(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(bench.sandboxes.prepare, "a")
    await bench.sandboxes.run("a", sleep(1))
    assert bench.engine.created == ["a"]
    assert bench.sandboxes.container_id("a") == "id-0"


async def test_time_to_make_the_box_is_not_the_commands(autojump_clock: MockClock, bench: Bench) -> None:
    bench.engine.create_s = 20
    result = await bench.sandboxes.run("a", sleep(4))
    assert (result.ended, result.exit_code, result.duration_ms) == ("exited", 0, 4000)


async def test_a_timeout_kills_and_says_137(autojump_clock: MockClock, bench: Bench) -> None:
    began = trio.current_time()
    result = await bench.sandboxes.run("a", sleep(100))
    assert (result.ended, result.exit_code) == ("timeout", 137)
    assert 5 <= trio.current_time() - began < 6
    assert bench.engine.live["a"].running == []


async def test_who_gives_up_on_a_command_leaves_when_nothing_runs(
    autojump_clock: MockClock, bench: Bench
) -> None:
    with trio.move_on_after(1):
        await bench.sandboxes.run("a", sleep(100))
    assert bench.engine.live["a"].running == []
    assert (await bench.sandboxes.run("a", Command(("say", "next")))).stdout.text() == "next"


async def test_what_a_command_leaves_behind_is_ended_with_it(autojump_clock: MockClock, bench: Bench) -> None:
    await bench.sandboxes.run("a", Command(("fork",)))
    assert bench.engine.live["a"].running == []


async def test_both_streams_are_kept_however_it_ended(autojump_clock: MockClock, bench: Bench) -> None:
    result = await bench.sandboxes.run("a", Command(("say", "x" * 1000)))
    assert result.stdout.total_bytes == 1000
    assert len(result.stdout.head) + len(result.stdout.tail) == LIMITS.output_limit
    assert result.stderr.text() == "err"


async def test_a_box_that_was_removed_meanwhile_is_made_again_and_the_command_runs(
    autojump_clock: MockClock, bench: Bench
) -> None:
    await bench.sandboxes.prepare("a")
    await bench.engine.remove("a")
    result = await bench.sandboxes.run("a", Command(("say", "hi")))
    assert (result.ended, result.container_id) == ("exited", "id-1")
    assert bench.engine.commands == [("a", "say")]


async def test_a_box_that_goes_during_a_command_loses_it_and_the_next_gets_a_new_one(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with trio.open_nursery() as nursery:

        async def pull_away() -> None:
            await trio.sleep(1)
            await bench.engine.remove("a")

        nursery.start_soon(pull_away)
        result = await bench.sandboxes.run("a", sleep(3))
    assert (result.ended, result.exit_code) == ("lost", None)
    assert (await bench.sandboxes.run("a", sleep(1))).container_id == "id-1"


async def test_a_box_of_which_no_end_is_proved_is_removed(autojump_clock: MockClock, bench: Bench) -> None:
    bench.engine.failing.add("kill")
    with trio.move_on_after(1):
        await bench.sandboxes.run("a", sleep(100))
    assert bench.engine.live == {}
    bench.engine.failing.clear()
    assert (await bench.sandboxes.run("a", sleep(1))).ended == "exited"


async def test_nobody_is_told_of_an_end_that_nothing_confirms(
    autojump_clock: MockClock, bench: Bench
) -> None:
    await bench.sandboxes.prepare("a")
    bench.engine.hanging |= {"kill", "remove"}
    with pytest.raises(SandboxError, match="not confirmed"):
        await bench.sandboxes.run("a", sleep(1))
    with pytest.raises(SandboxError, match="not confirmed"):
        await bench.sandboxes.quiet("a")
    bench.engine.wake()
    await bench.sandboxes.quiet("a")
    assert bench.engine.live == {}


async def test_stopping_is_bounded_also_when_the_daemon_hangs(
    autojump_clock: MockClock, bench: Bench
) -> None:
    await bench.sandboxes.prepare("a")
    bench.engine.hanging |= {"kill", "remove"}
    began = trio.current_time()
    with trio.move_on_after(1):
        await bench.sandboxes.run("a", sleep(100))
    assert trio.current_time() - began < 35
    bench.engine.wake()


async def test_quiet_makes_no_box(autojump_clock: MockClock, bench: Bench) -> None:
    await bench.sandboxes.quiet("a")
    assert bench.engine.created == []


async def test_stop_ends_what_runs_and_removes_the_box(autojump_clock: MockClock, bench: Bench) -> None:
    async with trio.open_nursery() as nursery:

        async def stopped() -> None:
            with pytest.raises(SandboxError, match="stopped"):
                await bench.sandboxes.run("a", sleep(4))

        nursery.start_soon(stopped)
        await trio.sleep(1)
        began = trio.current_time()
        await bench.sandboxes.stop("a")
    assert trio.current_time() - began < 1
    assert bench.engine.live == {}


async def test_an_idle_box_goes_and_comes_back_when_it_is_needed(
    autojump_clock: MockClock, bench: Bench
) -> None:
    await bench.sandboxes.run("a", sleep(1))
    await trio.sleep(LIMITS.idle_ttl_s + 5)
    assert bench.engine.live == {}
    assert bench.sandboxes.container_id("a") == ""
    assert (await bench.sandboxes.run("a", sleep(1))).container_id == "id-1"


async def test_a_long_command_is_no_idleness(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with running(tmp_path, limits=replace(LIMITS, timeout_s=500)) as bench:
        assert (await bench.sandboxes.run("a", sleep(300))).container_id == "id-0"
        assert bench.engine.created == ["a"]


# The workspace


async def test_a_workspace_that_fills_ends_the_command(autojump_clock: MockClock, bench: Bench) -> None:
    async with trio.open_nursery() as nursery:

        async def fill() -> None:
            await trio.sleep(1)
            bench.scale.use = FakeUse(5000, 3)

        nursery.start_soon(fill)
        result = await bench.sandboxes.run("a", sleep(4))
    assert (result.ended, result.exit_code) == ("workspace_full", 137)
    assert result.duration_ms < 2500


async def test_over_the_limit_only_what_frees_space_runs(autojump_clock: MockClock, bench: Bench) -> None:
    bench.scale.use = FakeUse(5000, 3)
    refused = await bench.sandboxes.run("a", Command(("say", "x")))
    assert (refused.ended, refused.exit_code) == ("workspace_full", None)
    assert (await bench.sandboxes.run("a", Command(("rm", "x")))).ended == "exited"
    assert bench.engine.commands == [("a", "rm")]
    bench.scale.use = FakeUse(500, 3)
    assert (await bench.sandboxes.run("a", Command(("say", "x")))).ended == "exited"


@pytest.mark.parametrize(
    ("argv", "may"),
    [
        (("rm", "-r", "x"), True),
        (("tee", "x"), False),
        (("sh", "-c", "rm *; ls | wc -l"), True),
        (("sh", "-c", "cd a && find . -delete 2> /dev/null"), True),
        (("sh", "-c", "true > x; ls 2>&1"), True),
        (("sh", "-c", "cat x > y"), False),
        (("sh", "-c", "ls >> y"), False),
        (("sh", "-c", "rm x; tee y < z"), False),
        (("sh", "-c", "yes | cat"), False),
        (("sh", "-c", "rm $(x)"), False),
        (("sh", "x"), False),
        (("bash", "-c", "rm x; : > y"), True),
        (("bash", "-c", "rm x", "name"), False),
    ],
)
def test_a_script_frees_space_if_all_its_programs_do(argv: tuple[str, ...], may: bool) -> None:
    assert only_frees(argv) is may


async def test_a_command_that_ended_over_the_limit_is_told_so(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with trio.open_nursery() as nursery:

        async def fill() -> None:
            await trio.sleep(0.19)
            bench.scale.use = FakeUse(5000, 3)

        await bench.sandboxes.prepare("a")
        nursery.start_soon(fill)
        result = await bench.sandboxes.run("a", sleep(0.195))
    assert (result.ended, result.exit_code) == ("workspace_full", 0)


# Commands that no engine can take


@pytest.mark.parametrize("argv", [(), ("a\0b",), ("echo", "\ud800")])
async def test_words_that_are_no_text_are_refused_and_nothing_crashes(
    autojump_clock: MockClock, bench: Bench, argv: tuple[str, ...]
) -> None:
    with pytest.raises(SandboxError, match="cannot be run"):
        await bench.sandboxes.run("a", Command(argv))
    assert (await bench.sandboxes.run("a", sleep(1))).ended == "exited"


# Intents


async def test_a_create_that_is_given_up_half_way_is_removed(autojump_clock: MockClock, bench: Bench) -> None:
    bench.engine.create_s = 10
    with trio.move_on_after(1):
        await bench.sandboxes.prepare("a")
    assert "a" in bench.engine.live
    await trio.sleep(20)
    assert bench.engine.live == {}


async def test_giving_up_does_not_wait_for_a_daemon_that_hangs(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.engine.hanging.add("create")
    began = trio.current_time()
    with trio.move_on_after(1):
        await bench.sandboxes.prepare("a")
    assert trio.current_time() - began < 2
    await trio.sleep(100)
    assert "a" in bench.engine.live
    bench.engine.wake()
    await trio.sleep(1)
    assert bench.engine.live == {}


async def test_a_hanging_daemon_is_told_after_a_while(autojump_clock: MockClock, bench: Bench) -> None:
    bench.engine.hanging.add("create")
    with pytest.raises(SandboxError, match="not ready"):
        await bench.sandboxes.prepare("a")
    bench.engine.wake()


async def test_a_successor_waits_until_its_predecessor_is_gone(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.engine.hanging.add("create")
    with trio.move_on_after(1):
        await bench.sandboxes.prepare("a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.sandboxes.prepare, "a")
        await trio.sleep(5)
        assert bench.engine.created == ["a"]
        bench.engine.wake()
    assert bench.engine.created == ["a", "a"]
    assert bench.engine.removed == ["a"]


async def test_a_removal_is_tried_again_until_it_is_confirmed(
    autojump_clock: MockClock, bench: Bench
) -> None:
    await bench.sandboxes.prepare("a")
    bench.engine.failing.add("remove")
    with pytest.raises(SandboxError, match="not confirmed"):
        await bench.sandboxes.stop("a")
    await trio.sleep(60)
    assert "a" in bench.engine.live
    bench.engine.failing.clear()
    await trio.sleep(10)
    assert bench.engine.live == {}


async def test_without_an_engine_callers_soon_get_the_reason_until_it_is_back(
    autojump_clock: MockClock, bench: Bench
) -> None:
    await bench.sandboxes.prepare("a")
    bench.engine.failing |= {"remove", "create"}
    began = trio.current_time()
    with pytest.raises(SandboxError, match=r"container is gone\. remove fails"):
        await bench.sandboxes.stop("a")
    assert trio.current_time() - began < 5  # an engine that is being restarted would have been waited for
    await trio.sleep(60)
    for _ in range(2):
        began = trio.current_time()
        with pytest.raises(SandboxError, match="remove fails"):
            await bench.sandboxes.prepare("a")
        assert trio.current_time() < began + 1
    bench.engine.failing.clear()
    await bench.sandboxes.prepare("a")
    assert trio.current_time() < began + 1
    assert bench.engine.created == ["a", "a"]


async def test_a_machine_that_lets_nothing_be_made_or_removed_is_one_chats_news_and_ends_no_other_box(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EMFILE, "Too many open files")

    await bench.sandboxes.prepare("a")
    with monkeypatch.context() as machine:
        machine.setattr(bench.engine, "create", refuse)
        machine.setattr(bench.engine, "remove", refuse)
        with pytest.raises(SandboxError, match="Too many open files"):
            await bench.sandboxes.prepare("b")
        await trio.sleep(10)
    await bench.sandboxes.prepare("b")
    assert bench.engine.created == ["a", "b"]
    assert bench.engine.removed == []


async def test_a_failed_create_is_an_error_and_leaves_nothing(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.engine.failing.add("create")
    with pytest.raises(SandboxError, match="create fails"):
        await bench.sandboxes.prepare("a")
    bench.engine.failing.clear()
    await bench.sandboxes.prepare("a")
    assert bench.engine.created == ["a", "a"]


async def test_leftovers_of_an_earlier_process_are_removed_at_the_start(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    engine = FakeEngine()
    engine.live = {"old": FakeBox(engine, "old", "x"), "a": FakeBox(engine, "a", "y")}
    async with running(tmp_path, engine) as bench:
        await bench.sandboxes.prepare("a")
        await trio.sleep(1)
        assert list(engine.live) == ["a"]
        assert bench.sandboxes.container_id("a") == "id-0"


async def test_leftovers_are_found_when_the_daemon_answers_later(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    engine = FakeEngine()
    engine.live = {"old": FakeBox(engine, "old", "x")}
    engine.hanging.add("list")
    async with running(tmp_path, engine) as bench:
        await bench.sandboxes.prepare("a")
        engine.wake()
        await trio.sleep(10)
        assert list(engine.live) == ["a"]


async def test_a_leftover_is_removed_before_its_successor_is_made_also_while_no_list_has_come(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    engine = FakeEngine()
    engine.live = {"a": FakeBox(engine, "a", "x")}
    engine.hanging.add("list")
    async with running(tmp_path, engine) as bench:
        await bench.sandboxes.prepare("a")
        assert engine.removed == ["a"]
        assert bench.sandboxes.container_id("a") == "id-0"


async def test_a_stop_proves_the_end_of_a_leftover_also_while_no_list_has_come(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    engine = FakeEngine()
    engine.live = {"a": FakeBox(engine, "a", "x")}
    engine.hanging.add("list")
    async with running(tmp_path, engine) as bench:
        await bench.sandboxes.stop("a")
        assert engine.live == {}


async def test_at_the_end_everything_is_removed_and_the_end_is_bounded(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    engine = FakeEngine()
    async with running(tmp_path, engine) as bench:
        for chat in "abc":
            await bench.sandboxes.prepare(chat)
    assert engine.live == {}
    async with running(tmp_path, engine) as bench:
        await bench.sandboxes.prepare("a")
        engine.hanging |= {"remove", "kill", "list"}
        began = trio.current_time()
    assert trio.current_time() - began < 60


async def test_a_crash_of_the_sandbox_leaves_no_box(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.sandboxes.prepare("a")

    async def broken(*_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(FakeBox, "execute", broken)
    with pytest.raises(SandboxError, match="ActorCrashed"):
        await bench.sandboxes.run("a", sleep(1))
    await trio.sleep(1)
    assert bench.engine.live == {}


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["run", "prepare", "cancel", "stop", "pull", "fail", "hang", "repair", "crash", "wait"]
        ),
        st.sampled_from("abc"),
        st.floats(0.0, 8.0, allow_nan=False),
    ),
    max_size=20,
)


@given(history=OPERATIONS, seed=st.random_module())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_boxes_are_live_chats_after_any_history(
    tmp_path: Path, history: list[tuple[str, str, float]], seed: object
) -> None:
    async def live() -> None:
        engine = FakeEngine()
        with trio.fail_after(3000):
            async with running(tmp_path, engine) as bench, trio.open_nursery() as nursery:
                for what, chat, seconds in history:
                    await happen(bench, nursery, what, chat, seconds)
                engine.wake()
                engine.failing.clear()
                await trio.sleep(200)
                for chat in "abc":
                    await bench.sandboxes.quiet(chat)
                known = {chat for chat in "abc" if bench.sandboxes.container_id(chat)}
                assert set(engine.live) == known
                assert all(box.running == [] for box in engine.live.values())
                assert all(
                    engine.live[chat].container_id == bench.sandboxes.container_id(chat) for chat in known
                )
                # Idle, all are gone.
                await trio.sleep(LIMITS.idle_ttl_s + 10)
                assert engine.live == {}
            assert engine.live == {}

    trio.run(live, clock=MockClock(autojump_threshold=0))


async def happen(bench: Bench, nursery: trio.Nursery, what: str, chat: str, seconds: float) -> None:
    engine, sandboxes = bench.engine, bench.sandboxes

    async def attempt(limit_s: float) -> None:
        with trio.move_on_after(limit_s):
            with suppress(SandboxError):
                await sandboxes.run(chat, sleep(seconds))

    async def stop() -> None:
        with suppress(SandboxError):
            await sandboxes.stop(chat)

    match what:
        case "run":
            nursery.start_soon(attempt, 1000)
        case "cancel":
            nursery.start_soon(attempt, seconds / 4)
        case "prepare":
            nursery.start_soon(attempt, 0.05)
        case "stop":
            nursery.start_soon(stop)
        case "pull":
            engine.live.pop(chat, FakeBox(engine, chat, "")).gone.set()
        case "fail":
            engine.failing.add("create" if seconds < 3 else "remove" if seconds < 6 else "kill")
        case "hang":
            engine.hanging.add("create" if seconds < 3 else "remove" if seconds < 6 else "kill")
        case "repair":
            engine.failing.clear()
            engine.wake()
        case _:
            await trio.sleep(seconds)
