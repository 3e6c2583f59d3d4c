"""Texts for people about undoing a turn."""

from collections.abc import Sequence

from rumi.platform.texts.language import Language, pick


def undone(
    language: Language,
    said: str,
    *,
    files: str,
    facts: Sequence[str],
    facts_kept: Sequence[str],
    schedules: Sequence[int],
    schedules_kept: Sequence[int],
    parked: Sequence[int],
    tasks: Sequence[int],
    sent: bool,
    calls: Sequence[str],
    more: int,
) -> str:
    """Say what an undo has restored, and what it could not restore.

    `files` is the result for the turn's files. `calls` are tool calls that cannot be undone; `more` is the
    number of such calls that the text leaves out.
    """
    back, left = list[str](), list[str]()
    if files == "restored":
        back.append(pick(language, "los archivos", "the files"))
    elif files != "untouched":
        why = _why_not(language, files)
        left.append(
            pick(language, f"los archivos siguen como están: {why}", f"the files stay as they are: {why}")
        )
    if facts:
        back.append(pick(language, "los datos: ", "the facts: ") + ", ".join(facts))
    if facts_kept:
        what = ", ".join(facts_kept)
        left.append(pick(language, f"datos que otro cambió después: {what}", f"facts changed since: {what}"))
    if schedules:
        back.append(pick(language, "los programas: ", "the schedules: ") + _numbers(schedules))
    if schedules_kept:
        what = _numbers(schedules_kept)
        left.append(
            pick(language, f"programas que cambiaron después: {what}", f"schedules changed since: {what}")
        )
    if parked:
        back.append(
            pick(language, "las preguntas ya no esperan: ", "the questions, withdrawn: ") + _numbers(parked)
        )
    if not sent:
        back.append(
            pick(language, "la respuesta, que no se había mandado", "the reply, which was not sent yet")
        )
    if tasks:
        what = _numbers(tasks)
        left.append(
            pick(language, f"tareas empezadas, ahora detenidas: {what}", f"tasks begun, stopped now: {what}")
        )
    left.extend(f"`{quoted}`" for quoted in (call.replace("`", "'") for call in calls))
    if more:
        left.append(pick(language, f"y {more} llamadas más", f"and {more} more calls"))
    lines = [pick(language, f"↩️ Deshecho: «{said}»", f"↩️ Taken back: “{said}”")]
    if back:
        lines += ["", pick(language, "Como antes:", "As before:"), *(f"- {path}" for path in back)]
    if left:
        lines += [
            "",
            pick(language, "No se puede deshacer:", "Cannot be undone:"),
            *(f"- {path}" for path in left),
        ]
    return "\n".join(lines)


def _why_not(language: Language, cause: str) -> str:
    match cause:
        case "bytes":
            return pick(language, "ocupan más que `[undo] max_mb`", "they take more than `[undo] max_mb`")
        case "files":
            return pick(language, "son más que `[undo] max_files`", "there are more than `[undo] max_files`")
        case "unreadable":
            return pick(language, "no se pudo leer alguno", "one of them could not be read")
        case "disk":
            return pick(language, "no alcanzó el disco", "there was no room on the disk")
        case _:
            return pick(language, "no quedó copia", "no copy of them is left")


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def nothing_to_undo(language: Language) -> str:
    """Say that the chat has no turn to undo."""
    return pick(language, "No hay nada para deshacer.", "There is nothing to undo.")


def undone_enough(language: Language, count: int) -> str:
    """Say that no earlier turn can be undone."""
    return pick(
        language,
        f"Ya deshice {count} turnos seguidos; más atrás no puedo.",
        f"I have taken back {count} turns in a row; I cannot go further back.",
    )


def not_yours_to_undo(language: Language) -> str:
    """Say that only the person who asked for the turn, or an admin, may undo it."""
    return pick(
        language,
        "Ese turno lo pidió otra persona: solo ella o un administrador pueden deshacerlo.",
        "Somebody else asked for that turn: only they or an admin can undo it.",
    )


def undo_is_busy(language: Language) -> str:
    """Say that the running turn must end first."""
    return pick(
        language,
        "⏳ Todavía estoy trabajando. Mandá /stop primero, y después /undo.",
        "⏳ I am still working. Send /stop first, then /undo.",
    )


def undo_is_off(language: Language) -> str:
    """Say that undo is disabled in this installation."""
    return pick(
        language,
        "Acá no se puede deshacer: está apagado (`[undo] turns = 0`).",
        "Nothing can be undone here: it is off (`[undo] turns = 0`).",
    )


def not_undone(language: Language, why: str) -> str:
    """Say that the undo failed without changing anything, and why."""
    return pick(language, f"❌ No deshice nada. {why}", f"❌ Nothing was undone. {why}")
