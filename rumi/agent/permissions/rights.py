"""Rights of roles: the tools, models, budgets, schedules and bots that a person with the role may use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from rumi.agent.tool_names import BASH_TOOLS, CHANGING_FILES, NOTHING_NEW
from rumi.errors import RumiError
from rumi.models.metering import Limit

CHANGING: Final = ("bash", *CHANGING_FILES)
"""The tools that change a chat's files."""

LIST_PAGE: Final = re.compile(r"\S+\s+page\s+\d{1,4}")
"""The arguments of a `/list` that shows a page of a list."""

GUEST_TOKENS: Final = 100_000
"""Maximum number of tokens that a guest may use per day."""


class RightsError(RumiError):
    """The person's role does not allow what the person has requested."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a role. None means unlimited.

    `tools` contains names of tools, or patterns such as `time__*`. `models` contains names of models; an
    empty tuple allows only the process's default model. `limits` are budgets for each person with the role.
    `schedules` and `bots` are the maximum numbers that one person may have at the same time.
    """

    role: str
    admin: bool = False
    tools: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[Limit, ...] = ()
    schedules: int | None = None
    bots: int | None = None

    def may_use(self, tool: str) -> bool:
        """Return True if a turn for a person with this role may use the tool.

        A tool that creates schedules or starts bots also needs a role that may have at least one schedule or
        bot. The right to use `bash` includes the tools that look after its background commands.
        """
        if tool == NOTHING_NEW:  # it only ends the turn
            return True
        tool = "bash" if tool in BASH_TOOLS else tool
        if (tool in ("remind", "schedule") and self.schedules == 0) or (
            tool == "start_bot" and self.bots == 0
        ):
            return False
        return self.tools is None or any(fnmatchcase(tool, pattern) for pattern in self.tools)

    @property
    def changes_files(self) -> bool:
        """True if the role may change a chat's files."""
        return any(self.may_use(tool) for tool in CHANGING)

    @property
    def leaves_work(self) -> bool:
        """True if the role may start work that continues while no person is present."""
        return self.schedules != 0 or self.bots != 0

    def model(self, chosen: str, own: str) -> str:
        """Return the name of the model for a message.

        The `chosen` model is used if the role allows it. If not, the process's `own` model is used if the
        role allows it; the result is then an empty name. If the role allows neither, its first model is used.
        """
        if self.models is None or chosen in self.models:
            return chosen
        return "" if not self.models or own in self.models else self.models[0]

    def refusal(self, tool: str) -> str:
        """Return the tool result for a call of a tool that the role does not allow."""
        return f"the role {self.role} of the person who asks does not allow {tool}: say so, and do without it"


ADMIN: Final = Rights("admin", admin=True)
MEMBER: Final = Rights("member")
GUEST: Final = Rights(
    "guest",
    tools=("web_search", "web_fetch", "recall"),
    models=(),
    limits=(Limit("person", "tokens", "day", GUEST_TOKENS),),
    schedules=0,
    bots=0,
)
NOBODY: Final = Rights("nobody", tools=(), models=(), schedules=0, bots=0)
"""The rights of people who were removed from all lists of users: their pending requests are refused too."""

BUILT_IN: Final[Mapping[str, Rights]] = {role.role: role for role in (ADMIN, MEMBER, GUEST)}


def may_do(
    rights: Rights, name: str, rest: str = "", *, group: bool = False, has_handler: bool = False
) -> bool:
    """Return True if a role allows a chat command. `name` is the command, `rest` is the text after it.

    `group` is True if several people share the chat, its history and its files. `has_handler` is True if a
    command handler serves the command; a `/stop` with a handler stops a task, a bot, or everything. A command
    that this function does not know needs a role that may use all tools. `/allow` and `/stop all` also
    require an admin, which is checked elsewhere.
    """
    if rights == NOBODY:
        return False
    match name:
        case "start" | "help" | "status" | "queue" | "retry" | "continue" | "usage" | "whoami" | "allow":
            return True
        case "context":
            return True
        case "stop":
            return not has_handler or rights.leaves_work or rights.may_use("research")
        case "forget_everything":
            return not group or rights.tools is None
        case "people":  # it shows the roles of others
            return rights.tools is None
        case "sessions":  # without a number, it lists them
            return rights.changes_files or not (group and rest)
        case "compact":
            return rights.changes_files or not group
        case "new" | "reset" | "undo":
            return rights.changes_files or not (group or rest)
        case "diff" | "apply" | "discard":
            return rights.changes_files
        case "voice":
            return not (group and rest) or rights.changes_files
        case "memory":
            return not (group and rest) or rights.may_use("forget")
        case "skills":
            return rights.may_use("use_skill")
        case "research" | "recall":
            return rights.may_use(name)
        case "tasks":
            return rights.leaves_work or rights.may_use("research")
        case "bots" | "bot" | "wake":
            return rights.bots != 0
        case "remind" | "schedules" | "snooze" | "timezone":
            return rights.schedules != 0
        case "list":  # without items, it shows a list
            shows = len(rest.split()) < 2 or LIST_PAGE.fullmatch(rest) is not None
            return shows or rights.may_use("shared_list")
        case "yes" | "no":
            return rights.leaves_work
        case "share" | "unshare":
            return rights.may_use("remember")
        case "model":
            return rights.models is None or not rest or rest in rights.models
        case _:
            return rights.tools is None
