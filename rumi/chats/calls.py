"""Tool calls in few words, for people."""

from collections.abc import Callable, Mapping

from rumi.agent import ToolStarted

_TELLING = ("command", "url", "query", "path", "key", "name")


def gist(arguments: Mapping[str, object]) -> str:
    """Return the argument that tells most about a call; empty where none does."""
    given = (arguments.get(name) for name in _TELLING)
    return next((each for each in given if isinstance(each, str) and each), "")


def title_of(started: ToolStarted, clean: Callable[[str], str]) -> str:
    """Return the call as a person would write it: `$ ls -la`, `web_fetch https://…`.

    What the model wrote is passed through `clean`.
    """

    def get(name: str) -> str:
        return clean(str(started.arguments.get(name, "")))

    match started.call.name:
        case name if not started.arguments:  # what the model wrote was no JSON object, or was not told
            return f"{clean(name)} {clean(started.call.arguments)}".strip()
        case "bash":
            given = str(started.arguments.get("stdin", "") or "")
            suffix = f"  ← {len(given.encode('utf-8', 'replace'))} B" if given else ""
            return f"$ {get('command')}{suffix}"
        case "web_fetch":
            method = get("method").upper()
            return f"web_fetch {get('url')}" + (f" ({method})" if method not in ("", "GET") else "")
        case "web_search":
            return f"web_search “{get('query')}”"
        case "remember":
            return f"remember {get('key')} = {get('value')}"
        case "forget":
            return f"forget {get('key')}"
        case "use_skill":
            return f"use_skill {get('name')}: {get('input')}"
        case "send_file":
            return f"send_file {get('path')}"
        case name:
            return f"{clean(name)} {clean(started.call.arguments)}".strip()
