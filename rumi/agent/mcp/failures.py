"""Why a server does not start: an error with what the server wrote last, and advice on what to change."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rumi.agent.mcp.complaints import STDOUT
from rumi.agent.mcp.hosts import AskedHosts
from rumi.agent.mcp.launchers import DOWNLOADERS
from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.paths import HOME
from rumi.texts import Text

MOST_SHOWN_CHARS: Final = 300


class ServerFailed(McpError):
    """A server has ended, or was not ready in time. `lines` is the last part of its standard error.

    The lines are the server's own words, so only people see them: models get the first sentence.
    """

    def __init__(self, plain: Text, lines: Sequence[str] = (), advice: Text | None = None) -> None:
        """`plain` says what happened, without a full stop."""
        said = telling(lines)
        super().__init__(
            Text("{what}: {said}", what=plain, said=f"{said}.") if said else Text("{what}.", what=plain),
            advice or "",
        )
        self.lines = tuple(lines)
        self._plain = Text("{what}.", what=plain)

    @property
    def for_model(self) -> Text:
        """The first sentence, without the server's words."""
        return self._plain


class SessionLost(McpError):
    """The server does not know the session any more. It has not run the call that it answered this way."""

    def __init__(self) -> None:
        super().__init__(
            "The server has ended the session and a new one was started, so the call was not made. It can be "
            "made again."
        )


def ended(
    settings: ServerSettings, lines: Sequence[str], code: int | None, asked: AskedHosts | None = None
) -> ServerFailed:
    """Return the error of a server that has exited with `code`; None means that the code is not known.

    `asked` are the hosts that it may not reach.
    """
    plain = Text("The server has ended")
    if code and not telling(lines):
        plain = Text("The server has ended with exit code {code}", code=code)
    advice = advice_on(settings, lines, asked)
    if advice is None and (code == 0 or (not lines and (code or 0) < 128)):
        advice = Text(
            "It may not be a server of standard input and output, or may need an argument such as stdio. "
            "See its documentation."
        )
    return ServerFailed(plain, lines, advice)


def late(settings: ServerSettings, lines: Sequence[str], asked: AskedHosts | None = None) -> ServerFailed:
    """Return the error of a server that was not ready within its `start_timeout_s`.

    `asked` are the hosts that it may not reach.
    """
    seconds = settings.section.start_timeout_s
    plain = Text("The server was not ready within {start_timeout_s} s", start_timeout_s=f"{seconds:g}")
    advice = (
        advice_on(settings, lines, asked)
        or _download(settings)
        or Text(
            "If it needs longer, set in config.toml: [mcp.{name}] start_timeout_s = {longer}",
            name=settings.name,
            longer=f"{min(600, max(60, 2 * seconds)):g}",
        )
    )
    return ServerFailed(plain, lines, advice)


def _download(settings: ServerSettings) -> Text | None:
    """Return advice for a launcher that downloads its server and has no network."""
    section = settings.section
    needs = Path(section.command).name in DOWNLOADERS and section.sandbox and not section.network
    return _no_network(settings) if needs else None


_ERROR: Final = re.compile(
    r"(?:[\w.]*(?:Error|Exception|Exit)\b.*|error\b.*|fatal\b.*|\d+ validation errors? for .*)", re.IGNORECASE
)
_COMPLAINT: Final = re.compile(
    r"\b(?:error|failed|cannot|can't|could not|unable|invalid|missing|required|refused|denied)\b",
    re.IGNORECASE,
)
_HINT: Final = re.compile(
    r"For further information|Run '|Try '|See '|npm ERR! (?:A complete log|code)", re.IGNORECASE
)
_FRAME: Final = " \t|+-─│╭╰╮╯┌└├❱>"


def telling(lines: Sequence[str]) -> str:
    """Return the line that says most about a failure: the last one that begins like an error, or the last.

    What a server wrote to its standard output counts only if it wrote nothing else, and complains.
    """
    plain = [text for line in lines if re.search(r"\w", text := line.strip(_FRAME)) and "───" not in line]
    plain = [line for line in plain if not line.startswith(STDOUT)] or [
        line.removeprefix(STDOUT) for line in plain if _COMPLAINT.search(line)
    ]
    plain = [line for line in plain if "Warning: " not in line and not _HINT.match(line)] or plain
    errors = [line for line in plain if _ERROR.match(line)] or [
        line for line in plain if _COMPLAINT.search(line)
    ]
    found = (errors or plain or [""])[-1]
    return found[:MOST_SHOWN_CHARS].rstrip(".")


_Advise = Callable[["re.Match[str]", ServerSettings], Text | None]


def is_unreached(text: str) -> bool:
    """Return True if a text says that a host was not reached."""
    return any(pattern.search(text) for pattern, advise in _RULES if advise is _network)


def advice_on(settings: ServerSettings, lines: Sequence[str], asked: AskedHosts | None = None) -> Text | None:
    """Return what the user can do about a failure, judged by the server's last lines; None if unknown.

    `asked` are the hosts that it may not reach: if nothing else is known, or the network is missing, the
    advice is to allow the last of them.
    """
    text = "\n".join(lines)
    refused = [*asked.refused()] if asked is not None else []
    unreached = refused[-1].text(settings.name) if refused else None
    for pattern, advise in _RULES:
        for match in reversed([*pattern.finditer(text)]):
            if (advice := advise(match, settings)) is not None:
                return unreached if unreached is not None and advise is _network else advice
    return unreached


