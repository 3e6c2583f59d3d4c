"""Who makes a control call: by which channel, for which owner, and with what rights.

Every call and every stream of the control socket has a caller: in Python a required argument, on the wire the
field `caller`. Without one nothing is answered.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias, get_args

from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import CHAT_ID, LOCAL

Rights: TypeAlias = Literal["all", "own"]
"""`all`: what the home's owner may do, with the rows of every owner. `own`: only the rows of one owner."""


class NotAllowed(RumiError):
    """The caller's rights do not cover the call. Nothing was done."""

    def __init__(self) -> None:
        super().__init__(
            "This call is only for the owner of this installation.", "Run the command at its terminal."
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """The `channel` that the call came by, the `owner` that it is made for, and its rights."""

    channel: str
    owner: str
    rights: Rights

    @classmethod
    def of(cls, data: object) -> "Caller":
        """Return the caller that a request names.

        Raises:
            UsageError: It names none.
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
        """Return the caller as `of` reads it."""
        return asdict(self)

    @property
    def scope(self) -> str | None:
        """The owner whose rows the caller may see and change; None for those of all owners."""
        return None if self.rights == "all" else self.owner

    def check_all(self) -> None:
        """Return if the caller may do what concerns the whole home.

        Raises:
            NotAllowed: It may not.
        """
        if self.rights != "all":
            raise NotAllowed

    def owner_in(self, requested: str | None) -> str:
        """Return the owner that a request is about: the one that it names, or else the caller's.

        Raises:
            NotAllowed: It is another owner, and the caller may only see its own rows.
        """
        if requested is not None and self.scope not in (None, requested):
            raise NotAllowed
        return self.owner if requested is None else requested

    def scope_in(self, requested: str | None) -> str | None:
        """Return whose rows a list shows: those of the owner that is named, or all that the caller may see.

        Raises:
            NotAllowed: It is another owner, and the caller may only see its own rows.
        """
        return self.scope if requested is None else self.owner_in(requested)

    def chat_in(self, chat: str, owner_of: Callable[[str], str]) -> str:
        """Return the chat, if it belongs to an owner whose rows the caller may see.

        Raises:
            NotAllowed: It does not.
        """
        self.owner_in(owner_of(chat))
        return chat


TERMINAL: Final = Caller("terminal", LOCAL, "all")
"""The commands of the person to whom the home belongs."""

PROGRAM: Final = Caller("mcp", LOCAL, "own")
"""A program that speaks MCP, over standard streams or with the token over HTTP."""

WORKER: Final = Caller("worker", LOCAL, "all")
"""Another worker of the database, where it calls by itself. What it passes on has its own caller."""


ControlCall: TypeAlias = Callable[[Caller, Mapping[str, object]], Awaitable[object]]
"""Answers a call of the control socket: takes its caller and the request, returns what JSON can hold."""
