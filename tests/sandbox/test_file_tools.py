"""The file tools in real sandboxes: every test runs against both engines."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from rumi.agent.tool import ToolResult
from rumi.agent.tools.edit_file import EditFile
from rumi.agent.tools.file_access import _PUT
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.write_file import WriteFile
from rumi.sandbox.engine import Command, Engine, SandboxLimits
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.desk import SandboxDesk, sandbox_desk

LIMITS = SandboxLimits(workspace_bytes=24 * 1024 * 1024, workspace_files=200, output_limit=1000)
NEW = ".rumi-new"
ODD_NAMES = (
    "a b",
    "'\"",
    "-rf",
    "--help",
    "$(id) `id` $HOME",
    "two\nlines",
    "end\n",
    "*?[a]",
    "ñandú 🐦",
    "\\n",
    "~",
)


class Desk(SandboxDesk):
    """A chat's sandbox with its file tools."""

    tainted = False

    async def read(self, path: object, **more: object) -> ToolResult:
        return await ReadFile(self).call({"path": path, **more})

    async def edit(self, path: str, old: str, new: str, **more: object) -> ToolResult:
        return await EditFile(self).call({"path": path, "old_text": old, "new_text": new, **more})

    async def write(self, path: str, content: str) -> ToolResult:
        return await WriteFile(self).call({"path": path, "content": content})

    def put(self, name: str | bytes, content: bytes, mode: int = 0o644) -> Path:
        """Put a file of the sandbox's user there."""
        path = self.workspace / os.fsdecode(name)
        path.write_bytes(content)
        path.chmod(mode)
        return self.owned(path)


@pytest.fixture
async def engine(make_engine: MakeEngine, new_installation: str) -> AsyncIterator[Engine]:
    async with cleaned_up(make_engine(LIMITS, new_installation)) as engine:
        yield engine


@pytest.fixture
async def desk(engine: Engine, tmp_path: Path) -> AsyncIterator[Desk]:
    async with sandbox_desk(engine, LIMITS, tmp_path / "home") as desk:
        yield Desk(desk.sandboxes, desk.workspace)


async def test_a_file_is_written_read_and_edited(desk: Desk) -> None:
    made = await desk.write("notes/todo/a.txt", "one\ntwo\nthree\n")
    assert (made.ok, made.content, made.diff) == (True, "created notes/todo/a.txt: 3 lines, 14 bytes", "")
    read = await desk.read("/workspace/notes/todo/a.txt")
    assert read.content == "notes/todo/a.txt: lines 1-3 of 3, 14 B\n1\tone\n2\ttwo\n3\tthree"
    edited = await desk.edit("notes/todo/a.txt", "two\n", "2\nand a half\n")
    assert edited.content == "edited notes/todo/a.txt: +2 −1, line 2-3"
    assert edited.diff.split("\n")[2:] == ["@@ -1,3 +1,4 @@", " one", "-two", "+2", "+and a half", " three"]
    assert (desk.workspace / "notes/todo/a.txt").read_text() == "one\n2\nand a half\nthree\n"
    over = await desk.write("notes/todo/a.txt", "one\n")
    assert over.content == "overwritten notes/todo/a.txt: 1 lines, 4 bytes, +0 −3"
    assert over.trace is not None
    assert over.trace.argv == ("write_file", "/workspace/notes/todo/a.txt")
    assert await desk.sh("ls -A notes/todo") == "a.txt\n"
    assert (await desk.write("/tmp/x", "there")).ok
    assert await desk.sh("cat /tmp/x") == "there"


