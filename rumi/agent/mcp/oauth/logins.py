"""Stored logins: `mcp-logins/NAME/login.json` in $RUMI_HOME, readable only by its owner."""

import fcntl
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final

import trio

from rumi.agent.mcp.messages import LoginNeeded, McpError, ServerSettings
from rumi.platform.atomic_write import atomic_write
from rumi.platform.openat import opened
from rumi.platform.redact import LEARNED
from rumi.platform.timestamps import utc
from rumi.texts import Text, os_error

FOLDER: Final = "mcp-logins"
FILE: Final = "login.json"
MOST_BYTES: Final = 200_000
NO_LOGIN: Final = {"state": "needs login", "until": "", "renewed": False, "scope": ""}
"""The report of a server that needs a login and has none; see `ServerLogin.report`."""
_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """A login at one server of tools. `url` is the server's address: the login is for no other one.

    `token_endpoint` and `revocation_endpoint` are those of the authorization server `issuer`; `auth` is how
    the client proves itself to them. `expires` is when the `access` token ends, in seconds since 1970, or
    None if the authorization server did not say. `scope` are the rights of the tokens; `wanted` are further
    rights that a call needed, for the next login. An `ended` login has no tokens.
    """

    url: str
    issuer: str
    token_endpoint: str
    resource: str
    client_id: str
    auth: str = "none"
    client_secret: str = field(default="", repr=False)
    revocation_endpoint: str = ""
    access: str = field(default="", repr=False)
    refresh: str = field(default="", repr=False)
    expires: float | None = None
    scope: str = ""
    wanted: str = ""
    ended: bool = False

    def report(self) -> dict[str, object]:
        """Return the state of the login in JSON types: `until` is when the access token ends, or empty."""
        if self.ended:
            return {**NO_LOGIN}
        until = "" if self.expires is None else utc(self.expires)
        return {"state": "logged in", "until": until, "renewed": bool(self.refresh), "scope": self.scope}


class StoredLogins:
    """The logins of a home. All methods block for the time of a small file, unless they are async.

    Redactors learn the secrets of each login that is read or written.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def of(self, settings: ServerSettings) -> ServerLogin | None:
        """Return the login of a server; None if there is none, or if it is for another address.

        Raises:
            McpError: The file cannot be read.
        """
        login = self.stored(settings.name)
        return login if login is not None and login.url == settings.section.url else None

    def stored(self, name: str) -> ServerLogin | None:
        """Return the login that is stored under the name of a server, whatever its address.

        Raises:
            McpError: The file cannot be read.
        """
        path = self._folder / name / FILE
        try:
            with path.open("rb") as file:
                found = json.loads(file.read(MOST_BYTES))
            login = ServerLogin(
                **{one.name: found[one.name] for one in fields(ServerLogin) if one.name in found}
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, RecursionError):
            raise McpError(
                "{path} cannot be read.", "Log in again: rumi mcp login {name}", path=path, name=name
            ) from None
        _learn(path, login)
        return login

    def save(self, name: str, login: ServerLogin) -> None:
        """Store a login completely or not at all. The caller holds the lock.

        Raises:
            McpError: The file cannot be written.
        """
        path = self._folder / name / FILE
        _learn(path, login)
        try:
            atomic_write(path, json.dumps(asdict(login), indent=1).encode() + b"\n")
        except OSError as error:
            raise McpError(
                "{path} cannot be written: {reason}.", path=path, reason=os_error(error)
            ) from error

    def forget(self, name: str) -> None:
        """Delete the login of a server. The caller holds the lock.

        Raises:
            McpError: The file cannot be deleted.
        """
        path = self._folder / name / FILE
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise McpError(
                "{path} cannot be deleted: {reason}.", path=path, reason=os_error(error)
            ) from error

    def names(self) -> list[str]:
        """Return the names of the servers with a login, also of servers that are not configured any more."""
        with suppress(OSError):
            return sorted(path.parent.name for path in self._folder.glob(f"*/{FILE}"))
        return []

    @asynccontextmanager
    async def locked(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of one server's login for a block, against other tasks and other processes.

        Waits until the lock is free; cancelling ends the wait.

        Raises:
            McpError: The folder cannot be created.
        """
        folder = self._folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise McpError(
                "{path} cannot be written: {reason}.", path=folder, reason=os_error(error)
            ) from error
        with opened(descriptor):
            # Not the blocking call in a thread: that could not be cancelled while another process refreshes.
            while not _take(descriptor):  # noqa: ASYNC110  # another process sets no event
                await trio.sleep(_RETRY_S)
            await trio.lowlevel.checkpoint()
            yield


def _take(descriptor: int) -> bool:
    """Take the lock of an open folder if it is free; return whether it was. It ends with the descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _learn(path: Path, login: ServerLogin) -> None:
    LEARNED.learn(str(path), (login.access, login.refresh, login.client_secret))


def needed(name: str, why: Text) -> LoginNeeded:
    """Return the error for a server that needs a new login of its user."""
    return LoginNeeded(why, Text("Log in with: rumi mcp login {name}", name=name))


def login_of(
    logins: StoredLogins, settings: ServerSettings, error: McpError | None = None
) -> dict[str, dict[str, object]]:
    """Return the state of a server's login as a field `login`; nothing if it has none and needs none.

    `error` is the server's last error.
    """
    with suppress(McpError):  # a login that cannot be read is said by the server's next request
        login = logins.of(settings) if settings.section.url else None
        if login is not None:
            return {"login": login.report()}
    return {"login": dict(NO_LOGIN)} if isinstance(error, LoginNeeded) else {}
