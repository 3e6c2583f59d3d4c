"""Texts about searching earlier conversations, and about deleting all data of an owner."""

from collections.abc import Mapping

from rumi.texts import Language, Text, gettext, translate


def nothing_recalled(language: Language) -> str:
    """Say that a search found no earlier conversation."""
    return gettext(language, "I found nothing about that in earlier conversations.")


_DELETED = {
    "facts": Text("facts"),
    "schedules": Text("schedules"),
    "tasks": Text("tasks"),
    "logins": Text("logins at servers of tools"),
    "chats": Text("chats"),
    "passages": Text("passages of the index"),
    "recordings": Text("recordings"),
    "profiles": Text("browser profiles"),
    "traces": Text("traces in the database's log"),
}


def everything_forgotten(language: Language, counts: Mapping[str, int | None]) -> str:
    """Say what `/forget_everything` has deleted; a count of None means that the deletion failed."""
    done = [f"{count} {_of(language, name)}" for name, count in counts.items() if count]
    failed = [_of(language, name) for name, count in counts.items() if count is None]
    text = gettext(language, "🗑 Everything is forgotten")
    text = f"{text}: {', '.join(done)}." if done else f"{text}."
    if failed:
        left = gettext(language, "Not deleted")
        again = gettext(language, "Try again.")
        text = (
            f"❌ {left}: {', '.join(failed)}. {again}\n{text}"
            if done
            else f"❌ {left}: {', '.join(failed)}. {again}"
        )
    return f"{text}\n{still_kept(language)}"


def _of(language: Language, name: str) -> str:
    return translate(language, _DELETED.get(name, name))


def still_kept(language: Language) -> str:
    """Say which data `/forget_everything` does not delete, and how to delete it."""
    return gettext(
        language,
        "Still there: files; in the audit log, the commands and the values that tools were called "
        "with (logs/audit.jsonl*), until it is deleted; and backups and copies from before upgrades "
        "(*.before-*). To delete the log: rm logs/audit.jsonl* in Rumi's home, while Rumi is stopped.",
    )
