"""`-f` and `@file`: real files; what is named and is no file stays text."""

import os
from pathlib import Path

import pytest
import trio

from rumi.channels.mentions import as_mention, dropped, missing_lines
from rumi.channels.terminal.clipboard import clipboard_picture
from rumi.channels.terminal.files import MOST_FILES, handed_files, named_in
from rumi.channels.terminal.options import FileLimits
from rumi.channels.terminal.piped import what_to_send
from rumi.channels.terminal.streams import StandardStreams
from rumi.channels.terminal.words import Reader, command_of
from rumi.errors import UsageError
from rumi.store.journal.records import Attachment
from tests.web.readers import files as samples

READER = Reader("en")
LIMITS = FileLimits(100)
REPORTED: list[str] = []


async def report(line: str) -> None:
    await trio.lowlevel.checkpoint()
    REPORTED.append(line)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    REPORTED.clear()
    (tmp_path / "a.txt").write_text("uno")
    (tmp_path / "my file.txt").write_text("dós")
    (tmp_path / "Makefile").write_text("all:")
    (tmp_path / "property").write_text("-")
    (tmp_path / "functools.py").write_text("-")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.csv").write_text("1")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "x.md").write_text("-")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("compare @a.txt, please", ("a.txt",)),
        ('sum up @"my file.txt".', ("my file.txt",)),
        ("sum up @'my file.txt'.", ("my file.txt",)),
        (r"sum up @my\ file.txt", ("my file.txt",)),
        ("@~/x.md and @sub/../a.txt", ("~/x.md", "sub/../a.txt")),
        ("@a.txt and (see @a.txt)!", ("a.txt",)),
        ("(@a.txt)", ("a.txt",)),
        ("mail ana@a.txt or @nobody", ()),
        ("look into @sub and @", ("sub",)),
        ("@missing.txt", ()),
        ("@" + "x" * 5000, ()),
        ("make it with @Makefile", ("Makefile",)),
        ("why?\n@property\n@functools.cache\ndef f(): ...", ()),
        ("these:\n@a.txt\n@sub/b.csv", ("a.txt", "sub/b.csv")),
        ("```\n@a.txt\n```\nwhat is it", ()),
    ],
)
async def test_only_a_file_that_exists_is_named(text: str, names: tuple[str, ...]) -> None:
    found = await named_in(text)
    assert (found.names, found.missing) == (names, ())


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see @a.tx", (("a.tx", "a.txt"),)),
        ("see @A.TXT!", (("A.TXT", "a.txt"),)),
        ("see @sub/b.cvs", (("sub/b.cvs", "sub/b.csv"),)),
        ("see @suub/b.csv", (("suub/b.csv", "sub/b.csv"),)),
        ('see @"my fle.txt"', (("my fle.txt", "my file.txt"),)),
        ("see @./nothing.like.it", (("./nothing.like.it", ""),)),
        ("see @ana.maria and @scope/package, ana@a.tx", ()),
    ],
)
async def test_a_name_like_that_of_a_file_is_told_with_the_file(
    text: str, missing: tuple[tuple[str, str], ...]
) -> None:
    found = await named_in(text)
    assert (found.names, found.missing) == ((), missing)
    lines = missing_lines(found, READER.language)
    assert [("does not exist" in line) for line in lines] == [True] * len(missing)


def test_a_drop_is_nothing_but_whole_paths_of_files(folder: Path) -> None:
    file, other = f"{folder}/a.txt", f"{folder}/my file.txt"
    for text in (f"{file} ", f"'{file}'", f"file://{file}", f"file://localhost{file}"):
        assert dropped(text) == (file,)
    for text in (other, f"'{other}' ", other.replace(" ", r"\ "), f"file://{other}".replace(" ", "%20")):
        assert dropped(text) == (other,)
    assert dropped(f"'{other}' {file}") == dropped(f"file://{other}\nfile://{file}".replace(" f", "%20f"))
    for text in (
        "",
        "/help",
        f"what is {file}",
        f"{file} what is it",
        "a.txt",
        f"file://elsewhere{file}",
        "'",
    ):
        assert dropped(text) == ()
    assert [as_mention(path) for path in (file, other, f"{folder}/home/x.md", "/etc/hosts")] == [
        *("@a.txt", '@"my file.txt"', "@home/x.md", "@/etc/hosts")
    ]