async def test_a_part_is_read_and_says_where_to_go_on(desk: Desk) -> None:
    desk.put("small", b"".join(b"line %d\n" % n for n in range(1, 501)))
    part = await desk.read("small")
    assert part.content.split("\n")[0] == "small: lines 1-200 of 500, 4.4 KB, 300 more lines from offset=201"
    rest = (await desk.read("small", offset="201", limit=1000)).content.split("\n")
    assert (rest[0], rest[1], rest[-1]) == (
        "small: lines 201-500 of 500, 4.4 KB",
        "201\tline 201",
        "500\tline 500",
    )
    past = await desk.read("small", offset=501)
    assert (past.exit_code, past.ok) == (1, True)
    assert "has 500 lines, and offset 501 is past its end" in past.content
    desk.put("empty", b"")
    assert (await desk.read("empty")).content == "empty is empty"


async def test_of_a_large_file_only_the_lines_that_are_asked_for_are_read(desk: Desk) -> None:
    line = "ñ" * 3000
    desk.put("large", b"\xef\xbb\xbf" + "".join(f"{n} {line}\n" for n in range(400)).encode() + b"the end")
    read = (await desk.read("large", offset=399)).content.split("\n")
    assert read[0] == "large: lines 399-401 of 401, 2.4 MB"
    assert read[1].startswith("399\t398 ññ")
    assert "this line is cut" in read[1]
    assert "\ufffd" not in "".join(read)
    assert read[-1] == "401\tthe end"
    head = (await desk.read("large")).content.split("\n")
    assert "more lines from offset=" in head[0]
    go_on = int(head[0].rsplit("=", 1)[1])
    assert head[-1].startswith(f"{go_on - 1}\t{go_on - 2} ")
    refused = await desk.edit("large", "the end", "x")
    assert not refused.ok
    assert "Use sed or awk in bash" in refused.content


async def test_what_is_no_text_is_told_by_kind_and_size(desk: Desk) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(100)
    desk.put("p.png", picture)
    desk.put("big.bin", b"\x7fELF" + bytes(2_000_000))
    assert "is a PNG image, 108 bytes" in (await desk.read("p.png")).content
    assert "is a Linux program, 2000004 bytes" in (await desk.read("big.bin")).content
    for result in (await desk.edit("p.png", "PNG", "GIF"), await desk.edit("/workspace", "a", "b")):
        assert (result.ok, result.exit_code) == (True, 1)
    assert (desk.workspace / "p.png").read_bytes() == picture
    await desk.sh("mkfifo pipe 2>/dev/null || python3 -c 'import os; os.mkfifo(\"pipe\")' || true")
    if (desk.workspace / "pipe").exists():
        assert "a pipe" in (await desk.read("pipe")).content


async def test_a_missing_file_is_told_with_what_is_near(desk: Desk) -> None:
    await desk.write("src/Notes.txt", "x")
    missing = await desk.read("src/note.txt")
    assert (missing.ok, missing.exit_code) == (True, 1)
    assert missing.content == "there is no src/note.txt. Near it in /workspace/src: Notes.txt"
    assert (await desk.read("no/such/x")).content == "there is no no/such/x. /workspace has: src/"
    assert "src/Notes.txt is no folder" in (await desk.edit("src/Notes.txt/x", "a", "b")).content
    assert (await desk.read("src")).content == "src is a folder with: Notes.txt"
    assert (await desk.read("src/")).content == "src is a folder with: Notes.txt"
    assert "Near it in /workspace: src/" in (await desk.read("/workspace/srx")).content
    assert "Near it in /workspace/src/..: src/" in (await desk.read("src/../srx")).content


async def test_names_of_every_kind_are_names(desk: Desk) -> None:
    for name in ODD_NAMES:
        assert (await desk.write(name, f"1 {name}")).ok, name
        assert (await desk.edit(name, "1", "2")).content.startswith("edited "), name
        assert (await desk.read(name)).exit_code is None, name
        assert (desk.workspace / name).read_text() == f"2 {name}"
    assert set(os.listdir(desk.workspace)) == set(ODD_NAMES)
    assert await desk.sh("ls -A / | grep -c rumi || true") == "0\n"


