"""Servers in the JSON that their READMEs show for other programs: `{"mcpServers": {"NAME": {"command": …}}}`.

Each program has its own wrapper and its own keys, so a server is recognized by its `command` or its URL,
wherever it stands. Nothing is dropped silently: what Rumi does not take over is in `notes`.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from rumi.agent.mcp.launchers import CONTAINERS, packaged
from rumi.platform.config.schema import SECRET_HEADER, SECRET_VARIABLE
from rumi.texts import Text

MOST_BYTES: Final = 1_000_000
"""Maximum size of a text that is searched for servers, in bytes."""

MOST_SERVERS: Final = 50
_MOST_DEPTH: Final = 8
_MOST_WAYS, _MOST_SHOWN = 3, 100
_MOST_NAME: Final = 24

_FENCE: Final = re.compile(r"`{3,}|~{3,}")
# Without an end, a text ends with its line: searching on from each of its quotes would take quadratic time.
_STRING: Final = r'"(?:[^"\\\n]|\\.)*+\\?(?:"|(?=\n)|\Z)'
_COMMENT: Final = re.compile(rf"(?P<text>{_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_TRAILING: Final = re.compile(rf"(?P<text>{_STRING})|,(?=\s*[}}\]])", re.S)
_QUOTES: Final = str.maketrans({"“": '"', "”": '"', "\u00a0": " ", "\ufeff": " "})

_URLS: Final = ("url", "serverUrl", "httpUrl", "server_url", "uri")
_ENVIRONMENTS: Final = ("env", "environment", "envs")
_HEADERS: Final = ("headers", "http_headers", "requestInit")
_TRUSTING: Final = ("autoApprove", "alwaysAllow", "trust", "autoapprove", "always_allow", "alwaysApprove")
"""Keys by which other programs call tools without a question."""

_SILENT: Final = ("type", "transport", "transportType", "name", "command", "args", "disabled", "enabled")
_REFERENCE: Final = re.compile(
    r"\$\{(?:env:|env\.)?([A-Za-z_]\w*)(?::-[^}]{0,1000})?\}|\$([A-Za-z_]\w*)|\{\{\s*([A-Za-z_]\w*)\s*\}\}"
)
_INPUT: Final = re.compile(r"\$\{(?:input|prompt|user_config|secret|secrets)[:.]([\w.-]+)\}")
_PLACEHOLDER: Final = re.compile(
    r"<[^<>]{1,80}>|\[(?:your|insert|add|enter|my)\b[^\]]{0,80}\]|(?:\b|_)your[-_. ]|x{4,}|_here\b"
    r"|\bplaceholder\b|\b(?:replace|change)[-_ ]?(?:me|this|with)\b|\bexample\.(?:com|org|net)\b"
    r"|\byour[a-z]*\b|…|\.{3,}|\*{3,}",
    re.IGNORECASE,
)
_SECRET_EXAMPLE: Final = re.compile(
    r"(?:[a-z]+[-_ ])*(?:key|token|secret|password|credentials?)s?(?:[-_ ][a-z]+)*", re.IGNORECASE
)
"""A value such as `my-api-key`, which is no real secret."""

_FOLDER: Final = re.compile(
    r"(?:/path/to|/absolute/path|/full/path|/your/|path[/\\]to[/\\]|/Users/(?:username|user|you|your|me|yourname)\b"
    r"|/home/(?:username|user|you|your|yourname)\b|(?<![A-Za-z])[A-Za-z]:[\\/]|\$\{(?:workspaceFolder|userHome|cwd|HOME)\})"
)


@dataclass(frozen=True, slots=True)
class BlockServer:
    """A server of a block. `keys` are those of its section of config.toml.

    `missing` are the variables that the section refers to and that the block has no value for; `secrets` are
    the values that belong into .env. `notes` say what was not taken over, `trouble` why the server cannot be
    added.
    """

    name: str
    keys: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[Text, ...] = ()
    trouble: Text | None = None
    is_container: bool = False
    has_examples: bool = False


def read_block(text: str, name: str = "") -> list[BlockServer]:
    """Return the servers in a text: JSON with or without comments, or a README with such JSON in it.

    `name` is that of a single server without one. A README shows several ways to start one server: the first
    is taken that is not a container and has no example to replace, and the others are in its notes. An empty
    list means that there is no server; of more than `MOST_SERVERS`, one too many is returned.
    """
    ways: list[list[BlockServer]] = []
    for value in _values(text[:MOST_BYTES].translate(_QUOTES)):
        before = len(ways)
        for called, server in _servers(value, name):
            read = _read(called, server)
            # Two servers of one block are two servers; the same one in two blocks is shown in two ways.
            same = next((group for group in ways[:before] if any(_is_same(read, one) for one in group)), None)
            if same is not None:
                same.append(read)
            elif len(ways) <= MOST_SERVERS:
                ways.append([read])
    return [_chosen(group) for group in ways]


def _chosen(group: Sequence[BlockServer]) -> BlockServer:
    """Return the way that is taken of several ways to start one server, under the first name."""
    best = min(group, key=_rank)
    name = next((one.name for one in group if one.name), "")
    if best.name != name:
        trouble = None if not best.name else best.trouble
        best = replace(best, name=name, trouble=trouble)
    others = [way for way in dict.fromkeys(map(_shown, group)) if way != _shown(best)]
    shown = [way[:_MOST_SHOWN] for way in others[:_MOST_WAYS]]
    ways = "; ".join([*shown, *(["…"] if len(others) > _MOST_WAYS else [])])
    note = Text("The text has other ways to start it, which were left out: {ways}", ways=ways)
    return replace(best, notes=(*best.notes, note)) if others else best


def _rank(server: BlockServer) -> tuple[bool, bool, bool, bool]:
    url = str(server.keys.get("url", ""))
    starts_by_hand = url.startswith(("http://127.0.0.1", "http://localhost"))
    return bool(server.trouble and server.name), server.is_container, starts_by_hand, server.has_examples


def _is_same(one: BlockServer, other: BlockServer) -> bool:
    return bool(one.name and one.name == other.name) or _starts(one) == _starts(other)


def _starts(server: BlockServer) -> str:
    """Return what a server's command starts: its package, module or program, or its address."""
    command, args = str(server.keys.get("command", "")), [*server.keys.get("args", ())]
    if not command:
        return str(server.keys.get("url", ""))
    if "-m" in args[:-1] and Path(command).name.startswith("python"):
        return str(args[args.index("-m") + 1]).replace("_", "-")
    if server.is_container:
        images = [word for word in args if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+(?::[\w.-]+)?", word)]
        return images[-1] if images else shlex.join(args)
    package = packaged(Path(command).name, args)
    return package or Path(command).name.replace("_", "-")


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text: the whole text, its code blocks, or what is between braces."""
    whole = _json(text)
    if whole is not None:
        yield whole
        return
    found = [value for block in _code_blocks(text) if (value := _json(block)) is not None]
    yield from found or _braces(text)


def _code_blocks(text: str) -> Iterator[str]:
    """Yield the fenced code blocks of a Markdown text, also those in quotations."""
    fence, lines = "", list[str]()
    for line in text.split("\n"):
        plain = line.lstrip(" \t>").rstrip()
        if fence and plain.startswith(fence) and not plain.strip("`~"):
            yield "\n".join(lines)
            fence, lines = "", []
        elif fence:
            lines.append(re.sub(r"^[ \t]*>", "", line))
        elif (opening := _FENCE.match(plain)) is not None:
            fence = opening.group()


def _json(text: str) -> Any:
    """Return the object or the list of a JSON text with comments; also without its outer braces, or None."""
    plain = _COMMENT.sub(lambda matched: matched["text"] or " ", text)
    plain = _TRAILING.sub(lambda matched: matched["text"] or "", plain).strip().rstrip(",")
    for attempt in (plain, f"{{{plain}}}"):
        try:
            value = json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list) and value:
            return value
    return None


def _braces(text: str) -> Iterator[Any]:
    """Yield the objects of a text that has other words around them."""
    start = text.find("{")
    while start >= 0:
        depth, end = 0, -1
        for matched in re.compile(rf"{_STRING}|[{{}}]").finditer(text, start):
            depth += {"{": 1, "}": -1}.get(matched.group(), 0)
            if depth == 0:
                end = matched.end()
                break
        if end < 0:
            return
        if (value := _json(text[start:end])) is not None:
            yield value
        start = text.find("{", end)


def _is_server(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    command = value.get("command")
    return (
        isinstance(command, str | list)
        or (isinstance(command, dict) and "path" in command)
        or any(isinstance(value.get(key), str) for key in _URLS)
    )


def _servers(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the servers of a JSON value with their names, wherever they stand."""
    if depth > _MOST_DEPTH:
        return
    if _is_server(value):
        yield str(value.get("name") or name), value
        return
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if _is_server(inner):
            called = inner.get("name") if isinstance(key, int) else key
            yield str(called or name), inner
        else:
            yield from _servers(inner, name, depth + 1)


def name_of(text: str) -> str:
    """Return a server's name in the form that the configuration takes."""
    last = text.rstrip("/").rpartition("/")[2] or text
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", last)).strip("-_")
    return plain[:_MOST_NAME].rstrip("-_")


def _shown(server: BlockServer) -> str:
    words = [str(server.keys.get("command") or ""), *server.keys.get("args", ())]
    return str(server.keys.get("url") or shlex.join(words))


class _Reading:
    """What has been found while one server is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[Text] = []
        self.missing: dict[str, None] = {}
        self.secrets: dict[str, str] = {}

    def note(self, text: Text) -> None:
        self.notes.append(text)

    def value(self, variable: str, value: str, of: str) -> str:
        """Return a value of a variable or a header, with references instead of secrets and placeholders.

        `variable` is the variable itself, or empty for the header `of`.
        """
        text = _INPUT.sub(lambda matched: self._needed(variable or _variable(matched[1])), value)
        if _REFERENCE.search(text):
            if ":-" in text:
                self.note(Text("The default in {value} was left out.", value=value))
            names = [next(filter(None, groups)) for groups in _REFERENCE.findall(text)]
            for name in names:
                self._needed(name)
            return _REFERENCE.sub(lambda matched: f"${next(filter(None, matched.groups()))}", text)
        own = variable or _variable(f"{self.name}_{of}")
        scheme, space, rest = value.strip().partition(" ")
        if space and scheme in ("Bearer", "Basic", "Token", "ApiKey"):
            return f"{scheme} {self._secret(own, rest)}"
        if not value.strip() or (SECRET_VARIABLE if variable else SECRET_HEADER).search(of):
            return self._secret(own, value.strip())
        return self._needed(own) if _PLACEHOLDER.search(value) else value

    def _secret(self, variable: str, value: str) -> str:
        """Return the reference to a secret, whose value belongs into .env; an example is no value."""
        alike = value.lower().replace("-", "_") == variable.lower()
        if value and not alike and not _PLACEHOLDER.search(value) and not _SECRET_EXAMPLE.fullmatch(value):
            self.secrets[variable] = value
            return f"${variable}"
        return self._needed(variable)

    def _needed(self, variable: str) -> str:
        self.missing[variable] = None
        return f"${variable}"


def _variable(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_").upper()


def _read(called: str, server: Mapping[str, Any]) -> BlockServer:
    """Return one server of a block."""
    name = name_of(called)
    reading = _Reading(name)
    if called and name != called:
        reading.note(
            Text(
                "It is called {name} here, because {called} is not a name that Rumi can use.",
                name=name,
                called=called,
            )
        )
    keys: dict[str, Any] = {}
    words, environment = _words(server)
    url = next((str(server[key]) for key in _URLS if isinstance(server.get(key), str)), "")
    trouble = None
    placeholders: list[str] = []
    if words and (bridged := _bridged(words)) is not None:
        url, headers = bridged
        reading.note(
            Text("{command} is not needed: Rumi connects to the address itself.", command="mcp-remote")
        )
        server = {**server, "headers": headers}
        words = []
    if words:
        keys["command"], keys["args"] = words[0], words[1:]
        placeholders = [word for word in words[1:] if _FOLDER.search(word) or _is_placeholder(word)]
        for word in placeholders:
            reading.note(
                Text(
                    "Its argument {word} is only an example. Write your own in config.toml: mcp.{name}.args",
                    word=word,
                    name=name,
                )
            )
        own = {**environment, **_table(server, _ENVIRONMENTS)}
        variables = {key: value for key, value in own.items() if re.fullmatch(r"[A-Za-z_]\w{0,99}", key)}
        for key in own.keys() - variables.keys():
            reading.note(Text("{key} is not the name of a variable and was left out.", key=key))
        for key, value in [*variables.items()]:
            if _FOLDER.search(value):
                del variables[key]
                reading.note(
                    Text(
                        "The variable {key} was left out, because its value {value} is only an example. Set "
                        "your own in config.toml: mcp.{name}.env",
                        key=key,
                        value=value,
                        name=name,
                    )
                )
        keys["env"] = {key: reading.value(key, value, key) for key, value in variables.items()}
    elif url:
        keys["url"] = url
        headers = _table(server, _HEADERS)
        keys["headers"] = {key: reading.value("", value, key) for key, value in headers.items()}
        if _PLACEHOLDER.search(url) or _REFERENCE.search(url):
            trouble = Text("Its address {url} is only an example. Write your own.", url=url)
    if not name:
        trouble = Text("It has no name. Give it one: rumi mcp add NAME --json FILE")
    if server.get("disabled") is True or server.get("enabled") is False:
        trouble = Text("The block says that it is disabled.")
    _options(server, reading, keys)
    return BlockServer(
        name,
        {key: value for key, value in keys.items() if value},
        tuple(variable for variable in reading.missing if variable not in reading.secrets),
        reading.secrets,
        tuple(reading.notes),
        trouble,
        bool(words) and Path(words[0]).name in CONTAINERS,
        bool(placeholders),
    )


def _is_placeholder(word: str) -> bool:
    return bool(re.search(r"<[^<>\s]{1,80}>|\$\{[^}]+\}|\bYOUR_[A-Z_]+", word))


def _words(server: Mapping[str, Any]) -> tuple[list[str], Mapping[str, str]]:
    """Return the words of a server's command, and the variables that the command itself sets."""
    command, more = server.get("command"), server.get("args", server.get("arguments", ()))
    environment: dict[str, str] = {}
    if isinstance(command, dict):  # Zed's former form
        more, environment = command.get("args", ()), _table(command, _ENVIRONMENTS)
        command = command.get("path")
    words = list(map(str, command)) if isinstance(command, list) else [str(command)] if command else []
    words += [str(word) for word in (more if isinstance(more, list | tuple) else shlex.split(str(more)))]
    if len(words) == 1 and " " in words[0] and not Path(words[0]).exists():
        with suppress(ValueError):  # an unbalanced quote: the command is tried as it is
            words = shlex.split(words[0])
    if len(words) > 2 and Path(words[0]).name.lower() in ("cmd", "cmd.exe") and words[1].lower() == "/c":
        words = words[2:]
    if words and words[0] == "env":
        words = words[1:]
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            key, _, value = words.pop(0).partition("=")
            environment[key] = value
    return words, environment


def _bridged(words: Sequence[str]) -> tuple[str, dict[str, str]] | None:
    """Return the address and the headers of a bridge to a remote server; None for other commands."""
    at = next((i for i, word in enumerate(words) if re.fullmatch(r"mcp-remote(?:@[\w.-]+)?", word)), None)
    if at is None:
        return None
    rest = words[at + 1 :]
    url = next((word for word in rest if re.match(r"https?://", word)), None)
    if url is None:
        return None
    headers = {}
    for option, value in pairwise(rest):
        if option == "--header" and ":" in value:
            key, _, text = value.partition(":")
            headers[key.strip()] = text.strip()
    return url, headers


def _table(server: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Return a table of texts that stands under one of these names."""
    found: dict[str, str] = {}
    for name in names:
        table = server.get(name)
        if isinstance(table, dict) and isinstance(table.get("headers"), dict):
            table = table["headers"]
        if isinstance(table, list):  # ["NAME=value"], or [{"name": …, "value": …}]
            pairs = [one.partition("=")[::2] for one in table if isinstance(one, str)]
            pairs += [(one.get("name", ""), one.get("value", "")) for one in table if isinstance(one, dict)]
            table = dict(pairs)
        if isinstance(table, dict):
            found |= {
                str(key): "true"
                if value is True
                else "false"
                if value is False
                else ""
                if value is None
                else str(value)
                for key, value in table.items()
                if not isinstance(value, dict | list)
            }
    return found


def _options(server: Mapping[str, Any], reading: _Reading, keys: dict[str, Any]) -> None:
    """Take over the other keys of a server, or note that they were left out."""
    used = {*_SILENT, *_URLS, *_ENVIRONMENTS, *_HEADERS, "arguments"}
    others = []
    for key, value in server.items():
        if key in used:
            continue
        if key in ("timeout", "timeout_s", "toolTimeout") and isinstance(value, int | float) and value > 0:
            keys["timeout_s"] = min(value / 1000 if value >= 1000 else value, 86_400)
        elif key in ("tools", "includeTools", "allowedTools", "enabledTools") and isinstance(value, list):
            if tools := [
                str(tool) for tool in value if str(tool) != "*" and not re.search(r"[\s*?]", str(tool))
            ]:
                keys["tools"] = tools
        elif key in _TRUSTING:
            reading.note(Text("{key} was left out: Rumi asks by its own rules.", key=key))
        elif key in ("envFile", "env_file"):
            reading.note(
                Text("{key} was left out. Put its variables into .env: rumi config set NAME -", key=key)
            )
        elif key in ("cwd", "workingDirectory", "working_directory"):
            reading.note(Text("{key} was left out: the server starts in its own folder.", key=key))
        else:
            others.append(key)
    if others:
        reading.note(Text("Left out: {keys}", keys=", ".join(others)))
