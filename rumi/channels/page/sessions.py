"""Login sessions of the page: who is logged in, since when, and until when. Stored in a file."""

import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

SESSION_S: Final = 30 * 86400.0
"""Lifetime of a session after its last use, in seconds."""

STORE_S: Final = 3600.0
"""Minimum time between two writes of a session's last use, in seconds."""

BACK_S: Final = 60.0
"""How far the clock may be set back (clocks are adjusted) before sessions stop counting, in seconds."""

MOST_SESSIONS: Final = 20
"""Maximum number of sessions. A new session above this limit ends the one that was not used for longest."""

FORMER_SESSION_S: Final = 12 * 3600.0
"""Lifetime of a session of earlier versions, which stored only its end."""

SECRET_BYTES: Final = 32

MOST_NAME: Final = 100


@dataclass(slots=True)
class PageSession:
    """A login. Times are in seconds since 1970.

    `id` names the session to people and in calls. It is random and opens nothing. `name` is the browser and
    its system, empty if unknown; `language` is the browser's.
    """

    id: str
    name: str
    language: str
    created: float
    seen: float
    until: float
    stored: float = field(default=-math.inf, compare=False)
    """The `seen` that the file has."""


class PageSessions:
    """The sessions by the digest of their secrets; the file has the digests, and no secrets.

    `date` returns seconds since 1970. A session ends `SESSION_S` after its last use. One that was used at a
    time that is now in the future does not count: setting the clock back extends no session.
    """

    def __init__(self, file: Path, date: Callable[[], float]) -> None:
        self._file = file
        self._date = date
        self._sessions = _read(file)

    def begin(self, name: str, language: str) -> str:
        """Add a session; return its secret."""
        now, secret = self._date(), secrets.token_urlsafe(SECRET_BYTES)
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda digest: self._sessions[digest].seen)]
        ids = {session.id for session in self._sessions.values()}
        id = next(id for id in iter(lambda: secrets.token_hex(4), "") if id not in ids)
        session = PageSession(id, name[:MOST_NAME], language[:MOST_NAME], now, now, now + SESSION_S)
        self._sessions[digest_of(secret).hex()] = session
        self._store()
        return secret

    def find(self, secret: str) -> PageSession | None:
        """Return the session that a secret belongs to; None if it belongs to none that counts."""
        session = self._sessions.get(digest_of(secret).hex())
        return session if session is not None and self._counts(session) else None

    def use(self, secret: str) -> PageSession | None:
        """Return the session that a secret belongs to, and extend it; None if it belongs to none."""
        session = self.find(secret)
        if session is not None:
            session.seen = max(session.seen, self._date())
            session.until = session.seen + SESSION_S
            if session.seen - session.stored >= STORE_S:
                self._store()
        return session

    def end(self, secret: str) -> None:
        """End a session."""
        if self._sessions.pop(digest_of(secret).hex(), None) is not None:
            self._store()

    def revoke(self, id: str) -> int:
        """End the session called `id`, or all sessions if `id` is `all`; return how many have ended."""
        ended = [digest for digest, session in self._sessions.items() if id in (session.id, "all")]
        for digest in ended:
            del self._sessions[digest]
        if ended:
            self._store()
        return len(ended)

    def list(self) -> list[PageSession]:
        """Return the sessions that count, the last used first."""
        counting = filter(self._counts, self._sessions.values())
        return sorted(counting, key=lambda session: session.seen, reverse=True)

    def _counts(self, session: PageSession) -> bool:
        return session.seen - BACK_S <= self._date() < session.until

    def _store(self) -> None:
        """Write the sessions that have not ended. If that fails, the next start logs the browsers out."""
        now = self._date()
        self._sessions = {digest: one for digest, one in self._sessions.items() if one.until > now}
        for session in self._sessions.values():
            session.stored = session.seen
        kept = {
            digest: {name: value for name, value in asdict(one).items() if name != "stored"}
            for digest, one in self._sessions.items()
        }
        # Renamed over the old file: a crash while writing must not lose the sessions.
        draft = self._file.with_name(f".{self._file.name}")
        try:
            # Not through a symbolic link, so that nobody can redirect the write to another file.
            with open(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w"
            ) as file:
                json.dump(kept, file)
            draft.replace(self._file)
        except OSError:
            draft.unlink(missing_ok=True)


def digest_of(secret: str) -> bytes:
    """Return the digest of a secret. The time that a lookup of a digest takes does not reveal the secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _read(path: Path) -> dict[str, PageSession]:
    """Return the sessions that an earlier process stored; what cannot be understood is left out."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    sessions = {digest: session for digest, value in found.items() if (session := _session_of(value))}
    latest = sorted(sessions, key=lambda digest: sessions[digest].seen)[-MOST_SESSIONS:]
    return {digest: sessions[digest] for digest in latest}


def _session_of(value: Any) -> PageSession | None:
    """Return a stored session; None if the value is none. Earlier versions stored only a session's end."""
    if _is_time(value):
        begun = value - FORMER_SESSION_S
        return PageSession(secrets.token_hex(4), "", "", begun, begun, float(value))
    if not isinstance(value, dict):
        return None
    values: dict[str, Any] = {
        one.name: value.get(one.name) for one in fields(PageSession) if one.name != "stored"
    }
    texts, times = (
        [values[name] for name in ("id", "name", "language")],
        [values[name] for name in ("created", "seen", "until")],
    )
    if not all(isinstance(text, str) and len(text) <= MOST_NAME for text in texts):
        return None
    if not all(map(_is_time, times)) or values["until"] > values["seen"] + SESSION_S:
        return None
    return PageSession(**values, stored=values["seen"])


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
