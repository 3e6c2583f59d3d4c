"""`rumi mcp add --json`: the servers of a README's JSON, each tried to find out what it needs."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rumi.cli import run_async
from rumi.cli.mcp_servers import absolute_command, missing_paths, servers_of
from rumi.cli.printing import confirm, echo
from rumi.cli.speaking import say, tr, translate
from rumi.errors import RumiError, UsageError
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from rumi.agent.mcp.blocks import BlockServer
    from rumi.agent.mcp.hosts import Refusal
    from rumi.agent.mcp.messages import ServerSettings
    from rumi.agent.mcp.server import KnownServer
    from rumi.platform.home import Home

MOST_TRIES: Final = 4
"""Maximum number of starts of a server: after each, it may reach what the user has just allowed."""


_TABLES: Final = ("env", "headers")


def add_block(file: str, name: str, more: Mapping[str, Any], *, yes: bool) -> None:
    """Add the servers of a file to config.toml; `-` is standard input. `more` are keys for each of them.

    A server that cannot be added does not stop the others; at the end, the command fails.

    Raises:
        UsageError: The file has no server, or one of them could not be added.
    """
    from rumi.agent.mcp.blocks import MOST_SERVERS, read_block
    from rumi.platform.home import Home

    found = read_block(_text(file), name)
    if not found:
        raise UsageError(
            "There is no server in it.",
            'It looks like {"mcpServers": {"time": {"command": "mcp-server-time"}}}',
        )
    if name and len(found) == 1:
        found = [replace(found[0], name=name, trouble=found[0].trouble if found[0].name else None)]
    elif name:
        chosen = [one for one in found if one.name == name]
        if not chosen:
            names = ", ".join(one.name for one in found)
            raise UsageError("There is no server {name} in it, only: {names}.", name=name, names=names)
        found = chosen
    if len(found) > MOST_SERVERS:
        raise UsageError("{file} has more than {count} servers.", file=file, count=MOST_SERVERS)
    root, known = servers_of()
    home = Home(root).make()
    taken = set(known)
    failed = []
    for server in found:
        try:
            if server.name in taken:
                raise UsageError(
                    "There is a server {name} already.",
                    "Remove it first: rumi mcp remove {name}",
                    name=server.name,
                )
            taken.add(server.name)
            _add(server, more, home, yes=yes, asks=file != "-")
        except RumiError as error:
            failed.append(server.name or "?")
            shown = server.name or tr("A server without a name")
            say("{name} was not added. {why}", name=shown, why=translate(error.text), err=True)
            for note in server.notes:
                echo(f"  {flat(translate(note))}", err=True)
    if lock_holder := home.lock_holder():
        say("{lock_holder} uses them after its next start.", lock_holder=lock_holder, err=True)
    if failed:
        raise UsageError("Not added: {names}", names=", ".join(failed))


def _text(file: str) -> str:
    from rumi.agent.mcp.blocks import MOST_BYTES

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).expanduser().open("rb") as opened:
                data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "{file} cannot be read: {why}.", file=file, why=error.strerror or str(error)
        ) from error
    if len(data) > MOST_BYTES:
        raise UsageError("{file} has more than {count} bytes.", file=file, count=MOST_BYTES)
    return data.decode("utf-8-sig", "replace")


def _add(server: "BlockServer", more: Mapping[str, Any], home: "Home", *, yes: bool, asks: bool) -> None:
    """Add one server, and try it.

    Raises:
        RumiError: The server cannot be added.
    """
    from rumi.platform.config.editing import set_keys, set_variables

    if server.trouble is not None:
        raise UsageError(server.trouble)
    keys = {**server.keys, **more}
    command: Sequence[str] = ()
    if "command" in keys:
        command = absolute_command((keys["command"], *keys.get("args", ())), sandbox=True)
        keys["command"], keys["args"] = command[0], [*command[1:]]
    server, secrets = _with_own_variables(server, home)
    given, withheld = _with_allowed_variables(server, secrets, home, asks=asks and not yes)
    keys |= {table: given.keys.get(table, {}) for table in _TABLES if table in keys}
    if secrets:
        set_variables(home.root / ".env", secrets)
        say("{names} went into .env.", names=", ".join(secrets))
    set_keys(
        home.root / "config.toml",
        {f"mcp.{server.name}.{key}": value for key, value in keys.items() if value or value is False},
    )
    shown = keys.get("url") or " ".join([Path(keys["command"]).name, *keys.get("args", ())])
    say("Added {name}: {shown}", name=server.name, shown=flat(str(shown)))
    for note in server.notes:
        echo(f"  {flat(translate(note))}")
    for variable in _unset(given, home):
        say("  It needs the variable {variable}: rumi config set {variable} -", variable=variable)
    for table, key, value in withheld:
        say(
            "  It names a variable of yours and does not get it. To give it, write into config.toml: "
            "[mcp.{name}.{table}] {key} = {value}",
            name=server.name,
            table=table,
            key=flat(json.dumps(key, ensure_ascii=False)),
            value=flat(json.dumps(value, ensure_ascii=False)),
        )
    if command and not keys.get("network"):
        folders = missing_paths(
            server.name,
            home.root,
            command,
            keys.get("env", {}),
            keys.get("paths", ()),
            yes=False,  # the text must not choose a folder of the user's
            asks=asks and not yes,
        )
        if folders:
            _set(home, server.name, "paths", [*keys.get("paths", ()), *folders])
        _allow(server.name, _named_hosts(keys), home, yes=yes, asks=asks, named=True)
    _try(server.name, home, yes=yes, asks=asks)


def _with_own_variables(server: "BlockServer", home: "Home") -> "tuple[BlockServer, dict[str, str]]":
    """Return a server whose secrets are in variables that no other part of Rumi reads, and these variables.

    A text that named `OPENAI_API_KEY` could replace the user's own key, and then its owner would see what
    Rumi asks the model.
    """
    from rumi.platform.config.schema import filled, references
    from rumi.platform.config.secrets import load_secrets

    names, values = dict[str, str](), dict[str, str]()
    for variable, value in server.secrets.items():
        base = f"MCP_{server.name}_{variable}".upper().replace("-", "_")
        for own in (base, *(f"{base}_{number}" for number in range(2, 100))):
            known = load_secrets(home.root, os.environ, {}, [own]).referenced.get(own)
            if own not in values and (known is None or known.reveal() == value):
                names[variable], values[own] = own, value
                break
        else:
            raise UsageError("The variables {base} to {last} are set already.", base=base, last=own)
    if not names:
        return server, values

    def renamed(text: str) -> str:
        found = references(text)
        if not names.keys() & {*found}:
            return text
        return filled(text, {name: f"${{{names.get(name, name)}}}" for name in found})

    tables = {
        table: {key: renamed(value) for key, value in server.keys[table].items()}
        for table in _TABLES
        if table in server.keys
    }
    return replace(server, keys={**server.keys, **tables}), values


def _with_allowed_variables(
    server: "BlockServer", secrets: Mapping[str, str], home: "Home", *, asks: bool
) -> "tuple[BlockServer, list[tuple[str, str, str]]]":
    """Ask whether a server gets the values of variables that it names and that belong to the user.

    Return the server without what it does not get, and that: its table, key and value. Where nobody can
    answer, it gets nothing: the text could name every key that this machine has.
    """
    from rumi.agent.mcp.bwrap import INHERITED
    from rumi.platform.config.schema import references
    from rumi.platform.config.secrets import NAMES, load_secrets

    tables = {table: dict(server.keys[table]) for table in _TABLES if table in server.keys}
    named = {name for table in tables.values() for value in table.values() for name in references(value)}
    named -= secrets.keys() | {*INHERITED}
    mine = (load_secrets(home.root, os.environ, {}, named).referenced.keys() & named) | (named & set(NAMES))
    allowed = {
        name
        for name in sorted(mine)
        if asks
        and sys.stdin.isatty()
        and confirm(tr("It asks for the value of your variable {name}. May it have it?", name=name), err=True)
    }
    withheld = list[tuple[str, str, str]]()
    for table, values in tables.items():
        for key, value in [*values.items()]:
            if (mine - allowed).intersection(references(value)):
                withheld.append((table, key, values.pop(key)))
    refused = {name for _, _, value in withheld for name in references(value)}
    missing = tuple(name for name in server.missing if name not in refused)
    return replace(server, keys={**server.keys, **tables}, missing=missing), withheld


def _unset(server: "BlockServer", home: "Home") -> list[str]:
    from rumi.platform.config.secrets import load_secrets

    known = load_secrets(home.root, os.environ, {}, server.missing).referenced
    return [name for name in server.missing if name not in known]


def _set(home: "Home", name: str, key: str, value: object) -> None:
    from rumi.platform.config.editing import set_keys

    set_keys(home.root / "config.toml", {f"mcp.{name}.{key}": value})


def _named_hosts(keys: Mapping[str, Any]) -> "list[Refusal]":
    """Return the hosts of the addresses that a server's arguments and variables name."""
    from rumi.agent.mcp.hosts import Refusal, named_hosts
    from rumi.web.outbound import read_host

    found = named_hosts([*keys.get("args", ()), *keys.get("env", {}).values()])
    return [Refusal(read_host(host)) for host in found]


