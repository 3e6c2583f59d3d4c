"""Tool calls that a model wrote into the text of its answer, because its server has no parser for them.

An answer that shows a call to its reader must not run the call. So a text counts as calls only if every call
names an offered tool and the calls are the end of the answer. They also need a mark of a model's own format
at the beginning of a line, outside of code, such as `<tool_call>`. Without a mark, the whole answer must be
nothing but calls, their arguments must fit the tools' parameters, and the server must be one that may lack a
parser (`bare`). Decision 110 has the reasons.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from rumi.models.dialects.call_parts import MAX_CALLS, new_id
from rumi.models.dialects.failed_calls import (
    ARGUMENTS,
    NAMES,
    WRAPPERS,
    Found,
    calls_of,
    clean_name,
    json_at,
)
from rumi.models.dialects.literals import MAX_LITERAL_CHARS, LiteralReader, literal
from rumi.models.dialects.thoughts import in_code
from rumi.models.dialects.values import dumped, json_value
from rumi.models.model import ToolCall, ToolSpec

MAX_CALL_CHARS: Final = MAX_LITERAL_CHARS
"""Longer texts of calls are not read as calls."""

MAX_MARKS: Final = 20
"""Maximum number of marks that are tried as the beginning of the calls."""

_MARK: Final = re.compile(
    r"""(?:\A\s*|^[ ]{0,3})(?:
      <(?:tool[_-]?calls?|function[_-]?calls?|tools|minimax:tool_call)>        # Qwen, Hermes, GLM, MiniMax
    | <function[ =](?:name=)? | <invoke\s                                      # Llama, Qwen coder, Claude
    | \[TOOL_CALLS\] | <\|python_tag\|> | functools\[                          # Mistral, Llama, Phi
    | <\|tool_calls?(?:_section_begin|_start)?\|> | <\|action_start\|>              # Granite, Kimi, InternLM
    | <\|START_ACTION\|> | <[｜|]tool[▁_]calls[▁_]begin[｜|]>                   # Cohere, DeepSeek
    | <[｜|]DSML[｜|](?:function_calls|tool_calls)>
    )""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)  # fmt: skip
_NOISE: Final = re.compile(
    r"""(?:\s+ | [;,}] | ```(?:json|tool_code|python|tool_call)?
      | </?(?:tool[_-]?calls?|function[_-]?calls?|tools|minimax:tool_call|function|invoke)>
      | \[/?TOOL_CALLS\] | <\|/?[A-Za-z_]{1,40}\|> | functools(?=\[)
      | </?[｜|][A-Za-z▁_]{1,40}(?:[｜|][a-z_]{1,40})?[｜|]?> | </s>
      | function(?=<[｜|]tool)
    )+""",
    re.VERBOSE | re.IGNORECASE,
)
"""What may be around calls: their marks and closing tags, separators, and brackets too many."""
_SHOWN: Final = re.compile(
    r"(?:\b(?:examples?|formats?|syntax|looks? like|e\.g\.|ejemplos?|formatos?|sintaxis|exemplos?|sintaxe)\b"
    r"[^\n]{0,80}:[*_]{0,2}|<(?:pre|code)[^>\n]{0,80}>)\s*\Z",
    re.IGNORECASE,
)
"""Words before a mark that say that the call is an example, and tags of code."""
_SHOWN_CHARS: Final = 300
_NAME: Final = r"[A-Za-z_][\w.-]{0,127}"
_HEAD: Final = re.compile(
    rf"""<function=["']?({_NAME})["']?>?
      | <(?:[｜|]DSML[｜|])?(?:invoke|function)\s+name=["']({_NAME})["']\s*>""",
    re.VERBOSE,
)
_PARAMETER: Final = re.compile(
    r"""<(?:[｜|]DSML[｜|])?parameter(?:=|\s+name=)["']?([\w.-]{1,128})["']?[^>\n]{0,40}>(.*?)
      (?:</(?:[｜|]DSML[｜|])?parameter>|(?=<(?:[｜|]DSML[｜|])?parameter[ =])
        |(?=</(?:[｜|]DSML[｜|])?(?:function|invoke)>))""",
    re.VERBOSE | re.DOTALL,
)
_ARGUMENT: Final = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_BEFORE_JSON: Final = re.compile(
    rf"({_NAME})(?::\d{{1,4}})?(?:\[CALL_ID\]\w{{1,40}})?"
    rf"(?:\[ARGS\]|<[｜|][A-Za-z▁_]{{1,40}}[｜|]>|```(?:json)?|\s)*(?=\{{)"
)
_BEFORE_ARGUMENTS: Final = re.compile(rf"({_NAME})\s*(?=<arg_key>)")
_PYTHON: Final = re.compile(rf"\[?\s*(?:print\()?(?:default_api\.)?({_NAME})(?:\.call)?\(")
_RESPONSE: Final = re.compile(r"\s*<tool_response>")
_KEYS: Final = frozenset({*NAMES, *ARGUMENTS, "type", "id", "index", "tool_call_id", *WRAPPERS})


