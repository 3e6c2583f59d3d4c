"""The caller of a control call: its channel, the owner for whom it acts, and its rights.

A control call is a request to a running Rumi through its control socket. Every call and every stream of the
socket has a caller. In Python, the caller is a required argument; in the JSON request, it is the field
`caller`. Requests without a caller are refused.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias, get_args

from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import CHAT_ID, LOCAL

Rights: TypeAlias = Literal["all", "own"]
"""Rights of a caller. `all`: everything that the owner of the home may do, for every owner's chats and data.
`own`: only calls about the rows of one owner.
"""


class NotAllowed(RumiError):
    """The caller's rights do not allow the call. The call had no effect."""

    def __init__(self) -> None:
        super().__init__(
            "This call is only for the owner of this installation.", "Run the command at its terminal."
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a control call: its `channel`, the `owner` for whom it acts, and its rights."""

    channel: str
    owner: str
    rights: Rights

    @classmethod
    def of(cls, data: object) -> "Caller":
        """Parse the value of a request's field `caller`.

        Raises:
            UsageError: The field is missing or is not valid.
        """
        match data:
            case {"channel": str(channel), "owner": str(owner), "rights": rights} if (
                channel and CHAT_ID.fullmatch(owner) and rights in get_args(Rights)
            ):
                return cls(channel, owner, rights)
        raise UsageError(
            "The request names no caller: it comes from another version than the running Rumi's.",
            "Restart the running Rumi, then try again. Programs name themselves as docs/status.md says.",
        )

    def to_json(self) -> dict[str, str]:
        """Return the caller as a JSON object, which `of` can parse."""
        return asdict(self)

    @property
    def scope(self) -> str | None:
        """The owner whose rows the caller may see and change; None for all owners."""
        return None if self.rights == "all" else self.owner

    def check_all(self) -> None:
        """Check that the caller may make calls that affect all owners.

        Raises:
            NotAllowed: The caller has only the rights `own`.
        """
        if self.rights != "all":
            raise NotAllowed

    def check_owner_of_home(self) -> None:
        """Check that the caller is the owner of the home, at the terminal or at the page.

        Admins of other channels have the rights `all` too, but may not change the installation.

        Raises:
            NotAllowed: The caller is not the owner of the home.
        """
        self.check_all()
        if self.owner != LOCAL:
            raise NotAllowed

    def owner_in(self, requested: str | None) -> str:
        """Return the owner that a request concerns: `requested`, or the caller's owner if that is None.

        Raises:
            NotAllowed: The requested owner is not the caller's, and the caller has only the rights `own`.
        """
        if requested is not None and self.scope not in (None, requested):
            raise NotAllowed
        return self.owner if requested is None else requested

    def scope_in(self, requested: str | None) -> str | None:
        """Return the owner whose rows a list shows; None stands for all owners.

        If `requested` is None, the list shows all rows that the caller may see.

        Raises:
            NotAllowed: The requested owner is not the caller's, and the caller has only the rights `own`.
        """
        return self.scope if requested is None else self.owner_in(requested)

    def chat_in(self, chat: str, owner_of: Callable[[str], str]) -> str:
        """Check that the caller may see the data of the chat's owner, and return the chat id unchanged.

        Raises:
            NotAllowed: The chat belongs to another owner, and the caller has only the rights `own`.
        """
        self.owner_in(owner_of(chat))
        return chat


TERMINAL: Final = Caller("terminal", LOCAL, "all")
"""The caller of commands that the home's owner runs in a terminal."""

PROGRAM: Final = Caller("mcp", LOCAL, "own")
"""The caller of calls from MCP clients, which use standard streams, or HTTP with the token."""

WORKER: Final = Caller("worker", LOCAL, "all")
"""The caller of calls that another worker makes itself. Forwarded calls keep their original caller."""


ControlCall: TypeAlias = Callable[[Caller, Mapping[str, object]], Awaitable[object]]
"""A function that handles a control call: it takes the caller and the request, and returns a JSON value."""