async def test_a_name_that_is_not_utf_8_is_shown_and_can_be_renamed(desk: Desk) -> None:
    desk.put(b"caf\xe9.txt", b"black")
    assert (await desk.read(".")).content.endswith(" is a folder with: caf\\xe9.txt")
    assert "rename such a file with mv and a glob" in (await desk.read("cafe.txt")).content
    half = await desk.read("caf\udce9.txt")
    assert not half.ok
    assert "valid UTF-8" in half.content


@pytest.mark.parametrize("path", ["/etc/passwd", "/workspaces/x", "/", "", None, 7, "a\0b", "x" * 5000])
async def test_paths_that_lead_nowhere_never_reach_the_sandbox(desk: Desk, path: object) -> None:
    assert not (await desk.read(path)).ok
    assert desk.sandboxes.container_id("one") == ""


async def test_links_lead_where_they_lead_inside_the_sandbox(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    await desk.write("real/a.txt", "one")
    for name, target in (
        ("link", "real/a.txt"),
        ("out", str(secret)),
        ("passwd", "/etc/passwd"),
        ("loop", "loop"),
    ):
        (desk.workspace / name).symlink_to(target)
    (desk.workspace / "folder").symlink_to("real")
    assert (await desk.edit("link", "one", "two")).ok
    assert (desk.workspace / "link").is_symlink()
    assert (await desk.write("folder/b.txt", "b")).ok
    assert (await desk.write("real/../link", "three")).ok
    assert ((desk.workspace / "real/a.txt").read_text(), await desk.sh("cat real/b.txt")) == ("three", "b")
    for name in ("out", "loop"):
        assert (await desk.read(name)).content == f"{name} is a link to nothing"
        assert "a link to nothing" in (await desk.write(name, "x")).content
    assert "runner" in (await desk.read("passwd")).content, "the sandbox's own"
    assert (await desk.write("passwd", "x")).exit_code == 1
    assert (await desk.write("/workspace/../etc/x", "x")).exit_code == 1
    assert secret.read_text() == "secret"
    assert sorted(os.listdir(desk.workspace)) == ["folder", "link", "loop", "out", "passwd", "real"]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nB\nx\n", b"a\r\nB\r\nx\r\nc\r\n"),
        (b"a\nb\r\nc\n", "a\nb\nc", "a\nB\nc", b"a\nB\r\nc\n"),
        (b"\xef\xbb\xbfone\ntwo", "two", "2", b"\xef\xbb\xbfone\n2"),
        (b"caf\xe9\nn\xb0 \x801\n", "n° €1", "ñ", b"caf\xe9\n\xf1\n"),
        (b"caf\xe9 \x81\n", "café", "é", b"\xe9 \x81\n"),
        ("\ufeffñ\r\n1".encode("utf-16-le"), "ñ\n", "n\n", "\ufeffn\r\n1".encode("utf-16-le")),
        (b"last", "last", "last\n", b"last\n"),
    ],
)
async def test_an_edit_keeps_encoding_line_ends_and_mode(
    desk: Desk, before: bytes, old: str, new: str, after: bytes
) -> None:
    for mode in (0o755, 0o600):
        path = desk.put("f", before, mode)
        result = await desk.edit("f", old, new)
        assert result.content.startswith("edited f: "), result
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (after, mode)


