"""Texts for people about stopping all work."""

from collections.abc import Mapping, Sequence

from rumi.platform.texts.bots import bot_resume
from rumi.platform.texts.replies import nothing_running
from rumi.texts import Language, Text, gettext, ngettext


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
        stopped = gettext(
            language,
            "⚠️ Not ended yet: {names}. It is still being stopped; look at /status or rumi status.",
            names=names,
        )
    else:
        stopped = gettext(
            language,
            "⏹ Stopped {turns} and {tasks}. No process is left.",
            turns=ngettext(language, "{count} turn", "{count} turns", turns),
            tasks=ngettext(language, "{count} task", "{count} tasks", tasks),
        )
    lines = [_paused(language, name, count) for name, count in paused.items() if count != 0]
    return "\n".join([stopped, *lines, *(f"🤖 {bot_resume(language, *session)}" for session in sessions)])


def stopped_at_rest(language: Language, tasks: int, paused: int) -> str:
    """Say how many tasks were stopped and how many schedules were paused while no daemon was running."""
    lines = [nothing_running(language)]
    if tasks:
        lines.append(
            ngettext(
                language,
                "Stopped {count} task: the next start does not resume it.",
                "Stopped {count} tasks: the next start does not resume them.",
                tasks,
            )
        )
    if paused:
        lines.append(_paused(language, "schedules", paused))
    return "\n".join(lines)


def stopped_everywhere(language: Language, here: str, others: Mapping[str, str]) -> str:
    """Say what this process has stopped, and what each other worker has stopped."""
    return "\n".join([here, *(f"{name}: {said}" for name, said in sorted(others.items()))])


def _paused(language: Language, name: str, count: int | None) -> str:
    what = Text("schedules") if name == "schedules" else name
    if count is None:
        return gettext(language, "⚠️ The {what} could not be paused. Send /stop all again.", what=what)
    if name != "schedules":
        return gettext(
            language, "Paused {count} {name}; /{name} lists and resumes them.", count=count, name=name
        )
    return ngettext(
        language,
        "Paused {count} schedule; /schedules lists and resumes them.",
        "Paused {count} schedules; /schedules lists and resumes them.",
        count,
    )
