"""A schedule's command runs without a model; its output is sent if there is any, and a failure always."""

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.agent.permissions.rights import Rights
from rumi.chats.people.people import People, Principal
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.texts import schedules as schedule_texts
from rumi.sandbox.engine import Command, CommandResult, Output
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules.when import After, Every
from tests.chats.house import House, MemorySandboxes, house
from tests.tasks.schedules.test_schedules import LIMITS, MADRID, Wall, rows, texts_of
from tests.tasks.schedules.watching import Site


class Boxes(MemorySandboxes):
    """Sandboxes in which a command ends with `code` and prints `output`."""

    def __init__(self, output: bytes = b"", code: int = 0, wait_s: float = 0.0) -> None:
        super().__init__()
        self.output, self.code, self.wait_s = output, code, wait_s
        self.runs = 0

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        self.runs += 1
        self.running[chat_id] = self.running.get(chat_id, 0) + 1
        try:
            await trio.sleep(self.wait_s)
        finally:
            self.running[chat_id] -= 1
        command.heard(self.output)
        return CommandResult(
            self.code, Output(self.output, b"", len(self.output)), Output(), 1, "exited", "box"
        )


async def never(request: ModelRequest, emit: Emit) -> Reply:
    raise AssertionError("a command needs no model")


async def add(home: House, command: str = "df -h") -> ScheduleRecord:
    new = ScheduleRecord("local", "cli", "run", command)
    return await home.schedules.add(home.schedules.checked(new), Every("* * * * *"), MADRID)


@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        (Boxes(b"full: 93 %\n"), "```\nfull: 93 %\n```"),
        (Boxes(b"a ``` b"), "````\na ``` b\n````"),
        (Boxes(b"no such disk\n", 2), "(“df -h”) failed: exit code 2\n\n```\nno such disk\n```"),
        (Boxes(b"", 1), "failed: exit code 1"),
    ],
)
async def test_the_output_of_a_command_is_sent_and_so_is_a_failure(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, boxes: Boxes, says: str
) -> None:
    async with house(tmp_path, never, now=Wall(), schedule_limits=LIMITS, sandboxes=boxes) as home:
        await add(home)
        await trio.sleep(65)
        (said,) = texts_of(tmp_path)
        assert said.endswith(says)
        how = "last: failed, 10:01 (exit code" if boxes.code else "last: sent, 10:01"
        assert how in await home.ask("/schedules")
    history = [
        str(json.loads(str(one))["content"]) for (one,) in rows(tmp_path, "SELECT message FROM history")
    ]
    assert history == ["[The schedule 1 has run a command without you: df -h]", said]


@pytest.mark.parametrize("output", ["a\x1b[31mb\x07\x00", "a\x1b]0;x\x07b", "a\u202eb\ufeff"])
def test_the_output_of_a_command_is_shown_without_control_characters(output: str) -> None:
    assert schedule_texts.command_output(output) == "```\nab\n```"


async def test_a_command_that_prints_nothing_is_silent_and_leaves_no_history(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    boxes = Boxes()
    async with house(tmp_path, never, now=Wall(), schedule_limits=LIMITS, sandboxes=boxes) as home:
        await add(home)
        await trio.sleep(600)
        assert boxes.runs >= 9
        assert await home.chat().undelivered() == []
        assert "last: nothing new, 10:" in await home.ask("/schedules")
    assert rows(tmp_path, "SELECT count(*) FROM history") == [(0,)]


async def test_a_command_that_fails_three_times_is_paused_and_told(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    boxes = Boxes(b"", 1)
    async with house(tmp_path, never, now=Wall(), schedule_limits=LIMITS, sandboxes=boxes) as home:
        await add(home)
        await trio.sleep(1000)
        assert boxes.runs in (3, 4)
        assert "failed 3 times in a row and is paused" in texts_of(tmp_path)[-1]


async def test_a_stop_ends_the_command_and_says_so_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    boxes = Boxes(b"late", wait_s=1000.0)
    async with house(tmp_path, never, now=Wall(), schedule_limits=LIMITS, sandboxes=boxes) as home:
        await home.schedules.add(ScheduleRecord("local", "cli", "run", "sleep 9"), After(1), MADRID)
        await trio.sleep(65)
        assert boxes.running == {"cli": 1}
        await home.ask("/stop")
        assert boxes.running == {"cli": 0}
        await trio.sleep(2000)
        assert boxes.runs == 1
        assert len(texts_of(tmp_path)) == 1
        assert "last: stopped" in await home.ask("/schedules")


@pytest.mark.parametrize("life_s", [0.0, 0.01, 0.02, 0.05, 0.5, 5.0])
async def test_a_kill_in_a_command_is_told_and_nothing_runs_or_is_sent_twice(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, life_s: float
) -> None:
    wall, boxes = Wall(), Boxes(b"done", wait_s=3.0)
    with trio.move_on_after(1e6) as life:
        async with house(tmp_path, never, now=wall, schedule_limits=LIMITS, sandboxes=boxes) as home:
            await home.schedules.add(ScheduleRecord("local", "cli", "run", "sleep 9"), After(1), MADRID)
            life.deadline = trio.current_time() + 60 + life_s
            await trio.sleep_forever()
    later = Boxes(b"done")
    async with house(tmp_path, never, now=wall, schedule_limits=LIMITS, sandboxes=later) as home:
        await trio.sleep(600)
        assert await home.open_chats() == ()
    assert boxes.runs + later.runs == 1, "a command that may have had its effect is not run again"
    (said,) = texts_of(tmp_path)
    assert "done" in said or "I was restarted while working on: “sleep 9”" in said


@pytest.mark.parametrize("command", ["curl https://example.org", "unknown-program"])
async def test_a_command_that_the_policy_refuses_cannot_be_added(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, command: str
) -> None:
    site = Site()
    async with house(tmp_path, never, now=Wall(), schedule_limits=LIMITS, sources=site.sources()) as home:
        with pytest.raises(Exception, match=command.split()[0]):
            await add(home, command)


async def test_another_command_is_checked_when_it_is_given(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    site = Site()
    async with house(tmp_path, never, now=Wall(), schedule_limits=LIMITS, sources=site.sources()) as home:
        await add(home)
        assert "curl" in await home.ask("/schedules edit 1 curl https://example.org")
        assert (await home.schedules.show(1, "local")).text == "df -h"
        assert "❌" not in await home.ask("/schedules edit 1 du -sh")
        assert (await home.schedules.show(1, "local")).text == "du -sh"


async def test_who_may_run_no_commands_has_no_schedule_for_them(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    reader = Rights("reader", tools=("web_fetch",))
    people = People(BUILT_IN, {7: Principal("ada", reader, (7,))})
    site = Site()
    async with house(
        tmp_path, never, now=Wall(), schedule_limits=LIMITS, sources=site.sources(), people=people
    ) as home:
        for kind, options in (("run", {}), ("turn", {"if_changed": ["cmd:date"]})):
            new = ScheduleRecord("tg7", "tg7", kind, "date", options=json.dumps(options), user=7)  # type: ignore[arg-type]
            with pytest.raises(Exception, match="does not allow commands"):
                home.schedules.checked(new)
        # A schedule from before the right was withdrawn.
        new = ScheduleRecord("tg7", "tg7", "run", "date", user=7)
        await home.schedules.add(new, After(1), MADRID)
        await trio.sleep(120)
        assert home.sandboxes.made == 0
    assert "does not allow commands" in texts_of(tmp_path)[0]
