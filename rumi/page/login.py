"""Who may come in: whoever has the link from the terminal, once; from then on their browser's cookie."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

LINK_S = 600.0
"""How long a login link may be used."""

SESSION_S = 12 * 3600.0
"""How long a browser stays logged in, whatever it does."""

MOST_SESSIONS = 20
"""So many browsers at once; one more logs out the one that came in first."""

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Link:
    digest: bytes
    until: float


class Door:
    """Links and sessions. It keeps digests only, and nothing of it is stored: a new process knows nobody.

    There is at most one link that may be used. `announce` gets a new one's code when somebody stands before
    the door and there is none; so an old link is no loss, and knocking prints no more than a line each
    `LINK_S` seconds. `now` is a clock that never goes back.
    """

    def __init__(self, announce: Callable[[str], None], now: Callable[[], float]) -> None:
        self._announce = announce
        self._now = now
        self._link: _Link | None = None
        self._sessions: dict[bytes, float] = {}

    def offer(self) -> None:
        """See to it that there is a link that may be used."""
        if self._link is None or self._now() >= self._link.until:
            code = secrets.token_urlsafe(SECRET_BYTES)
            self._link = _Link(_digest(code), self._now() + LINK_S)
            self._announce(code)

    def fits(self, code: str) -> bool:
        """Whether a link could be used; it is not used by that."""
        link = self._link
        return (
            link is not None and self._now() < link.until and hmac.compare_digest(link.digest, _digest(code))
        )

    def enter(self, code: str) -> str | None:
        """Use a link: the secret of a new session, or None where it may not be used (any more)."""
        if not self.fits(code):
            return None
        self._link = None
        if len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._sessions[_digest(secret)] = self._now() + SESSION_S
        return secret

    def knows(self, secret: str) -> bool:
        """Whether a session goes on."""
        digest = _digest(secret)
        until = self._sessions.get(digest)
        if until is not None and self._now() >= until:
            del self._sessions[digest]
            return False
        return until is not None

    def leave(self, secret: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(secret), None)


def _digest(secret: str) -> bytes:
    """What is kept of a secret: a look-up by it tells nobody's clock how much of a guess was right."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
