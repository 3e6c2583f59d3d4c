"""`rumi data`."""

import os
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import Listing, say
from rumi.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rumi.platform.home import Home
    from rumi.store.copying import CopiedTable, Side, Table
    from rumi.store.sqlite import Schema

HOME: Final = "home"


@click.group(cls=Listing, default="show")
def command() -> None:
    """Show where messages, history and facts are stored, and copy them to another store."""


@command.command()
@JSON
def show(as_json: bool) -> None:
    """Show which store is used, its size, its schemas, and the workers that share it."""
    from rumi.platform.texts.operating import short_size

    home, url, password = _configured()
    found = _look_at_server(url, password) if url else _look_at_home(home)
    if as_json:
        echo_json(found)
        return
    echo(f"{found['place']}  {short_size(found['bytes'])}")
    for name, version in found["schemas"].items():
        say("Schema of {name}: {version}", name=name, version=version)
    for worker in found["workers"]:
        name, partitions = worker["name"], worker["partitions"]
        say(
            "Worker {name}: version {version}, {partitions} partitions of chats",
            name=name,
            version=worker["version"],
            partitions=partitions,
        )


@command.command()
@click.option("--to", "target", required=True, metavar="URL|home", help="The store that gets the copy.")
@click.option("--from", "source", default="", metavar="URL|home", help="Otherwise the one that is used.")
@JSON
def copy(target: str, source: str, as_json: bool) -> None:
    """Copy all messages, history and facts to an empty PostgreSQL database, or back to the home's files.

    The copy is complete if no Rumi uses the source. Otherwise what is there now is copied, and the command
    ends with exit code 1: end that Rumi, and run the command once more. It then copies only what has changed,
    and compares all rows. A command that was killed goes on where it was. To use
    the new store afterwards: rumi config set store.url URL
    """
    home, url, password = _configured()
    source = source or url or HOME
    if source == target:
        raise UsageError("The copy would go to where it comes from.", "Name another store with --to.")
    done = _Copy(home, source, target, password).run()
    if as_json:
        echo_json(done)
    else:
        _print_copied(done, target)
    if not done["complete"]:
        sys.exit(1)


def _print_copied(done: "Mapping[str, Any]", target: str) -> None:
    if not done["complete"]:
        say(
            "{written} rows were copied, but the copy is not complete: {why}.",
            written=done["written"],
            why=done["why"],
        )
        say("End what uses the store, and run this command once more.")
        return
    for table in done["tables"]:
        echo(f"  {table['table']:<18} {table['rows']:>9}  {table['digest']}")
    say("The copy is complete: all rows of {count} tables are the same.", count=len(done["tables"]))
    setting = '""' if target == HOME else target
    say("To use it: rumi config set store.url {setting}", setting=setting)


def _configured() -> "tuple[Home, str, str]":
    """Return the home, the URL of its store, and the password of the store."""
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ))
    loaded = load_settings(home.root, os.environ, {})
    secret = loaded.secrets.store_password
    return home, loaded.settings.store.url, secret.reveal() if secret is not None else ""


def _schemas() -> "dict[str, Schema]":
    from rumi.memory.schema import MEMORY
    from rumi.store.journal.schema import STATE

    return {"state": STATE, "memory": MEMORY}


def _look_at_home(home: "Home") -> dict[str, Any]:
    import sqlite3

    found: dict[str, Any] = {"kind": "sqlite", "place": str(home.root), "bytes": 0, "schemas": {}}
    for name, path in (("state", home.state_db), ("memory", home.memory_db)):
        if path.exists():
            db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
            try:
                (found["schemas"][name],) = db.execute("PRAGMA user_version").fetchone()
            finally:
                db.close()
            found["bytes"] += path.stat().st_size
    return {**found, "workers": []}


def _look_at_server(url: str, password: str) -> dict[str, Any]:
    from rumi.platform.extras import require_extra

    require_extra("cluster")
    from rumi.store import postgres

    server = postgres.server_of(url, password)
    try:
        return {"kind": "postgresql", "place": str(server), **postgres.seen(server)}
    except postgres.Postgres.error as error:
        trouble = postgres.trouble_of(error) or "away"
        raise UsageError(*postgres.why_unwritten(server, trouble, error)) from error


