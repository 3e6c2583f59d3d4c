"""Texts for people about stopping all work."""

from collections.abc import Mapping, Sequence

from rumi.platform.texts.bots import bot_resume
from rumi.platform.texts.language import Language, pick
from rumi.platform.texts.replies import nothing_running


def stop_all_refused(language: Language) -> str:
    """Say that only an admin may stop everything."""
    return pick(
        language,
        "Solo un administrador puede detener todo. /stop detiene lo que hago acá.",
        "Only an admin may stop everything. /stop stops what I am doing here.",
    )


def stopped_all(
    language: Language,
    turns: int,
    tasks: int,
    paused: Mapping[str, int | None],
    chats_left: Sequence[str],
    tasks_left: Sequence[int],
    sessions: Sequence[tuple[str, int]] = (),
) -> str:
    """Say what was stopped and paused, and which chats and tasks still run.

    In `paused`, None stands for a part that could not be paused. `sessions` are the stopped bot sessions,
    each as the bot's name and the session's number.
    """
    if chats_left or tasks_left:
        names = ", ".join((*chats_left, *(f"#{id}" for id in tasks_left)))
        stopped = pick(
            language,
            f"⚠️ Todavía no terminó: {names}. Sigo deteniéndolo; mirá /status o rumi status.",
            f"⚠️ Not ended yet: {names}. It is still being stopped; look at /status or rumi status.",
        )
    else:
        stopped = pick(
            language,
            f"⏹ Detuve {_number(turns, 'turno', 'turnos')} y {_number(tasks, 'tarea', 'tareas')}."
            " No queda ningún proceso.",
            f"⏹ Stopped {_number(turns, 'turn', 'turns')} and {_number(tasks, 'task', 'tasks')}."
            " No process is left.",
        )
    lines = [_paused(language, name, count) for name, count in paused.items() if count != 0]
    return "\n".join([stopped, *lines, *(f"🤖 {bot_resume(language, *session)}" for session in sessions)])


def stopped_at_rest(language: Language, tasks: int, paused: int) -> str:
    """Say how many tasks were stopped and how many schedules were paused while no daemon was running."""
    lines = [nothing_running(language)]
    if tasks:
        lines.append(
            pick(
                language,
                f"Detuve {_number(tasks, 'tarea', 'tareas')}: el próximo inicio no las retoma.",
                f"Stopped {_number(tasks, 'task', 'tasks')}: the next start does not resume them.",
            )
        )
    if paused:
        lines.append(_paused(language, "schedules", paused))
    return "\n".join(lines)


def stopped_everywhere(language: Language, here: str, others: Mapping[str, str]) -> str:
    """Say what this process has stopped, and what each other worker has stopped."""
    return "\n".join([here, *(f"{name}: {said}" for name, said in sorted(others.items()))])


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _paused(language: Language, name: str, count: int | None) -> str:
    es = {"schedules": "recordatorios y horarios"}.get(name, name)
    if count is None:
        return pick(
            language,
            f"⚠️ No pude pausar los {es}. Mandá /stop all otra vez.",
            f"⚠️ The {name} could not be paused. Send /stop all again.",
        )
    return pick(
        language,
        f"Pausé {count} {es}; /{name} los muestra y los reanuda.",
        f"Paused {_number(count, name.removesuffix('s'), name)}; /{name} lists and resumes them.",
    )
