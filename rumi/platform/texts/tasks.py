"""Texts for people about tasks."""

from collections.abc import Sequence

from rumi.texts import Language, gettext

SHORT_CHARS = 80


def task_state(language: Language, state: str) -> str:
    """Return the name of a task's state."""
    return {
        "queued": gettext(language, "queued"),
        "running": gettext(language, "running"),
        "sleeping": gettext(language, "sleeping"),
        "stopping": gettext(language, "stopping"),
        "succeeded": gettext(language, "succeeded"),
        "failed": gettext(language, "failed"),
        "out_of_budget": gettext(language, "out of budget"),
        "stopped": gettext(language, "stopped"),
        "interrupted": gettext(language, "interrupted"),
    }.get(state, state)


def task_result(language: Language, id: int, state: str, question: str, answer: str, bot: str = "") -> str:
    """Return the message that reports a task's result to the chat."""
    signs = {"succeeded": "🤖" if bot else "🔎", "stopped": "⏹", "out_of_budget": "⚠️"}
    name = gettext(language, "Task {id}", id=id)
    if bot:
        name = gettext(language, "Bot {bot}, session {id}", bot=bot, id=id)
    head = f"{signs.get(state, '❌')} {name} ({task_state(language, state)}): {shortly(question)}"
    return head if state == "stopped" else f"{head}\n\n{answer}"


def task_stops(language: Language, id: int) -> str:
    """Say that a task is being stopped."""
    return gettext(language, "⏹ Stopping task {id}.", id=id)


def tasks_go_on(language: Language, ids: Sequence[int]) -> str:
    """Say which tasks continue after a `/stop`."""
    numbers = ", ".join(map(str, ids))
    if len(ids) == 1:
        return gettext(language, "Task {numbers} goes on; /stop {numbers} stops it.", numbers=numbers)
    return gettext(language, "The tasks {numbers} go on; /stop and a number stops one.", numbers=numbers)


def task_list(language: Language, rows: Sequence[tuple[int, str, str, str]]) -> str:
    """List tasks in Markdown; each row has a number, a kind, a state and a question."""
    if not rows:
        return gettext(language, "There are no tasks.")
    lines = [
        f"- {id} · {kind} · {task_state(language, state)} · {shortly(question)}"
        for id, kind, state, question in rows
    ]
    return "\n".join(lines)


def shortly(text: str) -> str:
    """Return a text on one line, shortened to its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= SHORT_CHARS else f"{line[: SHORT_CHARS - 1]}…"
