"""Texts for people about databases that cannot be written, and about freeing disk space."""

from collections.abc import Mapping, Sequence

from rumi.platform.texts.language import Language, pick


def not_stored(language: Language, trouble: str) -> str:
    """Say that new messages are refused, because the database cannot be written."""
    match trouble:
        case "full":
            return pick(
                language,
                "El disco está lleno: no puedo tomar mensajes hasta que haya lugar.",
                "The disk is full: no message can be taken until there is room.",
            )
        case "locked":
            return pick(
                language,
                "Otro programa tiene bloqueado state.db: no puedo tomar mensajes hasta que lo suelte.",
                "Another program has locked state.db: no message can be taken until it lets go.",
            )
        case "away":
            return pick(
                language,
                "La base de datos no responde: no puedo tomar mensajes hasta que vuelva.",
                "The database does not answer: no message can be taken until it is back.",
            )
        case "replaced":
            return pick(
                language,
                "Alguien borró o reemplazó state.db mientras estaba en uso: no puedo tomar mensajes."
                " Terminá este Rumi, poné el archivo que corresponde y arrancalo de nuevo.",
                "state.db was deleted or replaced while it was in use: no message can be taken."
                " End this Rumi, put the right file there and start it again.",
            )
        case _:
            return pick(
                language,
                "El disco no deja escribir state.db: no puedo tomar mensajes hasta que se pueda.",
                "The disk refuses to write state.db: no message can be taken until it does.",
            )


def kept_at_telegram(language: Language, trouble: str) -> str:
    """Tell a Telegram user that no message is lost. The text does not mention the disk."""
    if trouble == "replaced":
        return pick(
            language,
            "⚠️ Ahora no puedo guardar mensajes: avisale al dueño. Telegram me guarda el tuyo un día.",
            "⚠️ I cannot store messages right now: tell the owner. Telegram keeps yours for a day.",
        )
    return pick(
        language,
        "⚠️ Ahora no puedo guardar mensajes. Telegram me guarda el tuyo, y lo contesto cuando pueda."
        " /stop funciona.",
        "⚠️ I cannot store messages right now. Telegram keeps yours for me, and I will answer it when I can."
        " /stop works.",
    )


def waits_for_the_disk(language: Language, trouble: str) -> str:
    """Return the reason why a turn waits while the database cannot be written."""
    match trouble:
        case "full":
            return pick(language, "el disco está lleno", "the disk is full")
        case "locked":
            return pick(language, "otro programa bloquea state.db", "another program has locked state.db")
        case "away":
            return pick(language, "la base de datos no responde", "the database does not answer")
        case "replaced":
            return pick(language, "state.db fue borrado o reemplazado", "state.db was deleted or replaced")
        case _:
            return pick(language, "el disco no deja escribir", "the disk refuses to write")


def worker_line(language: Language, worker: Mapping[str, object]) -> str:
    """Describe a worker that shares the database, on one line."""
    count, left = worker["partitions"], worker["lease_left_s"]
    turns = worker["turns"] or 0
    if worker["leaving"]:
        return pick(language, f"{worker['name']}: se va", f"{worker['name']}: leaving")
    if not isinstance(left, int | float) or left <= 0:
        return pick(language, f"{worker['name']}: terminó", f"{worker['name']}: ended")
    return pick(
        language,
        f"{worker['name']}: {count} particiones, {turns} turnos",
        f"{worker['name']}: {count} partitions, {turns} turns",
    )


def how_to_free_space(language: Language, wanted_mb: float, large: Sequence[tuple[str, float, str]]) -> str:
    """Say how to free disk space. `large` has a name, a size in MB and a deletion command for each entry."""
    lines = [
        pick(
            language,
            f"Hacé lugar: tiene que haber {wanted_mb:.0f} MB libres.",
            f"Make room: {wanted_mb:.0f} MB have to be free.",
        )
    ]
    if large:
        lines.append(pick(language, "Lo más grande de Rumi:", "What is largest of Rumi's:"))
        lines.extend(f"  {size_mb:,.1f} MB  {name}\n    {command}" for name, size_mb, command in large)
    else:
        lines.append(
            pick(
                language,
                "Nada de Rumi ocupa mucho. Mirá qué llena el disco: du -xh / | sort -h | tail",
                "No file of Rumi is large. Find what fills the disk: du -xh / | sort -h | tail",
            )
        )
    return "\n".join(lines)


def started_on_full_disk(language: Language) -> str:
    """Say that the disk is full, and that Rumi could start because it deleted its reserve file."""
    return pick(
        language,
        "⚠️ El disco está lleno. Arranqué con la reserva; no tomo mensajes hasta que haya lugar.",
        "⚠️ The disk is full. This start has used the reserve; no message is taken until there is room.",
    )


def cannot_start_on_full_disk(language: Language, home: object) -> str:
    """Say that Rumi cannot start, because the disk is full and there is no reserve file to delete."""
    return pick(language, f"El disco de {home} está lleno.", f"The disk of {home} is full.")


def log_storage(language: Language, trouble: str | None) -> str:
    """Return the log's line for a database that has become unwritable, or writable again."""
    if not trouble:
        return pick(language, "se guarda de nuevo", "stores again")
    why = waits_for_the_disk(language, trouble)
    return pick(language, f"no se puede guardar nada: {why}", f"nothing can be stored: {why}")
