"""What models see of files in workspaces, which commands may change everywhere."""

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest
import trio

from rumi.errors import RumiError
from rumi.models.model import Message, Picture
from rumi.models.transcription import MAX_AUDIO_BYTES
from rumi.platform.threads import Threads
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file
from rumi.sandbox.workspace import WorkspaceError, prepare_workspace
from rumi.web.readers.files.reading import ViewLimits, ViewRefused
from rumi.web.readers.files.viewer import PICTURES_FOLDER, Viewer
from tests.fakes.media_servers import MP3, WAV
from tests.web.readers import files

USER = (1234, 1234) if os.getuid() == 0 else (os.getuid(), os.getgid())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return prepare_workspace(tmp_path, "cli", *USER)


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    limits = ViewLimits(pictures=3)
    return Viewer(ChatFiles(tmp_path / "workspace", USER), USER, SandboxLimits(), limits, Threads(2))


def references(pictures: Sequence[Picture]) -> list[Message]:
    return [
        Message("user", "see", pictures=(Picture(picture.path, picture.media_type),)) for picture in pictures
    ]


async def some(viewer: Viewer, workspace: Path, count: int) -> list[Picture]:
    """So many different pictures, kept."""
    kept = []
    for number in range(count):
        (workspace / f"{number}.png").write_bytes(files.picture(20 + number, 10))
        seen = await viewer.file("cli", f"{number}.png")
        assert seen is not None
        kept += seen.pictures
    return kept


async def test_the_original_stays_and_the_scaled_one_is_kept_beside_it(
    viewer: Viewer, workspace: Path
) -> None:
    photo = files.turned_photo(3000, 2000)
    (workspace / "photo.jpg").write_bytes(photo)
    seen = await viewer.sent("cli", about_file("photo.jpg", "image/jpeg", len(photo)), 1000)
    assert seen.about.splitlines()[1] == "[A JPEG picture of 3000 x 2000 pixels. You see it with 894 x 1341]"
    (picture,) = seen.pictures
    kept = workspace / picture.path
    assert (kept.read_bytes(), kept.parent.name) == (picture.data, PICTURES_FOLDER)
    assert (workspace / "photo.jpg").read_bytes() == photo
    assert kept.stat().st_uid == USER[0]
    assert oct(kept.stat().st_mode & 0o777) == "0o600"
    again = await viewer.file("cli", "photo.jpg")
    assert again is not None
    assert again.pictures == seen.pictures
    assert len(os.listdir(kept.parent)) == 1


async def test_a_prompt_gets_the_bytes_and_its_references_stay(viewer: Viewer, workspace: Path) -> None:
    pictures = await some(viewer, workspace, 2)
    messages = references(pictures)
    loaded = await viewer.load("cli", messages, True)
    assert [message.pictures[0].data for message in loaded] == [picture.data for picture in pictures]
    assert await viewer.load("cli", messages, False) is messages
    assert not any(message.pictures[0].data for message in messages)


async def test_a_missing_or_changed_picture_becomes_a_note(viewer: Viewer, workspace: Path) -> None:
    first, second, third = await some(viewer, workspace, 3)
    (workspace / first.path).unlink()
    (workspace / second.path).write_bytes(third.data)
    (workspace / "secret.png").write_bytes(files.picture(9, 9))
    other = Picture("secret.png", "image/png")
    loaded = await viewer.load("cli", references([first, second, other]), True)
    assert [message.pictures for message in loaded] == [(), (), ()]
    assert all("missing or has changed" in message.content for message in loaded)


async def test_the_oldest_pictures_give_way_several_at_a_time(viewer: Viewer, workspace: Path) -> None:
    messages = references(await some(viewer, workspace, 6))
    shown = []
    for count in range(1, 7):
        loaded = await viewer.load("cli", messages[:count], True)
        shown.append("".join("x" if message.pictures else "-" for message in loaded))
    assert shown == ["x", "xx", "xxx", "--xx", "--xxx", "----xx"]


async def test_a_link_in_place_of_the_folder_is_not_followed(
    viewer: Viewer, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (workspace / PICTURES_FOLDER).symlink_to(tmp_path / "outside")
    (workspace / "a.png").write_bytes(files.picture(9, 9))
    with pytest.raises(WorkspaceError):
        await viewer.file("cli", "a.png")
    assert not list((tmp_path / "outside").iterdir())


async def test_a_picture_of_another_chat_is_none_of_this_one(viewer: Viewer, workspace: Path) -> None:
    (picture,) = await some(viewer, workspace, 1)
    (loaded,) = await viewer.load("other", references([picture]), True)
    assert not loaded.pictures


async def test_a_document_is_cut_at_a_line_and_says_how_to_read_on(viewer: Viewer, workspace: Path) -> None:
    (workspace / "a.xlsx").write_bytes(files.sheet(*[(f"row {n}", n) for n in range(1, 101)]))
    seen = await viewer.sent("cli", about_file("a.xlsx", "application/zip", 5), 500)
    lines = seen.about.splitlines()
    assert lines[1].startswith("[The text of this xlsx file: 101 lines")
    assert lines[2] == "## Sheet Budget"
    shown = len(lines) - 3
    assert lines[-2] == f"| row {shown - 1} | {shown - 1} |"
    assert f"read_file with path a.xlsx and offset {shown + 1}" in lines[-1]


async def test_what_cannot_be_seen_is_told_in_a_line(viewer: Viewer, workspace: Path) -> None:
    (workspace / "bomb.png").write_bytes(files.huge_png(30_000, 30_000))
    seen = await viewer.sent("cli", about_file("bomb.png", "image/png", 9), 100)
    assert "[It cannot be shown: its 30000 x 30000 pixels are more than 64,000,000.]" in seen.about
    gone = await viewer.sent("cli", about_file("gone.png", "image/png", 9), 100)
    assert "It cannot be shown" in gone.about
    (workspace / "a.bin").write_bytes(b"words\0")
    about = about_file("a.bin", "", 6)
    assert (await viewer.sent("cli", about, 100)).about == about
    assert (await viewer.sent("cli", "a voice message", 100)).about == "a voice message"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "[The file is empty]"),
        (b"uno", "[A text file of 1 line]\nuno"),
        ("Tür;12\nMöbel;30\n".encode("cp1252"), "[A text file of 2 lines, in cp1252 and not in UTF-8]\nTür"),
        ("Имя\nСтол\n".encode("utf-16"), "[A text file of 2 lines, in utf-16-le and not in UTF-8]\nИмя"),
    ],
)
async def test_a_text_is_shown_with_its_lines(
    viewer: Viewer, workspace: Path, content: bytes, says: str
) -> None:
    (workspace / "a.csv").write_bytes(content)
    about = about_file("a.csv", "text/csv", len(content))
    assert (await viewer.sent("cli", about, 1000)).about.startswith(f"{about}\n{says}")


