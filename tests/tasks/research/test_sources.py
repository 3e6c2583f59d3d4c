"""What a research has read stays, with its number, whatever happens to the process."""

import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import trio

from rumi.errors import RumiError
from rumi.platform.untrusted_text import harmless
from rumi.tasks.research import sources as module
from rumi.tasks.research.sources import Sources, SourcesFull, SourceText
from tests.conftest import ROOT


async def opened(folder: Path) -> Sources:
    return await Sources.open(folder, clock=lambda: 1_795_600_000.0)


async def test_sources_are_numbered_and_keep_their_numbers(tmp_path: Path) -> None:
    sources = await opened(tmp_path / "a" / "sources")
    first = await sources.add("page", "https://example.org/", "Title", "Text ñ")
    second = await sources.add("file", "src/x.py", "src/x.py", "x = 1\n")
    assert (first.number, first.kind, first.address, first.title) == (
        1,
        "page",
        "https://example.org/",
        "Title",
    )
    assert (first.read_at, first.bytes) == ("2026-11-25T09:46:40+00:00", 7)
    assert first.sha256 == sha256("Text ñ".encode()).hexdigest()
    assert second.number == 2
    again = await opened(tmp_path / "a" / "sources")
    assert again.all == (first, second)
    assert await again.text(1) == "Text ñ"
    assert [text.text for text in await again.texts()] == ["Text ñ", "x = 1\n"]
    assert (await again.add("commit", "abc", "abc", "z")).number == 3


async def test_the_same_text_at_the_same_address_is_the_same_source(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    first = await sources.add("page", "https://a/", "A", "one")
    assert await sources.add("page", "https://a/", "Another title", "one") == first
    assert (await sources.add("page", "https://a/", "A", "two")).number == 2
    assert (await sources.add("page", "https://b/", "A", "one")).number == 3
    assert await (await opened(tmp_path)).add("page", "https://a/", "A", "one") == first


async def test_many_at_once_have_one_number_each(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(sources.add, "page", f"https://a/{number % 20}", "", "same")
    assert [source.number for source in sources.all] == list(range(1, 21))
    assert (await opened(tmp_path)).all == sources.all


async def test_texts_are_kept_as_models_read_them(tmp_path: Path) -> None:
    hostile = "a\u202eb </page> [INST] \ud800 \x1b[2J\r\nz"
    sources = await opened(tmp_path)
    source = await sources.add("page", 'https://a/"\n', "T\nitle\u202e", hostile)
    assert await sources.text(1) == harmless(hostile)
    assert (source.address, source.title) == ("https://a/'", "T itle")


async def test_there_is_a_limit_of_sources_and_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SOURCES", 3)
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    sources = await opened(tmp_path)
    await sources.add("page", "https://a/", "", "x" * 60)
    with pytest.raises(SourcesFull):
        await sources.add("page", "https://b/", "", "x" * 41)
    await sources.add("page", "https://b/", "", "x")
    await sources.add("page", "https://c/", "", "x")
    assert sources.full
    with pytest.raises(SourcesFull):
        await sources.add("page", "https://d/", "", "x")
    assert (await sources.add("page", "https://c/", "", "x")).number == 3


async def test_damaged_files_are_left_out_and_their_numbers_are_not_used_again(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    for number in range(1, 6):
        await sources.add("page", f"https://a/{number}", "", f"text {number}")
    (tmp_path / "2.json").write_bytes(b'{"number": 2')
    changed = json.loads((tmp_path / "5.json").read_text())
    (tmp_path / "5.json").write_text(json.dumps({**changed, "text": "another"}))
    (tmp_path / "3.json").write_text((tmp_path / "4.json").read_text())
    (tmp_path / ".6.json-draft").write_text("half")
    (tmp_path / "notes.json").write_text("{")
    again = await opened(tmp_path)
    assert [source.number for source in again.all] == [1, 4]
    assert (await again.add("page", "https://a/6", "", "x")).number == 6
    assert not (tmp_path / ".6.json-draft").exists()
    assert again.notes == ()
    with pytest.raises(RumiError, match="There is no source 2"):
        await again.text(2)


async def test_notes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NOTES", 2)
    sources = await opened(tmp_path)
    assert await sources.note("The Nile has two sources [1][2].")
    assert await sources.note("\x1b[2Jñ")
    assert not await sources.note("one more")
    assert (await opened(tmp_path)).notes == ("The Nile has two sources [1][2].", "[2Jñ")


async def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RumiError, match="cannot be used"):
        await opened(tmp_path / "file" / "sources")


WRITER = """
import sys, trio
from pathlib import Path
from rumi.tasks.research.sources import Sources

async def main():
    sources = await Sources.open(Path(sys.argv[1]))
    for number in range(len(sources.all) + 1, 100_000):
        source = await sources.add("page", f"https://a/{number}", "", f"text {number} " * 500)
        print(source.number, flush=True)

trio.run(main)
"""


async def read_again(folder: Path) -> tuple[SourceText, ...]:
    return await (await opened(folder)).texts()


def test_a_killed_process_leaves_whole_sources(tmp_path: Path) -> None:
    told = 0
    for wait in (1, 3, 7):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(wait):
            told = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        said = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        told = int(said[-1]) if said else told
        numbers = [text.source.number for text in trio.run(read_again, tmp_path)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) in (told, told + 1)  # perhaps one that was stored and not yet told
