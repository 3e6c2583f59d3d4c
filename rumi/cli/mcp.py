"""`rumi mcp`."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.asking import when_free
from rumi.cli.mcp_login import forget_login, login, logout
from rumi.cli.mcp_serve import serve
from rumi.cli.mcp_servers import absolute_command, missing_paths, named, servers_of
from rumi.cli.printing import JSON, confirm, echo, echo_json
from rumi.cli.speaking import Listing, reader, say, tr, translate
from rumi.errors import UsageError
from rumi.platform.printable import flat
from rumi.platform.texts.words import in_words
from rumi.texts import Text, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rumi.agent.mcp.described import DescriptionChange
    from rumi.agent.mcp.messages import McpError, RemoteTool, ServerSettings
    from rumi.agent.mcp.server import KnownServer
    from rumi.platform.home import Home

NOT_RUNNING = Text("not running")


@click.group(cls=Listing, default="list")
def command() -> None:
    """Manage servers that bring tools, by the Model Context Protocol, and let programs ask Rumi."""


command.add_command(serve)
command.add_command(login)
command.add_command(logout)


@command.command("list")
@JSON
def list_(as_json: bool = False) -> None:
    """List the servers: name, state, tools, and what they may do."""
    from rumi.agent.mcp.oauth.logins import StoredLogins, login_of
    from rumi.platform.home import Home

    root, servers = servers_of()
    states: dict[str, Any] = {}
    if Home(root).lock_holder():
        found: Any = run_async(when_free, Home(root).make(), "mcp", _nothing, {"do": "list"})
        states = {server["name"]: server for server in found}
    logins = StoredLogins(root)
    listed = [
        {"name": server.name, **login_of(logins, server), **states.get(server.name, {}), **_rights(server)}
        for server in servers.values()
    ]
    if as_json:
        echo_json(listed, indent=2)
        return
    if not servers:
        say("There are no servers of tools. Add one with: rumi mcp add NAME -- COMMAND")
    for row, server in zip(listed, servers.values(), strict=True):
        tools = f"{len(row['tools'])}" if "tools" in row else "-"
        state = in_words(reader(), str(row.get("state", NOT_RUNNING)))
        marks = ", ".join(in_words(reader(), mark) for mark in _marks(server))
        echo(f"{server.name:<24} {state:<12} {tools:>4}  {marks}".rstrip())
        if row.get("withheld"):
            names = ", ".join(map(flat, row["withheld"]))
            say(
                "  changed since you accepted them, and withheld: {names}. See: rumi mcp test {name}",
                names=names,
                name=server.name,
            )
        for lines in row.get("changes", {}).values():
            for line in lines:
                echo(f"    {flat(line)}")
        _tell_login(server.name, row.get("login"))
        _tell_unusable(row.get("unusable", {}), row.get("notes", ()))
        for one in row.get("refused", ()):
            host = flat(one["host"])
            say(
                "  asked for {host} and may not reach it. Allow it: rumi mcp allow {name} {host}",
                host=host,
                name=server.name,
            )
        if row.get("why") and row.get("state") != "ready":
            echo(
                f"  {flat(translate(text_of(row['why'])))} {flat(translate(text_of(row['advice'])))}".rstrip()
            )


@command.command()
@click.argument("name", required=False, default="")
@click.argument("words", nargs=-1, metavar="[-- COMMAND [ARG...]]")
@click.option(
    "--json",
    "block",
    metavar="FILE",
    help="Take the servers from the JSON of a README; - for standard input.",
)
@click.option("--url", default="", help="The address of a server of streamable HTTP, instead of a command.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the command.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="A header for the address.")
@click.option("--tool", multiple=True, metavar="NAME", help="Take only this tool.")
@click.option("--path", multiple=True, help="A folder that the command may read and change.")
@click.option("--host", multiple=True, metavar="HOST:PORT", help="A host that the command may reach.")
@click.option("--network", is_flag=True, help="Let the command use the network: all hosts, this machine too.")
@click.option("--trusted", is_flag=True, help="Take its results as if they were yours.")
@click.option("--closed", is_flag=True, help="Its tools reach nothing but its own data.")
@click.option("--no-sandbox", is_flag=True, help="Run the command as you, without a sandbox.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
def add(
    name: str,
    words: tuple[str, ...],
    block: str | None,
    url: str,
    env: tuple[str, ...],
    header: tuple[str, ...],
    tool: tuple[str, ...],
    path: tuple[str, ...],
    host: tuple[str, ...],
    network: bool,
    trusted: bool,
    closed: bool,
    no_sandbox: bool,
    yes: bool,
) -> None:
    """Add server NAME to config.toml. Put the command after --.

    Secrets are given as $VAR, the name of a variable of the environment or of .env. With --json, all servers
    of a block of JSON are added, as READMEs show it for other programs; each is started once, to find out
    which hosts and folders it needs.
    """
    if block is None and name == "-" and not words and not url:
        name, block = "", "-"
    if block is not None:
        from rumi.cli.mcp_block import add_block

        if words or url or env or header or no_sandbox:
            raise UsageError("With --json, the command and its variables come from the block.")
        more = {"tools": [*tool], "paths": _folders(path), "hosts": _hosts(host)}
        flags = {"network": network, "trusted": trusted, **({"open_world": False} if closed else {})}
        add_block(
            block,
            name,
            {key: value for key, value in (more | flags).items() if value or key == "open_world"},
            yes=yes,
        )
        return
    if not name:
        raise UsageError("The server needs a name.", "Example: rumi mcp add time -- mcp-server-time")
    from rumi.agent.mcp.launchers import DOWNLOADERS
    from rumi.platform.config.editing import set_keys
    from rumi.platform.home import Home

    root, servers = servers_of()
    if name in servers:
        raise UsageError(
            "There is a server {name} already.", "Remove it first: rumi mcp remove {name}", name=name
        )
    if not words and not url:
        raise UsageError(
            "The server needs a command or --url.", "Example: rumi mcp add time -- mcp-server-time"
        )
    command = absolute_command(words, sandbox=not no_sandbox) if words else ()
    if words and no_sandbox and not yes:
        say(
            "Without a sandbox {words} can read and change all that you can, and its keys.",
            words=words[0],
            err=True,
        )
        confirm(tr("Run it so?"), abort=True, err=True)
    paths = _folders(path)
    if host and (no_sandbox or url):
        raise UsageError("--host is for a command in a sandbox: nothing else limits where it connects to.")
    variables = _pairs(env)
    if words and not no_sandbox:
        paths += missing_paths(name, root, command, variables, paths, yes=yes)
    chosen: dict[str, object] = {
        "command": command[0] if command else "",
        "args": [*command[1:]],
        "url": url,
        "env": variables,
        "headers": _pairs(header),
        "tools": [*tool],
        "paths": paths,
        "hosts": _hosts(host),
        "network": network,
        "trusted": trusted,
    }
    keys = {f"mcp.{name}.{key}": value for key, value in chosen.items() if value}
    if no_sandbox:
        keys[f"mcp.{name}.sandbox"] = False
    if closed:
        keys[f"mcp.{name}.open_world"] = False
    home = Home(root).make()
    set_keys(home.root / "config.toml", keys)
    say("Added {name}. Try it with: rumi mcp test {name}", name=name)
    if command and Path(command[0]).name in DOWNLOADERS and not (network or host or no_sandbox):
        say(
            "{program} downloads the server, which needs a network: rumi mcp allow {name} --network",
            program=Path(command[0]).name,
            name=name,
            err=True,
        )
    if lock_holder := home.lock_holder():
        say("{lock_holder} uses it after its next start.", lock_holder=lock_holder, err=True)


@command.command()
@click.argument("name")
@click.argument("hosts", nargs=-1, metavar="[HOST:PORT...]")
@click.option("--path", multiple=True, help="A folder that the command may read and change.")
@click.option("--network", is_flag=True, help="Let the command use the network: all hosts, this machine too.")
def allow(name: str, hosts: tuple[str, ...], path: tuple[str, ...], network: bool) -> None:
    """Let server NAME reach hosts, each with its port, or read and change folders.

    A host is exactly the one that is named: api.example.org:443 allows no other name and no other port. An
    address such as https://api.example.org is understood too.
    """
    from rumi.platform.config.editing import set_keys
    from rumi.platform.home import Home

    root, servers = servers_of()
    section = named(servers, name).section
    if not (hosts or path or network):
        raise UsageError(
            "What may it reach?", "Example: rumi mcp allow {name} api.example.org:443", name=name
        )
    if section.url or not section.sandbox:
        raise UsageError("The server {name} has no sandbox, so nothing limits what it reaches.", name=name)
    allowed = [*section.hosts, *(host for host in _hosts(hosts) if host not in section.hosts)]
    folders = [*section.paths, *(folder for folder in _folders(path) if folder not in section.paths)]
    keys = {"hosts": allowed, "paths": folders, "network": network or section.network}
    set_keys(root / "config.toml", {f"mcp.{name}.{key}": value for key, value in keys.items() if value})
    if network or section.network:
        say("{name} may use the network: all hosts, and this machine.", name=name)
    else:
        say("{name} may reach: {hosts}", name=name, hosts=", ".join(allowed) or "-")
    if path:
        say("{name} may read and change: {folders}", name=name, folders=", ".join(folders))
    if lock_holder := Home(root).lock_holder():
        say("{lock_holder} uses it after its next start.", lock_holder=lock_holder, err=True)


def _folders(paths: "Sequence[str]") -> list[str]:
    return [str(Path(folder).expanduser().absolute()) for folder in paths]


def _hosts(words: "Sequence[str]") -> list[str]:
    """Return hosts as the configuration has them. The address of a web server is understood too."""
    from rumi.agent.mcp.hosts import named_hosts
    from rumi.web.outbound import read_host

    found = []
    for word in words:
        named = named_hosts([word]) if "://" in word else []
        found.append(named[0] if named else str(read_host(word)))
    return [*dict.fromkeys(found)]


@command.command()
@click.argument("name")
@click.option("--accept", is_flag=True, help="Accept the tools as the server describes them now.")
@JSON
def test(name: str, accept: bool, as_json: bool) -> None:
    """Connect to server NAME, list its tools, and end it.

    A tool of which anything has changed since it was accepted is withheld until --accept. Each change is
    shown, before and with --accept.
    """
    from rumi.agent.mcp.messages import McpError
    from rumi.agent.mcp.servers import try_once
    from rumi.agent.mcp.tested import changes_since, effect_of, is_accepted, tool_rows
    from rumi.platform.home import Home

    root, servers = servers_of()
    settings = named(servers, name)
    home = Home(root).make()

    async def trying() -> "Any":
        return await try_once(settings, home.root, accept=accept)

    try:
        known = run_async(trying)
    except McpError as error:
        if not as_json:
            _show_complaints(error, home.root, name)
        raise
    tools: Sequence[RemoteTool] = known.tools
    if as_json:
        echo_json(tool_rows(known, reader()), indent=2)
        return
    accepted = {tool.name: is_accepted(known, tool) for tool in tools}
    changes = changes_since(known)
    for tool in tools:
        about = flat(tool.description)
        mark = "" if accepted[tool.name] else f" · {tr('withheld')}"
        echo(f"{flat(tool.name)}  ({in_words(reader(), effect_of(tool))}{mark})")
        echo(f"  {about[:1000]}")
        _show(changes.get(tool.name, ()))
    for gone in (change for change in changes if change not in accepted):
        say("{gone} is gone.", gone=flat(gone))
    _tell_unusable(known.unusable, known.notes)
    say("{name} works: tools: {count}.", name=name, count=len(tools))
    if not tools:
        say("It lists no tools. It may need variables or arguments; see its documentation.", err=True)
    _warn_of_folders(settings, home.root)
    tell_refused(known)
    if not all(accepted.values()):
        say("What is withheld has changed. If it is as you want it: rumi mcp test {name} --accept", name=name)


def _show_complaints(error: "McpError", root: Path, name: str) -> None:
    """Print the last lines that a failed server wrote to its standard error, and where the others are."""
    from rumi.agent.mcp.complaints import log_of
    from rumi.agent.mcp.failures import ServerFailed

    if isinstance(error, ServerFailed) and error.lines:
        for line in error.lines:
            echo(f"  {line}")
        say("All that it wrote is in {log}.", log=log_of(root, name))


def tell_refused(known: "KnownServer") -> None:
    """Print which hosts a server asked for and did not reach."""
    for refusal in known.asked.refused():
        echo(translate(refusal.text(known.settings.name)), err=True)


def _warn_of_folders(settings: "ServerSettings", root: Path) -> None:
    """Name the folders that a server's arguments name, but that its sandbox shows as empty."""
    from rumi.agent.mcp.bwrap import hidden_folders

    for one in hidden_folders(settings, root):
        say(
            "Its sandbox does not have {path_name}. To give it to the server: rumi mcp allow {name} "
            "--path {folder}",
            path_name=one.path,
            folder=one.path,
            name=settings.name,
            err=True,
        )


