"""Reading of the lines that a server writes: JSON-RPC messages, also malformed ones, and other output.

A line is read as far as it can be, because a message that is dropped leaves its call waiting until the time
limit. What comes out always has the form of JSON-RPC 2.0. Answers to `tools/list` and `tools/call` are passed
on as they came, in `_meta`, because the client library refuses the whole answer if a part of it is unknown;
`rumi.agent.mcp.listing` and `rumi.agent.mcp.outcomes` read them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from rumi.agent.mcp.handshake import handshake
from rumi.agent.mcp.messages import McpError

Json: TypeAlias = dict[str, Any]

RAW: Final = "rumi.raw"
"""The key in `_meta` of an answer as it came: `result` and `error`, or the `unread` text of a broken one."""

MOST_NOISE: Final = 1000
"""A server may write this many lines in a row that are not messages."""

PARSE_ERROR: Final = -32700
UNREAD: Final = "The answer is not valid JSON."
_MOST_OPEN: Final = 4096
_MOST_HELD_LINES: Final = 100_000
_MOST_UNREAD_CHARS: Final = 100_000
_MOST_DATA_CHARS: Final = 2000
_MOST_SCANNED_CHARS: Final = 4000
_BEGIN: Final = re.compile(r'(?:\[\s*)?\{\s*"(?:jsonrpc|id|result|error|method)"\s*:')
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<open>[{\[])|(?P<close>[}\]])"""
)
_ID: Final = re.compile(r"""\s*:\s*(?P<quote>["']?)(?P<id>[\w.-]{1,64})(?P=quote)""")
_LAST_ID: Final = re.compile(r"""["']id["']\s*:\s*["']?(?P<id>[\w.-]{1,64})["']?\s*\}\s*\Z""")
_FRAME: Final = re.compile(rb"content-(?:length|type)\s*:", re.IGNORECASE)


