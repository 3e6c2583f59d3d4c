"""Where the control socket is. A Unix socket's path has little room, and some homes are deep."""

import os
import tempfile
from pathlib import Path

LONGEST = 100
"""Bytes of a path that every system takes (Linux: 107 and a closing NUL)."""


def socket_path(run: Path, installation: str) -> Path:
    """Return `run/control.sock` in the home, or, if that is too long, a name in the user's runtime folder."""
    path = run / "control.sock"
    if len(os.fsencode(path)) <= LONGEST:
        return path
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(runtime):
        runtime = os.path.join(tempfile.gettempdir(), f"rumi-{os.getuid()}")
    return Path(runtime) / f"rumi-{installation}.sock"
