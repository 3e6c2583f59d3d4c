"""Response bodies as servers compress and label them."""

import gzip
import zlib

import brotli
import pytest
from backports import zstd

from rumi.web.fetch.decoding import Broken, decoder_for
from rumi.web.messages import FetchError

PAGE = b"<html><head><title>Bread</title></head><body><p>Flour and water.</p></body></html>"
GZIP, DEFLATE, BROTLI, ZSTD = (
    gzip.compress(PAGE, mtime=0),
    zlib.compress(PAGE),
    brotli.compress(PAGE),
    zstd.compress(PAGE),
)
SHORT = b"ok"

BODIES = [
    ("gzip", GZIP),
    ("X-GZip", GZIP),
    ("gzip;q=1.0", GZIP),
    ('"gzip"', GZIP),
    ("gzip", gzip.compress(PAGE, 0, mtime=0)),
    ("gzip", gzip.compress(PAGE[:50], mtime=0) + gzip.compress(PAGE[50:], mtime=0)),
    ("gzip", GZIP + bytes(100)),
    ("gzip", GZIP + b"and more"),
    ("deflate", DEFLATE),
    ("deflate", zlib.compress(PAGE, wbits=-15)),
    ("br", BROTLI),
    ("zstd", ZSTD),
    ("zstd", zstd.compress(PAGE[:50]) + zstd.compress(PAGE[50:])),
    ("gzip, br", brotli.compress(GZIP)),
    ("br, zstd", zstd.compress(BROTLI)),
    ("deflate, gzip", gzip.compress(DEFLATE, mtime=0)),
    ("gzip, gzip, gzip", gzip.compress(gzip.compress(GZIP, mtime=0), mtime=0)),
    ("gzip, identity", GZIP),
    ("utf-8, gzip", GZIP),
    # Labels that do not fit.
    ("gzip, gzip", GZIP),
    ("deflate", GZIP),
    ("br", GZIP),
    ("gzip", ZSTD),
    *((label, PAGE) for label in ("gzip", "x-gzip", "deflate", "br", "zstd", "gzip, br")),
    *(
        (label, PAGE)
        for label in ("", "identity", "none", "utf-8", "UTF8", "iso-8859-1", "binary", "8bit", "*")
    ),
    *((label, PAGE) for label in ("identity, identity", "utf-8, none", "text/html", "what, ever is it")),
]


def unpacked(codings: list[str], body: bytes, step: int, *, text: bool = True) -> bytes:
    decoder = decoder_for(codings, text=text)
    pieces = [decoder.decode(body[start : start + step], 10_000) for start in range(0, len(body), step)]
    pieces.append(decoder.rest(10_000))
    assert decoder.whole()
    return b"".join(pieces)


@pytest.mark.parametrize("step", [1, 50, 10_000])
@pytest.mark.parametrize(("coding", "body"), BODIES)
def test_a_body_is_unpacked_by_its_bytes_and_its_label(coding: str, body: bytes, step: int) -> None:
    assert unpacked([coding], body, step) == PAGE
    assert unpacked(coding.split(","), body, step) == PAGE


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br", "none"])
def test_a_short_text_under_a_wrong_label_stays(coding: str) -> None:
    assert unpacked([coding], SHORT, 1) == SHORT
    assert unpacked([coding], b"", 1) == b""


@pytest.mark.parametrize("body", [GZIP, ZSTD, PAGE, "Größe".encode("utf-16"), b"\x01\x02" * 40])
def test_text_without_a_label_is_unpacked_if_it_begins_like_a_packed_body(body: bytes) -> None:
    assert unpacked([], body, 7) in (PAGE, body)
    assert unpacked([], body, 7, text=False) == body
    assert (unpacked([], body, 7) == PAGE) is (body in (GZIP, ZSTD, PAGE))


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", "Größe und Preis; Tür und Möbel; 80 €".encode("cp1252")),
        ("br", "Größe und Preis".encode("utf-16")),
        ("gzip", b"%PDF-1.4\n\x01\x02 and more"),
        ("deflate", b"\x89PNG\r\n\x1a\n\0\0\0"),
        ("deflate", b'{"a": "[1, 2, 3]"}'),
    ],
)
def test_other_plain_bodies_under_a_label_stay(coding: str, body: bytes) -> None:
    assert unpacked([coding], body, 1) == body


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"\x1f\x8b no gzip at all" * 9),
        ("gzip", b"\x01\x02no gzip at all" * 9),
        ("deflate", b"\xff\xff\x01no deflate" * 9),
        ("br", b"\xff\xff\x01no brotli" * 9),
        ("zstd", ZSTD[:6] + b"\xff" * 90),
        ("zstd", b"\x28\xb5\x2f\xfd" + b"\x00\xf8" + bytes(90)),
    ],
)
def test_what_is_damaged_is_told(coding: str, body: bytes) -> None:
    with pytest.raises(Broken):
        unpacked([coding], body, 1000)


@pytest.mark.parametrize(
    ("codings", "said"),
    [
        (["compress"], "unrequested compression: compress."),
        (["gzip, sdch"], "unrequested compression: sdch."),
        (["gzip"] * 9, "unrequested compression: an unknown way."),
        (["xz", "gzip"], "unrequested compression: xz."),
    ],
)
def test_what_no_decoder_is_for_is_told(codings: list[str], said: str) -> None:
    with pytest.raises(FetchError, match=said):
        decoder_for(codings)


@pytest.mark.parametrize("packed", [GZIP, BROTLI, ZSTD, DEFLATE])
def test_what_ends_early_is_not_whole(packed: bytes) -> None:
    coding = {GZIP: "gzip", BROTLI: "br", ZSTD: "zstd", DEFLATE: "deflate"}[packed]
    decoder = decoder_for([coding])
    decoder.decode(packed[:-5], 10_000)
    decoder.rest(10_000)
    assert not decoder.whole()


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", GZIP[:-8] + bytes(8)),
        ("gzip", GZIP[:-4] + b"\xff" * 4),
        ("deflate", DEFLATE[:-4] + bytes(4)),
        ("gzip", gzip.compress(PAGE, mtime=0) + gzip.compress(b"more", mtime=0)[:-8] + bytes(8)),
    ],
)
@pytest.mark.parametrize("room", [7, len(PAGE), 1_000_000])
def test_a_wrong_checksum_costs_no_text(coding: str, packed: bytes, room: int) -> None:
    decoder, found = decoder_for([coding]), b""
    with pytest.raises(Broken) as broken:
        found = decoder.decode(packed, room)
        for _ in range(1000):
            found += decoder.decode(b"", room)
    assert (found + broken.value.data).startswith(PAGE)
    assert len(broken.value.data) <= room


def test_what_lies_behind_a_damaged_place_is_bounded() -> None:
    packed = gzip.compress(bytes(50_000_000), mtime=0)
    with pytest.raises(Broken) as broken:
        decoder = decoder_for(["gzip"])
        for _ in range(1000):
            decoder.decode(packed[:-8] + bytes(8), 100_000)
            packed = bytes(8)
    assert len(broken.value.data) <= 100_000