async def test_of_a_long_text_the_beginning_is_shown_and_how_to_read_on(
    viewer: Viewer, workspace: Path
) -> None:
    (workspace / "a.csv").write_text("line\n" * 1_000_000)
    seen = (await viewer.sent("cli", about_file("a.csv", "text/csv", 5_000_000), 1000)).about
    assert "[A text file of 1000000 lines. Only its beginning follows]\nline\n" in seen
    assert seen.endswith("line\n[… Read on: read_file with path a.csv and offset 201 …]")
    assert len(seen) < 1300


async def test_no_room_for_the_scaled_picture_is_told(tmp_path: Path, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(files.picture(9, 9))
    full = SandboxLimits(workspace_files=1)
    viewer = Viewer(ChatFiles(tmp_path / "workspace", USER), USER, full, ViewLimits(), Threads(2))
    with pytest.raises(WorkspaceError, match="no room"):
        await viewer.file("cli", "a.png")


async def test_a_picture_that_a_tool_brings_is_scaled_and_kept(viewer: Viewer, workspace: Path) -> None:
    seen = await viewer.picture("cli", files.picture(3000, 2000))
    assert (workspace / seen.pictures[0].path).read_bytes() == seen.pictures[0].data
    with pytest.raises(ViewRefused):
        await viewer.picture("cli", BytesIO(b"<svg/>").read())


async def test_what_a_tool_brings_is_kept_in_a_chat_that_has_no_workspace_yet(
    viewer: Viewer, tmp_path: Path
) -> None:
    seen = await viewer.picture("new", files.picture(30, 20))
    folder = tmp_path / "workspace" / "new"
    assert (folder / seen.pictures[0].path).read_bytes() == seen.pictures[0].data
    assert [await viewer.save_file("other", b"%PDF", "../May.pdf") for _ in range(2)] == [
        "May.pdf",
        "May-2.pdf",
    ]
    assert (tmp_path / "workspace" / "other" / "May.pdf").read_bytes() == b"%PDF"


async def test_a_sound_file_is_heard_where_something_can_hear(
    viewer: Viewer, workspace: Path, tmp_path: Path
) -> None:
    heard: list[tuple[str, bytes]] = []
    words = ["Buy milk. And bread!", ""]

    async def hear(name: str, body: bytes) -> str:
        await trio.lowlevel.checkpoint()
        heard.append((name, body))
        if not words:
            raise RumiError("The server is deaf.")
        return words.pop(0)

    (workspace / "note.mp3").write_bytes(MP3)
    about = about_file("note.mp3", "audio/mpeg", len(MP3))
    assert (await viewer.sent("cli", about, 1000)).about == about  # nothing can hear
    hearing = Viewer(
        ChatFiles(tmp_path / "workspace", USER), USER, SandboxLimits(), ViewLimits(), Threads(2), hear
    )
    seen = await hearing.sent("cli", about, 1000)
    said = "What is said in this sound file, 20 characters"
    assert seen.about == f"{about}\n[{said}]\nBuy milk.\nAnd bread!"
    assert (await hearing.sent("cli", about, 1000)).about == seen.about
    assert heard == [("note.mp3", MP3)]  # each part of a long transcript is read by a call of its own
    for changed, told in (
        (b"silence", "A sound file in which nobody speaks"),
        (b"more", "It cannot be shown: The server is deaf."),
    ):
        (workspace / "note.mp3").write_bytes(MP3 + changed)
        assert (await hearing.sent("cli", about, 1000)).about == f"{about}\n[{told}]"


async def test_a_sound_file_that_is_too_large_is_not_sent(workspace: Path, tmp_path: Path) -> None:
    async def hear(name: str, body: bytes) -> str:
        raise AssertionError

    hearing = Viewer(
        ChatFiles(tmp_path / "workspace", USER), USER, SandboxLimits(), ViewLimits(), Threads(2), hear
    )
    (workspace / "long.wav").write_bytes(WAV)
    os.truncate(workspace / "long.wav", MAX_AUDIO_BYTES + 1)
    with pytest.raises(ViewRefused, match="larger than"):
        await hearing.file("cli", "long.wav")
    (workspace / "film.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(99))
    assert await hearing.file("cli", "film.mp4") is None
