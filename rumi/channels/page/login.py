"""Login to the page: with a one-time link or a short code from the terminal, then with a session cookie."""

import hmac
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection

from rumi.channels.http.address import BoundSocket, listen
from rumi.channels.page.address import PageAddress
from rumi.channels.page.browser_name import browser_name
from rumi.channels.page.sessions import SECRET_BYTES, PageSessions, digest_of
from rumi.platform.texts.language import language_of_browser
from rumi.texts import Language, gettext

LINK_S: Final = 600.0
"""Lifetime of a login link and of its short code, in seconds."""

LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of the short codes: none is like a digit or makes a word."""

MOST_LETTERS: Final = 8
"""Length of a short code. There are 20^8 = 2.6e10 codes (34.6 bits). `TRIES` and `TRY_S` allow at most 105
guesses in the ten minutes that a code is valid, from all clients together: a chance of 4e-9 for each link.
Even with a new link every ten minutes, a year of guessing succeeds with a probability of 2e-4. Links are made
at the start, when `rumi web link` asks, and when a browser on this machine asks for the page; requests that
may come from elsewhere make none.
"""

TRIES: Final = 5
"""How many short codes may be tried at once; each is one of `TRIES` that come back after `TRY_S` seconds."""

TRY_S: Final = 6.0


class TooManyTries(Exception):
    """Too many short codes were tried. The next may be tried a few seconds later."""


@dataclass(frozen=True, slots=True)
class LoginLink:
    """A way in: the secret of a link, and a short code for people who type it. Either works, once."""

    code: str
    letters: str

    @property
    def shown(self) -> str:
        """The short code as it is printed, in two halves."""
        return f"{self.letters[:4]}-{self.letters[4:]}"


@dataclass(frozen=True, slots=True)
class _Offered:
    """Digests of the valid login link and of its short code, and when both expire."""

    code: bytes
    letters: bytes
    until: float


class Door:
    """Login links and sessions of the page. Only digests of their secrets are stored.

    Sessions are stored in `sessions_file`, so that a restart logs no browser out; login links are only in
    memory. At most one link is valid at a time. `offer` is called when a browser of this machine comes
    without a session: it makes and announces a link if none is valid. So a user who lost a link gets a new
    one, and requests print at most one link in `LINK_S` seconds. `now` is a monotonic clock; `date` returns
    seconds since 1970.
    """

    def __init__(
        self,
        announce: Callable[[LoginLink], None],
        now: Callable[[], float],
        sessions_file: Path,
        date: Callable[[], float] = time.time,
    ) -> None:
        self._announce = announce
        self._now = now
        self._offered: _Offered | None = None
        self._tries, self._tried = float(TRIES), now()
        self.sessions = PageSessions(sessions_file, date)

    def offer(self) -> None:
        """Create and announce a login link, unless a valid one exists."""
        if self._valid() is None:
            self._announce(self.renew())

    def renew(self) -> LoginLink:
        """Create a login link. An earlier one ends."""
        link = LoginLink(
            secrets.token_urlsafe(SECRET_BYTES), "".join(secrets.choice(LETTERS) for _ in range(MOST_LETTERS))
        )
        self._offered = _Offered(digest_of(link.code), digest_of(link.letters), self._now() + LINK_S)
        return link

    def fits(self, code: str) -> bool:
        """Return True if the code belongs to the valid login link. The link stays valid."""
        link = self._valid()
        return link is not None and hmac.compare_digest(link.code, digest_of(code))

    def enter(self, code: str, browser: str = "", language: str = "") -> str | None:
        """Consume the valid login link; return the secret of a new session.

        Return None if the code is wrong or expired. `browser` and `language` describe the session to people.
        """
        return self._begin(browser, language) if self.fits(code) else None

    def enter_typed(self, typed: str, browser: str = "", language: str = "") -> str | None:
        """Consume the valid login link by its short code, as a person typed it; like `enter`.

        Case, spaces and punctuation do not count. A wrong code does not end the link.

        Raises:
            TooManyTries: Too many codes were tried; this one was not looked at.
        """
        now = self._now()
        self._tries = min(self._tries + (now - self._tried) / TRY_S, TRIES)
        self._tried = now
        if self._tries < 1:
            raise TooManyTries
        self._tries -= 1
        letters = "".join(character for character in typed.upper() if character.isalnum())
        link = self._valid()
        if link is None or not hmac.compare_digest(link.letters, digest_of(letters)):
            return None
        return self._begin(browser, language)

    def knows(self, secret: str) -> bool:
        """Return True if the secret belongs to a valid session."""
        return self.sessions.find(secret) is not None

    def leave(self, secret: str) -> None:
        """End a session."""
        self.sessions.end(secret)

    def _valid(self) -> _Offered | None:
        return self._offered if self._offered is not None and self._now() < self._offered.until else None

    def _begin(self, browser: str, language: str) -> str:
        self._offered = None
        return self.sessions.begin(browser, language)


@dataclass(frozen=True, slots=True)
class Entrance:
    """The page's address, login and language. The object outlives restarts of the server."""

    address: PageAddress
    door: Door
    language: Language
    say: Callable[[str], None]
    ask_browsers: bool

    @property
    def bound(self) -> BoundSocket:
        """The page's socket."""
        return self.address.bound

    def language_of(self, request: HTTPConnection) -> Language:
        """Return the browser's language if `ask_browsers` is True; otherwise the configured language."""
        if not self.ask_browsers:
            return self.language
        return language_of_browser(request.headers.get("accept-language", ""), self.language)

    def browser_of(self, request: HTTPConnection) -> tuple[str, str]:
        """Return the name of a request's browser, and its language, as a session has them."""
        return browser_name(request.headers.get("user-agent", "")), self.language_of(request)

    def link_to(self, link: LoginLink) -> str:
        """Return the URL of a login link."""
        return f"{self.address.url}/login?code={link.code}"

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
    where: str,
    language: Language,
    say: Callable[[str], None],
    sessions: Path,
    *,
    ask_browsers: bool = False,
    public: str = "",
) -> Iterator[Entrance]:
    """Listen at `HOST:PORT` until the `with` block ends.

    `say` prints a line, such as a login link, where the program was started. `sessions` is the path of the
    file that stores login sessions. If `ask_browsers` is True, the browser's language takes precedence over
    `language`. `public` is the page's origin behind a proxy with TLS, if there is one.

    Raises:
        UsageError: The address does not exist, or the port is in use.
    """
    address = PageAddress(listen(where, "--web"), public)

    def announce(link: LoginLink) -> None:
        say(
            gettext(
                language,
                "The page: {link}\n(works once, for {minutes} minutes; on the page you can also type the "
                "code {code}. For another: rumi web link)",
                link=entrance.link_to(link),
                minutes=round(LINK_S / 60),
                code=link.shown,
            )
        )

    entrance = Entrance(address, Door(announce, time.monotonic, sessions), language, say, ask_browsers)
    try:
        yield entrance
    finally:
        address.bound.close()
