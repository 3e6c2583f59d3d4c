"""The name of a downloaded file: from the header `Content-Disposition`, the URL, or the media type."""

import mimetypes
import re
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from rumi.web.fetch.headers import Headers
from rumi.web.url import Target

_MOST_CHARS: Final = 2000
# A parameter with a value in quotes, whose quotes and backslashes are escaped, or with a bare one.
_PARAMETER: Final = re.compile(
    r";\s*(?P<name>filename\*?)\s*=\s*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*+)\"?|(?P<bare>[^;]*+))", re.IGNORECASE
)
_EXTENDED: Final = re.compile(r"([\w.:-]{1,40})'[^']{0,40}'(.*)", re.DOTALL)
_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_ENDINGS: Final = {"application/octet-stream": "", "text/plain": ".txt", "application/x-gzip": ".gz"}


def suggested_name(headers: Headers, target: Target) -> str:
    """Return the file name that an answer suggests; it is untrusted, and may contain folders.

    `filename*` goes before `filename` (RFC 6266). Browsers also decode names in UTF-8, in percent-encoding
    and as encoded words, which servers send against the rules.
    """
    path = target.path_and_query.partition("?")[0]
    name = disposition_name(headers.first("content-disposition")) or _in_url(path.rsplit("/", 1)[-1])
    if name.startswith("."):
        return f"download{name}"
    if "." not in name:
        name = f"{name or 'download'}{_ending(headers.media_type)}"
    return name


def disposition_name(header: str) -> str:
    """Return the file name in the value of a `Content-Disposition` header; empty if there is none."""
    found: dict[str, str] = {}
    for parameter in _PARAMETER.finditer(f";{header[:_MOST_CHARS].partition(';')[2]}"):
        value = parameter["bare"]
        if value is None:
            value = re.sub(r"\\(.)", r"\1", parameter["quoted"])
        found.setdefault(parameter["name"].lower(), value.strip())
    if extended := _EXTENDED.fullmatch(found.get("filename*", "")):
        with suppress(LookupError, UnicodeError):  # then the other parameter may do
            return unquote_to_bytes(extended[2]).decode(extended[1])
    return _as_sent(found.get("filename", ""))


def _as_sent(name: str) -> str:
    """Decode a plain name, which is Latin-1 by the rules and often is something else."""
    with suppress(UnicodeError):
        name = name.encode("latin-1").decode()
    if name.startswith("=?") and name.endswith("?="):
        try:
            return str(make_header(decode_header(name)))
        except (HeaderParseError, LookupError, UnicodeError, ValueError):
            return name
    return _in_url(name) if _PERCENT.search(name) else name


def _in_url(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeError:
        return segment


def _ending(media_type: str) -> str:
    return _ENDINGS.get(media_type, mimetypes.guess_extension(media_type, strict=False) or "")
