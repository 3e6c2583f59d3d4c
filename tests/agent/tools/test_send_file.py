"""The send_file tool: what leaves a workspace that commands may be changing, and what never does."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from rumi.agent.breakers import TurnLimits
from rumi.agent.tool import ToolResult
from rumi.agent.tools.send_file import MAX_FILE_BYTES, SendFile
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.errors import RumiError
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall
from rumi.sandbox.workspace import prepare_workspace

T = TypeVar("T")
MEGA = 1024 * 1024


class Threads:
    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(2)

    async def __call__(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work, limiter=self._limiter)


class User:
    """Whoever gets the files, unless there is `trouble`."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.trouble = trouble

    async def send(self, name: str, content: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.trouble is not None:
            raise self.trouble
        self.got.append((name, content))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    return prepare_workspace(tmp_path, "chat", os.getuid(), os.getgid())


@pytest.fixture
def user() -> User:
    return User()


async def call(workspace: Path, user: User, path: object, max_bytes: int = MAX_FILE_BYTES) -> ToolResult:
    return await SendFile(lambda: workspace, user.send, Threads(), max_bytes=max_bytes).call({"path": path})


@pytest.mark.parametrize(
    "path", ["d/report.pdf", "/workspace/d/report.pdf", "./d/report.pdf", "/workspace//d/../d/report.pdf"]
)
async def test_a_file_is_sent_however_its_path_is_written(workspace: Path, user: User, path: str) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/report.pdf").write_bytes(b"content")
    assert await call(workspace, user, path) == ToolResult(True, "sent report.pdf (7 bytes) to the user")
    assert user.got == [("report.pdf", b"content")]


@pytest.mark.parametrize(
    ("name", "sent_as"),
    [
        ("mi informe.pdf", "mi_informe.pdf"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("new\nline\x1b[31m.txt", "newline_31m.txt"),
        ("\udcff\udcfe.txt", "file.txt"),
        (".env", "env"),
        ('a"; filename="b.txt', "a_filename_b.txt"),
    ],
)
async def test_no_name_misleads_the_user(workspace: Path, user: User, name: str, sent_as: str) -> None:
    (workspace / name).write_bytes(b"content")
    result = await call(workspace, user, name)
    assert result.ok
    assert user.got == [(sent_as, b"content")]
    assert result.content.isprintable()


async def test_the_largest_file_is_sent_and_one_byte_more_is_not(workspace: Path, user: User) -> None:
    (workspace / "a").write_bytes(b"x" * MEGA)
    assert (await call(workspace, user, "a", MEGA)).ok
    (workspace / "a").write_bytes(b"x" * (MEGA + 1))
    assert await call(workspace, user, "a", MEGA) == ToolResult(False, "not sent: a is larger than 1 MB.")
    assert len(user.got) == 1


async def test_a_sparse_file_of_a_terabyte_is_refused_unread(workspace: Path, user: User) -> None:
    with (workspace / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with trio.fail_after(30):
        result = await call(workspace, user, "sparse")
    assert result.content == "not sent: sparse is larger than 50 MB."


async def test_a_file_that_grows_while_it_is_read_is_refused(
    workspace: Path, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "log").write_bytes(b"x")
    fstat = os.fstat

    def look_and_grow(fd: int) -> os.stat_result:
        status = fstat(fd)
        with (workspace / "log").open("ab") as file:
            file.write(b"x" * MEGA)
        return status

    monkeypatch.setattr("rumi.agent.tools.send_file.os.fstat", look_and_grow)
    assert await call(workspace, user, "log", MEGA) == ToolResult(False, "not sent: log is larger than 1 MB.")
    assert user.got == []


async def test_an_empty_file_is_refused_here_and_not_by_telegram(workspace: Path, user: User) -> None:
    (workspace / "empty").touch()
    result = await call(workspace, user, "empty")
    assert result == ToolResult(False, "not sent: empty is empty, and empty files cannot be sent.")


def link(workspace: Path) -> str:
    (workspace / "x").symlink_to("../../secret")
    return "x"


def folder_link(workspace: Path) -> str:
    (workspace / "x").symlink_to("../..")
    return "x/secret"


def pipe(workspace: Path) -> str:
    os.mkfifo(workspace / "x")
    return "x"


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (link, "x is a symbolic link"),
        (folder_link, "symbolic link"),
        (pipe, "not an ordinary file"),
        (lambda _: "../../secret", "leads out of the workspace"),
        (lambda _: "/workspace/../secret", "leads out of the workspace"),
        (lambda workspace: str(workspace.parent.parent / "secret"), "is not in /workspace"),
        (lambda _: "/tmp/notes", "is not in /workspace: only files there can be sent"),
        (lambda _: "/workspacesecret", "is not in /workspace"),
        (lambda _: "/workspace/", "names no file"),
        (lambda _: ".", "not an ordinary file"),
        (lambda _: "", "names no file"),
        (lambda _: "none\x1b[31m\n", "There is no file none\\x1b[31m\\n in the workspace"),
        (lambda _: "a\0b", "names no file"),
        (lambda _: 5, "needs `path`, a string"),
        (lambda _: None, "needs `path`, a string"),
    ],
)
async def test_what_is_no_file_of_the_workspace_is_refused_in_words(
    workspace: Path, user: User, prepare: Callable[[Path], object], words: str
) -> None:
    with trio.fail_after(30):
        result = await call(workspace, user, prepare(workspace))
    assert not result.ok
    assert words in result.content
    assert user.got == []


async def test_nothing_leaves_through_a_swapped_folder(workspace: Path, user: User) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/secret").write_text("mine")
    (workspace / "link").symlink_to("../..")
    over = False

    def swap() -> None:
        while not over:
            for old, new in (("d", "aside"), ("link", "d"), ("d", "link"), ("aside", "d")):
                with contextlib.suppress(OSError):
                    (workspace / old).rename(workspace / new)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(500):
            await call(workspace, user, "d/secret")
    finally:
        over = True
        thread.join()
    assert {content for _, content in user.got} == {b"mine"}


async def test_a_file_that_could_not_be_sent_is_a_result(workspace: Path) -> None:
    (workspace / "a").write_text("content")
    result = await call(workspace, User(RumiError("Telegram refuses the file.", "Try again.")), "a")
    assert result == ToolResult(False, "not sent: Telegram refuses the file.", advice="Try again.")


async def test_cancelled_while_it_is_sent_it_ends_the_sending(workspace: Path) -> None:
    (workspace / "a").write_text("content")
    ended = False

    async def send(name: str, content: bytes) -> None:
        nonlocal ended
        try:
            await trio.sleep_forever()
        finally:
            ended = True

    with trio.move_on_after(0.2) as scope:
        await SendFile(lambda: workspace, send, Threads()).call({"path": "a"})
    assert scope.cancelled_caught
    assert ended


async def test_a_turn_sends_a_file_and_goes_on_after_one_that_it_could_not(
    workspace: Path, user: User
) -> None:
    (workspace / "a.txt").write_text("content")

    class Model:
        name = "scripted"
        calls = iter(["b.txt", "a.txt"])

        async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
            await trio.lowlevel.checkpoint()
            path = next(self.calls, None)
            if path is None:
                return Reply("done")
            return Reply("", (ToolCall(path, "send_file", f'{{"path": "{path}"}}'),))

    kept: list[Message] = []

    async def keep(entry: TurnMessage) -> None:
        await trio.lowlevel.checkpoint()
        kept.append(entry.message)

    tool = SendFile(lambda: workspace, user.send, Threads())
    turn_input = TurnInput("", [Message("user", "send it")], Model(), [tool], TurnLimits(), "en")
    finished = await run_turn(turn_input, lambda _: None, keep)
    assert finished.reason == "complete"
    assert user.got == [("a.txt", b"content")]
    results = [message.content for message in kept if message.role == "tool"]
    assert results == [
        "not sent: There is no file b.txt in the workspace.",
        "sent a.txt (7 bytes) to the user",
    ]