def _allow(
    name: str, refusals: Sequence["Refusal"], home: "Home", *, yes: bool, asks: bool, named: bool = False
) -> bool:
    """Ask for each host, and store those that the server may reach; return True if there are any.

    Where nobody can answer, only say how to allow each host. `yes` allows public hosts only: a README and a
    server must not choose addresses of the user's own network.
    """
    section = servers_of()[1][name].section
    chosen = []
    for refusal in refusals:
        allowed = refusal.address or refusal.host
        host = str(allowed)
        if host in section.hosts:
            continue
        if yes and allowed.is_public:
            say("  It may reach {host}.", host=host)
            chosen.append(host)
        elif asks and not yes and sys.stdin.isatty():
            if confirm(_question(refusal, named=named), err=True):
                chosen.append(host)
        elif named:
            say("  It names {host}. To allow that: rumi mcp allow {name} {host}", host=host, name=name)
        elif refusal.address is None:
            say("  It asked for {host}. To allow that: rumi mcp allow {name} {host}", host=host, name=name)
        else:
            echo(f"  {flat(translate(refusal.text(name)))}")
    if chosen:
        _set(home, name, "hosts", [*section.hosts, *chosen])
    return bool(chosen)


def _question(refusal: "Refusal", *, named: bool) -> str:
    if named:
        return tr("It names {host}. May it reach that?", host=refusal.host)
    if refusal.address is None:
        return tr("It asked for {host}. May it reach that?", host=refusal.host)
    return tr(
        "It asked for {host}, whose address {address} is not public. May it reach that address?",
        host=refusal.host,
        address=refusal.address,
    )


