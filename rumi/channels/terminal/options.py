"""What a caller chooses about the terminal."""

from dataclasses import dataclass
from pathlib import Path

from rumi.platform.texts.language import Language
from rumi.store.journal.records import Attachment


@dataclass(frozen=True, slots=True)
class TerminalOptions:
    """How to talk, and what to show about the chat.

    `prompt` is the text of a single turn, and `attachments` what it hands on; None is a whole chat.
    `json` prints events as JSON lines. `yes` answers every confirmation with yes. `handed_chars` bounds what
    `@file` in a typed text hands on. `files` go with the first message that a person types; the chat's files
    are in the folder `workspace`. `history_path` keeps what was typed; its folder exists. `engine`
    is only shown.
    """

    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()
    json: bool = False
    language: Language = "en"
    yes: bool = False
    handed_chars: int = 50_000
    files: tuple[str, ...] = ()
    workspace: str = ""
    history_path: Path | None = None
    engine: str = ""
