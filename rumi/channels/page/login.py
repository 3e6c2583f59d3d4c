"""Who may come in: a person with the link from the terminal, once; from then on their browser's cookie."""

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
from rumi.platform.texts import page as page_texts
from rumi.platform.texts.language import Language, language_of_browser

LINK_S = 600.0
"""How long a login link may be used."""

SESSION_S = 12 * 3600.0
"""How long a browser stays logged in, whatever it does."""

MOST_SESSIONS = 20
"""So many browsers at once; one more logs out the one that came in first."""

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class _LoginLink:
    digest: bytes
    until: float


class Door:
    """Links and sessions. It keeps digests only.

    Sessions are kept in the file `kept`, so that a restart logs no browser out; a link is not. There is at
    most one link that may be used. `announce` gets a new one's code when a browser without a session asks
    and there is none; so an old link is no loss, and asking prints no more than a line each `LINK_S`
    seconds. `now` is a clock that never goes back, `date` is in seconds since 1970.
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
        """Make a link, unless there is one that may be used."""
        if self._link is None or self._now() >= self._link.until:
            code = secrets.token_urlsafe(SECRET_BYTES)
            self._link = _LoginLink(_digest(code), self._now() + LINK_S)
            self._announce(code)

    def fits(self, code: str) -> bool:
        """Return True if a link could be used; this does not use it."""
        link = self._link
        if link is None or self._now() >= link.until:
            return False
        return hmac.compare_digest(link.digest, _digest(code))

    def enter(self, code: str) -> str | None:
        """Use a link. Return the secret of a new session, or None if the link may not be used (any more)."""
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
        """Return True while a session goes on. A clock that was set back does not make it longer."""
        left_s = self._sessions.get(_digest(secret).hex(), 0.0) - self._date()
        return 0 < left_s <= SESSION_S

    def leave(self, secret: str) -> None:
        """End a session."""
        if self._sessions.pop(_digest(secret).hex(), None) is not None:
            self._store_sessions()

    def _store_sessions(self) -> None:
        """Write the sessions that go on. A disk that takes no more logs browsers out at the next restart."""
        now = self._date()
        self._sessions = {digest: until for digest, until in self._sessions.items() if until > now}
        draft = self._sessions_file.with_name(f".{self._sessions_file.name}")
        try:
            with open(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w"
            ) as file:
                json.dump(self._sessions, file)
            draft.replace(self._sessions_file)
        except OSError:
            draft.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, float]:
    """Return the sessions that an earlier process stored; none if the file cannot be read."""
    try:
        found = json.loads(path.read_bytes())
        return {str(digest): float(until) for digest, until in list(found.items())[-MOST_SESSIONS:]}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _digest(secret: str) -> bytes:
    """Return the digest that is kept of a secret: how long its look-up takes does not depend on a guess."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where the page is, and who may come in. It outlives every incarnation of the server."""

    bound: BoundSocket
    door: Door
    language: Language
    say: Callable[[str], None]
    ask_browsers: bool

    def language_of(self, request: HTTPConnection) -> Language:
        """Return the language that a browser is answered in: the configuration's, or with `auto` its own."""
        if not self.ask_browsers:
            return self.language
        return language_of_browser(request.headers.get("accept-language", ""), self.language)

    def introduce(self) -> None:
        """Tell where the program was started how to come in, and what to mind."""
        if not self.bound.loopback:
            self.say(page_texts.page_is_open(self.language, self.bound.url))
        self.door.offer()


@contextmanager
def open_entrance(
    where: str, language: Language, say: Callable[[str], None], sessions: Path, *, ask_browsers: bool = False
) -> Iterator[Entrance]:
    """Listen at `HOST:PORT` until the block ends.

    `say` shows a line, such as a login link, where the program was started. `sessions` is the file that
    keeps who is logged in. With `ask_browsers` each browser's own language goes before `language`.

    Raises:
        UsageError: no such address, or the port is taken.
    """
    bound = listen(where, "--web")

    def announce(code: str) -> None:
        say(page_texts.page_link(language, f"{bound.url}/login?code={code}", round(LINK_S / 60)))

    try:
        yield Entrance(bound, Door(announce, time.monotonic, sessions), language, say, ask_browsers)
    finally:
        bound.close()
