"""Errors in bodies and events, in the forms of different servers and of the proxies in front of them.

Besides OpenAI's `{"error": {"message", "type", "code"}}`, there are `{"detail": …}` of FastAPI, lists
`errors`, OpenRouter's `metadata.raw` with the text of the server behind it, Google's `details`, `base_resp`
of MiniMax, `{"code", "msg"}` of Chinese providers, plain texts, and pages of HTML.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

_MOST_DEPTH: Final = 8
_MOST_TEXTS: Final = 3
"""Maximum number of texts in a list of errors that a message repeats."""

_TEXTS: Final = (
    *("message", "msg", "detail", "error_message", "error_msg", "errorMessage", "error_description"),
    *("status_msg", "Message", "description", "reason", "title", "faultstring"),
)
_NESTED: Final = ("error", "errors", "base_resp", "fault", "Error")
_CODES: Final = ("code", "status_code", "error_code", "status", "type", "errcode", "http_code")
_RESULTS: Final = ("code", "status", "status_code")
_FINE: Final = frozenset({"", "0", "200", "success", "ok", "none", "null"})
_GENERIC: Final = re.compile(r"(?i)^provider returned error\.?$|^upstream error\.?$|^error\.?$")
_HTML: Final = re.compile(r"<[a-zA-Z!?]")
"""The beginning of a page; Qwen's texts begin with a status such as `<400>`."""

_HTML_TITLE: Final = re.compile(r"<title[^>]*>([^<]{1,200})</title>", re.IGNORECASE)

_STATUS_OF: Final[tuple[tuple[int, str], ...]] = (
    (402, r"insufficient_(quota|balance|credit|funds)|exceeded_current_quota|arrears|arrearage|billing"
          r"|^1113$|^1008$"),
    (401, r"invalid_?api_?key|authentication|unauthenticated|unauthorized|invalid_auth|incorrect_api"
          r"|^100[0134]$|^2049$"),
    (403, r"permission|forbidden|access_denied"),
    (429, r"rate_?limit|too_many_requests|resource_exhausted|throttl|requests_limit|engine_overloaded"
          r"|^130[235]$|^1002$|^1039$"),
    (529, r"^overloaded"),
    (503, r"unavailable|overload|capacity|busy"),
    (504, r"timeout|timed_out|deadline_exceeded"),
    (404, r"model_not_found|modelnotfound|^not_found"),
    (413, r"request_too_large"),
    (400, r"invalid_request|invalid_argument|bad_request|invalid_parameter|validation_error|context_length"),
    (500, r"api_error|internal|server_error"),
)  # fmt: skip
"""The HTTP status that a code of an error in text stands for, where there is no other status."""
_STATUS_PATTERNS: Final = tuple((status, re.compile(pattern)) for status, pattern in _STATUS_OF)
_FILTER: Final = re.compile(
    r"content_?filter|content_?policy|responsible_?ai|data_?inspection|inappropriate_?content|moderation"
    r"|sensitive|safety_?violation|prohibited_?content|^1301$|^102[67]$"
)
"""Codes of a refusal by a content filter."""
_IN_WORDS: Final[tuple[tuple[int, str], ...]] = (
    (429, r"rate.?limit|too many requests|quota exceeded"),
    (401, r"invalid api.?key|incorrect api.?key|unauthorized"),
    (503, r"overloaded|over capacity|no capacity|unavailable"),
)
_WORD_PATTERNS: Final = tuple((status, re.compile(pattern, re.IGNORECASE)) for status, pattern in _IN_WORDS)


def error_object(body: object) -> dict[str, object]:
    """Return the error in a body: the server's fields, and `message`, `code` and `type` as texts."""
    return _error(body, _MOST_DEPTH)


def _error(body: object, depth: int) -> dict[str, object]:
    if isinstance(body, str):
        return _of_text(body, depth)
    if isinstance(body, list):
        texts = [_error(item, depth - 1) for item in body[:_MOST_TEXTS]] if depth else []
        first = {name: value for name, value in (texts[0] if texts else {}).items() if name != "loc"}
        return {**first, "message": "; ".join(filter(None, map(_message, texts)))}
    if not isinstance(body, dict):
        return {"message": "" if body is None else str(body)}
    fields: dict[str, object] = dict(body)
    inner: dict[str, object] = {}
    for key in _NESTED if depth else ():
        if isinstance(body.get(key), dict | list | str) and body[key]:
            inner = _error(body[key], depth - 1)
            fields = {**{name: value for name, value in fields.items() if name not in ("type", key)}, **inner}
            break
    message = _message(inner) or _text_of(body, depth)
    raw = _raw(body)
    if raw and depth:
        behind = _error(raw, depth - 1)
        said = _message(behind)
        if said and said not in message:
            message = said if _GENERIC.match(message) or not message else f"{message}: {said}"
    return {**fields, "message": message}