def _try(name: str, home: "Home", *, yes: bool, asks: bool) -> None:
    """Start a server until it needs nothing more that the user allows, and say how it is."""
    offered: set[Refusal] = set()
    for _ in range(MOST_TRIES):
        known, error = _once(name, home)
        new = [refusal for refusal in known.asked.refused() if refusal not in offered]
        offered.update(new)
        if not _allow(name, new, home, yes=yes, asks=asks):
            break
    if error is None:
        say("{name} works: tools: {count}.", name=name, count=len(known.tools))
        return
    say("  {name} does not start yet. {why}", name=name, why=flat(translate(error.text)))
    say("  When that is done: rumi mcp test {name}", name=name)


def _once(name: str, home: "Home") -> "tuple[KnownServer, RumiError | None]":
    """Start a server once; return what it asked for, and the error if it does not work."""
    from rumi.agent.mcp.messages import McpError
    from rumi.agent.mcp.server import KnownServer
    from rumi.agent.mcp.servers import try_known

    known = KnownServer(_startable(servers_of()[1][name], home))

    async def trying() -> None:
        await try_known(known, home.root, accept=False)

    try:
        run_async(trying)
    except McpError as error:
        return known, error
    return known, None


def _startable(settings: "ServerSettings", home: "Home") -> "ServerSettings":
    """Return the settings of a server without the variables that have no value yet.

    Many servers start without them, and show what else they need.
    """
    from rumi.platform.config.schema import filled, references
    from rumi.platform.config.secrets import load_secrets

    if settings.fault is None or settings.section.url:
        return settings
    env = settings.section.env
    names = {name for value in env.values() for name in references(value)}
    known = {k: v.reveal() for k, v in load_secrets(home.root, os.environ, {}, names).referenced.items()}
    env = {k: filled(v, known) for k, v in env.items() if all(name in known for name in references(v))}
    return replace(settings, env=env, fault=None)