def _library(match: "re.Match[str]", settings: ServerSettings) -> Text:
    return Text(
        "The server was written for an older version of the package mcp. Where the server is installed: pip "
        "install 'mcp<2'"
    )


def _module(match: "re.Match[str]", settings: ServerSettings) -> Text:
    module = match["module"]
    if settings.section.sandbox:
        return Text(
            "The module {module} is missing. Install it where the server is installed; if it is in another "
            "folder, add that folder to mcp.{name}.paths.",
            module=module,
            name=settings.name,
        )
    return Text("The module {module} is missing. Install it where the server is installed.", module=module)


def _program(match: "re.Match[str]", settings: ServerSettings) -> Text | None:
    program = match["program"]
    if "/" in program:
        return None
    if settings.section.sandbox:
        return Text(
            "The program {program} is not in the sandbox, which has the programs of /usr. Install it there, "
            "or add its folder to mcp.{name}.paths and to PATH in mcp.{name}.env.",
            program=program,
            name=settings.name,
        )
    return Text("The program {program} is missing. Install it.", program=program)


def _path(match: "re.Match[str]", settings: ServerSettings) -> Text | None:
    path = Path(match["path"])
    section = settings.section
    if not section.sandbox:
        return Text("Make {path}, or correct the arguments of {name}.", path=path, name=settings.name)
    if path.is_relative_to(HOME) or any(path.is_relative_to(Path(p).expanduser()) for p in section.paths):
        return Text("Make {path}, or correct the arguments of {name}.", path=path, name=settings.name)
    return Text(
        "The sandbox does not have {path}, or it is read-only there. To give the server a folder: "
        'rumi mcp add --path, or in config.toml: [mcp.{name}] paths = ["{folder}"]',
        path=path,
        folder=path if path.is_dir() else path.parent,
        name=settings.name,
    )


def _no_network(settings: ServerSettings) -> Text:
    return Text(
        "It needs a network. To allow one host: rumi mcp allow {name} HOST:443. To allow all: rumi mcp allow "
        "{name} --network",
        name=settings.name,
    )


def _network(match: "re.Match[str]", settings: ServerSettings) -> Text:
    if settings.section.sandbox and not settings.section.network:
        return _no_network(settings)
    return Text("It cannot reach its host. Check its address, the network and the proxy.")


def _variable(match: "re.Match[str]", settings: ServerSettings) -> Text | None:
    variable = match["variable"]
    if variable in settings.env:
        return Text("Check the value of {variable} in mcp.{name}.env.", variable=variable, name=settings.name)
    return _needs(variable, settings)


def _needs(variable: str, settings: ServerSettings) -> Text:
    return Text(
        "It needs the variable {variable}. Set it with: rumi config set {variable} -. Then, in config.toml: "
        '[mcp.{name}.env] {variable} = "${variable}"',
        variable=variable,
        name=settings.name,
    )


def _setting(match: "re.Match[str]", settings: ServerSettings) -> Text | None:
    """Return advice for a field of settings that pydantic reads from a variable of the same name."""
    variable = match["field"].upper()
    return None if variable in settings.env else _needs(variable, settings)


def _certificates(match: "re.Match[str]", settings: ServerSettings) -> Text:
    return Text(
        "The certificate of its host is not trusted here. If the host is yours, set SSL_CERT_FILE to its "
        "certificate."
    )


def _http(match: "re.Match[str]", settings: ServerSettings) -> Text:
    address = (match["address"] or match["other"]).rstrip("/.)")
    return Text(
        "It serves HTTP, not standard input and output. Give it an argument such as stdio, or run it "
        "yourself and add its address: rumi mcp add {name} --url {address}/mcp",
        address=address,
        name=settings.name,
    )


def _arguments(match: "re.Match[str]", settings: ServerSettings) -> Text:
    return Text("Correct its arguments, mcp.{name}.args in config.toml.", name=settings.name)


def _docker(match: "re.Match[str]", settings: ServerSettings) -> Text | None:
    if not settings.section.sandbox:
        return Text("It does not reach Docker. Start Docker, and see that you may use it.")
    return Text(
        "It needs Docker, which a sandbox does not have, because Docker gives all rights on this machine. If "
        "you want that: [mcp.{name}] sandbox = false in config.toml.",
        name=settings.name,
    )


def _address(match: "re.Match[str]", settings: ServerSettings) -> Text:
    return Text("Another program uses the port. Give the server another one, or end that program.")


def _memory(match: "re.Match[str]", settings: ServerSettings) -> Text:
    return Text("It was ended by the system; there may be too little memory.")


