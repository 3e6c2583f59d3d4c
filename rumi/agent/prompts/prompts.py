"""The texts of prompts: one file each in `prompts/files/`, which files in $RUMI_HOME may replace."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from runner.programs import CORE, OFFICE, WORK

FOLDER: Final = Path(__file__).parent / "files"
OF_NOTE: Final = frozenset(("python3", "pip", "git", "jq", "rg", "sqlite3", "make", "node", "perl", "curl"))
"""Programs of `WORK` that a prompt lists; a model expects the others on any Linux machine."""

_CHANNEL: Final = re.compile(r'<channel name="([^"\n]*)">')


@cache
def words_in(folder: Path) -> Mapping[str, str]:
    """Return the text of each file in a folder of prompts, by file name without `.md`."""
    return {file.stem: file.read_text().strip() for file in sorted(folder.glob("*.md"))}


def built_in() -> Mapping[str, str]:
    """Return the built-in texts of chat prompts."""
    return words_in(FOLDER)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts of prompts by name: `identity`, `sandbox`, `office`, `intent`, and formats of channels.

    The mapping of texts also contains the texts for research and bots, under names that no channel has.
    """

    words: Mapping[str, str]

    def instructions(self, programs: Collection[str], command_timeout_s: float) -> str:
        """Return the beginning of every prompt: the assistant's identity, and the description of its sandbox.

        The text depends only on the sandbox's programs, not on the chat, so that all chats share the model
        server's prompt cache.
        """
        return "\n\n".join(filter(None, (self.words["identity"], self.sandbox(programs, command_timeout_s))))

    def sandbox(self, programs: Collection[str], command_timeout_s: float) -> str:
        """Return the description of the sandbox: its time limit, its programs, and programs that it lacks."""
        values = {
            "seconds": f"{command_timeout_s:g}",
            "programs": _listed(name for name in programs if name not in (*CORE, *WORK) or name in OF_NOTE),
            "missing": _listed(name for name in WORK if name not in programs),
        }
        sandbox = self.words["sandbox"]
        for name, value in values.items():
            sandbox = sandbox.replace(f"{{{name}}}", value)
        office = self.words.get("office", "") if {*OFFICE} <= {*programs} else ""
        return f"{sandbox} {office}".rstrip()

    def form(self, channel: str) -> str:
        """Return the block with the answer format of a channel; empty if the channel has none."""
        words = (
            self.words.get(channel) if channel not in ("identity", "sandbox", "office", "intent") else None
        )
        return f'<channel name="{channel}">\n{words}\n</channel>' if words else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def noted_channel(notes: Iterable[str]) -> str:
    """Return the channel whose answer format the notes stated last; empty if they state none."""
    found = [name for note in notes for name in _CHANNEL.findall(note)]
    return found[-1] if found else ""