class Lines:
    """The lines of one connection, and the requests that wait for an answer."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[int | str, str]] = {}
        self._noise = 0
        self._held: list[bytes] = []
        self._depth = 0

    def sent(self, message: Mapping[str, Any]) -> None:
        """Record a message that was sent: requests become open, a cancelled request is closed."""
        method, id_ = message.get("method"), message.get("id")
        if method == "notifications/cancelled":
            self._open.pop(str((message.get("params") or {}).get("requestId")), None)
        elif isinstance(method, str) and id_ is not None:
            self._open[str(id_)] = (id_, method)
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]

    def read(self, line: bytes) -> list[Json]:
        """Return the messages in a line of the server's output, often one; none if it has no message.

        Raises:
            McpError: Too many lines in a row are not messages, or the server frames its messages otherwise.
        """
        indented = line[:1] in (b" ", b"\t")
        line = line.strip().removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n\x1e")
        if not line:
            return []
        if _FRAME.match(line):
            raise McpError(
                "The server frames its messages with Content-Length, as language servers do.",
                "Servers of tools write one message per line. Look for an option or a newer version.",
            )
        if self._held and not indented and _BEGIN.match(line.decode("utf-8", "replace")):
            self._held = []  # a whole message in between: what was held is no message
        if self._held or line == b"{":
            return self._read_held(line)
        return self._counted(self._read_text(line.decode("utf-8", "replace")))

    def answer(self, message: Mapping[str, Any]) -> Json | None:
        """Return a message in the form of JSON-RPC; None for an answer that no request waits for."""
        if isinstance(method := message.get("method"), str):
            return _asked(message, method)
        key = _key(message.get("id"))
        if message.get("id") is None and message.get("error") and len(self._open) == 1:
            key = next(iter(self._open))  # the server could not read the request: only one can be meant
        if key not in self._open:
            return None
        id_, method = self._open.pop(key)
        result, error = message.get("result"), message.get("error")
        if isinstance(result, dict) and _WRAPPED in result:  # from `enveloped`
            result, error = result[_WRAPPED], result.get("error")
        if isinstance(result, dict) and isinstance(result.get("unread"), str):
            return _broken(id_, method, result["unread"])
        if error and (method != "tools/call" or result is None):
            return _failed(id_, error)
        if result is None and "result" not in message and not error:  # an answer without its envelope
            result = {
                name: value for name, value in message.items() if name not in ("jsonrpc", "id", "error")
            }
        return _answered(id_, method, result, _words(error) if error else None)

    def _read_held(self, line: bytes) -> list[Json]:
        """Collect the lines of a message over several lines, until its brackets are closed."""
        if not self._held:
            self._depth = 0
        self._held.append(line)
        for token in _TOKEN.finditer(line.decode("utf-8", "replace")):
            self._depth += bool(token["open"]) - bool(token["close"])
        if self._depth > 0 and len(self._held) <= _MOST_HELD_LINES:
            return []
        whole, self._held = b"\n".join(self._held), []
        return self._counted(self._read_text(whole.decode("utf-8", "replace")))

    def _counted(self, found: list[Json] | None) -> list[Json]:
        """Return the messages; count the line as noise if it has none (None)."""
        if found is not None:
            self._noise = 0
            return found
        self._noise += 1
        if self._noise > MOST_NOISE:
            raise McpError("The server wrote lines that are not messages, so Rumi ended it.")
        return []

    def _read_text(self, text: str) -> list[Json] | None:
        found = self._read_json(text) if text[0] in "{[" else None
        if found is None and (match := _BEGIN.search(text, 1)):  # a log line without an end, and a message
            found = self._read_json(text[match.start() :])
        return found

    def _read_json(self, text: str) -> list[Json] | None:
        """Return the messages in a text that begins with JSON; None if there are none."""
        found: list[Json] = []
        known = False
        try:
            for value in _values(text):
                for message in value if isinstance(value, list) else [value]:
                    if isinstance(message, dict) and not _ENVELOPE.isdisjoint(message):
                        known = True
                        healed = self.answer(message)
                        found += [healed] if healed is not None else []
        except (ValueError, RecursionError):
            ended = self._broken(text)
            return [*found, ended] if ended is not None else (found if known else None)
        return found if known else None

    def _broken(self, text: str) -> Json | None:
        """Return the end of the open request whose answer is broken; None if its id cannot be recognised."""
        key = next((key for key in _ids_in(text) if key in self._open), None)
        if key is None:
            return None
        return _broken(*self._open.pop(key), text)


def enveloped(body: bytes, id_: int | str) -> bytes:
    """Return the answer to a request over HTTP as a message that the client library takes.

    `id_` is the id of the request. A message that is valid stays as it is; `Lines.answer` reads the others.
    """
    text = body.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    found: list[object] = []
    with suppress(ValueError, RecursionError):
        for value in _values(text):
            found += value if isinstance(value, list) else [value]
    messages = [one for one in found if isinstance(one, dict)]
    answers = [one for one in messages if "method" not in one]
    if messages and not answers:
        return body  # a notification or a request of the server
    mine = [one for one in answers if _key(one.get("id")) == _key(id_)] or answers
    if not mine:
        return json.dumps(_answer(id_, {_WRAPPED: {"unread": text[:_MOST_UNREAD_CHARS]}})).encode()
    message = mine[0]
    result, error = message.get("result"), message.get("error")
    if isinstance(result, dict) and not error and message.get("jsonrpc") == "2.0":
        return body if len(found) == 1 and text.startswith("{") else json.dumps(message).encode()
    if error and result is None:
        return json.dumps(_failed(id_, error)).encode()
    if "result" not in message:
        result = {name: value for name, value in message.items() if name not in _ENVELOPE}
    wrapped: Json = {_WRAPPED: result, **({"error": error} if error else {})}
    return json.dumps(_answer(id_, wrapped)).encode()


_WRAPPED: Final = "rumi.wrapped"


def _broken(id_: int | str, method: str, text: str) -> Json:
    """Return the end of a request whose answer is not valid JSON."""
    if method != "tools/call":
        return _failed(id_, {"code": PARSE_ERROR, "message": UNREAD})
    unread = {RAW: {"unread": text[:_MOST_UNREAD_CHARS]}}
    return _answer(id_, {"content": [], "resultType": "complete", "_meta": unread})


_REFUSED: Final = frozenset({"sampling/createMessage", "roots/list", "elicitation/create"})
_ENVELOPE: Final = frozenset({"jsonrpc", "method", "id", "result", "error"})


def _values(text: str) -> Iterator[object]:
    """Yield the JSON values in a text, one behind the other. NaN and infinite numbers become null.

    Raises:
        ValueError: A value is not JSON.
        RecursionError: A value is nested too deep.
    """
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda name: None)
    at = 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        rest = _BEGIN.search(text, at)
        if rest is None:
            return
        at = rest.start()


def _ids_in(text: str) -> Iterator[str]:
    """Yield what may be the id of a broken message: first the outermost, then one at its end."""
    depth = 0
    for token in _TOKEN.finditer(text[:_MOST_SCANNED_CHARS]):
        depth += bool(token["open"]) - bool(token["close"])
        is_id = depth == 1 and token["text"] in ('"id"', "'id'")
        if is_id and (match := _ID.match(text, token.end())):
            yield match["id"]
    if match := _LAST_ID.search(text[-_MOST_SCANNED_CHARS:]):
        yield match["id"]


def _key(id_: object) -> str:
    """Return the key of an id in any form: 7, "7" and 7.0 are the same."""
    if isinstance(id_, float) and id_.is_integer():
        id_ = int(id_)
    return str(id_).strip() if isinstance(id_, int | str) and not isinstance(id_, bool) else ""


def _asked(message: Mapping[str, Any], method: str) -> Json:
    """Return a request or a notification of the server."""
    found: Json = {"jsonrpc": "2.0", "method": method}
    id_ = message.get("id")
    if id_ is not None and method in _REFUSED:
        # The library answers a method that it does not know with "method not found", as it should be here. To
        # these it says "invalid request", which servers take for their own fault.
        found["method"] = f"unsupported/{method}"
    if isinstance(id_, int | str) and not isinstance(id_, bool):
        found["id"] = id_
    elif id_ is not None:
        found["id"] = json.dumps(id_)
    if isinstance(message.get("params"), dict):
        found["params"] = message["params"]
    return found


def _failed(id_: int | str, error: object) -> Json:
    code = error.get("code") if isinstance(error, Mapping) else None
    number = int(code) if isinstance(code, int) or (isinstance(code, str) and _NUMBER.fullmatch(code)) else 0
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": number, "message": _words(error)}}


_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def _words(error: object) -> str:
    """Return what an error says, from any form of it."""
    if not isinstance(error, Mapping):
        return error if isinstance(error, str) else json.dumps(error)
    said = error.get("message")
    data = error.get("data")
    texts = [text if isinstance(text, str) else json.dumps(text) for text in (said, data) if text]
    if len(texts) == 2 and texts[1] in texts[0]:
        texts.pop()
    code = error.get("code")
    return (
        "\n".join(text[:_MOST_DATA_CHARS] for text in texts) or f"error {code if code is not None else '?'}"
    )


def _answered(id_: int | str, method: str, result: object, error: str | None) -> Json:
    """Return the answer to a request, with a result that the client library takes."""
    if method == "initialize":
        return _answer(id_, handshake(result))
    raw = {RAW: {"result": result, "error": error}}
    if method == "tools/call":
        return _answer(id_, {"content": [], "resultType": "complete", "_meta": raw})
    if method == "tools/list":
        listed = {"tools": _with_headers(result), "ttlMs": 0, "cacheScope": "private"}
        return _answer(id_, {**listed, "resultType": "complete", "_meta": raw})
    return _answer(id_, result if isinstance(result, dict) else {})


def _with_headers(result: object) -> list[Json]:
    """Return the tools whose arguments the library has to send as HTTP headers too (`x-mcp-header`)."""
    tools = result.get("tools") if isinstance(result, Mapping) else None
    found = []
    for tool in tools if isinstance(tools, list) else []:
        schema = tool.get("inputSchema") if isinstance(tool, dict) else None
        if (
            isinstance(schema, dict)
            and isinstance(tool.get("name"), str)
            and "x-mcp-header" in json.dumps(schema)
        ):
            found.append({"name": tool["name"], "inputSchema": {"type": "object", **schema}})
    return found


def _answer(id_: int | str, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "result": result}
