"""Finds the homes of other assistants. It imports little, because `rumi setup` uses it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rumi.app.moving.records import Kind

USUAL: Final[Mapping[Kind, tuple[str, ...]]] = {
    "openclaw": (".openclaw", ".clawdbot", ".moltbot"),
    "nanobot": (".nanobot",),
    "hermes": (".hermes",),
    "openbot": (".openbot",),
    "chatgpt": (),
}
"""Where each program usually has its home, in the person's home; the first that exists."""

SIGNS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "openclaw": ("openclaw.json", "clawdbot.json", "moltbot.json", "workspace", "agents"),
    "nanobot": ("config.json", "workspace", "sessions"),
    "hermes": ("config.yaml", "state.db", "memories", "SOUL.md"),
    "openbot": ("bots", "skills"),
}
"""Names of which a home has at least one."""


_OWN: Final[Mapping[Kind, tuple[str, ...]]] = {
    "openclaw": ("openclaw.json", "clawdbot.json", "moltbot.json", "agents"),
    "nanobot": ("config.json",),
    "hermes": ("config.yaml", "state.db"),
    "openbot": ("bots",),
}
"""Names that no other of the programs has in its home."""


def found_homes(home: Path) -> list[tuple[Kind, Path]]:
    """Return the homes of other assistants that a person has. Blocking, and brief."""
    found: list[tuple[Kind, Path]] = []
    for kind, names in USUAL.items():
        folders = (home / name for name in names)
        found += [(kind, folder) for folder in folders if has_sign(kind, folder)][:1]
    return found


def has_sign(kind: Kind, folder: Path) -> bool:
    """Return True if a folder looks like a home of the program."""
    return _has_any(folder, SIGNS.get(kind, ()))


def program_of(folder: Path, kind: Kind) -> Kind:
    """Return whose home a folder is: that of `kind`, unless only another program has such files."""
    if _has_any(folder, _OWN.get(kind, ())):
        return kind
    return next((other for other, names in _OWN.items() if _has_any(folder, names)), kind)


def _has_any(folder: Path, names: tuple[str, ...]) -> bool:
    return any(os.path.lexists(folder / name) for name in names)
