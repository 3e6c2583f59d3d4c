"""The results of calls, in whatever form a server sends them: what is usable is used, the rest is named."""

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from rumi.agent.mcp.messages import CallOutcome, ResultPart

MOST_PARTS: Final = 1000
_MOST_DEPTH: Final = 5
_UNREAD: Final = (
    "The server answered, but its answer is not valid JSON. The call may have had its effect. It sent:"
)
_ASKS: Final = "The server asks for more input, which cannot be given here. The call may not be complete."
_DATA_URL: Final = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=-]+)*;base64,", re.IGNORECASE)
_ENVELOPE: Final = frozenset({"_meta", "resultType", "isError", "is_error", "content", "structuredContent"})
_OF_FILES: Final = {"image": "image/png", "audio": "", "video": "", "blob": "", "file": "", "document": ""}


def outcome_of(raw: Mapping[str, Any], hide: Callable[[str], str]) -> CallOutcome:
    """Return the outcome of a call from the server's answer (`rumi.agent.mcp.lines.RAW`).

    `hide` hides secrets in texts. No answer makes this fail: a call that the server answered has happened.
    """
    if isinstance(raw.get("unread"), str):
        parts, failed = [ResultPart(_UNREAD), ResultPart(raw["unread"])], True
    else:
        parts, failed = _result(raw.get("result"))
    if isinstance(raw.get("error"), str):
        parts, failed = [*parts, ResultPart(f"error: {raw['error']}")], True
    return CallOutcome(tuple(replace(part, text=hide(_clean(part.text))) for part in parts), failed)


def _result(result: object) -> tuple[list[ResultPart], bool]:
    """Return the parts of a result, and whether it says that the tool failed."""
    if not isinstance(result, Mapping):
        return _bounded(result), False
    given = result.get("isError", result.get("is_error"))
    failed = given is True or str(given).strip().lower() in ("true", "1", "yes")
    content = result.get("content")
    parts = _bounded(content)
    structured = result.get("structuredContent")
    if structured is not None and not _is_shown(structured, parts):
        parts.append(ResultPart(_json(structured)))
    if result.get("resultType") == "input_required" or result.get("inputRequests"):
        return [*parts, ResultPart(_ASKS)], True
    if not parts:
        rest = {name: value for name, value in result.items() if name not in _ENVELOPE}
        if isinstance(rest.get("toolResult"), Mapping | list):  # the form of the protocol of October 2024
            inner, inner_failed = _result(rest["toolResult"])
            return inner, failed or inner_failed
        failed = failed or (content is None and bool(rest.get("error")))
        only = next(iter(rest.values())) if len(rest) == 1 else None
        parts = [ResultPart(only if isinstance(only, str) else _json(rest))] if rest else []
    return parts, failed


def _is_shown(structured: object, parts: list[ResultPart]) -> bool:
    """Return True if a text says the same as the structured content, as servers send it for older clients."""
    inner = (
        next(iter(structured.values())) if isinstance(structured, Mapping) and len(structured) == 1 else None
    )
    texts = [part.text for part in parts if not part.data]
    for text in texts:
        if isinstance(inner, str) and inner.strip() == text.strip():
            return True
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if said == structured or (inner is not None and said == inner):
            return True
    if isinstance(inner, list) and inner and len(inner) == len(texts):  # one text for each item
        pairs = zip(texts, inner, strict=True)
        return all(text.strip() == str(item).strip() or _said(text) == item for text, item in pairs)
    return False


