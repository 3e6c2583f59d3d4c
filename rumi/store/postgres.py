"""PostgreSQL connection that accepts SQLite's parameters and the schemas of `state.db` and `memory.db`.

Blocking; used by one thread at a time. Timeouts limit the wait for a connection, a lock or a statement. The
server also ends the transaction of a client that pauses during the transaction, because other workers wait
for the locks of that transaction.
"""

import contextlib
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from psycopg import RawCursor, errors
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper
from typing_extensions import override

from rumi.errors import UsageError
from rumi.store.protocol import Rows, Trouble
from rumi.store.sqlite import DatabaseFault, NewerSchema, Schema, statements
from rumi.texts import Text

PASSWORD: Final = "STORE_PASSWORD"  # noqa: S105  # its name
"""Name of the environment variable that contains the database password."""

CONNECT_S: Final = 5
LOCK_MS: Final = 5_000
STATEMENT_MS: Final = 30_000
IDLE_MS: Final = 5_000
"""Maximum time that a transaction may be idle, in milliseconds: a paused client must not block other
workers."""

_MIGRATING: Final = 7_240_117
"""Key of the advisory lock that a worker holds while it upgrades the schema."""

_AWAY: Final = ("08", "57P", "53300", "25006", "57014", "25P03")
"""SQLSTATEs that mean the server is unavailable now: connection lost, shutting down, too many connections,
read-only, statement cancelled, idle transaction ended."""

_BUSY: Final = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)

FLAGS: Final = frozenset(
    {"fresh", "asked", "forget", "tainted", "undone", "unattended", "admin", "apart", "notice", "attached"}
    | {"priced", "done", "leaving", "automatic", "pinned", "archived"}
)
"""Names of the boolean columns. SQLite stores their values as integers."""


class StoreUnusable(DatabaseFault):
    """The database cannot be used; the error says what to do."""


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """URL of a PostgreSQL database, without the password. `str()` returns the URL as it is shown to users."""

    url: str
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def parameters(self) -> str:
        """Return libpq's connection string.

        A server on another machine must have a valid certificate for its host name, unless the URL disables
        this check.
        """
        url_parameters = conninfo_to_dict(self.url)
        # A connection to a vanished server must fail within seconds. With the kernel's defaults it would
        # block for minutes, far beyond the end of a lease.
        more: dict[str, Any] = {
            "connect_timeout": url_parameters.get("connect_timeout", CONNECT_S),
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
            "application_name": url_parameters.get("application_name", "rumi"),
            "options": f"-c lock_timeout={LOCK_MS} -c statement_timeout={STATEMENT_MS}"
            f" -c idle_in_transaction_session_timeout={IDLE_MS} -c client_min_messages=warning",
        }
        host = str(url_parameters.get("host", ""))
        local = host.startswith(("/", "127.", "::1", "localhost")) or not host
        if not local and "sslmode" not in url_parameters:
            more |= {"sslmode": "verify-full", "sslrootcert": url_parameters.get("sslrootcert", "system")}
        if self.password:
            more["password"] = self.password
        return make_conninfo(self.url, **more)


def server_of(url: str, password: str = "") -> DatabaseUrl:
    """Parse the URL of a PostgreSQL database.

    Raises:
        UsageError: The text is not the URL of a PostgreSQL database, or the URL contains a password.
    """
    try:
        parts = urlsplit(url)
        url_parameters = conninfo_to_dict(url)
    except (ValueError, psycopg.Error):
        parts, url_parameters = urlsplit(""), {}
    if parts.scheme not in ("postgresql", "postgres") or not url_parameters.get("dbname"):
        raise UsageError(
            "{url} is not the URL of a PostgreSQL database.",
            "Write it as postgresql://USER@HOST:5432/DATABASE.",
            url=redacted(url),
        )
    if url_parameters.get("password"):
        raise UsageError(
            "The URL of the store contains a password: {url}.",
            "Put the password into the environment variable {password}.",
            url=redacted(url),
            password=PASSWORD,
        )
    return DatabaseUrl(url, password)


