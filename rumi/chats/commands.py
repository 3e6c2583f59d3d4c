"""Parsing of chat commands such as `/stop`, `/reset files` and `/stop@botname`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, cast, get_args

from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.texts import questions as question_texts
from rumi.store.journal.records import Incoming

CommandName: TypeAlias = Literal[
    "start",
    "help",
    "stop",
    "queue",
    "new",
    "sessions",
    "compact",
    "context",
    "reset",
    "status",
    "retry",
    "continue",
    "undo",
    "diff",
    "apply",
    "discard",
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
    "snooze",
    "timezone",
    "list",
    "voice",
    "yes",
    "no",
    "whoami",
    "people",
    "share",
    "unshare",
]
NAMES: tuple[CommandName, ...] = get_args(CommandName)

TASKS: Final = "tasks"
BOTS: Final = "bots"
EVERYTHING: Final = "everything"
ALL: Final = frozenset({"all", "todo"})
"""Arguments of a `/stop` that stops everything."""
BUDGETS: Final = "budgets"
SCHEDULES: Final = "schedules"
RECALL: Final = "recall"
FORGETTING: Final = "forgetting"
LISTS: Final = "lists"
PEOPLE: Final = "people"
SPEECH: Final = "speech"
FOLDERS: Final = "folders"

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
    "snooze": SCHEDULES,
    "timezone": SCHEDULES,
    "list": LISTS,
    "voice": SPEECH,
    "diff": FOLDERS,
    "recall": RECALL,
    "forget_everything": FORGETTING,
    "whoami": PEOPLE,
    "people": PEOPLE,
    "share": PEOPLE,
    "unshare": PEOPLE,
}
"""The names of the handlers of commands in `ChatServices.handlers`; chats handle all other commands."""

HELP_ALL: Final = frozenset({"all", "todo", "tudo"})
"""Arguments of a `/help` that shows all commands."""

QUEUE_DROP: Final = "drop"
QUEUE_DROP_ALL: Final = "all"

FILES = "files"
"""The argument of a `/reset` that also deletes the files."""
FILES_YES = f"{FILES} yes"
"""The argument of a `/reset` that also deletes the files, without asking for confirmation."""
FILES_NO = f"{FILES} no"
RESET_FILES = f"/reset {FILES_YES}"

FOLDER_JOBS: Final[frozenset[Literal["apply", "discard"]]] = frozenset({"apply", "discard"})
"""Commands that change a linked folder, or lose changes to it. They ask first, and wait for the turn."""
FOLDER_COMMANDS: Final = ("diff", "apply", "discard")
"""Commands about a linked folder, which only chats of the terminal and the page have."""

_SPOKEN: Final[Mapping[str, CommandName]] = {"si": "yes", "sí": "yes", "lista": "list"}
"""Aliases of commands."""

_COMMAND = re.compile(r"/([sS][íÍ]|[A-Za-z_][A-Za-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A parsed chat command. `rest` contains the command's arguments."""

    name: CommandName
    rest: str = ""

    @property
    def handler(self) -> str:
        """Return the name of the command's handler; empty if the chat handles the command itself."""
        if self.name == "stop" and self.rest.casefold() in ALL:
            return EVERYTHING
        return TASKS if self.of_task else HANDLER_NAMES.get(self.name, "")

    @property
    def of_task(self) -> bool:
        """Return True if the command is `/stop` with a task's number, which stops that task."""
        return self.name == "stop" and self.rest.removeprefix("#").isdecimal()


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    """A text that looks like a command, but names none. `meant` is a similar command's name, or empty."""

    name: str
    meant: str = ""


def parse_chat_command(text: str) -> ChatCommand | UnknownCommand | None:
    """Parse the command in a text; return None if the text is a message for the model.

    A path such as `/etc/hosts` is not a command, because a command's name contains no second slash.
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
    """Return the answer in a `/yes` or `/no` command, such as `yes 1 no 2`; empty for any other text."""
    command = parse_chat_command(text)
    if isinstance(command, ChatCommand) and command.name in ("yes", "no"):
        return f"{command.name} {command.rest}".strip()
    return ""


def asks_first(text: str) -> bool:
    """Return True for a command that asks for confirmation. It is published as a turn."""
    command = parse_chat_command(text)
    return isinstance(command, ChatCommand) and (command.name in FOLDER_JOBS or deletes_files(text))


def deletes_files(text: str) -> bool:
    """Return True for a `/reset files` that asks for confirmation."""
    command = parse_chat_command(text)
    return isinstance(command, ChatCommand) and (command.name, command.rest) == ("reset", FILES)


def reset_of(rest: str) -> str:
    """Return the arguments of `/reset` in their canonical form: for example `files yes` for `files sí`."""
    first, _, second = rest.partition(" ")
    answer = question_texts.yes_or_no(second) if first == FILES and second else None
    return rest if answer is None else FILES_YES if answer else FILES_NO


def goes_on(message: Incoming) -> bool:
    """Return True if the message is a `/continue`. It is not if it has files."""
    if any(one.own_file for one in message.attachments) or not message.by_hand:
        return False
    command = parse_chat_command(message.text)
    return isinstance(command, ChatCommand) and command.name == "continue"


def may_stop_everything(message: Incoming, ids: ChatIds) -> bool:
    """Return True if a `/stop all` of the sender stops everything, not only what waits in its chat."""
    return message.admin or ids.owner_of(message.chat) == LOCAL


def is_stop(message: Incoming) -> bool:
    """Return True if the message is a `/stop` for the running turn. It is not if it has files."""
    if any(one.own_file for one in message.attachments) or not message.by_hand:
        return False
    command = parse_chat_command(message.text)
    return isinstance(command, ChatCommand) and command.name == "stop" and not command.handler