async def test_a_file_is_handed_on_once_and_of_a_folder_its_names(folder: Path) -> None:
    (folder / "link").symlink_to("a.txt")
    handed = await handed_files(["a.txt", "./a.txt", "link", "sub"], LIMITS, READER, report)
    assert handed == (
        Attachment("file", reference=str(folder / "a.txt"), name="a.txt", size_bytes=3),
        Attachment("words", handed[1].media_type, source=handed[1].source, text="b.csv"),
    )
    assert "sub" in handed[1].source
    assert REPORTED == ["📁 sub: the model gets its 1 name, and no file of it."]


async def test_what_cannot_be_handed_on_is_named_each(folder: Path) -> None:
    (folder / "large.bin").write_bytes(b"\0" * ((1 << 20) + 1))
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    latin = os.fsdecode(b"caf\xe9.txt")
    limits = FileLimits(100, megabytes=1)
    names = ["a.txt", "large.bin", "pipe", "/dev/null", "dangling", "missing.txt", "a\0b", latin]
    with pytest.raises(UsageError) as refused:
        await handed_files(names, limits, READER, report)
    assert str(refused.value).splitlines() == [
        "large.bin is larger than 1 MB ([session] file_mb).",
        "pipe is not a file.",
        "/dev/null is not a file.",
        "dangling cannot be read: No such file or directory.",
        "missing.txt cannot be read: No such file or directory.",
        "ab cannot be read: embedded null byte.",
        "caf?.txt cannot be read: No such file or directory.",
    ]
    with pytest.raises(UsageError, match="at most 50 files"):
        await handed_files(["a.txt"] * (MOST_FILES + 1), LIMITS, READER, report)


async def test_a_name_of_any_bytes_is_handed_on(folder: Path) -> None:
    path = os.fsencode(folder) + b"/caf\xe9.txt"
    Path(os.fsdecode(path)).write_text("1")
    (handed,) = await handed_files([os.fsdecode(b"caf\xe9.txt")], LIMITS, READER, report)
    assert os.fsencode(handed.reference) == path


async def test_a_single_turn_hands_on_its_files_but_none_that_standard_input_names(folder: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"!read @a.txt")
    os.close(write)
    streams = StandardStreams(stdin=read)
    try:
        assert await what_to_send("-", streams, "en", LIMITS) == ("!read @a.txt", ())
    finally:
        os.close(read)
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        streams = StandardStreams(stdin=null)
        text, handed = await what_to_send("see @a.txt", streams, "en", LIMITS, ["my file.txt", "a.txt"])
        with pytest.raises(UsageError, match=r"The file @a\.tx does not exist\. Did you mean @a\.txt\?"):
            await what_to_send("see @a.tx", streams, "en", LIMITS)
        ran = await what_to_send("!ls @a.tx", streams, "en", LIMITS)
    finally:
        os.close(null)
    assert (text, [one.name for one in handed]) == ("see @a.txt", ["my file.txt", "a.txt"])
    assert ran == ("!ls @a.tx", (Attachment("command", text="ls @a.tx"),))


def test_a_command_is_what_follows_one_exclamation_mark() -> None:
    lines = {
        "!ls -la": "ls -la",
        "! ls": "ls",
        "!": None,
        "!!": None,
        "!!!": None,
        "hey!": None,
        "¡ls!": None,
    }
    assert {line: command_of(line) for line in lines} == lines


async def test_the_clipboards_picture_is_a_file_or_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(UsageError, match="there is no wl-paste, xclip, pngpaste"):
        await clipboard_picture()
    (folder / "picture").write_bytes(samples.picture(3, 2))
    program = folder / "xclip"
    program.write_text(f"#!/bin/sh\nexec /bin/cat {folder}/picture\n")
    program.chmod(0o700)
    path = await clipboard_picture()
    assert Path(path).read_bytes() == samples.picture(3, 2)
    assert (os.stat(path).st_mode & 0o777, os.stat(Path(path).parent).st_mode & 0o777) == (0o600, 0o700)
    (folder / "picture").write_text("no picture")
    with pytest.raises(UsageError, match="no picture in the clipboard"):
        await clipboard_picture()
