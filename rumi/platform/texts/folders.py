"""Texts for people about the folder that a chat works on, and about its changes."""

import os
from collections.abc import Sequence
from pathlib import Path

from rumi.platform.openat import shown
from rumi.texts import Language, gettext, ngettext

MOST_NAMED = 20
"""Maximum number of files that a question or a reply names."""

NAME_CHARS = 200


def folder_name(folder: Path | str) -> str:
    """Return a folder's path for people: safe to print, with `~` for this user's home folder."""
    path, home = str(folder), os.path.expanduser("~").rstrip("/")
    if home and path.startswith(f"{home}/"):
        path = f"~{path.removeprefix(home)}"
    return shown(path)


def file_name(path: str) -> str:
    """Return a file's path for people: safe to print, and not too long."""
    name = shown(path)
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"


def no_folder(language: Language) -> str:
    """Say that the chat works on no folder, and how to work on one."""
    return gettext(
        language,
        "This chat has files of its own, so there are no changes to a folder; to work on a folder, go "
        "there and start: rumi --here",
    )


def unchanged(language: Language, folder: str) -> str:
    """Say that no changes wait."""
    return gettext(language, "No changes wait: the files are as in {folder}.", folder=folder)


def changes_wait(language: Language, count: int, folder: str, added: int, removed: int) -> str:
    """Say how many changes wait for `/apply`, and how many lines they add and remove."""
    return ngettext(
        language,
        "{count} change to {folder} waits for /apply (+{added} −{removed} lines):",
        "{count} changes to {folder} wait for /apply (+{added} −{removed} lines):",
        count,
        folder=folder,
        added=added,
        removed=removed,
    )


def cut_diff(language: Language, lines: int, chat: str) -> str:
    """Say how many lines of a diff are left out, and how to see them."""
    return ngettext(
        language,
        "{count} more line. `/diff FILE` shows one file, `rumi chats diff {chat}` all.",
        "{count} more lines. `/diff FILE` shows one file, `rumi chats diff {chat}` all.",
        lines,
        chat=chat,
    )


def more_files(language: Language, count: int) -> str:
    """Say how many files a list leaves out."""
    return ngettext(language, "… and {count} more file", "… and {count} more files", count)


def conflicts(language: Language, paths: Sequence[str], folder: str) -> str:
    """Name the files that were changed in the folder as well, and say what to do about them."""
    return ngettext(
        language,
        "⚠️ This file was changed in {folder} as well, so it is not applied: {files}. `/discard FILE` keeps "
        "your version. For mine, undo your change there, then `/apply FILE`.",
        "⚠️ These files were changed in {folder} as well, so they are not applied: {files}. `/discard FILE` "
        "keeps your version. For mine, undo your change there, then `/apply FILE`.",
        len(paths),
        folder=folder,
        files=_names(paths),
    )


def ignored(language: Language, count: int) -> str:
    """Say how many changed files are not shown, because git ignores them."""
    return ngettext(
        language,
        "{count} changed file that git ignores is not among them; /diff FILE shows it.",
        "{count} changed files that git ignores are not among them; /diff FILE shows one.",
        count,
    )


def left_out(language: Language, path: str, reason: str) -> str:
    """Say that a path of a folder is left out of a copy or of the changes, and why."""
    why = {
        "special": gettext(language, "it is not a file, a folder or a link"),
        "git": gettext(language, "it belongs to git"),
        "deep": gettext(language, "it lies too deep"),
        "unreadable": gettext(language, "it cannot be read"),
        "link": gettext(language, "it is a link that leads out"),
        "mount": gettext(language, "another disk is mounted there"),
        "large": gettext(language, "with it, the changes are larger than [sandbox] workspace_mb"),
    }.get(reason, shown(reason))
    label = gettext(language, "left out")
    return f"⚠️ {label}: {shown(path)} ({why})"


def nothing_applied(language: Language, why: str) -> str:
    """Say that nothing was applied, and why."""
    return gettext(language, "❌ Nothing was applied. {why}", why=why)


def apply_others(language: Language, paths: Sequence[str]) -> str:
    """Say how to apply the changes that have no conflict."""
    return gettext(language, "The others: `/apply {files}`", files=" ".join(paths))


def apply_question(language: Language, count: int, folder: str) -> str:
    """Ask whether the changes may be applied."""
    return ngettext(
        language,
        "Apply this change to {folder}?",
        "Apply these {count} changes to {folder}?",
        count,
        folder=folder,
    )


def applied(language: Language, count: int, folder: str) -> str:
    """Say how many files changed in the folder."""
    return ngettext(
        language,
        "✅ {count} file changed in {folder}",
        "✅ {count} files changed in {folder}",
        count,
        folder=folder,
    )