def redacted(url: str) -> str:
    """Return a URL without its password."""
    return re.sub(r"(//[^/@:]*):[^/]*@", r"\1:…@", url)


class _Int(Int8Dumper):
    """Sends every integer as a bigint, so that the server prepares a statement for one type only."""


class _Text(StrDumper):
    """Sends texts without the characters that PostgreSQL refuses: NUL and unpaired surrogates."""

    @override
    def dump(self, obj: str) -> Buffer | None:
        return obj.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")


class _Sum(Loader):
    """Loads decimals as integers or floats: PostgreSQL returns a sum of bigints as a decimal."""

    @override
    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text or "N" in text else int(text)


class _Cursor(RawCursor[tuple[Any, ...]]):
    """A cursor for statements with PostgreSQL's native parameters, such as `$1`."""


class Postgres:
    """An open connection.

    Raises:
        psycopg.Error: The server does not answer, or refuses the connection.
    """

    error: Final = psycopg.Error

    def __init__(self, server: DatabaseUrl) -> None:
        self.server = server
        self._connection = psycopg.connect(
            server.parameters(), autocommit=True, prepare_threshold=2, cursor_factory=_Cursor
        )
        self._connection.prepared_max = 500
        adapters = self._connection.adapters
        adapters.register_dumper(int, _Int)
        adapters.register_dumper(str, _Text)
        adapters.register_loader("numeric", _Sum)

    @property
    def in_transaction(self) -> bool:
        """Return True between BEGIN and COMMIT; False on a broken connection."""
        status = self._connection.pgconn.transaction_status
        return status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    @property
    def broken(self) -> bool:
        """Return True if the connection is closed or lost."""
        return self._connection.closed

    @property
    def descriptor(self) -> int:
        """Return the connection's file descriptor; it becomes readable when notifications arrive."""
        return self._connection.fileno()

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement that has SQLite's parameters."""
        text, names = translated(sql)
        return self._connection.execute(text.encode(), _values(names, parameters) or None)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Rows:
        """Execute a statement once for each set of parameters."""
        text, names = translated(sql)
        cursor = self._connection.cursor()
        rows = [_values(names, values) for values in parameters]
        if rows:
            cursor.executemany(text.encode(), rows)
        return cursor

    def notifications(self) -> list[str]:
        """Return the payloads of the notifications that have arrived, without waiting."""
        return [notification.payload for notification in self._connection.notifies(timeout=0)]

    def cut(self) -> None:
        """Shut down the socket to wake a thread that is blocked on the server. Callable from any thread."""
        with contextlib.suppress(OSError, psycopg.Error):
            # A duplicate: the socket object closes its descriptor, and the original one belongs to libpq.
            connected = socket.socket(fileno=os.dup(self._connection.fileno()))
            with connected:
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def trouble_of(error: Exception) -> Trouble | None:
    """Return the problem that prevents writing for now, such as a full disk; None for any other error."""
    if isinstance(error, _BUSY):
        return "locked"
    state = getattr(error, "sqlstate", None) or ""
    if isinstance(error, errors.DiskFull):
        return "full"
    if isinstance(error, errors.OperationalError | errors.InterfaceError) and not state:
        return "away"
    return "away" if state.startswith(_AWAY) else None


def was_in_the_way(error: Exception) -> bool:
    """Return True if a conflict with another transaction aborted this one, which may be retried at once.

    A unique violation is such a conflict. Steps check that a key is free before they insert it, but a
    concurrent transaction may insert the same key between the check and the insert.
    """
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure | errors.UniqueViolation)


