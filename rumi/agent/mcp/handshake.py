"""The first answer of a server, in a form that the client library takes."""

from collections.abc import Mapping
from typing import Any, Final

VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the protocol with a handshake that the client library knows, oldest first."""

_KNOWN: Final = ("tools", "prompts", "resources", "logging", "completions")


def handshake(result: object) -> dict[str, Any]:
    """Return the answer to `initialize` with what is missing or odd in it replaced.

    An unknown version becomes the newest known one before it: messages of all versions are read alike.
    """
    given: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
    found: dict[str, Any] = {
        "protocolVersion": _version(given.get("protocolVersion")),
        "capabilities": _capabilities(given.get("capabilities")),
        "serverInfo": _info(given.get("serverInfo")),
    }
    if isinstance(given.get("instructions"), str):
        found["instructions"] = given["instructions"]
    return found


def _version(given: object) -> str:
    earlier = [version for version in VERSIONS if isinstance(given, str) and version <= given]
    return earlier[-1] if earlier else VERSIONS[0]


def _capabilities(given: object) -> dict[str, Any]:
    """Return the capabilities: each is an object of yes and no, or just `true`."""
    if isinstance(given, list):  # only their names
        given = {name: True for name in given if isinstance(name, str)}
    if not isinstance(given, Mapping):
        return {"tools": {}}
    found: dict[str, Any] = {}
    for name in _KNOWN:
        value = given.get(name)
        if isinstance(value, Mapping):
            found[name] = {key: flag for key, flag in value.items() if isinstance(flag, bool)}
        elif value:
            found[name] = {}
    return found


def _info(given: object) -> dict[str, str]:
    known: Mapping[str, Any] = given if isinstance(given, Mapping) else {"name": given}
    texts = {name: known.get(name) for name in ("name", "version", "title")}
    named = {name: str(text) for name, text in texts.items() if isinstance(text, str | int | float) and text}
    return {"name": "server", "version": "", **named}
