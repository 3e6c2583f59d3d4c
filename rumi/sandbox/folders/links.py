"""The link from a chat to a folder, and the folders that are refused."""

import json
import os
import pwd
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError
from rumi.platform.atomic_write import atomic_write
from rumi.platform.openat import FOLDER, opened
from rumi.texts import os_error

How: TypeAlias = Literal["overlay", "copy"]
"""How commands see a folder: through an overlay mount, or as a copy."""

LINK: Final = "link.json"
SYSTEM: Final = frozenset(
    {
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "root",
        "run",
        "sbin",
        "sys",
        "usr",
    }
)
"""Folders of `/` that no chat works on, with everything in them; of `var`, only the top is refused."""
TOPS: Final = ("/", "/home", "/var", "/var/lib", "/opt", "/srv", "/mnt", "/media", "/tmp", "/var/tmp")


class FolderFault(RumiError):
    """A folder cannot be worked on, or its changes cannot be shown, applied or discarded."""

    code = "folder"


@dataclass(frozen=True, slots=True)
class FolderLink:
    """The folder of a chat, and how commands see it."""

    folder: str
    how: How

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    def write(self, state: Path) -> None:
        """Store the link in the chat's folder of state. Raise OSError."""
        atomic_write(state / LINK, json.dumps(asdict(self)).encode())


def read_link(state: Path) -> FolderLink | None:
    """Return the link that a chat's folder of state has; None if there is none."""
    try:
        return FolderLink(**json.loads((state / LINK).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def checked(folder: Path, home: Path) -> Path:
    """Return the real path of a folder that a chat may work on. `home` is RUMI_HOME. Blocks briefly.

    Raises:
        FolderFault: The folder is refused; the error says why.
    """
    real = Path(os.path.realpath(folder))
    try:
        status = os.lstat(real)
    except OSError as error:
        raise FolderFault(
            "{folder} cannot be read: {reason}.",
            "Start Rumi in a folder of a project.",
            folder=folder,
            reason=os_error(error),
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise FolderFault("{folder} is not a folder.", "Name the folder of a project.", folder=folder)
    homes = {Path(os.path.realpath(entry.pw_dir)) for entry in pwd.getpwall() if len(entry.pw_dir) > 1}
    homes.add(Path(os.path.realpath(os.path.expanduser("~"))))
    ours = Path(os.path.realpath(home))
    if real in homes:
        raise FolderFault(
            "{folder} is a person's home, not the folder of a project.",
            "Start Rumi in a folder below it.",
            folder=folder,
        )
    if ours.is_relative_to(real) or real.is_relative_to(ours):
        raise FolderFault("{folder} holds Rumi's own files.", "Name the folder of a project.", folder=folder)
    inside_home = any(real.is_relative_to(home) for home in homes if len(home.parts) > 1)
    if str(real) in TOPS or (len(real.parts) > 1 and real.parts[1] in SYSTEM and not inside_home):
        raise FolderFault("{folder} belongs to the system.", "Name the folder of a project.", folder=folder)
    try:
        with opened(os.open(real, FOLDER)) as top:
            os.listdir(top)
    except OSError as error:
        raise FolderFault(
            "{folder} cannot be read: {reason}.", "Check its owner.", folder=folder, reason=os_error(error)
        ) from error
    if not os.access(real, os.W_OK | os.X_OK):
        raise FolderFault(
            "You may not write to {folder}, so no change could be applied.",
            "Check its owner and its mode.",
            folder=folder,
        )
    return real