@command.command()
@click.argument("name")
@click.option("--files", is_flag=True, help="Delete its own folder too.")
def remove(name: str, files: bool) -> None:
    """Remove server NAME from config.toml, with what was accepted of it and its login."""
    from rumi.agent.mcp.pins import AcceptedTools
    from rumi.agent.mcp.servers import FOLDER
    from rumi.platform.config.editing import edit_toml
    from rumi.platform.home import Home

    root, servers = servers_of()
    named(servers, name)

    def change(document: "Any") -> None:
        del document["mcp"][name]
        if not document["mcp"]:
            del document["mcp"]

    edit_toml(root / "config.toml", change)
    AcceptedTools(root).forget(name)
    forget_login(Home(root).make(), name)
    folder = root / FOLDER / name
    if files:
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.is_dir() and any(folder.iterdir()):
        say("Its files stay in {folder}.", folder=folder, err=True)
    say("Removed {name}.", name=name)
    if lock_holder := Home(root).lock_holder():
        say("{lock_holder} uses it until its next start.", lock_holder=lock_holder, err=True)


async def _nothing(home: "Home", request: "Mapping[str, object]") -> object:
    """Return an empty list of servers: no server runs in a home that no process has locked."""
    import trio

    await trio.lowlevel.checkpoint()
    return []


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if not all(equals for _, equals, _ in pairs):
        raise UsageError("A variable or a header is NAME=VALUE.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _rights(server: "ServerSettings") -> dict[str, object]:
    return {"command": server.section.command, "url": server.section.url, "marks": _marks(server)}


def _marks(server: "ServerSettings") -> list[str]:
    local = bool(server.section.command)
    marks = ["address"] if not local else ["sandbox" if server.section.sandbox else "no sandbox"]
    marks += ["network"] * (local and server.section.sandbox and server.section.network)
    if local and server.section.sandbox and not server.section.network:
        marks += server.section.hosts
    marks += ["closed"] * (not server.section.open_world)
    return marks + ["trusted"] * server.section.trusted + (["fault"] if server.fault else [])


def _tell_login(name: str, login: "Mapping[str, Any] | None") -> None:
    """Print the state of a server's login."""
    if login is None:
        return
    if login["state"] != "logged in":
        say("  needs login: rumi mcp login {name}", name=name)
    elif login["renewed"] or not login["until"]:
        say("  logged in; Rumi renews the login by itself")
    else:
        say("  logged in until {until}", until=login["until"])


def _tell_unusable(unusable: "Mapping[str, str]", notes: "Sequence[str]") -> None:
    """Print the tools that no model can be given, with the reasons, and what else of the list is left out."""
    for name, why in unusable.items():
        say("  {name} is withheld: {why}", name=flat(name), why=flat(translate(text_of(why))))
    for note in notes:
        echo(f"  {flat(translate(text_of(note)))}")


def _show(changes: "Sequence[DescriptionChange]") -> None:
    """Print the old and new value of each change in full, because the user has to see what they accept."""
    from rumi.platform.texts.questions import visible

    for change in changes:
        for mark, text in (("-", change.before), ("+", change.now)):
            if text is not None:
                echo(f"  {mark} {visible(change.path)}: {visible(text)}")
