"""Control calls about the page's login: a new link, and the list of logins and their end."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import trio

from rumi.channels.qr_code import qr_rows
from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import call


@dataclass(frozen=True, slots=True)
class NewLink:
    """A way to log in, once: a link, and a short code to type. It is valid for `minutes`."""

    link: str
    code: str
    minutes: int


@dataclass(frozen=True, slots=True)
class Login:
    """A browser that is logged in.

    `name` is the browser and its system, empty if unknown; `seen` is the last use. Times are in ISO 8601.
    """

    id: str
    name: str
    language: str
    created: str
    seen: str


class Logins(Protocol):
    """The login of a page that is served."""

    def new_link(self) -> NewLink:
        """Make a login link; an earlier one ends."""
        ...

    def logins(self) -> Sequence[Login]:
        """Return the browsers that are logged in, the last used first."""
        ...

    def revoke(self, id: str) -> int:
        """Log a browser out, or all with the id `all`; return how many were logged out."""
        ...


class PageCalls:
    """The control calls of the page's login. Without a page, all are refused."""

    def __init__(self, served: Logins | None = None) -> None:
        self._served = served

    @call("page.link", rights="all")
    async def link(self, caller: Caller, *, qr: bool = False) -> object:
        """Make a login link with a short code, each for one login; an earlier link ends.

        With `qr`, the answer has the link's QR code too: rows of modules, `1` for a dark one.
        """
        await trio.lowlevel.checkpoint()
        made = self._page().new_link()
        if not qr:
            return asdict(made)
        return {**asdict(made), "qr": ["".join(map(str, row)) for row in qr_rows(made.link)]}

    @call("page.sessions", rights="all")
    async def sessions(self, caller: Caller) -> object:
        """Return the browsers that are logged in, the last used first."""
        await trio.lowlevel.checkpoint()
        return [asdict(login) for login in self._page().logins()]

    @call("page.revoke", rights="all")
    async def revoke(self, caller: Caller, *, id: str) -> object:
        """Log out the browser with that id, or all browsers with the id `all`."""
        await trio.lowlevel.checkpoint()
        revoked = self._page().revoke(id)
        if not revoked and id != "all":
            raise UsageError("No browser is logged in as {id}.", "The list: rumi web sessions", id=id)
        return {"revoked": revoked}

    def _page(self) -> Logins:
        if self._served is None:
            raise UsageError("This Rumi serves no page.", "Serve it: rumi serve --web 127.0.0.1:8080")
        return self._served
