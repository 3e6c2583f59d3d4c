"""What a client of the Bot API may put into an HTTP request: a query, a form, JSON, or parts with files."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.bot_api_world import Upload

_NAME = re.compile(rb'\bname="([^"]*)"')
_FILE_NAME = re.compile(rb'\bfilename="([^"]*)"')
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?')
_ESCAPES = {"%22": '"', "%0A": "\n", "%0D": "\r"}


@dataclass(frozen=True, slots=True)
class Request:
    """A call as it came. `download`: it asks for a file, whose path is `method`."""

    token: str
    method: str
    download: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Upload] = field(default_factory=dict)


def understood(target: str, content_type: str, body: bytes) -> Request | None:
    """The call that a request is; None where the Bot API has no such address, or cannot read the body."""
    parts = urlsplit(target)
    path = unquote(parts.path)
    download = path.startswith("/file/")
    token, slash, method = path.removeprefix("/file").removeprefix("/bot").partition("/")
    if not path.removeprefix("/file").startswith("/bot") or not slash:
        return None
    params: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    files: dict[str, Upload] = {}
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        params.update(parse_qsl(body.decode(), keep_blank_values=True))
    elif kind == "application/json" and body:
        try:
            value = json.loads(body)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        params.update(value)
    elif kind == "multipart/form-data":
        boundary = _BOUNDARY.search(content_type)
        if boundary is None:
            return None
        _parts(body, boundary[1].encode(), params, files)
    return Request(token, method, download, params, files)


def _parts(body: bytes, boundary: bytes, params: dict[str, Any], files: dict[str, Upload]) -> None:
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        content = content.removesuffix(b"\r\n")
        name = _NAME.search(head)
        if name is None:
            continue
        file_name = _FILE_NAME.search(head)
        if file_name is None:
            params[name[1].decode()] = content.decode()
            continue
        plain = file_name[1].decode()
        for escape, letter in _ESCAPES.items():
            plain = plain.replace(escape, letter)
        kind = re.search(rb"content-type:\s*([^\r\n]+)", head, re.IGNORECASE)
        media_type = kind[1].decode() if kind else "application/octet-stream"
        files[name[1].decode()] = Upload(plain, content, media_type)
