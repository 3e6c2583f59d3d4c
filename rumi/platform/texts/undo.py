"""Texts for people about undoing a turn."""

from collections.abc import Sequence

from rumi.platform.markdown import plain
from rumi.texts import Language, gettext

MOST_NAMED = 10
"""Maximum number of items of lists that a reply names."""

NAMED_CHARS = 60


def undone(
    language: Language,
    said: str,
    *,
    files: str,
    facts: Sequence[str],
    facts_kept: Sequence[str],
    schedules: Sequence[int],
    schedules_kept: Sequence[int],
    items: Sequence[str],
    items_kept: Sequence[str],
    approvals: Sequence[int] = (),
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
        back.append(gettext(language, "the files"))
    elif files != "untouched":
        why = _why_not(language, files)
        left.append(gettext(language, "the files stay as they are: {why}", why=why))
    if facts:
        back.append(gettext(language, "the facts: ") + ", ".join(facts))
    if facts_kept:
        what = ", ".join(facts_kept)
        left.append(gettext(language, "facts changed since: {what}", what=what))
    if schedules:
        back.append(gettext(language, "the schedules: ") + _numbers(schedules))
    if schedules_kept:
        what = _numbers(schedules_kept)
        left.append(gettext(language, "schedules changed since: {what}", what=what))
    if items:
        back.append(gettext(language, "the items of lists: ") + _quoted(items))
    if items_kept:
        left.append(gettext(language, "items of lists changed since: {what}", what=_quoted(items_kept)))
    if approvals:
        what = _numbers(approvals)
        left.append(
            gettext(language, "what schedules were allowed to do without asking has ended: {what}", what=what)
        )
    if parked:
        back.append(gettext(language, "the questions, withdrawn: ") + _numbers(parked))
    if not sent:
        back.append(gettext(language, "the reply, which was not sent yet"))
    if tasks:
        what = _numbers(tasks)
        left.append(gettext(language, "tasks begun, stopped now: {what}", what=what))
    left.extend(f"`{quoted}`" for quoted in (call.replace("`", "'") for call in calls))
    if more:
        left.append(gettext(language, "and {more} more calls", more=more))
    lines = [gettext(language, "↩️ Taken back: “{said}”", said=said)]
    if back:
        lines += ["", gettext(language, "As before:"), *(f"- {path}" for path in back)]
    if left:
        lines += [
            "",
            gettext(language, "Cannot be undone:"),
            *(f"- {path}" for path in left),
        ]
    return "\n".join(lines)


def _why_not(language: Language, cause: str) -> str:
    match cause:
        case "bytes":
            return gettext(language, "they take more than `[undo] max_mb`")
        case "files":
            return gettext(language, "there are more than `[undo] max_files`")
        case "unreadable":
            return gettext(language, "one of them could not be read")
        case "disk":
            return gettext(language, "there was no room on the disk")
        case "applied":
            return gettext(language, "changes since then were applied to your folder, and stay there")
        case _:
            return gettext(language, "no copy of them is left")


def _quoted(texts: Sequence[str]) -> str:
    more = " …" if len(texts) > MOST_NAMED else ""
    return ", ".join(plain(text, NAMED_CHARS) for text in texts[:MOST_NAMED]) + more


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def undo_is_busy(language: Language) -> str:
    """Say that the running turn must end first."""
    return gettext(language, "⏳ I am still working. Send /stop first, then /undo.")
