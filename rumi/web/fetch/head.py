"""Repair of response heads that servers send and browsers accept, before h11 parses them.

h11 refuses a whole answer for one malformed line. This module drops such a line, and keeps the others. A
connection carries one answer only, so no other answer can be hidden in a head.
"""

import re
from typing import Final

_END: Final = re.compile(rb"\r?\n\r?\n")
_STATUS: Final = re.compile(rb"[\s\0]*(?:HTTP/(\d(?:\.\d)?)|ICY)[ \t]+(\d{3})(?!\d)", re.IGNORECASE)
_NAME: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_NOT_IN_VALUES: Final = re.compile(rb"[\0\r]")
_NUMBER: Final = re.compile(rb"\d{1,19}")
_MOST_BLANK: Final = 1000
_INTERIM: Final = re.compile(rb"1(?!01)\d\d")


class HeadRepair:
    """Passes on the bytes of an answer, with its heads repaired.

    `most_bytes` is the maximum size of a head; a larger one is passed on as it is.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held = b""
        self._over = False
        self._blank = 0

    def repaired(self, data: bytes) -> bytes:
        """Return bytes for the parser: none while a head is incomplete. No `data` means the end."""
        if self._over:
            return data
        searched = max(0, len(self._held) - 3)  # a head may come byte by byte
        self._held += data
        if self._blank < _MOST_BLANK:  # before a head, browsers skip empty lines
            size, self._held = len(self._held), self._held.lstrip(b"\r\n")
            self._blank += size - len(self._held)
            searched = max(0, searched - size + len(self._held))
        out = b""
        while not self._over and (end := _END.search(self._held, searched)):
            searched = 0
            head, self._held = self._held[: end.start()], self._held[end.end() :]
            status = _STATUS.match(head)
            self._over = status is None or not _INTERIM.fullmatch(status[2])
            out += _repaired(head, status) if status else head + end[0]
        if self._over or not data or len(self._held) > self._most_bytes:
            self._over = True
            out, self._held = out + self._held, b""
        return out


def _repaired(head: bytes, status: re.Match[bytes]) -> bytes:
    version = b"1.0" if status[1] == b"1.0" else b"1.1"
    lines = [b"HTTP/%s %s" % (version, status[2])]
    kept, lengths = True, set[bytes]()
    for line in re.split(rb"\r?\n", head[status.end() :])[1:]:
        if line[:1] in (b" ", b"\t"):  # continues the line before it
            if kept and len(lines) > 1:
                lines[-1] += b" " + _NOT_IN_VALUES.sub(b" ", line).strip()
            continue
        name, colon, value = line.partition(b":")
        name, value = name.rstrip(b" \t"), _NOT_IN_VALUES.sub(b" ", value).strip()
        kept = bool(colon) and _NAME.fullmatch(name) is not None
        match name.lower():
            case b"content-length":
                lengths |= {number.strip() for number in value.split(b",")}
                kept = False
            case b"transfer-encoding":
                # As in browsers, everything but chunked is about the content.
                kept, value = kept and b"chunked" in value.lower(), b"chunked"
                kept = kept and b"transfer-encoding: chunked" not in lines
                name = name.lower()
        if kept:
            lines.append(b"%s: %s" % (name, value))
    # Of several lengths, none is trusted: the body then ends with the connection.
    if len(lengths) == 1 and _NUMBER.fullmatch(length := lengths.pop()):
        lines.append(b"Content-Length: " + length)
    return b"\r\n".join(lines) + b"\r\n\r\n"
