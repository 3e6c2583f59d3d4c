"""Login to the page: with a one-time link from the terminal, then with a session cookie."""

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import HTTPConnection

from rumi.channels.http.address import BoundSocket, listen
from rumi.platform.texts.language import language_of_browser
from rumi.texts import Language, gettext

LINK_S = 600.0
"""Lifetime of a login link, in seconds."""

SESSION_S = 12 * 3600.0
"""Lifetime of a session, in seconds. Use does not extend it."""

MOST_SESSIONS = 20
"""Maximum number of sessions. A new session above this limit ends the oldest one."""

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class _LoginLink:
    digest: bytes
    until: float


class Door:
    """Login links and sessions of the page. Only digests of their secrets are stored.

    Sessions are stored in `sessions_file`, so that a restart logs no browser out; login links are only in
    memory. At most one link is valid at a time. If a browser without a session connects and no link is valid,
    a new link is created and `announce` is called with its code. So a user who lost a link gets a new one,
    and requests print at most one link in `LINK_S` seconds. `now` is a monotonic clock; `date` returns
    seconds since 1970.
    """

    def __init__(
        self,
        announce: Callable[[str], None],
        now: Callable[[], float],
        sessions_file: Path,
        date: Callable[[], float] = time.time,
    ) -> None:
        self._announce = announce
        self._now = now
        self._date = date
        self._sessions_file = sessions_file
        self._link: _LoginLink | None = None
        self._sessions = _read(sessions_file)

    def offer(self) -> None:
        """Create and announce a login link, unless a valid one exists."""
        if self._link is None or self._now() >= self._link.until:
            code = secrets.token_urlsafe(SECRET_BYTES)
            self._link = _LoginLink(_digest(code), self._now() + LINK_S)
            self._announce(code)

    def fits(self, code: str) -> bool:
        """Return True if the code belongs to the valid login link. The link stays valid."""
        link = self._link
        if link is None or self._now() >= link.until:
            return False
        return hmac.compare_digest(link.digest, _digest(code))

    def enter(self, code: str) -> str | None:
        """Consume the valid login link; return the secret of a new session.

        Return None if the code is wrong or expired.
        """
        if not self.fits(code):
            return None
        self._link = None
        if len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._sessions[_digest(secret).hex()] = self._date() + SESSION_S
        self._store_sessions()
        return secret

    def knows(self, secret: str) -> bool:
        """Return True if the secret belongs to a valid session.

        Setting the clock back does not extend a session.
        """
        left_s = self._sessions.get(_digest(secret).hex(), 0.0) - self._date()
        return 0 < left_s <= SESSION_S

    def leave(self, secret: str) -> None:
        """End a session."""
        if self._sessions.pop(_digest(secret).hex(), None) is not None:
            self._store_sessions()

    def _store_sessions(self) -> None:
        """Write the valid sessions to the file. If writing fails, the next restart logs the browsers out."""
        now = self._date()
        self._sessions = {digest: until for digest, until in self._sessions.items() if until > now}
        # Renamed over the old file: a crash while writing must not lose the sessions.
        draft = self._sessions_file.with_name(f".{self._sessions_file.name}")
        try:
            # Not through a symbolic link, so that nobody can redirect the write to another file.
            with open(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w"
            ) as file:
                json.dump(self._sessions, file)
            draft.replace(self._sessions_file)
        except OSError:
            draft.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, float]:
    """Return the sessions that an earlier process stored; empty if the file cannot be read."""
    try:
        found = json.loads(path.read_bytes())
        return {str(digest): float(until) for digest, until in list(found.items())[-MOST_SESSIONS:]}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _digest(secret: str) -> bytes:
    """Return the digest of a secret. The time that a lookup of a digest takes does not reveal the secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


@dataclass(frozen=True, slots=True)
class Entrance:
    """The page's socket, login and language. The object outlives restarts of the server."""

    bound: BoundSocket
    door: Door
    language: Language
    say: Callable[[str], None]
    ask_browsers: bool

    def language_of(self, request: HTTPConnection) -> Language:
        """Return the browser's language if `ask_browsers` is True; otherwise the configured language."""
        if not self.ask_browsers:
            return self.language
        return language_of_browser(request.headers.get("accept-language", ""), self.language)

    def introduce(self) -> None:
        """Print the login link, and a warning if other machines can reach the page."""
        if not self.bound.loopback:
            self.say(
                gettext(
                    self.language,
                    "⚠️ The page {url} can be reached from other machines, without TLS: everyone on "
                    "the network path can read it and use your session. Better: --web 127.0.0.1:8080 "
                    "and ssh -L 8080:127.0.0.1:8080 SERVER.",
                    url=self.bound.url,
                )
            )
        self.door.offer()


@contextmanager
def open_entrance(
    where: str, language: Language, say: Callable[[str], None], sessions: Path, *, ask_browsers: bool = False
) -> Iterator[Entrance]:
    """Listen at `HOST:PORT` until the `with` block ends.

    `say` prints a line, such as a login link, where the program was started. `sessions` is the path of the
    file that stores login sessions. If `ask_browsers` is True, the browser's language takes precedence over
    `language`.

    Raises:
        UsageError: The address does not exist, or the port is in use.
    """
    bound = listen(where, "--web")

    def announce(code: str) -> None:
        say(
            gettext(
                language,
                "The page: {link}\n(works once, for {minutes} minutes; asking for the page later prints "
                "another)",
                link=f"{bound.url}/login?code={code}",
                minutes=round(LINK_S / 60),
            )
        )

    try:
        yield Entrance(bound, Door(announce, time.monotonic, sessions), language, say, ask_browsers)
    finally:
        bound.close()
