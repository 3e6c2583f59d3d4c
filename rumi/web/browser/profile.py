"""The profiles of browsers: one folder for each owner, with the cookies and the storage of pages."""

import os
import shutil
from pathlib import Path
from typing import Final

from rumi.texts import os_error
from rumi.web.browser.messages import BrowserError

FOLDER: Final = "browser"
"""The name of the folder in $RUMI_HOME that contains a folder for each owner."""

MOST_BYTES: Final = 200 * 1024 * 1024
"""Maximum size of a profile. A larger one loses its caches; if that is not enough, all but its cookies."""

_CACHES: Final = (
    "Default/Cache",
    "Default/Code Cache",
    "Default/GPUCache",
    "Default/DawnGraphiteCache",
    "Default/DawnWebGPUCache",
    "Default/Service Worker",
    "GrShaderCache",
    "GraphiteDawnCache",
    "ShaderCache",
    "component_crx_cache",
    "extensions_crx_cache",
)
_STORAGE: Final = (
    "Default/IndexedDB",
    "Default/File System",
    "Default/Local Storage",
    "Default/WebStorage",
    "Default/blob_storage",
)


def profile_of(home: Path, owner: str) -> Path:
    """Return the folder of an owner's profile."""
    assert owner, "an owner has a name"
    assert "/" not in owner, owner
    assert not owner.startswith("."), owner
    return home / FOLDER / owner


def prepare(profile: Path) -> None:
    """Create a profile, or bound the size of the one that is there. Blocks."""
    profile.parent.mkdir(mode=0o700, exist_ok=True)
    profile.mkdir(mode=0o700, exist_ok=True)
    # Left by a browser that was killed. Nothing else uses the folder: the owner's browser is one actor.
    for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):
        (profile / name).unlink(missing_ok=True)
    for names in (_CACHES, _STORAGE):
        if size_of(profile) <= MOST_BYTES:
            return
        for name in names:
            shutil.rmtree(profile / name, ignore_errors=True)


def delete(profile: Path) -> bool:
    """Delete a profile; return False if there was none. Blocks.

    Raises:
        BrowserError: A part of it cannot be deleted.
    """
    if not profile.exists():
        return False
    try:
        shutil.rmtree(profile)
    except OSError as error:
        raise BrowserError("The browser's profile cannot be deleted: {why}.", why=os_error(error)) from error
    return True


def size_of(folder: Path) -> int:
    """Return the size of a folder's files, in bytes. Blocks; does not follow links."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total