def why_unwritten(server: DatabaseUrl, trouble: Trouble, error: object = "") -> tuple[str, str]:
    """Return two texts: the reason why the database cannot be written, and advice for the user."""
    match trouble:
        case "full":
            return Text("{server} cannot be written: its disk is full.", server=server), Text(
                "Make room on the disk of the database."
            )
        case "locked":
            return Text("{server} is locked by another program.", server=server), Text(
                "End that program, or wait for it."
            )
        case _:
            line = str(error).strip().partition("\n")[0]
            return (
                Text("{server} does not answer: {line}.", server=server, line=line or "no connection"),
                Text("Start the database, or correct [store] url."),
            )


# SQL


@lru_cache(maxsize=2_000)
def translated(sql: str) -> tuple[str, tuple[str, ...]]:
    """Convert a statement to PostgreSQL's parameters; return it with its named parameters in order.

    String literals are not changed.
    """
    names: list[str] = []
    number = 0
    parts: list[str] = []
    for part in re.split(r"('(?:[^']|'')*')", sql):
        if part.startswith("'"):
            parts.append(part)
            continue

        def parameter(found: re.Match[str]) -> str:
            nonlocal number
            placeholder = found[0]
            if placeholder.startswith(":"):
                if placeholder[1:] not in names:
                    names.append(placeholder[1:])
                return f"${names.index(placeholder[1:]) + 1}"
            number = int(placeholder[1:]) if len(placeholder) > 1 else number + 1
            return f"${number}"

        part = re.sub(r"\s+INDEXED BY \w+", "", part)
        # Unquoted, `user` is a reserved word of PostgreSQL: the name of the database user.
        part = re.sub(r'(?<!")\buser\b(?!")', '"user"', part)
        parts.append(re.sub(r"\?\d*|(?<![:\w]):[a-z_]+", parameter, part))
    text = "".join(parts)
    return ("BEGIN" if text.startswith("BEGIN") else text), tuple(names)


def _values(names: tuple[str, ...], parameters: Any) -> list[Any]:
    if isinstance(parameters, Mapping):
        return [parameters[name] for name in names]
    return list(parameters)


def tables_of(script: str) -> Iterator[str]:
    """Translate a SQLite schema to PostgreSQL; yield the statements.

    Text columns get the collation C, so that PostgreSQL sorts texts by their bytes, as SQLite does.
    """
    for statement in statements(re.sub(r"--[^\n]*", "", script)):
        text = re.sub(r"\) WITHOUT ROWID", ")", statement)
        # A table may refer to one that the script makes later; SQLite does not check that, PostgreSQL does.
        text = re.sub(r" REFERENCES \w+ \(\w+\)", "", text)
        text = re.sub(
            r"(?<![\w\"])(\w+)(\s+)INTEGER\b( PRIMARY KEY)?( AUTOINCREMENT)?"
            r"((?: NOT NULL)?)(?: DEFAULT (\d+))?",
            _integer,
            text,
        )
        text = re.sub(r'(?<!")\buser\b(?!")', '"user"', text)
        text = re.sub(r"\bTEXT\b", 'text COLLATE "C"', text)
        text = re.sub(r"\bREAL\b", "double precision", text)
        text = re.sub(r"\bBLOB\b", "bytea", text)
        text = re.sub(r"\bWHERE (task|missed)\b(?! [!=<>])", r"WHERE \1 != 0", text)
        yield text.strip()


def _integer(found: re.Match[str]) -> str:
    name, space, primary, _, required, default = found.groups()
    if primary:
        return f"{name}{space}bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
    flag = name in FLAGS
    then = "" if default is None else f" DEFAULT {('TRUE' if int(default) else 'FALSE') if flag else default}"
    return f"{name}{space}{'boolean' if flag else 'bigint'}{required}{then}"


FUNCTIONS: Final = """
CREATE OR REPLACE FUNCTION instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT strpos($1, $2)';
CREATE OR REPLACE FUNCTION partition_of(text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT get_byte(decode(md5($1), ''hex''), 0)';
"""


