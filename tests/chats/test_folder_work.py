"""A chat that works on a folder: what waits, what is asked, what is applied, dropped and told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.events import ConfirmationAsked, TurnFinished
from rumi.agent.tool import Tool
from rumi.chats.events import Replied
from rumi.chats.folder_changes import LINE_CHARS, MOST_LINES, diff_text
from rumi.chats.folders import FolderDiff
from rumi.chats.hub import HubSubscription
from rumi.sandbox.engine import Command, CommandResult
from tests.chats.house import House, MemorySandboxes, house
from tests.chats.test_confirmations import Page, obedient
from tests.fakes.folders import ToldFolders, added
from tests.fakes.lines import words_of

FOLDER = Path("/srv/garden")
CLEAR = "No changes wait: the files are as in /srv/garden."


class Writing(MemorySandboxes):
    """`tee NAME` adds a file to the folder, and `touch NAME` changes nothing."""

    def __init__(self, folders: ToldFolders) -> None:
        super().__init__()
        self._folders = folders

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        done = await super().run(chat_id, command)
        program, *names = words_of(command.argv)
        if program == "tee":
            self._folders.change(added(names[0], "hello"))
        return done


@dataclass
class Working:
    """The house, its folders, and what the chat says."""

    house: House
    folders: ToldFolders
    events: HubSubscription
    asked: list[str] = field(default_factory=list)

    async def say(self, text: str) -> int:
        return await self.house.inbox.accept("cli", text, "en")

    async def question(self) -> str:
        """The next question, which a person can read."""
        while not isinstance(what := (await self._next()), ConfirmationAsked):
            pass
        self.house.services.hub.has_shown(what.id)
        return what.text

    async def reply(self, text: str = "") -> tuple[TurnFinished | None, Replied]:
        """Send a text, if any; the next reply, and the end of the turn before it."""
        if text:
            await self.say(text)
        finished = None
        while not isinstance(what := (await self._next()), Replied):
            finished = what if isinstance(what, TurnFinished) else finished
        return finished, what

    async def text(self, text: str) -> str:
        return (await self.reply(text))[1].text

    async def _next(self) -> object:
        with trio.fail_after(2000):
            return (await self.events.receive()).what


@asynccontextmanager
async def working(
    path: Path,
    *,
    linked: bool = True,
    apply: Literal["ask", "auto"] = "ask",
    folders: ToldFolders | None = None,
    tools: tuple[Tool, ...] = (),
) -> AsyncIterator[Working]:
    folders = folders or ToldFolders()
    if linked:
        folders.links["cli"] = FOLDER
    async with house(
        path, obedient, sandboxes=Writing(folders), folders=folders, apply=apply, tools_for=lambda view: tools
    ) as home:
        with home.services.hub.listening("cli") as events:
            yield Working(home, folders, events)


async def test_without_a_folder_the_commands_say_how_to_work_on_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path, linked=False) as chat:
        for command in ("/diff", "/apply", "/discard a.txt"):
            assert (await chat.text(command)).endswith("go there and start: rumi --here")


async def test_what_waits_is_shown_and_applied_after_a_yes_exactly_as_shown(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        assert await chat.text("/apply") == await chat.text("/diff") == CLEAR
        chat.folders.change(added("a.txt", "one", "two"), added("b/c.txt", "three"))
        shown = await chat.text("/diff")
        assert shown.startswith(
            "2 changes to /srv/garden wait for /apply (+3 −0 lines):\n\n```text\nA  a.txt  +2\n"
        )
        assert "```diff\ndiff --git a/a.txt b/a.txt\n" in shown
        assert "a.txt" not in await chat.text("/diff b")
        await chat.say("/apply")
        assert await chat.question() == "Apply these 2 changes to /srv/garden?\nA  a.txt  +2\nA  b/c.txt  +1"
        finished, replied = await chat.reply("yes")
        assert finished is not None
        assert (finished.reason, replied.text) == ("complete", "✅ 2 files changed in /srv/garden")
        assert chat.folders.applied == ["a.txt", "b/c.txt"]


async def test_what_changes_behind_the_question_is_not_applied(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.change(added("a.txt", "one"))
        await chat.say("/apply")
        await chat.question()
        chat.folders.change(added("a.txt", "other"))
        said = (await chat.reply("yes"))[1].text
        assert said == "❌ Nothing was applied. The changes are no longer those shown. Look again: /diff"
        assert chat.folders.applied == []


@pytest.mark.parametrize(
    ("answer", "reason", "said"),
    [
        ("no", "complete", "Nothing was applied; the changes wait."),
        ("/stop", "stopped", "⏹ Stopped."),
        ("", "complete", "Nothing was applied; the changes wait."),
    ],
)
async def test_without_a_yes_nothing_is_applied(
    tmp_path: Path, autojump_clock: MockClock, answer: str, reason: str, said: str
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.change(added("a.txt", "one"))
        await chat.say("/apply")
        await chat.question()
        finished, replied = await chat.reply(answer)
        assert finished is not None
        assert (finished.reason, replied.text, chat.folders.applied) == (reason, said, [])


async def test_a_file_that_changed_on_both_sides_is_named_and_nothing_is_overwritten(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.change(added("a b.txt", "one"), added("mine.txt", "two"))
        chat.folders.conflict("mine.txt")
        said = await chat.text("/apply")
        assert said.startswith("❌ Nothing was applied.\n\n⚠️ This file was changed in /srv/garden as well")
        assert said.endswith("The others: `/apply 'a b.txt'`")
        assert chat.folders.applied == []
        await chat.say("/apply 'a b.txt'")
        await chat.question()
        await chat.reply("yes")
        assert chat.folders.applied == ["a b.txt"]


async def test_dropping_asks_and_says_how_much_and_a_reset_of_files_asks_too(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.change(added("a", "1"), added("b", "2"), added("c", "3"))
        await chat.say("/discard a")
        assert (await chat.question()).startswith(
            "Drop this change? It is lost for good; /srv/garden stays as it is."
        )
        assert "Dropped 1 change to /srv/garden." in (await chat.reply("yes"))[1].text
        await chat.say("/reset files")
        assert (await chat.question()).startswith("Drop this chat's 2 changes to /srv/garden as well")
        assert (chat.folders.dropped, chat.folders.applied) == (["a"], [])


async def test_apply_waits_for_the_end_of_the_turn_and_diff_does_not(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        await chat.say("bash sleep 60")
        await trio.testing.wait_all_tasks_blocked()
        assert await chat.text("/diff") == CLEAR
        for command in ("/apply", "/discard", "/reset files"):
            assert command in await chat.text(command)
            assert "still working" in await chat.text(command)


async def test_a_turn_that_changed_files_says_so_once_and_another_does_not(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        assert (await chat.reply("bash tee a"))[1].note == (
            "1 file changed: /diff shows it, /apply brings it into /srv/garden"
        )
        assert (await chat.reply("bash touch b"))[1].note == ""
        assert (await chat.reply("hello"))[1].note == ""
        chat.folders.change(added("b", "1"))
        assert (await chat.reply("bash tee c"))[1].note.startswith("3 files changed: /diff shows them")


async def test_what_is_applied_by_itself_is_named_and_conflicts_stay(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path, apply="auto") as chat:
        assert (await chat.reply("bash tee a"))[1].note == "1 file changed in /srv/garden: a"
        chat.folders.change(added("mine", "x"))
        chat.folders.conflict("mine")
        note = (await chat.reply("bash tee b"))[1].note
        assert note.startswith(
            "1 file changed in /srv/garden: b\n⚠️ This file was changed in /srv/garden as well"
        )
        assert (chat.folders.applied, list(chat.folders.changes)) == (["a", "b"], ["mine"])


async def test_after_content_from_outside_nothing_is_applied_by_itself(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path, apply="auto", tools=(Page(),)) as chat:
        note = (await chat.reply("page ; bash tee a"))[1].note
        assert note.startswith("1 file changed. This chat has read content from outside")
        assert "/apply brings it into /srv/garden" in note
        assert chat.folders.applied == []
        await chat.text("/reset")  # the files keep the mark of the session that wrote them
        assert "content from outside" in (await chat.reply("bash tee b"))[1].note
        await chat.say("/apply")
        await chat.question()
        assert (await chat.reply("yes"))[1].text == "✅ 2 files changed in /srv/garden"
        assert chat.folders.applied == ["a", "b"]


async def test_a_stopped_turn_applies_nothing_by_itself(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with working(tmp_path, apply="auto") as chat:
        await chat.say("bash tee a ; bash sleep 60")
        await trio.sleep(30)
        assert chat.folders.changes
        await chat.say("/stop")
        finished, replied = await chat.reply()
        assert finished is not None
        assert finished.reason == "stopped"
        assert replied.note.startswith("1 file changed: /diff shows it")
        assert chat.folders.applied == []


async def test_folders_that_cannot_be_read_never_fail_a_turn(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.refuses = "The folder is gone."
        finished, replied = await chat.reply("bash tee a")
        assert finished is not None
        assert (finished.reason, replied.note) == ("complete", "The folder is gone.")
        assert await chat.text("/diff") == await chat.text("/apply") == "❌ The folder is gone."


async def test_status_says_where_the_files_are(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with working(tmp_path) as chat:
        assert "Files: /srv/garden. Changes wait for /apply" in await chat.text("/status")
    async with working(tmp_path, linked=False) as chat:
        assert f"Files: {tmp_path}/workspace/cli" in await chat.text("/status")


async def test_a_question_that_the_end_of_the_process_interrupts_is_told_and_nothing_is_done(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.change(added("a", "1"))
        await chat.say("/apply")
        await chat.question()
        await chat.house.inbox.chats.wind_down(0, 5)
        finished, replied = await chat.reply()
        assert finished is not None
        assert finished.reason == "interrupted"
        assert replied.text == "⚠️ I was restarted during /apply. /diff shows what still waits."
        assert chat.folders.applied == []


EVIL = "a\x1b[2J`b\n```\r\u202e.txt"


async def test_hostile_names_and_contents_stay_in_their_block() -> None:
    file, _ = added(EVIL, "x")
    lines = ("diff --git a/x b/x", "@@ -0,0 +1 @@", "+```", "+````diff")
    text = diff_text(FolderDiff("t", (file,), lines, ((EVIL, "link"),)), "en", "~/x", "x-1")
    assert not any(mark in text for mark in ("\x1b", "\r", "\u202e"))
    blocks = [line for line in text.splitlines() if line.startswith("`")]
    assert blocks == ["````text", "````", "`````diff", "`````"]


async def test_a_long_diff_is_cut_and_says_how_to_see_the_rest() -> None:
    file, lines = added("long", *(["x" * 1000] + ["y"] * 1000))
    text = diff_text(FolderDiff("t", (file,), lines), "en", "~/x", "x-1")
    assert (
        f"{len(lines) - MOST_LINES} more lines. `/diff FILE` shows one file, `rumi chats diff x-1` all."
        in text
    )
    assert text.count("\n") < MOST_LINES + 20
    assert max(map(len, text.splitlines())) <= LINE_CHARS
    assert "+1001 −0" in text
