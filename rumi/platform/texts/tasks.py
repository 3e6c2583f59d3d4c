"""Texts for people about tasks."""

from collections.abc import Sequence

from rumi.platform.texts.words import in_words
from rumi.texts import Language, gettext

SHORT_CHARS = 80


def task_result(language: Language, id: int, state: str, question: str, answer: str, bot: str = "") -> str:
    """Return the message that reports a task's result to the chat."""
    signs = {"succeeded": "🤖" if bot else "🔎", "stopped": "⏹", "out_of_budget": "⚠️"}
    name = gettext(language, "Task {id}", id=id)
    if bot:
        name = gettext(language, "Bot {bot}, session {id}", bot=bot, id=id)
    head = f"{signs.get(state, '❌')} {name} ({in_words(language, state)}): {shortly(question)}"
    return head if state == "stopped" else f"{head}\n\n{answer}"


def task_stops(language: Language, id: int) -> str:
    """Say that a task is being stopped."""
    return gettext(language, "⏹ Stopping task {id}.", id=id)


def tasks_go_on(language: Language, ids: Sequence[int]) -> str:
    """Say which tasks continue after a `/stop`."""
    numbers = ", ".join(map(str, ids))
    if len(ids) == 1:
        return gettext(language, "Task {numbers} continues; /stop {numbers} stops it.", numbers=numbers)
    return gettext(language, "The tasks {numbers} continue; /stop and a number stops one.", numbers=numbers)


def task_list(language: Language, rows: Sequence[tuple[int, str, str, str]]) -> str:
    """List tasks in Markdown; each row has a number, a kind, a state and a question."""
    if not rows:
        return gettext(language, "There are no tasks.")
    lines = [
        f"- {id} · {kind} · {in_words(language, state)} · {shortly(question)}"
        for id, kind, state, question in rows
    ]
    return "\n".join(lines)


def shortly(text: str) -> str:
    """Return a text on one line, shortened to its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= SHORT_CHARS else f"{line[: SHORT_CHARS - 1]}…"
