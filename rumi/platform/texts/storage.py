"""Texts for people about databases that cannot be written, and about freeing disk space."""

from collections.abc import Mapping, Sequence

from rumi.platform.texts.formats import number
from rumi.texts import Language, gettext


def not_stored(language: Language, trouble: str) -> str:
    """Say that new messages are refused, because the database cannot be written."""
    match trouble:
        case "full":
            return gettext(language, "The disk is full: no message can be taken until there is room.")
        case "locked":
            return gettext(
                language, "Another program has locked state.db: no message can be taken until it lets go."
            )
        case "away":
            return gettext(
                language, "The database does not answer: no message can be taken until it is back."
            )
        case "replaced":
            return gettext(
                language,
                "state.db was deleted or replaced while it was in use: no message can be taken. End "
                "this Rumi, put the right file there and start it again.",
            )
        case _:
            return gettext(
                language, "The disk refuses to write state.db: no message can be taken until it does."
            )


def kept_at_telegram(language: Language, trouble: str) -> str:
    """Tell a Telegram user that no message is lost. The text does not mention the disk."""
    if trouble == "replaced":
        return gettext(
            language, "⚠️ I cannot store messages right now: tell the owner. Telegram keeps yours for a day."
        )
    return gettext(
        language,
        "⚠️ I cannot store messages right now. Telegram keeps yours for me, and I will answer it "
        "when I can. /stop works.",
    )


def waits_for_the_disk(language: Language, trouble: str) -> str:
    """Return the reason why a turn waits while the database cannot be written."""
    match trouble:
        case "full":
            return gettext(language, "the disk is full")
        case "locked":
            return gettext(language, "another program has locked state.db")
        case "away":
            return gettext(language, "the database does not answer")
        case "replaced":
            return gettext(language, "state.db was deleted or replaced")
        case _:
            return gettext(language, "the disk refuses to write")


def worker_line(language: Language, worker: Mapping[str, object]) -> str:
    """Describe a worker that shares the database, on one line."""
    count, left = worker["partitions"], worker["lease_left_s"]
    turns = worker["turns"] or 0
    if worker["leaving"]:
        return gettext(language, "{name}: leaving", name=worker["name"])
    if not isinstance(left, int | float) or left <= 0:
        return gettext(language, "{name}: ended", name=worker["name"])
    return gettext(
        language, "{name}: {count} partitions, {turns} turns", name=worker["name"], count=count, turns=turns
    )


def how_to_free_space(language: Language, wanted_mb: float, large: Sequence[tuple[str, float, str]]) -> str:
    """Say how to free disk space. `large` has a name, a size in MB and a deletion command for each entry."""
    lines = [gettext(language, "Make room: {wanted_mb} MB have to be free.", wanted_mb=f"{wanted_mb:.0f}")]
    if large:
        lines.append(gettext(language, "Rumi's largest files:"))
        lines.extend(
            f"  {number(language, size_mb, 1)} MB  {name}\n    {command}" for name, size_mb, command in large
        )
    else:
        lines.append(
            gettext(language, "No file of Rumi is large. Find what fills the disk: du -xh / | sort -h | tail")
        )
    return "\n".join(lines)


def log_storage(language: Language, trouble: str | None) -> str:
    """Return the log's line for a database that has become unwritable, or writable again."""
    if not trouble:
        return gettext(language, "stores again")
    why = waits_for_the_disk(language, trouble)
    return gettext(language, "nothing can be stored: {why}", why=why)
