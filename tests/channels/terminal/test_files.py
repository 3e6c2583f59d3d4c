"""`-f` and `@file`: real files; what is named and is no file stays text."""

import os
from pathlib import Path

import pytest
import trio

from rumi.channels.terminal.files import MOST_FILES, handed_files, named_in
from rumi.channels.terminal.options import FileLimits
from rumi.channels.terminal.piped import what_to_send
from rumi.channels.terminal.streams import StandardStreams
from rumi.channels.terminal.words import Reader
from rumi.errors import UsageError
from rumi.store.journal.records import Attachment

READER = Reader("en")
LIMITS = FileLimits(100)
REPORTED: list[str] = []


async def report(line: str) -> None:
    await trio.lowlevel.checkpoint()
    REPORTED.append(line)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    REPORTED.clear()
    (tmp_path / "a.txt").write_text("uno")
    (tmp_path / "my file.txt").write_text("dós")
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("compare @a.txt, please", ("a.txt",)),
        ('sum up @"my file.txt".', ("my file.txt",)),
        ("@a.txt and (see @a.txt)!", ("a.txt",)),
        ("mail ana@a.txt or @nobody", ()),
        ("look into @sub and @", ()),
        ("@missing.txt", ()),
        ("@" + "x" * 5000, ()),
    ],
)
def test_only_a_file_that_exists_is_named(text: str, names: tuple[str, ...]) -> None:
    assert named_in(text) == names


async def test_files_are_handed_on_as_somebody_elses_words(folder: Path) -> None:
    handed = await handed_files(["a.txt", "my file.txt"], LIMITS, READER, report)
    assert handed == (
        Attachment("words", source="file a.txt", text="uno"),
        Attachment("file", reference=str(folder / "a.txt"), name="a.txt"),
        Attachment("words", source="file my file.txt", text="dós"),
        Attachment("file", reference=str(folder / "my file.txt"), name="my file.txt"),
    )
    assert REPORTED == []


async def test_a_text_that_is_too_large_to_be_stored_is_told(folder: Path) -> None:
    (folder / "log.txt").write_text("x" * (1 << 20))
    (folder / "large.txt").write_text("y" * ((1 << 20) + 1))
    limits = FileLimits(1 << 22, megabytes=1)
    handed = await handed_files(["log.txt", "large.txt"], limits, READER, report)
    assert [attachment.kind for attachment in handed] == ["words", "file", "words"]
    assert REPORTED == ["large.txt is larger than 1 MB ([session] file_mb), so only its text is used."]


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1251", "Имя;Цена\nСтол;1200\n"),
        ("cp1252", "Größe;Preis\nTür;12\nMöbel;30\n"),
        ("cp932", "品名、価格\n机、千円です\n"),
        ("utf-16", "Имя;Цена\nСтол;1200\n"),
        ("utf-16-le", "Name;Price\nTür;12\n"),
        ("utf-8-sig", "Größe\n"),
        ("gb18030", "名称，价格\n桌子，一千二百元\n"),
    ],
)
async def test_a_file_of_any_encoding_is_handed_on_as_text(folder: Path, codec: str, text: str) -> None:
    (folder / "prices.csv").write_bytes(text.encode(codec))
    handed, _ = await handed_files(["prices.csv"], LIMITS, READER, report)
    assert handed == Attachment("words", source="file prices.csv", text=text)


async def test_broken_bytes_of_a_file_cost_no_other_text(folder: Path) -> None:
    (folder / "a.txt").write_bytes("Größe, Köln".encode() + b" \xff " + "Tür".encode())
    handed, _ = await handed_files(["a.txt"], LIMITS, READER, report)
    assert handed.text == "Größe, Köln \ufffd Tür"


async def test_what_is_too_long_is_cut_and_told(folder: Path) -> None:
    first, _, second, _ = await handed_files(["a.txt", "my file.txt"], FileLimits(4), READER, report)
    assert (first.text, first.cut, second.text, second.cut) == ("uno", False, "d", True)
    assert len(REPORTED) == 1
    assert "my file.txt" in REPORTED[0]


async def test_what_cannot_be_read_is_one_sentence(folder: Path) -> None:
    (folder / "image.png").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(folder / "pipe")
    for name, says in (
        ("missing.txt", "No such file"), ("sub", "s a directory"),
        ("pipe", "not a file"), ("a\0b", "null"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=says):
            await handed_files([name], LIMITS, READER, report)
    with pytest.raises(UsageError, match="at most"):
        await handed_files(["a.txt"] * (MOST_FILES + 1), LIMITS, READER, report)


async def test_a_single_turn_hands_on_its_files_but_none_that_standard_input_names(folder: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"read @a.txt")
    os.close(write)
    streams = StandardStreams(stdin=read)
    try:
        assert await what_to_send("-", streams, "en", LIMITS) == ("read @a.txt", ())
    finally:
        os.close(read)
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        text, handed = await what_to_send(
            "see @a.txt", StandardStreams(stdin=null), "en", LIMITS, ["my file.txt", "a.txt"]
        )
    finally:
        os.close(null)
    assert text == "see @a.txt"
    assert [attachment.source or attachment.name for attachment in handed] == [
        *("file my file.txt", "my file.txt"),
        *("file a.txt", "a.txt"),
    ]
