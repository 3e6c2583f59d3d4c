"""The chat commands that front ends complete, each with what it does."""

from typing import Final

from rumi.texts import Language, Text, translate

_COMMANDS: Final = (
    ("/help", Text("what it can do")),
    ("/stop", Text("stop what is running")),
    ("/queue", Text("what waits; /queue drop 1 drops the first")),
    ("/retry", Text("run the last unfinished message again")),
    ("/continue", Text("continue a turn that reached a limit")),
    ("/undo", Text("undo the last turn")),
    ("/diff", Text("the changes to the folder; /diff FILE shows one file")),
    ("/apply", Text("bring the changes into the folder; /apply FILE those of a file")),
    ("/discard", Text("drop the changes; /discard FILE those of a file")),
    ("/new", Text("new session; the old one stays stored")),
    ("/sessions", Text("earlier sessions; /sessions 3 reopens one")),
    ("/compact", Text("make room: a summary replaces the conversation")),
    ("/context", Text("what fills the context")),
    ("/reset", Text("new session: container and history cleared")),
    ("/reset files", Text("the same, and the files are removed")),
    ("/status", Text("what it is doing")),
    ("/memory", Text("what it knows about you")),
    ("/recall", Text("find what was said: /recall QUERY")),
    ("/forget_everything", Text("delete everything that it knows about you")),
    ("/skills", Text("the skills")),
    ("/research", Text("research a question in the background")),
    ("/tasks", Text("the tasks; /stop and a number stops one")),
    ("/bots", Text("the bots")),
    ("/bot", Text("a goal for a bot, or something to say to it: /bot NAME TEXT")),
    ("/wake", Text("wake a bot: /wake NAME")),
    ("/remind", Text("be reminded: /remind tomorrow 09:00: TEXT")),
    ("/schedules", Text("the reminders and schedules")),
    ("/snooze", Text("put the last reminder off: /snooze 10 min")),
    ("/timezone", Text("the time zone")),
    ("/list", Text("the lists of this chat: /list shopping milk, bread")),
    ("/yes", Text("allow what a scheduled turn asked: /yes 1")),
    ("/no", Text("refuse it: /no 1")),
)


def chat_commands(language: Language) -> list[tuple[str, str]]:
    """Return the commands, such as `/stop`, each with its description."""
    return [(name, translate(language, does)) for name, does in _COMMANDS]
