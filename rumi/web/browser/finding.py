"""Finds the browser's program."""

import os
import shutil
from pathlib import Path
from typing import Final

from rumi.web.browser.messages import BrowserError

_PROGRAMS: Final = (
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/usr/lib/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "/opt/chromium.org/chromium/chromium",
)
"""The programs themselves. What PATH has is often a script around them, which needs files of /etc."""

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser(program: str = "") -> Path:
    """Return the absolute path of the browser's program: the configured one, or the first that is installed.

    Raises:
        BrowserError: There is none.
    """
    if program:
        found = shutil.which(os.path.expanduser(program))
        if found is None:
            raise BrowserError(
                "The browser {program} is not there.", "Correct browser.program.", program=program
            )
        return Path(found).resolve()
    for path in _PROGRAMS:
        if os.access(path, os.X_OK):
            return Path(path).resolve()
    for name in _NAMES:
        found = shutil.which(name)
        # Snap's browsers cannot be started in another sandbox.
        if found is not None and not Path(found).resolve().is_relative_to("/usr/bin/snap"):
            return Path(found).resolve()
    raise BrowserError(
        "No browser is installed.",
        "Install Chromium (Debian and Ubuntu: apt install chromium; Fedora: dnf install chromium), or set "
        "browser.enabled = false.",
    )
