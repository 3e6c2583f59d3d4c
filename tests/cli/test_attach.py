"""`rumi chat` on a home that another process holds: windows on it, and what becomes of them."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.channels.terminal.ptys import Terminal, terminal
from tests.cli.program import BOUND_S, RUMI, Program
from tests.cli.telegram_bot import Talk, running
from tests.cli.telegram_world import World
from tests.cli.test_chat import processes, wait_for

pytestmark = pytest.mark.bubblewrap


@contextmanager
def running_chat(program: Program) -> Iterator["subprocess.Popen[str]"]:
    """A chat that waits for what is typed. The process that holds the home stays for it."""
    process = program.start("chat")
    try:
        wait_for(lambda: program.run("status", "--json", code=None).returncode == 0)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=BOUND_S)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("windows") / "home"
    folder.mkdir(mode=0o700)
    own = '[model.custom.own]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    (folder / "config.toml").write_text(own)
    return Program(folder, {"RUMI_SANDBOX__BACKEND": "bubblewrap"})


@pytest.fixture(scope="module")
def chat_process(home: Program) -> Iterator["subprocess.Popen[str]"]:
    with running_chat(home) as process:
        yield process


@dataclass
class Person:
    """`rumi chat` on a terminal of its own."""

    pty: Terminal
    process: trio.Process


@asynccontextmanager
async def on_a_terminal(
    program: Program, command: Sequence[str] = (RUMI,), folder: Path | None = None
) -> AsyncIterator[Person]:
    """A person in front of `rumi chat`, or another command; what still runs in the end is killed.

    Without a `folder`, they stand beside the home: in the work tree, they would be asked about it.
    """
    environment = {**program.environment(), "TERM": "xterm"}
    folder = folder or program.home.parent
    async with terminal(100, 40) as pty:
        process = await trio.lowlevel.open_process(
            command, stdin=pty.slave, stdout=pty.slave, stderr=pty.slave, env=environment, cwd=folder
        )
        try:
            with trio.fail_after(BOUND_S):
                yield Person(pty, process)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


def type_into(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def attached_clients(program: Program) -> int:
    status = json.loads(program.run("status", "--json").stdout)
    control = next(node for node in status["tree"]["children"] if node["id"] == "control")
    return int(control["figures"]["streams"].get("window", 0))


def shapes(events: list[dict[str, Any]]) -> list[list[str]]:
    """The events by their names and fields; words may come in other pieces."""
    shapes = [[event["event"], *sorted(event)] for event in events]
    return [shape for index, shape in enumerate(shapes) if shape[0] != "text" or shapes[index - 1] != shape]


@pytest.mark.long
def test_one_turn_lines_and_events_are_as_without_a_holder(
    home: Program, chat_process: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    done = home.run("chat", "-p", "run echo hola")
    assert done.stdout == "```\nhola\n```\n"
    assert "A window on" not in done.stderr, "every terminal is one"
    alone = Program(tmp_path / "alone", home.env)
    theirs = alone.events("-p", "write a.txt: one; then read a.txt")
    ours = home.events("--chat", "work", "-p", "write a.txt: one; then read a.txt")
    assert shapes(ours) == shapes(theirs)
    done = home.run("chat", "--chat", "lines", text="run sleep 600\n/stop\nrun echo later\n")
    assert done.stdout.index("Stopped") < done.stdout.index("later")
    home.run("chat", "-p", "run echo 1; then run echo 1; then run echo 1", code=3)
    home.run("chat", "--chat", "tg1", "-p", "hi", code=2)
    home.run("chat", "--chat", "work", "--new", "-p", "hi")


@pytest.mark.long
def test_a_model_is_the_windows_own_and_settings_that_do_not_apply_are_named(
    home: Program, chat_process: "subprocess.Popen[str]"
) -> None:
    refused = home.run("chat", "--model", "groq:any", "-p", "hi", code=2)
    assert refused.stderr == (
        "rumi: The model 'groq:any' needs GROQ_API_KEY. "
        "Set it in the environment or in .env, or use --model offline.\n"
    )
    own = home.run("chat", "--model", "custom:own", "-p", "hi", code=4).stderr
    assert "The model did not answer: cannot connect to http://127.0.0.1:9" in own
    assert "do not apply" not in own
    assert home.run("chat", "-p", "/model", "--model", "custom:own").stdout.endswith("custom:own\n")
    assert "needs a terminal" in home.run("chat", "-p", "/copy", code=2).stderr
    named = "These settings of this window do not apply: sandbox.backend. rumi chat (process "
    assert named in home.run("chat", "--sandbox", "docker", "-p", "hi").stderr
    done = home.run("chat", "--model", "offline", "--sandbox", "bubblewrap", "-p", "hi")
    assert "do not apply" not in done.stderr


def stored(home: Program) -> int:
    with closing(sqlite3.connect(f"file:{home.home}/state.db?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])


def test_ctrl_c_in_a_window_stops_its_turn_and_a_window_that_is_killed_leaves_nothing(
    home: Program, chat_process: "subprocess.Popen[str]"
) -> None:
    one = home.start("chat", "--chat", "one", "-p", "run sleep 631")
    two = home.start("chat", "--chat", "two", "-p", "run sleep 632")
    wait_for(lambda: processes("sleep 631") and processes("sleep 632"))
    waits = home.start("chat", "--chat", "one", "-p", "run date")
    wait_for(lambda: stored(home) == 3)
    one.send_signal(signal.SIGINT)
    _, errors = one.communicate(timeout=BOUND_S)
    assert (one.returncode, "Stopped" in errors) == (130, True)
    output, errors = waits.communicate(timeout=BOUND_S)
    assert (waits.returncode, "Queued (1 of 20)" in errors) == (0, True), "what waits comes next"
    assert output.startswith("```\n")
    assert processes("sleep 632"), "another window's turn goes on"
    two.send_signal(signal.SIGKILL)
    two.communicate(timeout=BOUND_S)
    wait_for(lambda: not processes("sleep 631") and not processes("sleep 632"))
    wait_for(lambda: attached_clients(home) == 1)


def test_a_stopped_window_delays_nobody(home: Program, chat_process: "subprocess.Popen[str]") -> None:
    window = home.start("chat", "--json", "--chat", "same", "-p", "run sleep 600")
    assert window.stdout is not None
    while json.loads(window.stdout.readline())["event"] != "tool_call":
        pass
    os.kill(window.pid, signal.SIGSTOP)
    assert home.run("stop", "same").stdout == "⏹ Stopped.\n"
    home.run("chat", "--chat", "same", "-p", "run date")
    os.kill(window.pid, signal.SIGCONT)
    output, _ = window.communicate(timeout=BOUND_S)
    assert json.loads(output.splitlines()[-1])["reason"] == "stopped"


def runs(process: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.long
def test_when_the_process_is_killed_its_windows_go_on_with_another_one(bubblewrap: Program) -> None:
    with running_chat(bubblewrap):
        at_work = bubblewrap.start("chat", "--chat", "work", "--json")
        idle = bubblewrap.start("chat", "--chat", "idle")
        one = bubblewrap.start("chat", "--chat", "one", "-p", "run sleep 633")
        type_into(at_work, "run sleep 635")
        wait_for(lambda: processes("sleep 633$") and processes("sleep 635$"))
        wait_for(lambda: attached_clients(bubblewrap) == 4)
        killed = bubblewrap.serving()
        os.kill(killed, signal.SIGKILL)
        output, errors = one.communicate(timeout=BOUND_S)
        assert (one.returncode, output) == (130, "")
        assert "I was restarted while working on: “run sleep 633”" in errors
        assert "The process that served this chat has ended" in errors
        type_into(idle, "run echo still-there")
        assert idle.stdout is not None
        while "still-there" not in idle.stdout.readline():
            pass
        assert bubblewrap.serving() not in (killed, at_work.pid, idle.pid)
        type_into(at_work, "run echo more")
        output, _ = at_work.communicate(timeout=BOUND_S)
        ends = [json.loads(line) for line in output.splitlines() if "turn_finished" in line]
        assert [end["reason"] for end in ends] == ["interrupted", "complete"]
        idle.communicate(timeout=BOUND_S)
        assert idle.returncode == 0
        left = bubblewrap.serving()
    wait_for(lambda: not processes("sleep 633$") and not processes("sleep 635$") and not runs(left))


async def waits_for(pty: Terminal, file: str) -> None:
    """Begin a turn that ends, with the name in capitals, when that file comes into the workspace."""
    await pty.type(f"run until test -e {file}; do sleep 0.1; done; echo {file} | tr a-z A-Z\r")
    await pty.until(lambda: processes(f".*until test -e {file};"))


@pytest.mark.long
async def test_the_next_process_keeps_a_windows_model_and_loads_nothing_from_its_folder(
    bubblewrap: Program, tmp_path: Path
) -> None:
    (tmp_path / "rumi.py").write_text("raise SystemExit(3)")
    bubblewrap.home.mkdir(mode=0o700, exist_ok=True)
    own = '[model.custom.own]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    (bubblewrap.home / "config.toml").write_text(own)
    async with on_a_terminal(bubblewrap, folder=tmp_path) as person:
        await person.pty.see("demo · bubblewrap · cli")
        await person.pty.type("/model custom:own\r")
        await person.pty.see("custom:own · bubblewrap · cli")
        os.kill(bubblewrap.serving(), signal.SIGKILL)
        await person.pty.see("The chat goes on · model custom:own")
        await person.pty.type("/status\r")
        await person.pty.see("Chat cli: idle.")
        await person.pty.see("custom:own · bubblewrap · cli")
        await person.pty.type("/exit\r")
        assert await person.process.wait() == 0


@pytest.mark.long
async def test_closing_any_terminal_ends_no_other_ones_turn_and_its_own_goes_on(bubblewrap: Program) -> None:
    bubblewrap.env |= {"RUMI_SESSION__LINGER_S": "1", "RUMI_SANDBOX__POLICY": "open"}
    workspace = bubblewrap.home / "workspace" / "cli"
    async with on_a_terminal(bubblewrap) as first:
        await first.pty.see("›")
        async with on_a_terminal(bubblewrap) as second:
            await second.pty.see("›")
            process = bubblewrap.serving()
            assert process not in (first.process.pid, second.process.pid)
            await waits_for(second.pty, "all-there")
            await first.pty.type("\x04")
            assert await first.process.wait() == 0
            (workspace / "all-there").touch()
            await second.pty.see("ALL-THERE")
            await second.pty.see(" · ctx ")  # of the turn, when it has ended
            await second.pty.type("/status\r")
            await second.pty.see("Messages in the history: 4.")
            await waits_for(second.pty, "on-its-own")
            second.process.kill()
        await trio.sleep(1.5)  # a process without windows and turns would end
        async with on_a_terminal(bubblewrap) as third:
            await third.pty.see("›")
            (workspace / "on-its-own").touch()
            await third.pty.see("ON-ITS-OWN")
            assert bubblewrap.serving() == process
            await third.pty.type("/exit\r")
            assert await third.process.wait() == 0
    with trio.fail_after(BOUND_S):
        while runs(process):  # noqa: ASYNC110  # another process's end is no event
            await trio.sleep(0.1)


@pytest.mark.long
async def test_ctrl_z_gives_the_terminal_to_the_shell_and_the_turn_goes_on(bubblewrap: Program) -> None:
    shell = ("setsid", "--ctty", "bash", "--norc", "-i")
    async with on_a_terminal(bubblewrap, shell) as person:
        window = person.pty
        await window.type(f"{RUMI} chat\r")
        await window.see("demo · bubblewrap · cli")
        await window.type("run sleep 2; then run echo after-it\r")
        await window.see("$ sleep 2")
        for _ in range(2):
            await window.type("half typed\x1a")
            await window.see("Stopped")
            assert not window.screen.cursor.hidden
            await window.type("stty -a | grep -q ' icanon.* echo ' && echo $((6 * 7)) as before\r")
            await window.see("42 as before")
            await window.type("clear\r")
            await window.until(lambda: not any("Stopped" in line for line in window.shown))
            await window.type("fg\r")
            await window.see("demo · bubblewrap · cli")
            await window.see("half typed")
        await window.see("after-it")
        await window.type("\x15/exit\r")
        await window.until(lambda: window.shown[-1].endswith("#") or window.shown[-1].endswith("$"))
        await window.type("echo left with $?\r")
        await window.see("left with 0")
        await window.type("exit\r")
        assert await person.process.wait() == 0


def test_an_idle_process_is_replaced_when_settings_change_or_the_home_is_needed(bubblewrap: Program) -> None:
    bubblewrap.env["RUMI_SESSION__LINGER_S"] = "60"
    bubblewrap.run("chat", "-p", "hi")
    idle = bubblewrap.serving()
    bubblewrap.run("chat", "-p", "hi")
    assert bubblewrap.serving() == idle
    bubblewrap.env["RUMI_AGENT__MAX_TURNS"] = "7"
    bubblewrap.run("chat", "-p", "hi")
    assert bubblewrap.serving() != idle
    assert not runs(idle)
    bubblewrap.run("sandbox", "clean")  # it needs the home for itself
    assert bubblewrap.run("status", code=1).stdout == ""


def test_a_process_that_is_ended_says_so_and_the_next_one_goes_on_with_its_turns(bubblewrap: Program) -> None:
    one = bubblewrap.start("chat", "--chat", "one", "-p", "run sleep 634")
    wait_for(lambda: processes("sleep 634$"))
    os.kill(bubblewrap.serving(), signal.SIGTERM)
    output, errors = one.communicate(timeout=BOUND_S)
    assert one.returncode == 0  # the next process, which the window starts, goes on with the turn
    assert "I am being restarted" in errors
    assert "interrupted: Rumi was restarted" in output
    wait_for(lambda: not processes("sleep 634$"))


def test_many_that_start_at_once_share_one_home(bubblewrap: Program) -> None:
    starting = [bubblewrap.start("chat", "--chat", f"c{number}", "-p", f"run echo {number}")
                for number in range(6)]  # fmt: skip
    for number, process in enumerate(starting):
        output, errors = process.communicate(timeout=BOUND_S)
        assert (process.returncode, f"\n{number}\n" in output) == (0, True), errors


@pytest.mark.long
def test_a_process_and_its_window_end_when_their_home_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    home = Program(folder, {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    window = home.start("chat", "--model", "offline")
    try:
        wait_for(lambda: home.run("status", "--json", code=None).returncode == 0)
        serving = Path(f"/proc/{home.serving()}")
        shutil.rmtree(folder)
        assert window.wait(timeout=BOUND_S) == 1
        _, said = window.communicate(timeout=BOUND_S)
        assert f"The home {folder} was deleted" in said
        wait_for(lambda: not serving.exists())
        assert not folder.exists()
    finally:
        window.kill()


def test_a_window_on_the_bot_has_chats_of_its_own_and_lasts_as_long_as_it(tmp_path: Path) -> None:
    offline = {"RUMI_MODEL__DEFAULT": "offline", "GROQ_API_KEY": ""}
    with World() as world, running(tmp_path, world, **offline) as bot:
        talk = Talk(world)
        done = bot.program.run("chat", "-p", "run echo hola")
        assert "hola" in done.stdout
        assert done.stderr.startswith(
            f"A window on rumi telegram (process {bot.process.pid}) · model offline\n"
        )
        window = bot.program.start("chat")
        assert window.stdin is not None
        assert window.stdout is not None
        window.stdin.write("run echo here\n")
        window.stdin.flush()
        while "here" not in window.stdout.readline():
            pass
        talk.say("run echo there")
        assert "there" in talk.hear(1)[0]
        bot.send_signal(signal.SIGTERM)
        assert bot.end() == 0
        _, errors = window.communicate(timeout=BOUND_S)
        assert window.returncode == 1
        assert "rumi telegram (process" in errors.splitlines()[-1]
        assert "has ended, and this window with it" in errors


@pytest.mark.long
def test_the_reset_of_a_chat_that_does_not_exist_says_so(bubblewrap: Program) -> None:
    said = "rumi: Unknown chat nope. Check its name: rumi chats list shows the chats.\n"
    assert bubblewrap.run("reset", "nope", code=2).stderr == said
    bubblewrap.run("reset", "cli")
    with running_chat(bubblewrap):
        assert bubblewrap.run("reset", "nope", code=2).stderr == said
        assert bubblewrap.run("stop", "nope", code=2).stderr == said
        bubblewrap.run("chat", "--chat", "work", "-p", "hi")
        assert "Session reset" in bubblewrap.run("reset", "work").stdout
    assert "Session reset" in bubblewrap.run("reset", "work").stdout


@pytest.mark.long
def test_deleting_files_is_asked_for_and_a_single_turn_needs_yes(bubblewrap: Program) -> None:
    note = bubblewrap.home / "workspace" / "cli" / "note.txt"
    bubblewrap.run("chat", "-p", "write note.txt: hello")
    refused = bubblewrap.run("chat", "-p", "/reset files", code=2)
    assert refused.stderr.splitlines()[-1] == (
        "rumi: Can't ask for confirmation here, and /reset files deletes the chat's files. "
        "Add --yes if that is what you want."
    )
    for lines, kept, code in (
        ("/reset files\nno\n", True, 0),
        ("/reset files\n", True, 5),
        ("/reset files\nyes\n", False, 0),
    ):
        done = bubblewrap.run("chat", text=lines, code=code)
        assert "Delete this chat's files as well (1 file, " in done.stderr
        assert note.exists() == kept
        assert ("Nothing was deleted" in done.stdout) == kept
    bubblewrap.run("chat", "-p", "write note.txt: hello")
    done = bubblewrap.run("chat", "--yes", "-p", "/reset files")
    assert "container, history and files deleted" in done.stdout
    assert not note.exists()
    bubblewrap.run("chat", "-p", "write note.txt: hello")
    assert bubblewrap.run("reset", "cli").stdout == "✨ Session reset: container and history cleared.\n"
    assert note.exists()


@pytest.mark.long
async def test_on_a_terminal_deleting_files_is_asked_and_answered_at_the_prompt(bubblewrap: Program) -> None:
    async with on_a_terminal(bubblewrap) as person:
        await person.pty.see("›")
        await person.pty.type("write note.txt: hello\r")
        await person.pty.see("● $ tee note.txt")
        await person.pty.type("/reset files\r")
        await person.pty.see("(yes/no) ›")
        await person.pty.type("y\r")
        await person.pty.see("container, history and files deleted")
        await person.pty.type("run echo on-and-on\r")
        await person.pty.see("● $ echo on-and-on")
