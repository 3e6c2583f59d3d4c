"""The words that prompts are made of: one file each in `prompts/`, which a home may replace."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from runner.programs import CORE, WORK

FOLDER: Final = Path(__file__).parent / "files"

_CHANNEL: Final = re.compile(r'<channel name="([^"\n]*)">')


@cache
def words_in(folder: Path) -> Mapping[str, str]:
    """Return the words of each file in a folder of prompts by its name without `.md`."""
    return {file.stem: file.read_text().strip() for file in sorted(folder.glob("*.md"))}


def built_in() -> Mapping[str, str]:
    """Return the words of the prompts of chats."""
    return words_in(FOLDER)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The words by their names: `identity`, `sandbox`, `intent`, and for channels the form of answers.

    Those of research and bots stand beside them, by names that no channel has.
    """

    words: Mapping[str, str]

    def instructions(self, programs: Collection[str], command_timeout_s: float) -> str:
        """Return what every prompt begins with: who the assistant is, and what its sandbox has and lacks.

        It is the same text for the same programs, whatever the chat, because servers charge less for a
        beginning that they have seen before.
        """
        return "\n\n".join(filter(None, (self.words["identity"], self.sandbox(programs, command_timeout_s))))

    def sandbox(self, programs: Collection[str], command_timeout_s: float) -> str:
        """Return what the sandbox of commands has and lacks."""
        values = {
            "seconds": f"{command_timeout_s:g}",
            "programs": _listed(name for name in programs if name not in CORE),
            "missing": _listed(name for name in WORK if name not in programs),
        }
        sandbox = self.words["sandbox"]
        for name, value in values.items():
            sandbox = sandbox.replace(f"{{{name}}}", value)
        return sandbox

    def form(self, channel: str) -> str:
        """Return the block about answers in a channel; empty for one without a form of its own."""
        words = self.words.get(channel) if channel not in ("identity", "sandbox", "intent") else None
        return f'<channel name="{channel}">\n{words}\n</channel>' if words else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def noted_channel(notes: Iterable[str]) -> str:
    """Return the channel whose form prompts with these notes show last; empty for none."""
    found = [name for note in notes for name in _CHANNEL.findall(note)]
    return found[-1] if found else ""
