"""The terminal's own commands, and what the person types: leaving, stopping, answering."""

from dataclasses import dataclass

from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.chats.events import ChatEvent, TurnRestarted
from rumi.platform.config.providers import OFFLINE
from rumi.platform.texts import commands as command_texts
from rumi.platform.texts.questions import yes_or_no
from rumi.texts import Language, Text, gettext, translate


@dataclass(frozen=True, slots=True)
class Reader:
    """The person at a terminal: their language, and the folder of the chat's files."""

    language: Language
    workspace: str = ""


_OWN_COMMANDS = (
    ("/model", Text("the model; /model PROVIDER:NAME changes it")),
    ("/copy", Text("the last answer to the clipboard")),
    ("/transcript", Text("all that this window has shown, whole")),
    ("/paste", Text("the picture in the clipboard goes with the next message")),
    ("/exit", Text("leave")),
    ("/quit", Text("leave")),
)

LEAVING = frozenset({"/exit", "/quit"})
"""Commands that leave the chat; they are never sent to it."""

TYPED_LEAVING = LEAVING | {"exit", "quit"}
"""Lines that leave the chat when a person types them."""


def commands(language: Language) -> list[tuple[str, str]]:
    """Return the commands that the terminal completes, each with its description."""
    own = [(name, translate(language, does)) for name, does in _OWN_COMMANDS]
    return [*command_texts.chat_commands(language), *own]


def keys_of(language: Language, vi: bool) -> list[tuple[str, str]]:
    """Return the keys of the input line, each with what it does. `vi` selects the keys of vi."""
    stop = "Ctrl-C" if vi else "Esc, Ctrl-C"
    table = [
        ("Enter", Text("send")),
        ("Alt-/Shift-Enter, Ctrl-J", Text("start a new line")),
        (stop, Text("stop the turn")),
        *([] if vi else [("Esc Esc", Text("edit the last message"))]),
        ("Ctrl-R, /" if vi else "Ctrl-R", Text("search in earlier messages")),
        ("Ctrl-G, Ctrl-X Ctrl-E", Text("edit the message in your editor")),
        ("Ctrl-O", Text("show long outputs whole")),
        ("Tab", Text("complete commands and file names")),
        ("Ctrl-Z", Text("suspend; fg continues")),
        ("Ctrl-D", Text("leave")),
        *([("Esc", Text("normal mode"))] if vi else []),
    ]
    return [(keys, translate(language, does)) for keys, does in table]


def help_of_own(language: Language) -> str:
    """Return the help lines of the terminal's own commands."""
    own = [(name, does) for name, does in commands(language) if name.split()[0][1:] not in COMMAND_NAMES]
    lines = [f"- `{name}`: {does}" for name, does in own]
    lines.append("- `@a.txt`: " + gettext(language, "a.txt goes with the message; Tab completes names"))
    lines.append("- `!ls`: " + gettext(language, "run ls in the sandbox, without the model"))
    return "\n".join(lines)


def command_of(text: str) -> str | None:
    """Return the command in a line such as `!ls`, which the sandbox runs without the model, or None."""
    command = text[1:].strip() if text.startswith("!") else ""
    return None if not command or command.startswith("!") else command


def is_own(text: str) -> bool:
    """Return True if a line is a command of the terminal itself, which is never sent to the chat."""
    return text.lower().split()[:1] in (["/copy"], ["/model"], ["/transcript"], ["/paste"])


def shown_model(model: str, language: Language) -> str:
    """Return a model's name for people; that of the demo model is a word."""
    return gettext(language, "demo") if model == OFFLINE else model


def is_stop(text: str) -> bool:
    """Return True if a line is `/stop`, the command that is sent immediately."""
    return text.lower().split()[:1] == ["/stop"]


def is_answer(text: str) -> bool:
    """Return True if a line is a yes or a no."""
    return yes_or_no(text) is not None


def void_note(event: ChatEvent, language: Language) -> str:
    """Return the notice that the text shown so far is void: it was cut off, or more of the question came."""
    if isinstance(event.what, TurnRestarted):
        return gettext(language, "More of your message arrived. Ignore the text above.")
    return gettext(language, "The reply was cut off. Ignore the text above.")
