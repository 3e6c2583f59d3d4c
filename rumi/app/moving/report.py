"""What an import has done, or would do: figures, examples, and what is not taken over."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rumi.app.moving.records import Kind, NotImported, Part, hidden
from rumi.texts import Language, translate

EXAMPLES: Final = 3


@dataclass(slots=True)
class PartFigures:
    """How much of a part is new and how much is here already, with examples. `within` counts turns."""

    new: int = 0
    here: int = 0
    within: int = 0
    examples: list[str] = field(default_factory=list)

    def count(self, example: str, new: bool) -> None:
        """Count one thing; the first new ones are examples, without keys."""
        if new:
            self.new += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(hidden(example))
        else:
            self.here += 1


@dataclass(slots=True)
class ImportReport:
    """The result of an import of one home. If `dry`, nothing was stored.

    `bots` are those of openbot, `chats` the new chats, `kept` the files with instructions that were kept
    unused, and `file` the stored report.
    """

    kind: Kind
    home: str
    dry: bool
    at: float
    parts: dict[Part, PartFigures] = field(default_factory=dict)
    bots: PartFigures = field(default_factory=PartFigures)
    chats: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    left_out: list[NotImported] = field(default_factory=list)
    file: Path | None = None

    def is_empty(self, *, people: bool) -> bool:
        """Return True if there is nothing new. Without `people`, people do not count."""
        new = (one.new for part, one in self.parts.items() if people or part != "people")
        return not any((*new, self.bots.new))

    def as_json(self, language: Language) -> dict[str, object]:
        """Return the report for `--json` and for its file."""
        return {
            "program": self.kind,
            "path": self.home,
            "dry_run": self.dry,
            "at": self.at,
            "parts": {
                name: {"new": one.new, "here": one.here, "turns": one.within, "examples": one.examples}
                for name, one in (
                    *self.parts.items(),
                    *((("bots", self.bots),) if self.kind == "openbot" else ()),
                )
            },
            "chats": self.chats,
            "people": self.people,
            "kept": self.kept,
            "left_out": [
                {"part": one.part, "what": one.what, "why": translate(language, one.why), "count": one.count}
                for one in self.left_out
            ],
            "report": str(self.file) if self.file else None,
        }
