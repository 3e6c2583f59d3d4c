"""Decoding of foreign bytes as text, by the WHATWG Encoding Standard (encoding.spec.whatwg.org).

A byte order mark comes first, then the label of the transport (such as `Content-Type`), then the encoding
that markup declares itself. A declared encoding is final: bytes that stand for no character in it become
U+FFFD, and no other encoding is tried. Text that declares nothing is UTF-8 if all of it but a few broken
bytes is; otherwise chardet detects its encoding. Without chardet (the extra `encodings`), it is
Windows-1252, which the standard has for such text.
"""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from rumi.platform.extras import is_installed

Markup: TypeAlias = Literal["", "html", "xml"]

REPLACEMENT: Final = "\ufffd"
SNIFFED_BYTES: Final = 4096
"""Number of bytes at the beginning of a text that show whether it is UTF-16 or UTF-32."""

# The marks of UTF-32 come first, because the mark of UTF-16 is the beginning of one of them.
MARKS: Final = (
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Encodings that browsers refuse because scripts could hide in them; here, they are only read.
_REFUSED_BY_BROWSERS: Final = {"hz-gb-2312": "hz", "iso-2022-kr": "iso2022_kr", "csiso2022kr": "iso2022_kr"}
# Python's codecs that also read what the standard's decoders read.
_SUPERSETS: Final = {"gbk": "gb18030", "iso2022_jp": "iso2022_jp_ext"}

_UNUSED_IN_CP932: Final = dict.fromkeys(range(0xF8F0, 0xF8F4), REPLACEMENT)
"""For bytes that stand for nothing in Shift_JIS (A0, FD, FE, FF), Python has characters of private use."""

# What text without a label is in, on the web and in files of Windows; the codecs' names in chardet. Rare
# encodings are left out, because a short text would be taken for them too often.
_DETECTED: Final = frozenset(
    {f"cp{number}" for number in (866, 874, 932, 949, *range(1250, 1258))}
    | {f"iso8859-{number}" for number in (1, 2, 5, 6, 7, 8, 9, 15)}
    | {"tis-620", "koi8-r", "koi8-u", "euc_kr", "gb18030", "big5hkscs", "euc_jis_2004"}
)
_MULTIBYTE: Final = ("cp932", "cp949", "gb18030", "big5hkscs", "euc_jis_2004")
_ISO_8859: Final = frozenset(codec for codec in _DETECTED if codec.startswith("iso8859"))
_LATIN: Final = frozenset(
    {"cp1250", "cp1252", "cp1254", "cp1257", "iso8859-1", "iso8859-2", "iso8859-9", "iso8859-15"}
)
_IN_NO_LATIN: Final = b"\x81\x90"
"""Bytes that stand for nothing in the encodings of Windows for Latin letters."""

_SHARP_S: Final = b"\xdf"  # often behind an umlaut
_FEW_LETTERS: Final = 8
_WESTERN: Final = "àáâãäåæçèéêëíîïñóôöøùúûüß€£°§«»“”‘’–—…¡¿ºª©®ÄÅÆÇÈÉÑÓÖØÚÜ".encode("cp1252")
"""The bytes that most texts in Windows-1252 use: a text of a few of them says too little for statistics."""

_HIGH_RUN: Final = re.compile(rb"[\x80-\xff]+")
_C1: Final = re.compile(rb"[\x80-\x9f]")
_WHERE_NOTHING_FITS: Final = "cp1252"
_GUESSED_FROM_BYTES: Final = 20_000
_PIECE_BYTES: Final = 1000
_GROUPS: Final = 5
_LEAST_PIECES: Final = 3
_PIECE: Final = re.compile(rb"\S.{0,80}+\S*+", re.DOTALL)

_UTF8: Final = re.compile(
    rb"(?:[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2})+"
)
"""The UTF-8 characters that are in use: none begins above 0xF0, but in GBK such bytes are common.

Surrogates are not valid in UTF-8, but some programs write an emoji as two of them, and nothing else has them.
"""

_BEGUN_UTF8: Final = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
_ASCII: Final = bytes(range(128))
_CONTROLS: Final = bytes({*range(32)} - {*b"\t\n\r\f\x1b"})
_VENDOR_ROWS: Final = (b"\xad", b"\xf9", b"\xfa", b"\xfb", b"\xfc")
_ISO_2022: Final = re.compile(rb"\x1b(?:\$[@B]|\([IJ])|(\x1b\$\)C)")

_DECLARES_BYTES: Final = 32_768
_ATTRIBUTE: Final = rb"""[\s/]*+([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>]*+)))?"""
_IN_TAG: Final = re.compile(_ATTRIBUTE)
# Comments, elements whose content is text, meta elements, other tags, and what else begins with <: a `meta`
# inside of these does not count. Browsers differ in scripts and titles; Chromium skips them, too.
_TAGS: Final = re.compile(
    rb"<!(?=--)(?:(?s:.*?)-->|(?s:.*))"
    rb"|<(?:script|style|title|textarea)(?=[\s/>])(?:(?s:.*?)</(?:script|style|title|textarea)|(?s:.*))"
    rb"|<(meta)(?=[\s/])((?:%(a)s)*+)|</?[a-z][^\s/>]*+(?:%(a)s)*+|<[!/?][^>]*+"
    % {b"a": re.sub(rb"\((?!\?)", rb"(?:", _ATTRIBUTE)},
    re.IGNORECASE,
)
_XML_DECLARES: Final = re.compile(rb"\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
_CHARSET: Final = re.compile(r"charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"']+))", re.IGNORECASE)


def decode(body: bytes, label: str = "", *, markup: Markup = "") -> str:
    """Decode a text; bytes that stand for no character become U+FFFD.

    `label` is the encoding that the transport declares; an unknown label counts as none. With `markup`, the
    text may declare its encoding too.
    """
    mark, codec = encoding_of(body, label, markup=markup)
    text = body[len(mark) :].decode(codec, _HANDLER)
    return text.translate(_UNUSED_IN_CP932) if codec == "cp932" else text


def encoding_of(body: bytes, label: str = "", *, markup: Markup = "") -> tuple[bytes, str]:
    """Return a text's byte order mark, which may be empty, and the name of Python's codec for it."""
    for mark, codec in MARKS:
        if body.startswith(mark):
            return mark, codec
    return b"", codec_of(label) or (_declared(body, markup) if markup else None) or _detected(body)


def codec_of(label: str) -> str | None:
    """Return Python's codec for an encoding label by the WHATWG's table; None for an unknown label."""
    from webencodings import lookup

    label = label.strip().strip("\"'").lower()
    if label in _REFUSED_BY_BROWSERS:
        return _REFUSED_BY_BROWSERS[label]
    found = lookup(label)
    if found is None or found.name == "replacement":
        return None
    codec = "cp1252" if found.name == "x-user-defined" else found.codec_info.name
    return _SUPERSETS.get(codec, codec)


def wide_codec(body: bytes) -> str | None:
    """Return the codec of a UTF-16 or UTF-32 text without a byte order mark; None for other bytes.

    The higher bytes of the characters give these texts away: in most scripts, they are control characters,
    and every second byte is one.
    """
    sample = body[:SNIFFED_BYTES]
    sample = sample[: len(sample) // 4 * 4] if len(sample) > 4 else sample[: len(sample) // 2 * 2]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls * 40 < len(sample) or len(sample) < 4:
        return None
    quarters = [sample[start::4].count(0) * 20 >= len(sample) // 4 * 19 for start in range(4)]
    for codec, zeros in (("utf-32-le", quarters[2:]), ("utf-32-be", quarters[:2])):
        if all(zeros) and not all(quarters):
            return codec
    high = [len(part) - len(part.translate(None, _CONTROLS)) for part in (sample[::2], sample[1::2])]
    if max(high) * 4 > len(sample) and min(high) * 2 < max(high):
        codec = "utf-16-be" if high[0] > high[1] else "utf-16-le"
        return codec if _is_plausible(sample, codec) else None
    if _is(sample, "utf-8"):
        return None
    # Of Chinese, Japanese and Korean characters, the higher bytes differ less than the lower ones.
    codec = "utf-16-be" if len({*sample[::2]}) < len({*sample[1::2]}) else "utf-16-le"
    return codec if _is_plausible(sample, codec, most_are_ideographs=True) else None


def load() -> None:
    """Import all that `decode` may need, because a confined process cannot open files."""
    from webencodings import LABELS

    for label in (*LABELS, *_REFUSED_BY_BROWSERS):
        codecs.lookup(codec_of(label) or "utf-8")
    for codec in (*_DETECTED, "big5"):
        codecs.lookup(codec)
    # A short sample and one with many pairs of letters: chardet loads its tables at first use.
    letters = "абвгдежзиклмнопрстуфхцчшщыэюя"
    for text in ("Утром придёт мастер", " ".join(one + other for one in letters for other in letters)):
        _guess(text.encode("cp1251"))


def _declared(body: bytes, markup: Markup) -> str | None:
    """Return the codec of the encoding that a page declares; in ASCII bytes, so it is not UTF-16."""
    beginning = body[:_DECLARES_BYTES]
    declaration = _XML_DECLARES.match(beginning)
    in_xml = codec_of(declaration[1].decode("ascii")) if declaration else None
    codec = in_xml if markup == "xml" else _meta(beginning) or in_xml
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec


def _meta(beginning: bytes) -> str | None:
    """Scan the beginning of a page for the encoding in a meta element (HTML Standard, 13.2.3.2)."""
    for tag in _TAGS.finditer(beginning):
        if not tag[1]:
            continue
        attributes: dict[str, str] = {}
        for name, *values in _IN_TAG.findall(tag[2]):
            value = next(filter(None, values), b"").decode("latin-1")
            attributes.setdefault(name.decode("latin-1").lower(), value)
        label = attributes.get("charset", "")
        if not label and attributes.get("http-equiv", "").strip().lower() == "content-type":
            found = _CHARSET.search(attributes.get("content", ""))
            label = next(filter(None, found.groups()), "") if found else ""
        if (codec := codec_of(label)) is not None:
            return codec
    return None


def _detected(body: bytes) -> str:
    """Return the codec of a text that declares no encoding."""
    if (wide := wide_codec(body)) is not None:
        return wide
    high = len(body) - len(body.translate(None, delete=bytes(range(128, 256))))
    if (escape := _ISO_2022.search(body)) is not None and high * 50 <= len(body):
        return "iso2022_kr" if escape[1] else "iso2022_jp_ext"
    return "utf-8" if not high or _is_nearly_utf8(body, high) else _guess(body)


def _is(body: bytes, codec: str) -> bool:
    """Return True if the codec can decode the whole body. The body may end in the middle of a character."""
    try:
        codecs.getincrementaldecoder(codec)("strict").decode(body)
    except UnicodeDecodeError:
        return False
    return True


def _is_nearly_utf8(body: bytes, high: int) -> bool:
    """Return True if few of the `high` bytes above 127 are outside of UTF-8 sequences.

    Text in another encoding has such sequences by chance only. The most are in Thai and Chinese, up to a
    third of its bytes. In a text that is mostly ASCII, one broken character may have as many bytes as all
    others.
    """
    if _is(body, "utf-8"):
        return True
    rest = _UTF8.sub(b"", _BEGUN_UTF8.sub(b"", body))
    broken = len(rest.translate(None, delete=_ASCII))
    whole = high - broken
    if whole >= 3 * broken:
        return True
    if whole < broken / 2 or whole < 2 or broken > 4 or high * 4 > len(body):
        return False
    found = "".join(sequence[0].decode("utf-8", "replace") for sequence in _UTF8.finditer(body))
    return all(character < "\u0250" or "\u2010" <= character <= "\u20cf" for character in found)


def _is_plausible(sample: bytes, codec: str, *, most_are_ideographs: bool = False) -> bool:
    """Return True if a decoded sample has hardly a character that no text has."""
    try:
        text = codecs.getincrementaldecoder(codec)("strict").decode(sample)
    except UnicodeDecodeError:
        return False
    odd = sum(1 for one in text if unicodedata.category(one)[0] == "C" and one not in "\t\n\r\f")
    ideographs = sum(1 for one in text if "\u3000" <= one <= "\u9fff" or "\uac00" <= one <= "\ud7a3")
    return odd * 50 <= len(text) and (not most_are_ideographs or ideographs * 2 >= len(text))


def _guess(body: bytes) -> str:
    """Return the codec that most parts of a text seem to be in.

    A single broken byte would exclude the right encoding for the whole text, but only for one of its parts.
    """
    pieces = list(_pieces(body))
    if (codec := _broken_multibyte(b"\n".join(pieces))) is not None:
        return codec
    if len(pieces) < _LEAST_PIECES:
        # A broken byte in the shorter part must not decide about the longer one.
        most = max((len(piece.translate(None, delete=_ASCII)) for piece in pieces), default=0)
        return _guess_part(
            [piece for piece in pieces if 4 * len(piece.translate(None, delete=_ASCII)) > most]
        )
    whole = _guess_part(pieces)
    votes = Counter(_guess_part(pieces[start::_GROUPS]) for start in range(min(_GROUPS, len(pieces))))
    votes[whole] += 1
    return max(votes, key=lambda codec: (votes[codec], codec == whole))


def _broken_multibyte(sample: bytes) -> str | None:
    """Return the Chinese, Japanese or Korean codec in which all but a few bytes of a sample are text.

    For chardet, such bytes exclude the codec, so it gets the sample without them, and must find the codec.
    """
    for codec in _MULTIBYTE:
        text = sample.decode(codec, "replace")
        broken = text.count(REPLACEMENT)
        characters = sum(1 for one in text if one > "\x7f") - broken
        if not broken or characters < max(4, 10 * (broken - 1)):
            continue
        text = text.replace(REPLACEMENT, "")
        without = text.encode(codec)
        if without.decode(_found(without, _DETECTED), "replace") == text:
            return codec
    return None


def _found(sample: bytes, possible: frozenset[str]) -> str:
    if not is_installed("encodings"):
        return _WHERE_NOTHING_FITS
    from chardet import detect

    found = detect(sample, include_encodings=possible, no_match_encoding=_WHERE_NOTHING_FITS)
    label = found["encoding"] or _WHERE_NOTHING_FITS
    return codec_of(label) or codecs.lookup(label).name


def _guess_part(pieces: list[bytes]) -> str:
    sample = b"\n".join(pieces)
    latin = _is_latin(sample)
    if latin:
        sample = sample.translate(None, delete=_IN_NO_LATIN)
    letters = sample.translate(None, delete=_ASCII)
    if latin and len(letters) <= _FEW_LETTERS and not letters.translate(None, delete=_WESTERN):
        return _WHERE_NOTHING_FITS
    possible = _LATIN if latin else _DETECTED
    if _C1.search(sample):  # control characters in ISO 8859, and letters and punctuation in other encodings
        possible -= _ISO_8859
    codec = _found(sample, possible)
    # Where the most common encoding reads the same text, an edit can add more characters in it.
    common = sample.decode(_WHERE_NOTHING_FITS, "replace")
    return _WHERE_NOTHING_FITS if sample.decode(codec, "replace") == common else codec


def _is_latin(sample: bytes) -> bool:
    """Return True for letters with accents among ASCII: most bytes above 127 stand alone."""
    runs = _HIGH_RUN.findall(sample)
    high = sum(map(len, runs))
    alone = sum(1 for run in runs if len(run.replace(_SHARP_S, b"")) <= 1)
    return alone * 10 >= len(runs) * 8 and (len(sample) - high) >= 2 * high


def _pieces(body: bytes) -> Iterator[bytes]:
    """Yield the parts of a text that are not ASCII: lines, and parts of long lines, without tags.

    No multi-byte encoding uses white space and angle brackets inside of a character.
    """
    size = 0
    for line in re.finditer(rb"<[!/?a-zA-Z][^<>]*>|([^\r\n<>]+)", body):
        if not line[1] or line[1].isascii():
            continue
        for piece in _PIECE.finditer(line[1]):
            if not piece[0].isascii():
                yield piece[0][:_PIECE_BYTES]
                size += min(len(piece[0]), _PIECE_BYTES)
        if size > _GUESSED_FROM_BYTES:
            break


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Return what the standard's decoder returns where Python's decoder fails: U+FFFD in most cases.

    Windows writes the euro sign in GBK as one byte, and the letters of a row that Python's EUC-JP lacks.
    """
    assert isinstance(error, UnicodeDecodeError)
    at = error.object[error.start : error.start + 2]
    if error.encoding == "gb18030" and at[:1] == b"\x80":
        return "€", error.start + 1
    if error.encoding == "euc_jp" and at[:1] in _VENDOR_ROWS and at[1:] >= b"\xa1":
        row, cell = at[0] - 0xA1, at[1] - 0xA1
        trail = cell + 0x9F if row % 2 else cell + 0x40 + (cell >= 0x3F)
        found = bytes((row // 2 + (0x81 if row < 62 else 0xC1), trail)).decode("cp932", "ignore")
        if found:
            return found, error.start + 2
    return REPLACEMENT, error.end


_HANDLER: Final = "rumi-replace"
codecs.register_error(_HANDLER, _replaced)
