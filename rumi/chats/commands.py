"""Chat commands: `/stop`, `/reset files`, `/stop@botname`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, cast, get_args

from rumi.platform.texts import questions as question_texts
from rumi.store.journal.records import Incoming

CommandName: TypeAlias = Literal[
    "start",
    "help",
    "stop",
    "new",
    "reset",
    "status",
    "retry",
    "undo",
    "memory",
    "recall",
    "forget_everything",
    "skills",
    "research",
    "tasks",
    "bots",
    "bot",
    "wake",
    "usage",
    "allow",
    "remind",
    "schedules",
    "timezone",
    "yes",
    "no",
    "whoami",
    "share",
    "unshare",
]
NAMES: tuple[CommandName, ...] = get_args(CommandName)

TASKS: Final = "tasks"
BOTS: Final = "bots"
EVERYTHING: Final = "everything"
ALL: Final = frozenset({"all", "todo"})
"""What stands behind a `/stop` of everything."""
BUDGETS: Final = "budgets"
SCHEDULES: Final = "schedules"
RECALL: Final = "recall"
FORGETTING: Final = "forgetting"
PEOPLE: Final = "people"

HANDLER_NAMES: Final[Mapping[CommandName, str]] = {
    "research": TASKS,
    "tasks": TASKS,
    "bots": BOTS,
    "bot": BOTS,
    "wake": BOTS,
    "usage": BUDGETS,
    "allow": BUDGETS,
    "remind": SCHEDULES,
    "schedules": SCHEDULES,
    "timezone": SCHEDULES,
    "recall": RECALL,
    "forget_everything": FORGETTING,
    "whoami": PEOPLE,
    "share": PEOPLE,
    "unshare": PEOPLE,
}
"""The rooms that serve commands for chats: `ChatServices.rooms` has each by its name."""

FILES = "files"
"""What stands behind `/reset` when the files go too."""
FILES_YES = f"{FILES} yes"
"""The same, confirmed: nothing is asked."""
FILES_NO = f"{FILES} no"
RESET_FILES = f"/reset {FILES_YES}"

_SPOKEN: Final[Mapping[str, CommandName]] = {"si": "yes", "sí": "yes"}
"""Other names of commands."""

_COMMAND = re.compile(r"/([sS][íÍ]|[A-Za-z_][A-Za-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command and what stands behind it."""

    name: CommandName
    rest: str = ""

    @property
    def handler(self) -> str:
        """Return the name of the room that serves the command; empty for one that the chat serves itself."""
        if self.name == "stop" and self.rest.casefold() in ALL:
            return EVERYTHING
        return TASKS if self.of_task else HANDLER_NAMES.get(self.name, "")

    @property
    def of_task(self) -> bool:
        """Return True for a `/stop` of a task, which has its number behind it."""
        return self.name == "stop" and self.rest.removeprefix("#").isdecimal()


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
    name = _SPOKEN.get(name, name)
    if name in NAMES:
        return ChatCommand(cast(CommandName, name), (found[2] or "").strip())
    near = get_close_matches(name, NAMES, n=1)
    return UnknownCommand(f"/{found[1]}", f"/{near[0]}" if near else "")


def answer_in(text: str) -> str:
    """Return what a `/yes` or a `/no` says, such as `yes 1 no 2`; empty for anything else."""
    command = parse_chat_command(text)
    if isinstance(command, ChatCommand) and command.name in ("yes", "no"):
        return f"{command.name} {command.rest}".strip()
    return ""


def asks_first(text: str) -> bool:
    """Return True if a message is a command that puts a question first, and so is told as a turn is."""
    command = parse_chat_command(text)
    return isinstance(command, ChatCommand) and (command.name, command.rest) == ("reset", FILES)


def reset_of(rest: str) -> str:
    """Return what stands behind `/reset` in its one form: `files yes` for `files sí`."""
    first, _, second = rest.partition(" ")
    answer = question_texts.yes_or_no(second) if first == FILES and second else None
    return rest if answer is None else FILES_YES if answer else FILES_NO


def is_stop(message: Incoming) -> bool:
    """Return True if the message is a `/stop` of the turn; one that brings something along is none."""
    if message.attachments or not message.by_hand:
        return False
    command = parse_chat_command(message.text)
    return isinstance(command, ChatCommand) and command.name == "stop" and not command.handler
