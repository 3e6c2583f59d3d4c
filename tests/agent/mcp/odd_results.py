"""Answers to calls as real servers send them, and worse: each with what the model must read of it."""

import base64
import json
from typing import Any, Final

WAV: Final = base64.b64encode(b"RIFF1").decode()
PDF: Final = base64.b64encode(b"%PDF-1").decode()


def text(value: Any) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": value}


RESULTS: Final[dict[str, tuple[Any, tuple[str, ...]]]] = {
    "an unknown type": (
        {"content": [text("FIRST"), {"type": "json", "json": {"a": "ALPHA"}}]},
        ("FIRST", "ALPHA"),
    ),
    "an error as a block": ({"content": [{"type": "error", "text": "it BROKE"}]}, ("it BROKE",)),
    "an unknown type with a text": ({"content": [{"type": "markdown", "text": "# HEAD"}]}, ("# HEAD",)),
    "a summary beside the data": (
        {"content": [text("look returned 2 items.")], "structuredContent": {"items": ["ALPHA", "BETA"]}},
        ("look returned 2 items.", "ALPHA", "BETA"),
    ),
    "only data": ({"content": [], "structuredContent": {"greeting": "HELLO"}}, ("HELLO",)),
    "data without content": ({"structuredContent": ["ALPHA", 2]}, ("ALPHA", "2")),
    "a text that is null": ({"content": [text(None), text("SECOND")]}, ("SECOND",)),
    "a text that is a number": ({"content": [text(42), text(True)]}, ("42", "true")),
    "a text that is an object": ({"content": [text({"a": "ALPHA"})]}, ("ALPHA",)),
    "a block without a type": (
        {"content": [{"text": "FIRST"}, {"uri": "file:///x"}]},
        ("FIRST", "file:///x"),
    ),
    "a block without a text": ({"content": [{"type": "text", "content": "INNER"}]}, ("INNER",)),
    "blocks that are texts": ({"content": ["FIRST", 7, None, "SECOND"]}, ("FIRST", "7", "SECOND")),
    "content as a block": ({"content": text("ALONE")}, ("ALONE",)),
    "content as a text": ({"content": "PLAIN"}, ("PLAIN",)),
    "content as a number": ({"content": 3.5}, ("3.5",)),
    "lists in lists": ({"content": [[text("DEEP")], [[text("DEEPER")]]]}, ("DEEP", "DEEPER")),
    "content null": ({"content": None}, ("(no text)",)),
    "nothing": ({}, ("(no text)",)),
    "other fields": ({"output": "DONE", "count": 3}, ("DONE", "3")),
    "one other field": ({"text": "DONE"}, ("DONE",)),
    "the form of 2024": ({"toolResult": {"content": [text("OLD")]}}, ("OLD",)),
    "an older form": ({"toolResult": {"rows": ["ALPHA"]}}, ("ALPHA",)),
    "a result that is a text": ("PLAIN", ("PLAIN",)),
    "a result that is a list": ([text("FIRST"), "SECOND"], ("FIRST", "SECOND")),
    "a result that is a number": (17, ("17",)),
    "a result that is null": (None, ("(no text)",)),
    "an error in a result": ({"error": "no such USER"}, ("no such USER",)),
    "a resource": (
        {"content": [{"type": "resource", "resource": {"uri": "x://a", "text": "ALPHA"}}]},
        ("x://a", "ALPHA"),
    ),
    "a resource without a type": ({"content": [{"resource": {"text": "ALPHA"}}]}, ("ALPHA",)),
    "a resource with nothing": (
        {"content": [{"type": "resource", "resource": {"uri": "x://a"}}]},
        ("x://a",),
    ),
    "a resource that is a text": ({"content": [{"type": "resource", "resource": "x://a"}]}, ("x://a",)),
    "a number in a resource": (
        {"content": [{"type": "resource", "resource": {"uri": "x://a", "text": 5}}]},
        ("x://a", "5"),
    ),
    "a link": (
        {"content": [{"type": "resource_link", "uri": "x://a", "name": "A", "description": "About"}]},
        ("A: x://a", "About"),
    ),
    "a link without a name": ({"content": [{"type": "resource_link", "uri": "x://a"}]}, ("x://a",)),
    "a link without anything": ({"content": [{"type": "resource_link"}, text("REST")]}, ("REST",)),
    "a sound": ({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/x-wav"}]}, ("audio.wav",)),
    "a sound without its type": ({"content": [{"type": "audio", "data": WAV}]}, ("kept as audio",)),
    "a file as a data URL": (
        {"content": [{"type": "file", "data": f"data:application/pdf;base64,{PDF}"}]},
        ("file.pdf",),
    ),
    "a file in a source": (
        {
            "content": [
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                }
            ]
        },
        ("document.pdf",),
    ),
    "base64 with line breaks and no end": (
        {
            "content": [
                {"type": "audio", "data": f"{WAV[:3]}\n{WAV[3:].rstrip('=')}", "mimeType": "audio/x-wav"}
            ]
        },
        ("audio.wav",),
    ),
    "broken base64": (
        {"content": [{"type": "audio", "data": "*", "mimeType": "audio/x-wav"}, text("REST")]},
        ("cannot be read", "REST"),
    ),
    "a blob": (
        {"content": [{"type": "resource", "resource": {"uri": "file:///r/May.pdf", "blob": PDF}}]},
        ("May.pdf",),
    ),
    "half a character": ({"content": [text("a\ud83d b"), text("ok \ud83d\ude00")]}, ("a� b", "ok 😀")),
    "annotations of odd types": ({"content": [{**text("FIRST"), "annotations": 7, "_meta": []}]}, ("FIRST",)),
    "a question of the server": (
        {"resultType": "input_required", "inputRequests": {"x": {}}},
        ("asks for more input",),
    ),
    "a task": ({"task": {"taskId": "t-7", "status": "working"}}, ("t-7", "working")),
}
"""Results, and the texts that must be shown of each."""

FAILED: Final[dict[str, tuple[Any, bool]]] = {
    "true": (True, True),
    "false": (False, False),
    "null": (None, False),
    "a text": ("true", True),
    "another text": ("False", False),
    "one": (1, True),
    "zero": (0, False),
    "a list": ([], False),
}
"""Values of `isError`, and what they mean."""

ONCE: Final[dict[str, tuple[list[str], Any]]] = {
    "the same JSON": (['{"items": ["ALPHA"]}'], {"items": ["ALPHA"]}),
    "the same JSON in another form": (['{\n  "items":[ "ALPHA"] }'], {"items": ["ALPHA"]}),
    "a wrapped text": (["ALPHA"], {"result": "ALPHA"}),
    "a wrapped value": (['["ALPHA"]'], {"result": ["ALPHA"]}),
    "one text for each item": (["ALPHA", "BETA"], {"result": ["ALPHA", "BETA"]}),
    "one JSON for each item": (['{"a": "ALPHA"}', '{"a": 2}'], {"result": [{"a": "ALPHA"}, {"a": 2}]}),
}
"""Texts and structured content that say the same."""

GOOD: Final = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"FINE"}]}}'

