"""What the user sees of a turn while it runs: the words so far, and which tool works."""

from collections.abc import Mapping

from telegram import MessageEntity

from rumi import texts
from rumi.agent import Thinking, ToolFinished, ToolStarted
from rumi.chats import Happening
from rumi.models import Discarded, TextDelta, ToolCall
from rumi.telegram.formatting import Part, format_preview
from rumi.telegram.formatting.characters import blank, clean
from rumi.telegram.formatting.units import LIMIT_UNITS, units
from rumi.texts import Language

TOOL_CHARS = 60
"""How much is shown of what a tool was given."""

_TELLING = ("command", "url", "query", "path", "name", "key")
"""The arguments that say best what a call does."""


class Sketch:
    """The growing answer of one turn. The words of each model call are a piece of their own."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._words: list[str] = []
        self._tools: dict[str, str] = {}

    def take(self, what: Happening) -> None:
        """Something happened in the turn."""
        match what:
            case TextDelta(text):
                self._words.append(text)
            case Thinking() | Discarded():
                self._words.clear()
            case ToolStarted(call, arguments):
                self._tools[call.id] = tool_line(call, arguments)
            case ToolFinished(call):
                self._tools.pop(call.id, None)
            case _:
                pass

    @property
    def text(self) -> str:
        """The words of the current piece."""
        if len(self._words) > 1:
            self._words = ["".join(self._words)]
        return self._words[0] if self._words else ""

    @property
    def telling(self) -> bool:
        """Whether there is more to show than that it thinks."""
        return bool(self._tools) or not blank(self.text)

    def part(self, *, plain: bool = False) -> Part:
        """The message as it would stand in the chat now; without any formatting if `plain`."""
        line = self._line()
        if not blank(self.text):
            words = format_preview(self.text, LIMIT_UNITS - (units(line.text) + 2 if line else 0))
            line = _below(words, line) if line else words
        if line is None:
            line = Part(texts.thinking(self._language))
        return line.plain() if plain else line

    def _line(self) -> Part | None:
        """What works now: the tool that was called last."""
        if not self._tools:
            return None
        what = next(reversed(self._tools.values()))
        line = texts.tool_runs(self._language, what)
        code = MessageEntity(MessageEntity.CODE, units(line[: line.rindex(what)]), units(what))
        return Part(line, (code,))


def tool_line(call: ToolCall, arguments: Mapping[str, object]) -> str:
    """A call in a few words, on one line: `bash: sleep 600`."""
    told = next((arguments[name] for name in _TELLING if isinstance(arguments.get(name), str)), "")
    said = " ".join(clean(f"{call.name}: {told}" if told else call.name).split()) or "?"
    return said if len(said) <= TOOL_CHARS else f"{said[: TOOL_CHARS - 1]}…"


def _below(words: Part, line: Part) -> Part:
    above = f"{words.text}\n\n"
    moved = (MessageEntity(each.type, each.offset + units(above), each.length) for each in line.entities)
    return Part(above + line.text, (*words.entities, *moved))
