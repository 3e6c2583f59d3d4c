"""Formatting of log entries for people: one entry on one line."""

from rich.cells import cell_len, set_cell_size

from rumi.platform.logs.entries import Entry, time_of
from rumi.platform.printable import flat
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import storage as storage_texts
from rumi.texts import Language, gettext

CHAT_CELLS = 14

COLOURS = {
    "turn_started": "cyan",
    "command": "white",
    "tool": "white",
    "refused": "yellow",
    "confirm": "yellow",
    "confirmed": "yellow",
    "turn_finished": "green",
    "replied": "bright_black",
    "restarted": "magenta",
    "crashed": "red",
    "failed": "red",
    "waiting": "yellow",
    "queued": "yellow",
}

MARKS = {
    "turn_started": "▶",
    "turn_finished": "■",
    "confirm": "?",
    "restarted": "↻",
    "waiting": "⏳",
    "queued": "⏳",
}


def line_of(entry: Entry, language: Language, *, width: int | None = None) -> str:
    """Format a log entry as one line with time, chat and content, at most `width` terminal cells wide."""
    return " ".join(parts_of(entry, language, width=width)).rstrip()


def parts_of(entry: Entry, language: Language, *, width: int | None = None) -> tuple[str, str, str]:
    """Return the three parts of a log entry's line: the time, the chat and the content."""
    words = flat(f"{_mark(entry)} {_words(entry, language)}")
    when = time_of(entry).astimezone().strftime("%m-%d %H:%M:%S")
    chat = flat(entry.get("chat_id") or "–")
    if width is None:
        return when, chat.ljust(CHAT_CELLS), words
    cells_left = max(10, width - len(when) - CHAT_CELLS - 2)
    return when, _cut(chat, CHAT_CELLS), _cut(words, cells_left, pad=False)


def colour_of(entry: Entry) -> str:
    """Return the name of the colour in which the entry's content is printed."""
    return "red" if troubled(entry) else COLOURS.get(str(entry.get("event")), "white")


def troubled(entry: Entry) -> bool:
    """Return True if the entry reports a failed tool, an unfinished turn, or a crash."""
    event = entry.get("event")
    if event in ("command", "tool"):
        return entry.get("ok") is False
    if event == "refused":
        return True
    if event == "turn_finished":
        return entry.get("stopped_reason") not in ("complete", "stopped")
    return event in ("crashed", "failed")


def _mark(entry: Entry) -> str:
    if troubled(entry):
        return "✗"
    return MARKS.get(str(entry.get("event")), "·")


def _words(entry: Entry, language: Language) -> str:
    match entry.get("event"):
        case "turn_started":
            return gettext(language, "turn {turn} begins", turn=str(entry.get("turn") or ""))
        case "command":
            return _tool(f"$ {entry.get('command') or ''}", entry)
        case "refused":
            what = f"{entry.get('tool') or ''} {entry.get('command') or ''}"
            return f"{gettext(language, 'not done')}: {what}"
        case "tool":
            return _tool(f"{entry.get('tool') or ''} {entry.get('command') or ''}", entry)
        case "turn_finished":
            tokens = (entry.get("prompt_tokens") or 0) + (entry.get("completion_tokens") or 0)
            turn, reason = str(entry.get("turn") or ""), str(entry.get("stopped_reason") or "")
            return operation_texts.log_turn_finished(
                language, turn, reason, tokens, entry.get("cached_tokens") or 0
            )
        case "model_call":
            tokens = (entry.get("prompt_tokens") or 0) + (entry.get("completion_tokens") or 0)
            usd = (entry.get("nano_usd") or 0) / 1e9
            return operation_texts.log_model_call(language, str(entry.get("model") or ""), tokens, usd)
        case "confirm":
            return gettext(language, "asks: {text}", text=str(entry.get("text") or ""))
        case "confirmed":
            return operation_texts.log_confirmed(language, str(entry.get("verdict") or ""))
        case "replied":
            return gettext(language, "replies")
        case "waiting":
            return gettext(
                language,
                "waits {seconds} s: {why}",
                seconds=f"{float(entry.get('seconds') or 0):.0f}",
                why=str(entry.get("why") or ""),
            )
        case "queued":
            return gettext(
                language, "a message waits, place {position}", position=int(entry.get("place") or 0)
            )
        case "crashed" | "restarted" | "failed" as event:
            return operation_texts.log_actor(
                language, event, str(entry.get("actor") or ""), str(entry.get("error") or "")
            )
        case "storage":
            return storage_texts.log_storage(language, entry.get("trouble"))
        case event:
            return str(event)


def _tool(what: str, entry: Entry) -> str:
    """Return the line for a tool call, with the call's outcome before a long command.

    This order keeps the outcome visible if the end of the line is cut.
    """
    parts = []
    if entry.get("exit_code") is not None:
        parts.append(f"exit {entry['exit_code']}")
    if entry.get("duration_ms") is not None:
        parts.append(duration(entry["duration_ms"] / 1000))
    return f"{what}  [{' · '.join(parts)}]" if parts and len(what) < 40 else " · ".join([*parts, what])


def duration(seconds: float) -> str:
    """Return a duration such as `12 ms`, `3.2 s`, `2 min 05 s` or `3 h 20 min`."""
    if round(seconds) < 3600:
        return operation_texts.short_duration(seconds)
    minutes = round(seconds) // 60
    return f"{minutes // 60} h {minutes % 60:02} min"


def _cut(text: str, cells: int, *, pad: bool = True) -> str:
    if cell_len(text) > cells:
        return set_cell_size(text, cells - 1).rstrip() + "…"
    return set_cell_size(text, cells) if pad else text