class _Copy:
    """One run of `rumi data copy`."""

    def __init__(self, home: "Home", source: str, target: str, password: str) -> None:
        from rumi.platform.extras import require_extra

        require_extra("cluster")
        from rumi.store.backend import PostgresServer
        from rumi.store.copying import tables_of
        from rumi.store.journal.schema import ON_A_SERVER

        self._home = home
        self._paths: Mapping[str, Path] = {"state": home.state_db, "memory": home.memory_db}
        self._mark = home.root / "store-copy.json"
        self._schemas = _schemas()
        self._tables: Mapping[str, Sequence[Table]] = {
            name: tables_of(schema) for name, schema in self._schemas.items()
        }
        self._servers: Mapping[str, PostgresServer] = {
            url: PostgresServer(url, ON_A_SERVER, password) for url in (source, target) if url != HOME
        }
        self._source, self._target = source, target

    def run(self) -> dict[str, Any]:
        """Copy the store, and complete the copy if no process uses the source."""
        from rumi.store.copying import copy, file_side, server_side

        with ExitStack() as stack, self._faults():
            why = self._lock_home(stack)
            if self._source == HOME:
                source = file_side(self._paths, self._schemas, writes=not why)
            else:
                source = server_side(self._servers[self._source], self._schemas, target=False)
            stack.callback(source.close)
            target, drafts = self._open_target(stack)
            stack.callback(target.close)
            why = why or self._alone(stack, source, target)
            # Copied even if the source is in use: the next run then has little left to do.
            written = copy(source, target, self._tables)
            found: list[CopiedTable] = []
            if not why:
                found = self._complete(source, target, drafts)
        tables = [{"table": table.table, "rows": table.rows, "digest": table.digest} for table in found]
        return {"complete": not why, "why": why, "written": written, "tables": tables}

    @contextmanager
    def _faults(self) -> "Iterator[None]":
        """Convert PostgreSQL and SQLite errors that occur in the block into `CopyFault`s."""
        import sqlite3

        from rumi.store.copying import CopyFault
        from rumi.store.postgres import Postgres

        try:
            yield
        except Postgres.error as error:
            server = next(iter(self._servers.values()))
            trouble = server.trouble_of(error)
            if trouble is None:
                raise CopyFault(
                    "The copy failed: {error}.", "Run the command once more.", error=error
                ) from error
            raise CopyFault(*server.why_unwritten(trouble, error)) from error
        except sqlite3.Error as error:
            raise CopyFault("The copy failed: {error}.", "Look at: rumi doctor", error=error) from error

    def _lock_home(self, stack: ExitStack) -> str:
        """Lock the home if it is the source or target; return why that failed, or an empty text.

        Raises:
            HomeLocked: The home is the target, and another process has locked it.
        """
        from rumi.cli.control import yield_home
        from rumi.platform.home import HomeLocked

        if HOME not in (self._source, self._target):
            return ""
        yield_home(self._home)
        try:
            stack.enter_context(self._home.lock("rumi data copy"))
        except HomeLocked as error:
            if self._target == HOME:
                raise
            return error.message.rstrip(".")
        return ""

    def _open_target(self, stack: ExitStack) -> "tuple[Side, Mapping[str, Path]]":
        from rumi.store.copying import begin_on_server, file_side, into_files, server_side

        source = str(self._home.root) if self._source == HOME else self._servers[self._source].location
        if self._target == HOME:
            drafts = stack.enter_context(into_files(self._paths, self._mark, source))
            return file_side(drafts, self._schemas, writes=True), drafts
        target = server_side(self._servers[self._target], self._schemas, target=True)
        try:
            begin_on_server(target, "state", source, self._tables)
        except BaseException:
            target.close()
            raise
        return target, {}

    def _alone(self, stack: ExitStack, source: "Side", target: "Side") -> str:
        """Keep new workers from starting; return why the copy cannot be complete, or "" if it can be."""
        from rumi.store.postgres import Postgres, alone, live_workers

        with ExitStack() as locks:
            for side in (source, target):
                db = side.of("state")
                if isinstance(db, Postgres):
                    # First the lock, then the count: no worker can start between the two.
                    locks.enter_context(alone(db))
                    if count := live_workers(db):
                        return f"{count} workers use the database"
            stack.push(locks.pop_all())  # keep the locks until the copy is complete
        return ""

    def _complete(self, source: "Side", target: "Side", drafts: "Mapping[str, Path]") -> "list[CopiedTable]":
        from rumi.store.copying import as_one_file, compared, end_on_server, replace_files

        found = compared(source, target, self._tables)
        if self._target == HOME:
            as_one_file(target)
            target.close()
            replace_files(self._paths, drafts, self._mark)
        else:
            end_on_server(target, "state")
        return found
