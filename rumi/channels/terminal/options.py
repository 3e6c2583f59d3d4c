"""Options of a terminal chat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from rumi.store.journal.records import Attachment
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits of the files of a message: characters of text for the model, and the size of a stored file."""

    chars: int = 50_000
    megabytes: int = 50


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model that the person may choose: its name or alias, and what it is."""

    name: str
    detail: str = ""


DEFAULT_LIMITS: Final = FileLimits()


class KeyAdopter(Protocol):
    """Takes an API key that a person has pasted into the chat."""

    async def adopt(self, scheme: str, key: str) -> str:
        """Try the key of a provider, store it, and use its model; return a notice about the result.

        On cancellation, nothing is stored.

        Raises:
            RumiError: the key does not work or cannot be stored; nothing has changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class TerminalOptions:
    """Options of a terminal chat.

    `prompt` is the text of a single turn, and `attachments` are its attachments; without a prompt the
    terminal runs a whole chat. `extract` prints only the first code block of the answer. `json` prints events
    as JSON lines. `yes` answers every question with yes.
    `limits` are those of an `@file` in a typed text. `files` are attached to the first message that a person
    types. `workspace` is the folder of the chat's files. `history_path` is the file of the input history, in
    an existing folder. `engine` is the name of the sandbox engine, only for display. `editing` is `keys`
    of `[terminal]` in the configuration; `theme`, `notify` and `notify_s` are named as there.
    `models` are the models to choose from. `key_adopter` takes API keys that a person pastes; None if pasted
    keys are only refused. `changed` returns the names of the files that the chat has changed in its folder,
    for completion: it may take long, and is None if the chat works on no folder.
    """

    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()
    json: bool = False
    extract: bool = False
    language: Language = "en"
    yes: bool = False
    limits: FileLimits = DEFAULT_LIMITS
    files: tuple[str, ...] = ()
    workspace: str = ""
    history_path: Path | None = None
    engine: str = ""
    editing: Literal["emacs", "vi"] = "emacs"
    theme: Literal["auto", "light", "dark"] = "auto"
    notify: Literal["auto", "bell", "desktop", "off"] = "auto"
    notify_s: float = 10
    models: tuple[ModelName, ...] = ()
    key_adopter: KeyAdopter | None = None
    changed: Callable[[], Sequence[str]] | None = None