def calls_in_text(text: str, tools: Sequence[ToolSpec], *, bare: bool) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text before the calls, and the calls; the whole text and no calls if none are certain."""
    for mark in islice(_MARK.finditer(text), MAX_MARKS):
        if in_code(text[: mark.start()]) or _SHOWN.search(text[: mark.start()][-_SHOWN_CHARS:]):
            continue
        begin = mark.start()
        if (calls := _read(text[begin:], tools, strict=False)) is not None:
            return text[:begin].rstrip(), calls
    if bare and (calls := _read(_unfenced(text), tools, strict=True)) is not None:
        return "", calls
    return text, ()


def _unfenced(text: str) -> str:
    """Return JSON, a list of Python calls, or Gemma's `tool_code`, without the fence around it.

    Return an empty text for anything else, or if there are words beside the fence.
    """
    text, label = text.strip(), ""
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2:
        label, _, text = text.removeprefix("```").removesuffix("```").partition("\n")
    text = text.strip()
    return text if text[:1] in ("{", "[") or label.strip() == "tool_code" else ""


def _read(text: str, tools: Sequence[ToolSpec], *, strict: bool) -> tuple[ToolCall, ...] | None:
    """Return the calls that a text consists of; None if it is anything else.

    If `strict`, the arguments of each call must fit the tool's parameters.
    """
    if len(text) > MAX_CALL_CHARS:
        return None
    offered = {tool.name: tool for tool in tools}
    calls: list[ToolCall] = []
    at = _skip(text, 0)
    while at < len(text):
        if calls and _RESPONSE.match(text, at):
            break  # the model made up the result of its call
        found, end = _call_at(text, at, offered)
        if not found or end <= at or len(calls) + len(found) > MAX_CALLS:
            return None
        for name, arguments in found:
            tool = offered.get(clean_name(name))
            if tool is None or (strict and not _fits(arguments, tool.parameters)):
                return None
            calls.append(ToolCall(new_id(), tool.name, dumped(arguments)))
        at = _skip(text, end)
    return tuple(calls) or None


def _skip(text: str, at: int) -> int:
    noise = _NOISE.match(text, at)
    return noise.end() if noise else at


def _call_at(text: str, at: int, tools: Mapping[str, ToolSpec]) -> tuple[list[Found], int]:
    """Return the calls that begin at an index, and the index after them; no calls if none begin there."""
    if head := _HEAD.match(text, at):
        return _tagged(text, head[1] or head[2], head.end(), tools)
    if text[at] in "{[":
        value, end = json_at(text, at)
        if value is None:
            value, end = _python_value(text, at)
        found = _only_calls(value)
        if found:
            return found, end
    if head := _BEFORE_ARGUMENTS.match(text, at):
        arguments: dict[str, Any] = {}
        end = head.end()
        while pair := _ARGUMENT.match(text, _skip_space(text, end)):
            arguments[pair[1].strip()] = _typed(pair[2].strip(), head[1], pair[1].strip(), tools)
            end = pair.end()
        return [(head[1], arguments)], end
    if head := _BEFORE_JSON.match(text, at):
        value, end = json_at(text, head.end())
        return ([(head[1], value)], end) if isinstance(value, dict) else ([], at)
    if _PYTHON.match(text, at):
        return _python(text, at)
    return [], at


def _tagged(text: str, name: str, at: int, tools: Mapping[str, ToolSpec]) -> tuple[list[Found], int]:
    """Return the call whose head ends at an index: its parameters are tags, or one JSON object."""
    at = _skip_space(text, at)
    if text[at : at + 1] == "{":
        value, end = json_at(text, at)
        return ([(name, value)], end) if isinstance(value, dict) else ([], at)
    arguments: dict[str, Any] = {}
    while parameter := _PARAMETER.match(text, at):
        value = parameter[2].removeprefix("\n").removesuffix("\n")
        arguments[parameter[1]] = _typed(value, name, parameter[1], tools)
        at = _skip_space(text, parameter.end())
    return [(name, arguments)], at


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _typed(text: str, name: str, parameter: str, tools: Mapping[str, ToolSpec]) -> object:
    """Return a parameter's value in the type of the tool's schema; formats with tags have only texts."""
    tool = tools.get(clean_name(name))
    properties = tool.parameters.get("properties") if tool is not None else None
    schema = properties.get(parameter) if isinstance(properties, Mapping) else None
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind in (None, "string"):
        return text
    value = json_value(text)
    return literal(text.strip()) if value is None and text.strip() != "null" else value


def _python(text: str, at: int) -> tuple[list[Found], int]:
    """Return the calls of a Python expression: one call, or a list of calls, with literals as arguments."""
    reader = LiteralReader(text, at)
    try:
        return reader.calls(), reader.at
    except ValueError:
        return [], at


def _python_value(text: str, at: int) -> tuple[object, int]:
    reader = LiteralReader(text, at)
    try:
        return reader.value(), reader.at
    except ValueError:
        return None, at


def _only_calls(value: object) -> list[Found]:
    """Return the calls in a JSON value that has nothing but calls; nothing for any other value."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) and item.keys() <= _KEYS for item in items):
        return []
    found = list(calls_of(items))
    return found if len(found) >= len(items) else []


def _fits(arguments: Mapping[str, Any], schema: Mapping[str, object]) -> bool:
    """Return True if a tool's schema has all these arguments, and requires no others."""
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, list | tuple) else ()
    return arguments.keys() <= known.keys() and all(name in arguments for name in needed)