def not_applied(language: Language) -> str:
    """Say that the person did not say yes."""
    return gettext(language, "Nothing was applied; the changes wait.")


def discard_question(language: Language, count: int, folder: str) -> str:
    """Ask whether the changes may be dropped."""
    return ngettext(
        language,
        "Drop this change? It is lost for good; {folder} stays as it is.",
        "Drop these {count} changes? They are lost for good; {folder} stays as it is.",
        count,
        folder=folder,
    )


def discarded(language: Language, count: int, folder: str) -> str:
    """Say how many changes were dropped."""
    return ngettext(
        language,
        "🗑 Dropped {count} change to {folder}.",
        "🗑 Dropped {count} changes to {folder}.",
        count,
        folder=folder,
    )


def not_discarded(language: Language) -> str:
    """Say that the person did not say yes."""
    return gettext(language, "Nothing was dropped.")


def nothing_discarded(language: Language, why: str) -> str:
    """Say that nothing was dropped, and why."""
    return gettext(language, "❌ Nothing was dropped. {why}", why=why)


def busy(language: Language, command: str) -> str:
    """Say that the running turn must end first."""
    return gettext(
        language, "⏳ I am still working. Wait for the end, or send /stop; then {command}.", command=command
    )


def interrupted(language: Language, command: str) -> str:
    """Say that a restart came while a command worked on the folder."""
    return gettext(
        language, "⚠️ I was restarted during {command}. /diff shows what still waits.", command=command
    )


def changed_files(language: Language, count: int, folder: str) -> str:
    """Say, below an answer, that changes to the folder wait."""
    return ngettext(
        language,
        "{count} file changed: /diff shows it, /apply brings it into {folder}",
        "{count} files changed: /diff shows them, /apply brings them into {folder}",
        count,
        folder=folder,
    )


def changed_from_outside(language: Language, count: int, folder: str) -> str:
    """Say why changes wait although the settings apply them: content from outside may have chosen them."""
    return ngettext(
        language,
        "{count} file changed. This chat has read content from outside, so it is not applied without you: "
        "/diff shows it, /apply brings it into {folder}",
        "{count} files changed. This chat has read content from outside, so they are not applied without "
        "you: /diff shows them, /apply brings them into {folder}",
        count,
        folder=folder,
    )


def applied_by_itself(language: Language, paths: Sequence[str], folder: str) -> str:
    """Say, below an answer, that changes were applied without a question, as the settings want it."""
    return ngettext(
        language,
        "{count} file changed in {folder}: {files}",
        "{count} files changed in {folder}: {files}",
        len(paths),
        folder=folder,
        files=_names(paths),
    )


def status_line(language: Language, folder: str) -> str:
    """Say which folder a chat works on."""
    return gettext(language, "Files: {folder}. Changes wait for /apply; /diff shows them.", folder=folder)


def own_files_line(language: Language, folder: str) -> str:
    """Say where the files of a chat are that works on no folder."""
    return gettext(language, "Files: {folder}", folder=folder)


def reset_question(language: Language, count: int, folder: str) -> str:
    """Ask whether a reset may drop the changes to the folder as well."""
    return ngettext(
        language,
        "Drop this chat's {count} change to {folder} as well, besides container and history? "
        "The folder stays as it is.",
        "Drop this chat's {count} changes to {folder} as well, besides container and history? "
        "The folder stays as it is.",
        count,
        folder=folder,
    )


def works_here(language: Language, folder: str) -> str:
    """Say, when a chat begins, which folder it works on."""
    return gettext(
        language,
        "Working on {folder}: nothing in it changes until you /apply.",
        folder=folder,
    )


def works_at_once(language: Language, folder: str) -> str:
    """Say, when a chat begins, which folder it works on if changes are applied without a question."""
    return gettext(
        language, "Working on {folder}. Changes are applied at the end of each turn.", folder=folder
    )


def below_root(language: Language, root: str) -> str:
    """Say that the git work tree begins above the folder."""
    return gettext(
        language, "It is a part of the git work tree {root}; I see only the folder you stand in.", root=root
    )


def works_apart(language: Language, folder: str) -> str:
    """Say, when a chat begins, that it has files of its own."""
    return gettext(
        language, "Files: {folder}. To work on the folder you stand in: rumi --here", folder=folder
    )


def _names(paths: Sequence[str]) -> str:
    names = [file_name(path) for path in paths[:MOST_NAMED]]
    if len(paths) > MOST_NAMED:
        names.append("…")
    return ", ".join(names)