def _of_text(text: str, depth: int) -> dict[str, object]:
    text = text.strip()
    if depth and text[:1] in ("{", "["):
        try:
            return _error(json.loads(text), depth - 1)
        except (ValueError, RecursionError):
            return {"message": text}
    if _HTML.match(text):  # a page of a proxy; only its title means something to users
        title = _HTML_TITLE.search(text)
        return {"message": " ".join(title[1].split()) if title else ""}
    return {"message": text}


def _text_of(body: Mapping[str, object], depth: int) -> str:
    """Return the text of an error's own fields."""
    for key in _TEXTS:
        value = body.get(key)
        if isinstance(value, str | dict | list) and depth and (message := _message(_error(value, depth - 1))):
            return message
    fields = body.get("errors")
    if isinstance(fields, dict) and depth:  # a list of texts for each field that is not valid
        said = ((name, _message(_error(fields[name], depth - 1))) for name in islice(fields, _MOST_TEXTS))
        return "; ".join(f"{name}: {text}" for name, text in said if text)
    return ""


def _message(error: Mapping[str, object]) -> str:
    message = error.get("message")
    if not isinstance(message, str):
        return ""
    where = error.get("loc")  # FastAPI names the field that is not valid
    if isinstance(where, list) and where:
        return f"{'.'.join(map(str, where))}: {message}"
    return message


def _raw(body: Mapping[str, object]) -> object:
    metadata = body.get("metadata")
    return metadata.get("raw") if isinstance(metadata, dict) else None


def codes_of(error: Mapping[str, object]) -> Iterator[str]:
    """Yield an error's codes as texts in lower case, such as `rate_limit_exceeded` or `429`."""
    for key in _CODES:
        value = error.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(value)).lower().replace(" ", "_").replace("-", "_")


def status_in(error: Mapping[str, object]) -> int:
    """Return the HTTP status that an error inside a body of status 200 stands for; 500 if it names none."""
    codes = list(codes_of(error))
    for code in codes:
        if code.isdecimal() and 400 <= int(code[:6]) < 600:
            return int(code)
    for code in codes:
        for status, pattern in _STATUS_PATTERNS:
            if pattern.search(code):
                return status
    said = _message(error)
    return next((status for status, pattern in _WORD_PATTERNS if pattern.search(said)), 500)


def is_filtered(error: Mapping[str, object]) -> bool:
    """Return True if an error says that a content filter refused the request or the reply."""
    inner = error.get("innererror")
    codes = [*codes_of(error), *(codes_of(inner) if isinstance(inner, dict) else ())]
    return any(_FILTER.search(code) for code in codes)


def reported_in(chunk: Mapping[str, object]) -> object:
    """Return the error that an event reports, or None.

    An event without choices is an error only if it says so: heartbeats and costs are none.
    """
    error = chunk.get("error")
    if isinstance(error, str | list) and error:
        return error
    if isinstance(error, dict) and any(error.values()):  # some servers send one without content
        return error
    if error and not isinstance(error, dict):
        return chunk
    if chunk.get("choices") and "base_resp" not in chunk:
        return None
    if isinstance(chunk.get("errors"), list | dict) and chunk["errors"]:
        return chunk
    if chunk.get("object") == "error" or chunk.get("type") == "error":
        return chunk
    base = chunk.get("base_resp")
    if isinstance(base, dict) and str(base.get("status_code") or 0) != "0":
        return base
    if chunk.get("choices"):
        return None
    if any(chunk.get(key) for key in ("error_message", "error_msg", "errorMessage", "detail", "error_code")):
        return chunk
    says = isinstance(chunk.get("msg") or chunk.get("message"), str)
    codes = (str(chunk[key]).lower() for key in _RESULTS if chunk.get(key) is not None)
    if says and (chunk.get("success") is False or any(code not in _FINE for code in codes)):
        return chunk
    return None
