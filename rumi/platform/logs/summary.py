"""Summary of the log: one row for each chat and day."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from rumi.platform.logs.entries import Entry, time_of
from rumi.platform.logs.lines import duration, troubled
from rumi.platform.printable import flat
from rumi.platform.texts import operating as operation_texts
from rumi.texts import Language


@dataclass(slots=True)
class Day:
    """The figures of a chat on one day, in local time.

    `turns_s` and `tools_s` are total durations, `longest_s` is the duration of the longest turn, in seconds.
    `failures` counts failed tools, turns that ended without an answer, and crashes of actors that are not
    chats; the crash of a chat is already counted, because it ends the chat's turn without an answer.
    """

    day: str
    chat: str
    turns: int = 0
    tools: int = 0
    failures: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    turns_s: float = 0.0
    tools_s: float = 0.0
    longest_s: float = 0.0

    def fields(self) -> dict[str, object]:
        """Return the day as a JSON object."""
        return {
            "day": self.day,
            "chat": self.chat,
            "turns": self.turns,
            "tools": self.tools,
            "failures": self.failures,
            "tokens": self.tokens,
            "cached_tokens": self.cached_tokens,
            "turns_s": round(self.turns_s, 3),
            "tools_s": round(self.tools_s, 3),
            "longest_s": round(self.longest_s, 3),
        }


def summed_up(entries: Iterable[Entry]) -> list[Day]:
    """Sum up log entries by day and chat, oldest day first. A turn counts on the day on which it ended."""
    days: dict[tuple[str, str], Day] = {}
    begun: dict[tuple[str, str], datetime] = {}
    for entry in entries:
        chat, turn, when = str(entry.get("chat_id") or ""), str(entry.get("turn") or ""), time_of(entry)
        key = (when.astimezone().date().isoformat(), chat)
        match entry.get("event"):
            case "turn_started":
                begun[chat, turn] = when
            case "turn_finished":
                day = days.setdefault(key, Day(*key))
                day.turns += 1
                day.failures += troubled(entry)
                day.tokens += (entry.get("prompt_tokens") or 0) + (entry.get("completion_tokens") or 0)
                day.cached_tokens += entry.get("cached_tokens") or 0
                if (since := begun.pop((chat, turn), None)) is not None:
                    took_s = (when - since).total_seconds()
                    day.turns_s += took_s
                    day.longest_s = max(day.longest_s, took_s)
            case "command" | "tool" | "refused":
                day = days.setdefault(key, Day(*key))
                day.tools += 1
                day.failures += troubled(entry)
                day.tools_s += (entry.get("duration_ms") or 0) / 1000
            case "crashed" if not chat:
                days.setdefault(key, Day(*key)).failures += 1
            case _:
                pass
    return [days[key] for key in sorted(days)]


def table(days: Iterable[Day], language: Language, *, whole: bool = False) -> Iterator[str]:
    """Yield the days as lines of a table with a header, at most 80 columns wide.

    With `whole`, the names of chats are not cut, and lines may be longer.
    """
    heads = operation_texts.log_columns(language)
    yield _row(heads).rstrip()
    for day in days:
        cells = (str(day.turns), str(day.tools), str(day.failures), _short(day.tokens))
        times = (duration(day.turns_s), duration(day.longest_s))
        yield _row((day.day, flat(day.chat or "–")[: None if whole else 16], *cells, *times)).rstrip()


def _row(cells: Iterable[str]) -> str:
    day, chat, turns, tools, failures, tokens, time, longest = cells
    return f"{day:<10} {chat:<16} {turns:>6} {tools:>6} {failures:>6} {tokens:>7} {time:>10} {longest:>10}"


def _short(count: int) -> str:
    """Return a count such as `812`, `41k` or `2.3M`."""
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"