def has_unfinished_copy(db: Postgres) -> bool:
    """Return True if `rumi data copy` started to fill the database and the copy is not complete."""
    (exists,) = db.execute("SELECT to_regclass('store_copies') IS NOT NULL").fetchone()
    return exists and db.execute("SELECT 1 FROM store_copies WHERE NOT finished").fetchone() is not None


def live_workers(db: Postgres) -> int:
    """Return the number of workers whose lease has not ended."""
    sql = "SELECT count(*) FROM workers WHERE until > extract(epoch FROM clock_timestamp())"
    return int(db.execute(sql).fetchone()[0])


def seen(server: DatabaseUrl) -> dict[str, Any]:
    """Return the size of a database in bytes, its schema versions and its live workers, without changing it.

    Raises:
        psycopg.Error: The server does not answer, or refuses the connection.
    """
    db = Postgres(server)
    try:
        (exists,) = db.execute("SELECT to_regclass('schema_versions') IS NOT NULL").fetchone()
        schemas = (
            dict(db.execute("SELECT name, version FROM schema_versions ORDER BY name")) if exists else {}
        )
        workers = []
        if "state" in schemas:
            workers = [
                {"name": name, "version": version, "partitions": partitions, "leaving": leaving}
                for name, version, leaving, partitions in db.execute(
                    "SELECT name, version, leaving, (SELECT count(*) FROM partitions WHERE worker = name)"
                    " FROM workers WHERE until > extract(epoch FROM clock_timestamp()) ORDER BY name"
                )
            ]
        (size,) = db.execute("SELECT pg_database_size(current_database())").fetchone()
        return {"bytes": int(size), "schemas": schemas, "workers": workers}
    finally:
        db.close()


@contextmanager
def alone(db: Postgres) -> Iterator[None]:
    """Prevent workers from opening the database during the block."""
    # Every worker takes this lock while it opens the database: see `bring_up_to_date`.
    db.execute("SELECT pg_advisory_lock(?)", (_MIGRATING,)).close()
    try:
        yield
    finally:
        if not db.broken:
            db.execute("SELECT pg_advisory_unlock(?)", (_MIGRATING,)).close()


def bring_up_to_date(
    db: Postgres, name: str, schema: Schema, more: str = "", *, copying: bool = False
) -> None:
    """Create or upgrade the tables of a schema, in one transaction.

    `more` are additional statements for a new database, in PostgreSQL's dialect. With `copying`, a database
    with an unfinished copy is accepted.

    Raises:
        StoreUnusable: The database has an unfinished copy.
        NewerSchema: A newer program created the tables.
        psycopg.Error: The upgrade failed. Nothing has changed.
    """
    db.execute("BEGIN")
    try:
        # Several workers may start at the same time: the first one upgrades, the others wait for its commit.
        db.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATING,))
        db.execute(
            "CREATE TABLE IF NOT EXISTS schema_versions (name text PRIMARY KEY, version bigint NOT NULL)"
        )
        if not copying and has_unfinished_copy(db):
            raise StoreUnusable(
                "{server} has a copy that is not complete.",
                "Complete it with: rumi data copy --to URL",
                server=db.server,
            )
        row = db.execute("SELECT version FROM schema_versions WHERE name = ?", (name,)).fetchone()
        version = int(row[0]) if row else 0
        if version > schema.version:
            raise NewerSchema(f"{db.server} ({name})", version, schema.version)
        if version < schema.version:
            if not version:
                for statement in FUNCTIONS.split(";\n"):
                    if statement.strip():
                        db.execute(statement)
            for statement in tables_of(schema.script(version)):
                db.execute(statement)
            for statement in () if version else statements(more):
                db.execute(statement)
            db.execute(
                "INSERT INTO schema_versions (name, version) VALUES (?1, ?2)"
                " ON CONFLICT (name) DO UPDATE SET version = ?2",
                (name, schema.version),
            )
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction and not db.broken:
            db.execute("ROLLBACK")
        raise