LINES: Final[dict[str, tuple[list[str], tuple[str, ...]]]] = {
    "an error without a message": (
        ['{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000}}'],
        ("refused", "-32000"),
    ),
    "an error that is a text": (['{"jsonrpc":"2.0","id":$ID,"error":"no LUCK"}'], ("no LUCK",)),
    "an error with its data": (
        ['{"jsonrpc":"2.0","id":$ID,"error":{"code":"-32001","message":"x","data":{"why":"BUSY"}}}'],
        ("BUSY",),
    ),
    "an error without a code": (['{"jsonrpc":"2.0","id":$ID,"error":{"message":"no LUCK"}}'], ("no LUCK",)),
    "an error for no id": (
        ['{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"PARSE"}}'],
        ("PARSE",),
    ),
    "an id as a text": ([GOOD.replace("$ID", '"$ID"')], ("FINE",)),
    "an id as a float": ([GOOD.replace("$ID", "$ID.0")], ("FINE",)),
    "no version": ([GOOD.replace('"jsonrpc":"2.0",', "")], ("FINE",)),
    "another version": ([GOOD.replace('"2.0"', '"1.0"')], ("FINE",)),
    "a result and an error": ([GOOD[:-1] + ',"error":{"code":1,"message":"PARTLY"}}'], ("FINE", "PARTLY")),
    "a result and error null": ([GOOD[:-1] + ',"error":null}'], ("FINE",)),
    "a result null and an error": (
        ['{"jsonrpc":"2.0","id":$ID,"result":null,"error":{"code":1,"message":"NO"}}'],
        ("NO",),
    ),
    "no result": (['{"jsonrpc":"2.0","id":$ID}'], ("(no text)",)),
    "content in the envelope": (
        ['{"jsonrpc":"2.0","id":$ID,"content":[{"type":"text","text":"FINE"}]}'],
        ("FINE",),
    ),
    "a line that breaks off": (
        ['{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"HALF'],
        ("not valid JSON", "HALF"),
    ),
    "quotes in a text": ([GOOD.replace("FINE", 'a "WORD" in it')], ("not valid JSON", "WORD")),
    "an id at the end": (
        ['{"jsonrpc":"2.0","result":{"content":[{"text":"a "WORD" in it"}]},"id":$ID}'],
        ("WORD",),
    ),
    "Python instead of JSON": (["{'jsonrpc': '2.0', 'id': $ID, 'result': {'content': ['WORD']}}"], ("WORD",)),
    "a tab in a text": ([GOOD.replace("FINE", "F\tINE")], ("F\tINE",)),
    "NaN": ([GOOD.replace('"FINE"', "NaN").replace("]}}", ',{"type":"text","text":"REST"}]}}')], ("REST",)),
    "a broken byte": ([GOOD.replace("FINE", "F\udcffINE")], ("F�INE",)),
    "too deep": (
        ['{"jsonrpc":"2.0","id":$ID,"result":' + "[" * 20_000 + "]" * 20_000 + "}"],
        ("not valid JSON",),
    ),
    "a byte order mark": (["\ufeff" + GOOD], ("FINE",)),
    "a carriage return": ([GOOD + "\r"], ("FINE",)),
    "blank lines": (["", "  ", "\r", GOOD], ("FINE",)),
    "noise before it": ([f"log {n}" for n in range(1000)] + [GOOD], ("FINE",)),
    "JSON that is no message": (['{"level":"info","msg":"x"}', "[1, 2]", "null", '"x"', GOOD], ("FINE",)),
    "a log line without an end": (["INFO calling " + GOOD, ""], ("FINE",)),
    "a log line in brackets": (["[INFO] " + GOOD], ("FINE",)),
    "colours before it": (["\x1b[32mok\x1b[0m " + GOOD], ("FINE",)),
    "two messages in a line": (['{"jsonrpc":"2.0","method":"notifications/message"}' + GOOD], ("FINE",)),
    "a batch": (["[" + '{"jsonrpc":"2.0","method":"x/y"},' + GOOD + "]"], ("FINE",)),
    "printed over many lines": (
        json.dumps(json.loads(GOOD.replace("$ID", '"$ID"')), indent=2).split("\n"),
        ("FINE",),
    ),
    "unknown notifications": (
        [
            '{"jsonrpc":"2.0","method":"notifications/x","params":[1]}',
            '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":7}}',
            GOOD,
        ],
        ("FINE",),
    ),
    "an answer to nobody": (
        ['{"jsonrpc":"2.0","id":99999,"result":{}}', '{"jsonrpc":"2.0","id":true,"result":{}}', GOOD],
        ("FINE",),
    ),
    "an answer twice": ([GOOD, GOOD], ("FINE",)),
    "requests of the server": (
        [
            '{"jsonrpc":"2.0","id":"p","method":"ping"}',
            '{"jsonrpc":"2.0","id":"r","method":"roots/list"}',
            '{"jsonrpc":"2.0","id":1.5,"method":"sampling/createMessage","params":{}}',
            '{"jsonrpc":"2.0","id":"u","method":"un/known"}',
            GOOD,
        ],
        ("FINE",),
    ),
}
"""Lines that answer a call, and the texts that the model must read."""
