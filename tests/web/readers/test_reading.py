"""Looks at files of all kinds, each in a real confined process."""

import os
import time
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest
import trio
from PIL import Image

from rumi.platform.file_kinds import Kind
from rumi.web.readers.files.reading import Looks, ViewLimits, ViewRefused
from tests.web.readers import files

BILLION_LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


async def scaled(body: bytes, limits: ViewLimits | None = None) -> Image.Image:
    heard = await Looks(limits or ViewLimits()).look("picture", body)
    return Image.open(BytesIO(b64decode(heard["data"])))


async def text(kind: Kind, body: bytes) -> str:
    return str((await Looks(ViewLimits()).look(kind, body))["text"])


async def test_a_large_picture_is_scaled_down_to_its_bounds() -> None:
    small = await scaled(files.picture(4000, 3000, "JPEG"))
    assert small.width * small.height <= 1_200_000
    assert max(small.size) <= 1568
    assert round(small.width / small.height, 1) == 1.3
    assert max((await scaled(files.picture(4000, 10), ViewLimits(picture_px=100))).size) == 100
    assert (await scaled(files.picture(40, 30))).size == (40, 30), "a small one keeps its size"


async def test_a_turned_photo_stands_upright_and_says_nothing_of_its_place() -> None:
    photo = files.turned_photo(40, 20)
    assert b"SECRET PLACE" in photo
    heard = await Looks(ViewLimits()).look("picture", photo)
    data = b64decode(heard["data"])
    upright = Image.open(BytesIO(data))
    assert upright.size == (20, 40)
    red, green, blue = upright.convert("RGB").getpixel((15, 4))  # type: ignore[misc]
    assert red > 200 > 100 > green + blue, "its top left corner is at the top right now"
    assert not upright.getexif()
    assert b"SECRET" not in data


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
async def test_each_format_becomes_a_png_or_a_jpeg(kind: str) -> None:
    assert (await scaled(files.picture(64, 48, kind))).format in ("PNG", "JPEG")


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16", "1"])
async def test_each_kind_of_pixels_becomes_plain_colours(mode: str) -> None:
    small = await scaled(files.picture(64, 48, "PNG", mode))
    assert small.mode == "RGB"
    if mode == "RGBA":
        assert small.getpixel((60, 40)) == (255, 255, 255), "what is transparent becomes white"


async def test_noise_becomes_small_enough() -> None:
    noise = BytesIO()
    Image.frombytes("RGB", (1000, 800), os.urandom(2_400_000)).save(noise, "PNG")
    heard = await Looks(ViewLimits(picture_bytes=50_000)).look("picture", noise.getvalue())
    assert len(b64decode(heard["data"])) <= 50_000


@pytest.mark.parametrize(
    "body",
    [
        files.huge_png(30_000, 30_000),
        files.picture(64, 48)[:60],
        b"\xff\xd8\xff" + b"x" * 1000,
        b"\x89PNG\r\n\x1a\n",
    ],
)
async def test_a_bomb_and_a_broken_picture_are_refused(body: bytes) -> None:
    begun = time.monotonic()
    with pytest.raises(ViewRefused, match=r"pixels|broken"):
        await scaled(body)
    assert time.monotonic() - begun < 20


async def test_the_text_of_each_kind_of_document() -> None:
    assert "hola" in await text("pdf", files.pdf("hola"))
    assert await text("docx", files.word("ñandú")) == "# Report\nñandú\n\n| rent | 500 |\n"
    assert await text("odt", files.open_document("ñandú")) == "## Report\nñandú\n| rent | 500 |"
    rows = await text("xlsx", files.sheet(("rent", 500), (None,), ("food", None, 1.5)))
    assert rows == "## Sheet Budget\n| rent | 500 |\n| food |  | 1.5 |"
    shown = await text("pptx", files.slides("One", "Two"))
    assert shown == "## Slide 1\nOne\nNotes: about One\n## Slide 2\nTwo\nNotes: about Two"


async def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    bomb = files.changed(
        files.sheet(("a",)), {"xl/worksheets/sheet1.xml": lambda old: old + b" " * 80_000_000}
    )
    assert len(bomb) < 200_000
    with pytest.raises(ViewRefused, match="unpacks to too much"):
        await text("xlsx", bomb)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_xml_that_declares_entities_is_refused(encoding: str) -> None:
    def with_entities(old: bytes) -> bytes:
        return (BILLION_LAUGHS.decode() + old.decode()).encode(encoding)

    bomb = files.changed(files.word("x"), {"word/document.xml": with_entities})
    with pytest.raises(ViewRefused, match="entities"):
        await text("docx", bomb)
    with pytest.raises(ViewRefused, match="entities"):
        await text("odt", files.changed(files.open_document("x"), {"content.xml": with_entities}))


@pytest.mark.long
async def test_a_sheet_of_a_million_rows_ends_in_time() -> None:
    def stretched(old: bytes) -> bytes:
        return old.replace(b'r="1"', b'r="1048576"').replace(b'r="A1"', b'r="A1048576"')

    body = files.changed(files.sheet(("far",)), {"xl/worksheets/sheet1.xml": stretched})
    begun = time.monotonic()
    heard = await Looks(ViewLimits()).look("xlsx", body)
    assert "far" in heard["text"] or "took too long" in heard["cut"]
    assert time.monotonic() - begun < 20


@pytest.mark.long
async def test_what_is_no_document_says_why() -> None:
    for kind in ("docx", "xlsx", "pptx", "odt"):
        with pytest.raises(ViewRefused, match="broken"):
            await text(kind, b"PK\x03\x04 nonsense")
    with pytest.raises(ViewRefused, match="broken"):
        await text("pdf", b"%PDF-1.4 nonsense")


async def test_a_stop_ends_the_process_in_the_middle() -> None:
    body = files.changed(files.sheet(("a",)), {"xl/worksheets/sheet1.xml": rows_without_end})
    looks = Looks(ViewLimits())
    with trio.move_on_after(1.5) as scope:
        await looks.look("xlsx", body)
    assert scope.cancelled_caught
    assert not children()
    assert looks.slots.borrowed_tokens == 0


async def test_a_look_has_a_time_limit() -> None:
    body = files.changed(files.sheet(("a",)), {"xl/worksheets/sheet1.xml": rows_without_end})
    with pytest.raises(ViewRefused, match="more than 1 seconds"):
        await Looks(ViewLimits(), read_s=1).look("xlsx", body)
    assert not children()


def rows_without_end(old: bytes) -> bytes:
    head, _, tail = old.partition(b"</sheetData>")
    return head + b"<row><c><v>1</v></c></row>" * 2_000_000 + b"</sheetData>" + tail


def children() -> list[str]:
    """The processes that look at files, of this one."""
    me, found = os.getpid(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == me and b"rumi.web.readers.files.process" in words:
            found.append(process.name)
    return found
