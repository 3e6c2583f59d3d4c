"""Decoding of bytes by their byte order mark or label, or by a guess if both are missing or wrong."""

import codecs
import re
from typing import Final

# WHATWG's labels (encoding.spec.whatwg.org) for Python's codecs.
_LABELS: Final = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2 iso-10646-ucs-2 csunicode unicodefeff",
    "utf-16-be": "utf-16be unicodefffe",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 iso88591 latin1 l1 ascii us-ascii"
    " ansi_x3.4-1968 cp819 ibm819 csisolatin1",
    "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2",
    "iso8859-3": "iso-8859-3 iso8859-3 latin3",
    "iso8859-4": "iso-8859-4 iso8859-4 latin4",
    "iso8859-5": "iso-8859-5 iso8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 arabic",
    "iso8859-7": "iso-8859-7 iso8859-7 greek",
    "iso8859-8": "iso-8859-8 iso8859-8 iso-8859-8-i hebrew logical visual",
    "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso_8859-9 latin5",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 iso_8859-15 latin9 l9",
    "iso8859-16": "iso-8859-16",
    "cp866": "ibm866 cp866 866",
    "koi8-r": "koi8-r koi8 koi koi8_r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "windows-874 cp874 dos-874 tis-620 iso-8859-11 iso8859-11",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1253": "windows-1253 cp1253",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "gb18030": "gb18030 gbk x-gbk gb2312 gb_2312 gb_2312-80 chinese csgb2312 iso-ir-58",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5 csbig5",
    "euc_jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji ms932 windows-31j csshiftjis",
    "cp949": "euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 korean windows-949 cseuckr",
}
_CODECS: Final = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_XML_SAYS: Final = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
_META_SAYS: Final = re.compile(rb"<meta\s[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_LOOKED_THROUGH_BYTES: Final = 4096
_GUESSED_FROM_BYTES: Final = 40_000
# Without windows-1250: a guess cannot distinguish it from windows-1252, which is more common without a label.
_GUESSES: Final = ("cp1252", "cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949", "iso8859_7")
_MARKUP: Final = re.compile(rb"<[^<>]*>")


def codec_of(label: str) -> str | None:
    """Return Python's codec for an encoding label from a server or a page; None for an unknown label."""
    return _CODECS.get(label.strip().strip("\"'").lower())


def load_codecs() -> None:
    """Import all codecs that `decode` may need, because the confined process cannot open files."""
    for codec in (*_LABELS, *_GUESSES):
        codecs.lookup(codec)


def decode(body: bytes, label: str = "", *, markup: bool = False) -> str:
    """Decode a body. `label` is the encoding in the header. With `markup`, the body may declare one too.

    A byte order mark determines the encoding. Without one, a body that is valid UTF-8 is decoded as UTF-8,
    and any other body by the labels. If the label is missing or plainly wrong, the encoding is guessed. Bytes
    that stand for no character become U+FFFD.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    codec = codec_of(label) or (_own_words(body) if markup else None)
    if codec is not None and codec.startswith("utf-16"):
        return body.decode(codec, "replace")
    if codec is None:
        codec = _wide(body)
        if codec is not None:
            return body.decode(codec, "replace")
    # Text in another encoding is not valid UTF-8 by chance, so valid UTF-8 is UTF-8 despite its label.
    # Bytes up to 127 mean the same in all encodings except ISO-2022-JP.
    if codec != "iso2022_jp" and _is(body, "utf-8"):
        return body.decode("utf-8", "replace")
    if codec in (None, "utf-8") or not _is(body, codec):
        codec = _guess(body) or codec
    return body.decode(codec or "cp1252", "replace")


def _own_words(body: bytes) -> str | None:
    """Return the codec of the encoding that a page declares in its own text."""
    beginning = body[:_LOOKED_THROUGH_BYTES]
    for says in (_XML_SAYS.match(beginning), _META_SAYS.search(beginning)):
        if says:
            codec = codec_of(says[1].decode("ascii", "replace"))
            # The name was found in ASCII bytes, so the page is not UTF-16.
            return "utf-8" if codec is not None and codec.startswith("utf-16") else codec
    return None


def _wide(body: bytes) -> str | None:
    """Return the codec of a UTF-16 body without a byte order mark; None if it does not look like UTF-16.

    In most UTF-16 texts, about half of the bytes are NUL, either at even or at odd positions only.
    """
    beginning = body[:_LOOKED_THROUGH_BYTES]
    even, odd = beginning[::2].count(0), beginning[1::2].count(0)
    enough = len(beginning) // 5
    if max(even, odd) <= enough or min(even, odd) * 10 > max(even, odd):
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


def _is(body: bytes, codec: str | None) -> bool:
    """Return True if the codec can decode the whole body. The body may end in the middle of a character."""
    if codec is None:
        return False
    if codec.startswith(("cp125", "iso8859", "koi8", "mac", "cp874", "cp866")):
        return True  # in a single-byte encoding, an unassigned byte does not prove another encoding
    try:
        codecs.getincrementaldecoder(codec)("strict").decode(body)
    except UnicodeDecodeError:
        return False
    return True


def _guess(body: bytes) -> str | None:
    from charset_normalizer import from_bytes

    sample = b" ".join(_MARKUP.sub(b" ", body[:_GUESSED_FROM_BYTES]).split())
    best = from_bytes(sample, cp_isolation=list(_GUESSES)).best()
    return best.encoding if best is not None else None
