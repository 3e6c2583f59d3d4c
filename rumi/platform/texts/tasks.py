"""Texts for people about tasks."""

from collections.abc import Sequence

from rumi.platform.texts.language import Language, pick

SHORT_CHARS = 80


def task_state(language: Language, state: str) -> str:
    """Return the name of a task's state."""
    return {
        "queued": pick(language, "en espera", "queued"),
        "running": pick(language, "en curso", "running"),
        "sleeping": pick(language, "dormida", "sleeping"),
        "stopping": pick(language, "deteniéndose", "stopping"),
        "succeeded": pick(language, "terminada", "succeeded"),
        "failed": pick(language, "falló", "failed"),
        "out_of_budget": pick(language, "sin presupuesto", "out of budget"),
        "stopped": pick(language, "detenida", "stopped"),
        "interrupted": pick(language, "interrumpida", "interrupted"),
    }.get(state, state)


def task_result(language: Language, id: int, state: str, question: str, answer: str, bot: str = "") -> str:
    """Return the message that reports a task's result to the chat."""
    signs = {"succeeded": "🤖" if bot else "🔎", "stopped": "⏹", "out_of_budget": "⚠️"}
    name = pick(language, f"Tarea {id}", f"Task {id}")
    if bot:
        name = pick(language, f"Bot {bot}, sesión {id}", f"Bot {bot}, session {id}")
    head = f"{signs.get(state, '❌')} {name} ({task_state(language, state)}): {shortly(question)}"
    return head if state == "stopped" else f"{head}\n\n{answer}"


def task_begins(language: Language, id: int) -> str:
    """Say that a task has started."""
    return pick(
        language,
        f"🔎 Empecé la tarea {id}. El resultado llega acá; /stop {id} la detiene.",
        f"🔎 Task {id} has begun. Its result comes here; /stop {id} stops it.",
    )


def task_stops(language: Language, id: int) -> str:
    """Say that a task is being stopped."""
    return pick(language, f"⏹ Detengo la tarea {id}.", f"⏹ Stopping task {id}.")


def task_gave_up(language: Language) -> str:
    """Say that a task was stopped because it crashed too often."""
    return pick(
        language,
        "❌ Algo falló varias veces. Pedila de nuevo.",
        "❌ Something failed several times. Ask for it again.",
    )


def tasks_go_on(language: Language, ids: Sequence[int]) -> str:
    """Say which tasks continue after a `/stop`."""
    numbers = ", ".join(map(str, ids))
    if len(ids) == 1:
        return pick(
            language,
            f"La tarea {numbers} sigue; /stop {numbers} la detiene.",
            f"Task {numbers} goes on; /stop {numbers} stops it.",
        )
    return pick(
        language,
        f"Las tareas {numbers} siguen; /stop y un número detiene una.",
        f"The tasks {numbers} go on; /stop and a number stops one.",
    )


def task_usage(language: Language) -> str:
    """Say how to use `/research` and `/tasks`."""
    return pick(
        language,
        "Usá /research PREGUNTA, /tasks, o /stop y el número de una tarea.",
        "Use /research QUESTION, /tasks, or /stop and the number of a task.",
    )


def task_list(language: Language, rows: Sequence[tuple[int, str, str, str]]) -> str:
    """List tasks in Markdown; each row has a number, a kind, a state and a question."""
    if not rows:
        return pick(language, "No hay tareas.", "There are no tasks.")
    lines = [
        f"- {id} · {kind} · {task_state(language, state)} · {shortly(question)}"
        for id, kind, state, question in rows
    ]
    return "\n".join(lines)


def shortly(text: str) -> str:
    """Return a text on one line, shortened to its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= SHORT_CHARS else f"{line[: SHORT_CHARS - 1]}…"
