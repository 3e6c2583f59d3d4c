"""From bytes to characters."""

import codecs

import pytest

from rumi.web.readers.pages.charset import codec_of, decode

TEXTS = {
    "cp1252": "El pingüino comió piñas y cigüeñas – «todo» por 5 € en la plaza de la Constitución de Cádiz.",
    "cp932": "東京の天気は晴れです。明日は雨が降るかもしれませんので、傘をお持ちください。",
    "gb18030": "今天天气很好，我们去公园散步，看到了很多花和树木，还有一些小鸟在唱歌。",
    "koi8-r": "Вчера вечером мы долго гуляли по набережной и говорили о погоде и о книгах.",
    "cp1251": "Вчера вечером мы долго гуляли по набережной и говорили о погоде и о книгах.",
    "big5hkscs": "今天天氣很好，我們去公園散步，看到了很多花和樹木，還有一些小鳥在唱歌。",
    "cp949": "오늘은 날씨가 아주 좋아서 공원에서 산책을 하고 책을 읽었습니다.",
    "euc_jp": "東京の天気は晴れです。明日は雨が降るかもしれませんので、傘をお持ちください。",
    "iso2022_jp": "東京の天気は晴れです。明日は雨が降るかもしれません。",
    "utf-16-le": "Zażółć gęślą jaźń, and more words.",
    "utf-16-be": "Zażółć gęślą jaźń, and more words.",
    "utf-8": "Zażółć gęślą jaźń — 東京",
}
LABELS = [
    ("cp1252", "windows-1252"),
    ("cp1252", "ISO-8859-1"),
    ("cp1252", '"latin1"'),
    ("cp932", "Shift_JIS"),
    ("gb18030", "gb2312"),
    ("gb18030", "GBK"),
    ("koi8-r", "koi8-r"),
    ("cp1251", "windows-1251"),
    ("big5hkscs", "Big5"),
    ("cp949", "euc-kr"),
    ("euc_jp", "EUC-JP"),
    ("iso2022_jp", "iso-2022-jp"),
    ("utf-16-le", "utf-16"),
    ("utf-16-be", "utf-16be"),
    ("utf-8", "UTF-8"),
]


@pytest.mark.parametrize(("codec", "label"), LABELS)
def test_the_label_of_the_server_is_read_as_the_web_means_it(codec: str, label: str) -> None:
    assert decode(TEXTS[codec].encode(codec), label) == TEXTS[codec]


@pytest.mark.parametrize(("codec", "label"), [pair for pair in LABELS if "utf-16" not in pair[0]])
def test_a_page_says_it_itself(codec: str, label: str) -> None:
    label = label.strip('"')
    for head in (
        f'<html><meta charset="{label}"><p>',
        f"<html><META http-equiv=Content-Type content='text/html; charset={label}'><p>",
        f'<?xml version="1.0" encoding="{label}"?><p>',
    ):
        body = head.encode() + TEXTS[codec].encode(codec)
        assert decode(body, markup=True) == head + TEXTS[codec]


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_a_mark_wins_over_every_label(mark: bytes, codec: str) -> None:
    assert decode(mark + TEXTS["utf-8"].encode(codec), "koi8-r") == TEXTS["utf-8"]


def test_the_server_wins_over_the_page() -> None:
    body = b"<meta charset=windows-1251>" + TEXTS["koi8-r"].encode("koi8-r")
    assert TEXTS["koi8-r"] in decode(body, "koi8-r", markup=True)


@pytest.mark.parametrize(
    "label", ["windows-1252", "iso-8859-1", "shift_jis", "koi8-r", "us-ascii", "made-up", ""]
)
def test_what_is_utf8_is_read_as_that_whatever_its_label(label: str) -> None:
    assert decode(TEXTS["utf-8"].encode(), label) == TEXTS["utf-8"]


@pytest.mark.parametrize("codec", ["cp1252", "cp932", "gb18030", "koi8-r", "cp1251", "cp949"])
@pytest.mark.parametrize("label", ["utf-8", ""])
def test_a_page_with_a_wrong_label_or_none_is_guessed(codec: str, label: str) -> None:
    text = TEXTS[codec] * 3
    assert decode(text.encode(codec), label) == text


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_without_mark_or_label_is_seen(codec: str) -> None:
    assert decode("Plain words, mostly, żółć.".encode(codec)) == "Plain words, mostly, żółć."


def test_a_page_that_was_cut_in_the_midst_of_a_character_is_read_to_there() -> None:
    assert decode(TEXTS["utf-8"].encode()[:-1], "").startswith(TEXTS["utf-8"][:-1])
    assert decode(TEXTS["cp932"].encode("cp932")[:-1], "shift_jis").startswith(TEXTS["cp932"][:-1])


def test_a_page_that_says_utf16_in_ascii_is_none() -> None:
    assert decode(b"<meta charset=utf-16><p>caf\xc3\xa9", markup=True).endswith("<p>café")


@pytest.mark.parametrize(
    "label", ["zip", "utf-7", "unicode_escape", "idna", "base64", "rot13", "utf-32", "x" * 999]
)
def test_a_label_that_the_web_does_not_know_is_none(label: str) -> None:
    assert codec_of(label) is None


def test_every_codec_exists() -> None:
    for label in (
        "utf8",
        "latin1",
        "x-sjis",
        "gbk",
        "koi8-u",
        "macintosh",
        "iso-8859-8-i",
        "tis-620",
        "ibm866",
    ):
        assert codecs.lookup(codec_of(label) or "")
