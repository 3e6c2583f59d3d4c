"""Keys of domains in the DNS, with which mails are signed."""

from typing import TYPE_CHECKING, Final

import trio

from rumi.errors import RumiError

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LOOKUP_S: Final = 10.0
"""Maximum time of one lookup, in seconds."""

_MOST_BYTES: Final = 8192
"""Maximum size of a record: keys of 4,096 bits have about 750 bytes."""


class KeyUnknown(RumiError):
    """A key cannot be looked up now."""


class DnsKeys:
    """Looks keys up with the machine's name servers, or with `servers` (address and port)."""

    def __init__(self, servers: tuple[str, int] | None = None) -> None:
        self._servers = servers
        self._resolver: Resolver | None = None

    async def __call__(self, name: str) -> bytes | None:
        """Return the text record of a name, None if there is none. May be cancelled.

        Raises:
            KeyUnknown: There was no answer.
        """
        from dns.asyncresolver import Resolver
        from dns.exception import DNSException, FormError
        from dns.exception import SyntaxError as NoName
        from dns.name import from_text
        from dns.resolver import NXDOMAIN, NoAnswer

        try:
            asked = from_text(f"{name}.")
        except (NoName, FormError):  # a stranger chose a name that cannot exist: waiting does not help
            return None
        try:
            if self._resolver is None:
                self._resolver = Resolver(configure=self._servers is None)
                if self._servers is not None:
                    self._resolver.nameservers = [self._servers[0]]
                    self._resolver.port = self._servers[1]
            with trio.fail_after(LOOKUP_S):
                answer = await self._resolver.resolve(asked, "TXT", lifetime=LOOKUP_S, search=False)
        except (NXDOMAIN, NoAnswer):
            return None
        except (DNSException, trio.TooSlowError, OSError) as error:
            raise KeyUnknown(
                "The key {name} of a mail's signature could not be looked up: {error}.",
                "Check the network. I try it again.",
                name=name,
                error=type(error).__name__,
            ) from None
        # Several records: a wrong one makes the signature invalid, and nothing else.
        found = b"".join(next(iter(answer)).strings)
        return found if len(found) <= _MOST_BYTES else None