async def test_what_cannot_be_edited_stays_as_it_was(desk: Desk) -> None:
    text = b"def one():\r\n    return 1\r\n\r\ndef two():\r\n    return 1\r\n"
    path = desk.put("f.py", text)
    several = await desk.edit("f.py", "    return 1\n", "    return 2\n")
    assert "is there 2 times, at lines 2, 5" in several.content
    assert "set replace_all" in several.content
    near = await desk.edit("f.py", "def two() -> int:\n    return 1\n", "x")
    assert "nearest lines are:\n" in near.content
    assert "4\tdef two():\n5\t    return 1" in near.content
    assert "without the line numbers" in (await desk.edit("f.py", "4\tdef two():", "x")).content
    assert "no line is like it" in (await desk.edit("f.py", "§§§§", "x")).content
    assert "are the same" in (await desk.edit("f.py", "one", "one")).content
    assert not (await desk.edit("f.py", "", "x")).ok
    desk.put("latin", b"\xe9\n")
    assert "which has no 世" in (await desk.edit("latin", "é", "世")).content
    locked = desk.put("locked", b"one", 0o444)
    assert "it is read-only" in (await desk.edit("locked", "one", "two")).content
    assert (path.read_bytes(), locked.read_bytes()) == (text, b"one")
    every = await desk.edit("f.py", "return 1", "return 2", replace_all=True)
    assert every.content == "edited f.py: 2 places, +2 −2, line 2, 5"
    assert path.read_bytes() == text.replace(b"return 1", b"return 2")
    assert NEW not in os.listdir(desk.workspace)


async def test_a_write_beyond_the_limit_says_so_and_the_old_content_stays(desk: Desk) -> None:
    await desk.write("kept", "old\n")
    desk.put("filler", bytes(20 * 1024 * 1024))
    result = await desk.write("kept", "x" * (8 * 1024 * 1024))
    assert not result.ok
    assert "kept is as it was: " in result.content
    assert "/workspace is over its limit" in result.content
    assert (desk.workspace / "kept").read_text() == "old\n"
    desk.put("more", bytes(8 * 1024 * 1024))
    assert (await desk.read("kept")).content.endswith("1\told"), "reading needs no room"
    assert "over its limit" in (await desk.edit("kept", "old", "new")).content
    await desk.sh("rm filler more")
    assert (await desk.edit("kept", "old", "new")).content == "edited kept: +1 −1, line 1"
    full = await desk.write("/tmp/x", "x" * (80 * 1024 * 1024))
    assert "/tmp/x is as it was: " in full.content
    assert await desk.sh("ls -A /tmp") == ""


async def test_a_stopped_write_leaves_the_old_file_or_the_new_one(desk: Desk) -> None:
    old, new = "old " * 100, "new " * 1_500_000
    await desk.write("f", old)
    found = set()
    for wait_ms in (0, 2, 5, 10, 20, 40, 80):
        with trio.move_on_after(wait_ms / 1000):
            await desk.write("f", new)
        said = (desk.workspace / "f").read_text()
        assert said in (old, new)
        found.add(said)
        assert int(await desk.sh("ls -d /proc/[0-9]* | wc -l")) <= 5, "nothing of it runs"
        await desk.write("f", old)
        assert os.listdir(desk.workspace) == ["f"]
    assert old in found


async def test_input_that_breaks_off_changes_nothing(desk: Desk) -> None:
    await desk.write("f", "old")
    result = await desk.run(Command(("sh", "-c", _PUT, "sh", "/workspace/f", "100"), b"half"))
    assert (result.exit_code, result.stdout.text()) == (1, "failed\n")
    assert ((desk.workspace / "f").read_text(), os.listdir(desk.workspace)) == ("old", ["f"])


async def test_files_that_hold_something_from_outside_taint_what_is_read(desk: Desk) -> None:
    await desk.write("f", "x")
    assert not (await desk.read("f")).tainted
    desk.tainted = True
    assert (await desk.read("f")).tainted
    assert (await desk.read("nothing")).tainted
    assert (await desk.edit("f", "y", "x")).tainted


async def test_files_are_read_side_by_side(desk: Desk) -> None:
    results: dict[str, str] = {}

    async def read(name: str) -> None:
        results[name] = (await desk.read(name)).content.rpartition("\t")[2]

    for name in "abc":
        await desk.write(name, f"I am {name}")
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(read, name)
    assert results == {name: f"I am {name}" for name in "abc"}
    assert ReadFile.concurrent
    assert not EditFile.concurrent
    assert not WriteFile.concurrent