def _said(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bounded(content: object) -> list[ResultPart]:
    parts = list(islice(_parts(content), MOST_PARTS + 1))
    return [*parts[:MOST_PARTS], ResultPart("(more parts, not shown)")] if len(parts) > MOST_PARTS else parts


def _parts(content: object, depth: int = 0) -> Iterator[ResultPart]:
    """Yield the parts of content: a list of blocks, one block, or a bare value."""
    if content is None:
        return
    if isinstance(content, list) and depth < _MOST_DEPTH:
        for block in content:
            yield from _parts(block, depth + 1)
    elif isinstance(content, Mapping):
        part = _block(content)
        if part is not None:
            yield part
    else:
        yield ResultPart(content if isinstance(content, str) else _json(content))


def _block(block: Mapping[str, Any]) -> ResultPart | None:
    kind = block.get("type") if isinstance(block.get("type"), str) else _kind(block)
    resource = block.get("resource")
    if isinstance(resource, Mapping):
        return _resource(resource)
    if kind == "resource" or (kind == "resource_link" and block.get("uri")):
        return _link(block)
    if kind in _OF_FILES and (file := _file_of(block, str(kind))) is not None:
        return file
    text = block.get("text")
    if kind in ("text", "error") and text is None and "text" in block:
        return None  # a text that is null says nothing
    if "text" in block and isinstance(text, str | int | float):
        return ResultPart(text if isinstance(text, str) else _json(text))
    rest = {name: value for name, value in block.items() if name not in ("type", "annotations", "_meta")}
    only = next(iter(rest.values())) if len(rest) == 1 else None
    if not rest:
        return ResultPart(f"({kind}, empty)") if kind else None
    return ResultPart(only if isinstance(only, str) else _json(only if only is not None else rest))


def _kind(block: Mapping[str, Any]) -> str:
    """Return the type that a block without one must have."""
    words = (("text", "text"), ("data", "blob"), ("blob", "blob"), ("uri", "resource_link"))
    return next((kind for word, kind in words if isinstance(block.get(word), str)), "")


def _resource(resource: Mapping[str, Any]) -> ResultPart:
    uri = str(resource.get("uri") or resource.get("name") or "resource")
    text = resource.get("text")
    if isinstance(text, str) or (text is not None and resource.get("blob") is None):
        return ResultPart(f"{uri}:\n{text if isinstance(text, str) else _json(text)}")
    if isinstance(resource.get("blob"), str):
        return _file(resource["blob"], str(resource.get("mimeType") or ""), uri)
    return _link(resource)


def _link(block: Mapping[str, Any]) -> ResultPart:
    words = [str(block[name]) for name in ("name", "title") if isinstance(block.get(name), str)][:1]
    uri = block.get("uri") or block.get("url")
    about = block.get("description")
    text = ": ".join([*words, *([uri] if isinstance(uri, str) else [])]) or _json(block)
    return ResultPart(f"{text}\n{about}" if isinstance(about, str) and about else text)


def _file_of(block: Mapping[str, Any], kind: str) -> ResultPart | None:
    """Return the file in a block, from any field that holds one; None if there is none."""
    source = block.get("source")
    places = [block, *([source] if isinstance(source, Mapping) else [])]
    for place in places:
        media = next(
            (place[n] for n in ("mimeType", "mime_type", "media_type") if isinstance(place.get(n), str)), ""
        )
        for name in ("data", "blob", "base64", "url"):
            if isinstance(data := place.get(name), str) and (name != "url" or _DATA_URL.match(data)):
                return _file(data, media or _OF_FILES.get(kind, ""), str(block.get("name") or kind))
    return None


def _file(data: str, media_type: str, name: str) -> ResultPart:
    """Return a file whose name is the last component of the path `name`.

    If that component has no extension, the extension of the media type is appended.
    """
    if match := _DATA_URL.match(data):
        data, media_type = data[match.end() :], media_type or match["type"] or ""
    plain = re.sub(r"\s+", "", data).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        body = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return ResultPart(f"({name}, {media_type}: it cannot be read)")
    stem = name.rstrip("/").rpartition("/")[2] or "file"
    ending = "" if "." in stem else mimetypes.guess_extension(media_type) or ""
    return (
        ResultPart(data=body, media_type=media_type, name=f"{stem}{ending}")
        if body
        else ResultPart("(an empty file)")
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    """Return a text without lone surrogates; a pair of them becomes its character."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
