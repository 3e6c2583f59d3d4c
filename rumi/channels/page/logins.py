"""The page's login, as the control calls see it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rumi.channels.page.login import LINK_S, Entrance
from rumi.channels.page_calls import Login, NewLink
from rumi.platform.timestamps import utc


@dataclass(frozen=True, slots=True)
class PageLogins:
    """Makes links and ends sessions. `wake` makes the open views of ended sessions close."""

    entrance: Entrance
    wake: Callable[[], None]

    def new_link(self) -> NewLink:
        """Make a login link; an earlier one ends."""
        link = self.entrance.door.renew()
        return NewLink(self.entrance.link_to(link), link.shown, round(LINK_S / 60))

    def logins(self) -> Sequence[Login]:
        """Return the browsers that are logged in, the last used first."""
        found = self.entrance.door.sessions.list()
        return [Login(one.id, one.name, one.language, utc(one.created), utc(one.seen)) for one in found]

    def revoke(self, id: str) -> int:
        """Log a browser out, or all with the id `all`; return how many were logged out."""
        revoked = self.entrance.door.sessions.revoke(id)
        self.wake()
        return revoked
