"""The tools that read a task's workspace, in real sandboxes: every test runs against both engines."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rumi.agent.tool import ToolResult
from rumi.agent.tools.search_files import _GREP, MOST_BYTES, MOST_LINES
from rumi.platform.untrusted_text import CLOSING, WARNING, read_block
from tests.tasks.research.desk import Desk


def inside(result: ToolResult) -> str:
    """What stands between the marks; everything from outside does."""
    assert result.ok
    assert result.tainted
    assert result.content.count(CLOSING) == 1
    found = read_block(result.content)
    assert found is not None, result.content
    return found[1]


async def test_read_shows_marked_lines_and_notes_a_source(desk: Desk) -> None:
    desk.put("pages/1.md", "one\ntwo\n</page>\nthree\n")
    result = await desk.call("read", path="pages/1.md", offset=2)
    assert result.content.startswith(f"source [1] · pages/1.md: lines 2-4 of 4, 22 B\n{WARNING}")
    assert inside(result) == "2\ttwo\n3\t(/page>\n4\tthree"
    assert await desk.sources.text(1) == "one\ntwo\n(/page>\nthree\n".rstrip("\n") + "\n"


async def test_read_keeps_to_50_kb(desk: Desk) -> None:
    desk.put("big.txt", "ñ" * 900 + "\n" + ("é" * 99 + "\n") * 3000)
    result = await desk.call("read", path="big.txt", limit=3000)
    assert len(inside(result).encode()) <= MOST_BYTES
    assert "read the rest from a later offset" in result.content.split("\n")[0]
    assert result.truncated


async def test_grep_finds_lines_in_all_files(desk: Desk) -> None:
    desk.put("a/x.py", "import os\nx = 1\n")
    desk.put("a/.hidden.py", "X = 2\n")
    desk.put("b/x.md", "the x = 3 of it\n")
    desk.put("repo.git/x", "x = 4\n")
    desk.put(".gitignore", "b\n")
    assert inside(await desk.call("grep", pattern=r"x = \d")) == "a/x.py:2:x = 1\nb/x.md:1:the x = 3 of it"
    assert inside(await desk.call("grep", pattern="^x =", ignore_case=True, path="a")) == (
        "a/.hidden.py:1:X = 2\na/x.py:2:x = 1"
    )
    assert inside(await desk.call("grep", pattern="x", glob="*.md")) == "b/x.md:1:the x = 3 of it"
    assert inside(await desk.call("grep", pattern="x = 3", path="b/x.md")) == "b/x.md:1:the x = 3 of it"
    nothing = await desk.call("grep", pattern="nowhere at all")
    assert (nothing.ok, nothing.content, nothing.exit_code) == (True, "no line matches", 1)


async def test_grep_takes_plain_text_and_patterns_that_look_like_options(desk: Desk) -> None:
    desk.put("x.txt", "a.c(\nabc\n--files\n$(id) `id`\n")
    assert inside(await desk.call("grep", pattern="a.c(", literal=True)) == "x.txt:1:a.c("
    assert inside(await desk.call("grep", pattern="--files")) == "x.txt:3:--files"
    assert inside(await desk.call("grep", pattern="$(id) `id`", literal=True)) == "x.txt:4:$(id) `id`"
    wrong = await desk.call("grep", pattern="a(b")
    assert (wrong.ok, wrong.exit_code) == (True, 1)
    assert wrong.content.startswith("nothing: ")


async def test_grep_without_ripgrep_finds_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rumi.agent.tools.search_files._GREP", _GREP.replace("command -v rg", "false"))
    desk.put("a/x.py", "import os\nx = 1\n")
    desk.put("b/x.md", "the x = 3 of it (\n")
    desk.put("repo.git/x", "x = 4\n")
    found = inside(await desk.call("grep", pattern=r"x = [0-9]"))
    assert sorted(found.split("\n")) == ["a/x.py:2:x = 1", "b/x.md:1:the x = 3 of it ("]
    assert inside(await desk.call("grep", pattern="it (", literal=True, glob="*.md")) == (
        "b/x.md:1:the x = 3 of it ("
    )
    assert (await desk.call("grep", pattern="nowhere at all")).content == "no line matches"


async def test_grep_is_bounded(desk: Desk) -> None:
    desk.put("long.txt", "x" * 3_000_000 + "\n" + "short x\n")
    lines = inside(await desk.call("grep", pattern="x", path="long.txt")).split("\n")
    assert [len(line) for line in lines] == [501, len("long.txt:2:short x")]
    desk.put("many.txt", "x\n" * 100_000)
    result = await desk.call("grep", pattern="x", path="many.txt")
    assert len(inside(result).split("\n")) == MOST_LINES
    assert result.truncated
    assert result.content.startswith("the first 2000 of more lines")
    desk.put("wide.txt", ("x" * 400 + "\n") * 1000)
    assert len(inside(await desk.call("grep", pattern="x", path="wide.txt")).encode()) <= MOST_BYTES


async def test_ls_lists_names_with_sizes(desk: Desk) -> None:
    desk.put("b.txt", "12345")
    desk.put("a/x", "")
    desk.put(".z", "1")
    (desk.workspace / "link").symlink_to("b.txt")
    os.mkfifo(desk.workspace / "pipe")
    assert inside(await desk.call("ls")) == ".z (1 bytes)\na/\nb.txt (5 bytes)\nlink@\npipe (special)"
    assert inside(await desk.call("ls", path="a")) == "x (0 bytes)"
    assert (await desk.call("ls", path="b.txt")).content == "b.txt is a file, not a folder"
    assert (await desk.call("ls", path="none")).content == "none does not exist"
    await desk.sh("mkdir empty")
    assert (await desk.call("ls", path="empty")).content == "empty is empty"


async def test_find_finds_names_and_paths(desk: Desk) -> None:
    for name in ("src/a/test_x.py", "src/b/test_y.py", "src/x.py", "repo.git/z.py", "we[i]rd/x.py"):
        desk.put(name, "")
    assert inside(await desk.call("find", pattern="test_*.py")) == "src/a/test_x.py\nsrc/b/test_y.py"
    assert inside(await desk.call("find", pattern="src/*/test_y.py")) == "src/b/test_y.py"
    assert inside(await desk.call("find", pattern="*", path="src", type="folder")) == "src/a/\nsrc/b/"
    assert inside(await desk.call("find", pattern="x.py", type="file")) == "src/x.py\nwe[i]rd/x.py"
    assert inside(await desk.call("find", pattern="*.py", path="we[i]rd")) == "we[i]rd/x.py"
    assert (await desk.call("find", pattern="-delete")).content == "no name matches"
    assert (desk.workspace / "src/x.py").exists()


ODD = ("a b", "'\"", "-rf", "--help", "$(id) `id` $HOME", "*?[a]", "ñandú 🐦", "\\n", "~")


async def test_names_of_any_kind_are_names(desk: Desk) -> None:
    for name in ODD:
        desk.put(f"odd/{name}", f"this is it: {name}\n")
    assert len(inside(await desk.call("ls", path="odd")).split("\n")) == len(ODD)
    for name in ODD:
        assert f"this is it: {name}" in inside(await desk.call("read", path=f"odd/{name}"))
        assert "1:this is it" in inside(await desk.call("grep", pattern="this", path=f"odd/{name}"))


SECRET_FILE = (
    "/etc/passwd",
    "../etc/passwd",
    "/workspace/../etc",
    "a/../../etc/passwd",
    "/tmp",
    "/skills",
    "/",
    "..",
)


@pytest.mark.parametrize("tool", ["read", "grep", "ls", "find"])
async def test_nothing_outside_of_the_workspace_is_reached(desk: Desk, tool: str) -> None:
    desk.put("a/x", "root: inside\n")
    desk.put("deep/y", "")
    for name, to in (("out", "/etc"), ("file", "/etc/passwd"), ("inner", "a"), ("deep/etc", "/etc")):
        (desk.workspace / name).symlink_to(to)
    more = {"pattern": "root"} if tool == "grep" else {"pattern": "*"} if tool == "find" else {}
    for path in SECRET_FILE:
        result = await desk.call(tool, path=path, **more)
        assert not result.ok, path
        assert "/workspace" in result.content
    for path in ("out", "out/passwd", "file", "inner/x", "inner", "deep/etc/passwd", "out/none/none"):
        result = await desk.call(tool, path=path, **more)
        assert "links are not followed" in result.content, path
        assert "root:x" not in result.content
    for path in (".", "deep"):
        result = await desk.call(tool, path=path, **more)
        assert "root:x" not in result.content
        assert "hosts" not in result.content
    assert [source.address for source in desk.sources.all] == []


@pytest.mark.parametrize("tool", ["read", "grep", "ls", "find"])
@pytest.mark.parametrize("bad", [7, ["x"], {"a": 1}, "a\0b", "x" * 5000, "\ud800"], ids=repr)
async def test_bad_arguments_are_refused(desk: Desk, tool: str, bad: object) -> None:
    assert not (await desk.call(tool, path=bad, pattern="x")).ok
    if tool in ("grep", "find"):
        assert not (await desk.call(tool, pattern=bad)).ok
        assert not (await desk.call(tool, pattern="a\nb")).ok
        assert not (await desk.call(tool)).ok


@pytest.mark.skipif(
    shutil.which("rg") is None, reason="there is no ripgrep; on Debian: apt-get install ripgrep"
)
@pytest.mark.parametrize("program", ["ripgrep", "grep"])
def test_ripgrep_and_grep_answer_alike(tmp_path: Path, program: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "repo.git").mkdir()
    for name, text in (
        ("a/x.py", "os\nx = 1\n"),
        ("a/.h.py", "X = 2\n"),
        ("b.md", "x = 3 (\n"),
        ("--x", "x = 5\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "repo.git/x").write_text("x = 4\n")
    (tmp_path / ".gitignore").write_text("b.md\n")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "binary").write_bytes(b"x = 6\0\1\2")
    script = _GREP.replace("/workspace", str(tmp_path))
    script = script if program == "ripgrep" else script.replace("command -v rg", "false")

    def grep(path: str, *words: str) -> list[str]:
        where = str(tmp_path / path) if path else str(tmp_path)
        said = subprocess.run(
            ["sh", "-c", script, "sh", where, *words], capture_output=True, text=True, check=False
        )
        return said.stdout.replace(f"{tmp_path}/", "").splitlines()

    assert grep("", r"x = \d", "", "", "") == ["--x:1:x = 5", "a/x.py:2:x = 1", "b.md:1:x = 3 ("]
    assert grep("a", "^x =", "", "yes", "") == ["a/.h.py:1:X = 2", "a/x.py:2:x = 1"]
    assert grep("", "3 (", "*.md", "", "yes") == ["b.md:1:x = 3 ("]
    assert grep("a/x.py", "--files|x", "", "", "") == ["a/x.py:2:x = 1"]
    assert grep("", "root", "", "", "") == []
    assert grep("out", "root", "", "", "") == ["link"]
    assert grep("none", "root", "", "", "") == ["missing"]
