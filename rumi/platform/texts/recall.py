"""Texts about searching earlier conversations, and about deleting all data of an owner."""

from collections.abc import Mapping

from rumi.platform.texts.language import Language, pick


def nothing_recalled(language: Language) -> str:
    """Say that a search found no earlier conversation."""
    return pick(
        language,
        "No encontré nada de eso en charlas anteriores.",
        "Nothing of that in earlier conversations.",
    )


def recall_usage(language: Language) -> str:
    """Return how to use `/recall`."""
    return pick(
        language,
        "`/recall CONSULTA` busca en lo que se dijo antes, por ejemplo `/recall la caldera en marzo`.",
        "`/recall QUERY` finds what was said before, for example `/recall the boiler in March`.",
    )


_DELETED = {
    "facts": ("hechos", "facts"),
    "schedules": ("recordatorios", "schedules"),
    "tasks": ("tareas", "tasks"),
    "chats": ("chats", "chats"),
    "passages": ("pasajes del índice", "passages of the index"),
    "recordings": ("grabaciones", "recordings"),
    "traces": ("restos en el registro de la base de datos", "traces in the database's log"),
}


def may_forget_everything(language: Language, owner: str) -> str:
    """Say what `/forget_everything` would delete, and how to confirm it."""
    return pick(
        language,
        f"Esto borra para siempre todo lo que sé de {owner}: hechos, historial de todos sus chats, índice, "
        "grabaciones, tareas y recordatorios. Los archivos quedan. Para hacerlo, escribí "
        "`/forget_everything yes`.",
        f"This deletes for good all that I know of {owner}: facts, the history of all its chats, the index, "
        "recordings, tasks and schedules. Files stay. To do it, write `/forget_everything yes`.",
    )


def everything_forgotten(language: Language, counts: Mapping[str, int | None]) -> str:
    """Say what `/forget_everything` has deleted; a count of None means that the deletion failed."""
    done = [f"{count} {_of(language, name)}" for name, count in counts.items() if count]
    failed = [_of(language, name) for name, count in counts.items() if count is None]
    text = pick(language, "🗑 Olvidé todo", "🗑 Everything is forgotten")
    text = f"{text}: {', '.join(done)}." if done else f"{text}."
    if failed:
        left = pick(language, "No se pudo borrar", "Not deleted")
        again = pick(language, "Probá otra vez.", "Try again.")
        text = (
            f"❌ {left}: {', '.join(failed)}. {again}\n{text}"
            if done
            else f"❌ {left}: {', '.join(failed)}. {again}"
        )
    return f"{text}\n{still_kept(language)}"


def still_kept(language: Language) -> str:
    """Say which data `/forget_everything` does not delete, and how to delete it."""
    return pick(
        language,
        "Quedan: los archivos; en el registro de auditoría, los comandos y los valores con que se llamó a "
        "las herramientas (logs/audit.jsonl*), hasta que se borre; y las copias de seguridad y de antes "
        "de actualizar (*.before-*). Para borrar el registro: rm logs/audit.jsonl* en la carpeta de Rumi, "
        "con Rumi detenido.",
        "Still there: files; in the audit log, the commands and the values that tools were called with "
        "(logs/audit.jsonl*), until it is deleted; and backups and copies from before upgrades (*.before-*). "
        "To delete the log: rm logs/audit.jsonl* in Rumi's home, while Rumi is stopped.",
    )


def forget_everything_refused(language: Language) -> str:
    """Say who may delete the data of a group."""
    return pick(
        language,
        "❌ En un grupo solo un administrador puede borrar todo.",
        "❌ In a group only an admin can delete everything.",
    )


def _of(language: Language, name: str) -> str:
    return pick(language, *_DELETED.get(name, (name, name)))
