"""Chat commands: `/stop`, `/reset files`, `/stop@botname`."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias, cast, get_args

CommandName: TypeAlias = Literal[
    "start", "help", "stop", "new", "reset", "status", "retry", "memory", "skills", "research", "tasks"
]
NAMES: tuple[CommandName, ...] = get_args(CommandName)

FILES = "files"
"""What stands behind `/reset` when the files go too."""

_COMMAND = re.compile(r"/([A-Za-z_][A-Za-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command and what stands behind it."""

    name: CommandName
    rest: str = ""

    @property
    def of_task(self) -> bool:
        """Return True for a `/stop` of a task, which has its number behind it."""
        return self.name == "stop" and self.rest.removeprefix("#").isdecimal()

    @property
    def about_tasks(self) -> str | None:
        """Return what a command about tasks wants, as `/tasks` takes it; None for every other command."""
        if self.name == "tasks":
            return self.rest
        if self.name == "research":
            return f"web {self.rest}"
        return f"stop {self.rest}" if self.of_task else None


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    """Something that looks like a command and is none. `meant` is the nearest one, empty without one."""

    name: str
    meant: str = ""


def parse_chat_command(text: str) -> ChatCommand | UnknownCommand | None:
    """The command that a message is, or None for a message to work on.

    A path such as `/etc/hosts` is not a command: a command is one word.
    """
    found = _COMMAND.fullmatch(text.strip())
    if found is None:
        return None
    name = found[1].lower()
    if name in NAMES:
        return ChatCommand(cast(CommandName, name), (found[2] or "").strip())
    near = get_close_matches(name, NAMES, n=1)
    return UnknownCommand(f"/{found[1]}", f"/{near[0]}" if near else "")


def asks_first(text: str) -> bool:
    """Return True if a message is a command that puts a question first, and so is told as a turn is."""
    command = parse_chat_command(text)
    return isinstance(command, ChatCommand) and (command.name, command.rest) == ("reset", FILES)