_VARIABLE: Final = r"\$?(?P<variable>[A-Z][A-Z0-9]*_[A-Z0-9_]{2,60})\b"
_MISSING: Final = (
    r"(?:required|missing|(?:is|are|was) not|not (?:be )?(?:set|found|provided|defined|configured)|must be|"
    r"please (?:set|provide)|undefined|unset|no value|provide|set the|environment variable)"
)
_PATH: Final = r"['\"\s:=](?P<path>/[^\s'\":,;]{1,300})"
_PROGRAM: Final = r"'?(?P<program>[\w.+-]{1,60})'?"
_ADDRESS: Final = r"https?://[^\s'\"]{1,200}"
_NO_FOLDER: Final = r"not a (?:valid )?(?:directory|file|folder|git repo)"


def _any(*patterns: str) -> "re.Pattern[str]":
    """Return a pattern that matches what any of these matches, in any case of letters."""
    return re.compile("|".join(patterns), re.MULTILINE | re.IGNORECASE)


_RULES: Final[tuple[tuple["re.Pattern[str]", _Advise], ...]] = (
    (
        _any(
            r"No module named 'mcp\.",
            r"cannot import name '\w+' from '(?:mcp|mcp_types)\b",
            r"'(?:Server|FastMCP|MCPServer|ClientSession|ServerSession)' object has no attribute",
            r"(?:FastMCP|Server|MCPServer)(?:\.\w+)?\(\) (?:got an unexpected|takes|missing)",
        ),
        _library,
    ),
    (_any(r"docker\.errors", "docker daemon", r"docker\.sock"), _docker),
    (_any(r"No module named '?(?P<module>[\w.]{1,100})"), _module),
    (_any(r"Cannot find (?:module|package) '(?P<module>[^'\n/.][^'\n]{0,100})'"), _module),
    (
        _any(
            rf"Uvicorn running on (?P<address>{_ADDRESS})",
            r"(?:listening|running|serving|started)\b[^\n]{0,40}?\b(?:on|at)\b[^\n]{0,20}?"
            rf"(?P<other>{_ADDRESS})",
        ),
        _http,
    ),
    (
        _any(
            "CERTIFICATE_VERIFY_FAILED",
            "certificate verify failed",
            "self[- ]signed certificate",
            "unable to get (?:local )?issuer certificate",
            "x509: ",
        ),
        _certificates,
    ),
    (
        _any(
            "Name or service not known",
            "name resolution",
            "getaddrinfo",
            "No route to host",
            "Network is unreachable",
            "Connection refused",
            "Failed to resolve",
            "Could not resolve host",
            "no such host",
            "dial tcp",
            "All connection attempts failed",
            "Connect call failed",
            r"(?:could not|cannot|can't|unable to|failed to) connect to\b",
            "Max retries exceeded",
            "Address family not supported",
            "Failed to fetch",
            "error sending request",
            "network request failed",
            "fetch failed",
            r"\b(?:ConnectError|ConnectTimeout)\b",
            r"\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ECONNREFUSED)\b",
        ),
        _network,
    ),
    # Names of variables are in capital letters, so these patterns look at the case.
    (re.compile(rf"KeyError: '{_VARIABLE}'"), _variable),
    (re.compile(rf"{_VARIABLE}[^\n]{{0,120}}?\b(?i:{_MISSING})"), _variable),
    (re.compile(rf"(?i:{_MISSING})[^\n]{{0,120}}?\b{_VARIABLE}"), _variable),
    # pydantic-settings: "1 validation error for Settings", then the field and "Field required" on a line each
    (
        _any(
            r"validation errors? for \w*(?:Settings|Config)\w*\n\s*(?P<field>\w{2,60})\n\s*Field required\b"
        ),
        _setting,
    ),
    (_any(rf"No such file or directory: {_PROGRAM}$"), _program),
    (_any(rf"\bspawn {_PROGRAM} ENOENT"), _program),
    (
        _any(rf"(?:executable|command|program)(?: not found)?: {_PROGRAM}(?:$|: (?:command )?not found)"),
        _program,
    ),
    (
        _any(rf"(?:^|: )(?!ENOENT\b){_PROGRAM}: (?:(?:command )?not found|No such file or directory)"),
        _program,
    ),
    (
        _any(
            r"(?:No such file or directory|Permission denied|Read-only file system|does not exist|not exist|"
            r"ENOENT|EACCES|EROFS|unable to open|cannot open|can't open|not found|"
            rf"{_NO_FOLDER}|invalid (?:path|directory))[^\n]{{0,160}}?{_PATH}"
        ),
        _path,
    ),
    (
        _any(
            rf"{_PATH}['\"]?[^\n]{{0,80}}?(?:does not exist|not exist|not found|no such|{_NO_FOLDER}|"
            "read-only|permission denied|not accessible|is not writ|cannot be)"
        ),
        _path,
    ),
    (
        _any(
            "the following arguments are required",
            "unrecognized arguments",
            "Missing (?:option|argument|required)",
            "No such option",
            f"^(?:{STDOUT})?usage: ",
            "unknown (?:option|flag)",
            "requires? an argument",
            "too few arguments",
        ),
        _arguments,
    ),
    (_any("Address already in use", "EADDRINUSE"), _address),
    (_any("Cannot allocate memory", "MemoryError", "out of memory"), _memory),
)
