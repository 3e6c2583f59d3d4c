"""The bound of a server's own folder: a server that fills the disk is ended, and does not start again so."""

import time
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.platform.threads import Offload
from rumi.sandbox.workspace import measure

MOST_FILES: Final = 100_000
LOOK_S: Final = 1.0
"""The time between two counts. A count that takes long is made more rarely: a tenth of the time at most."""


async def check_folder(settings: ServerSettings, home: Path, offload: Offload) -> None:
    """Check what a server's folder takes on the disk; holes in files take nothing.

    Raises:
        McpError: It is more than the server may have. The message says what to do.
    """
    use = await offload(partial(measure, home, stop_after=MOST_FILES))
    if use.bytes <= settings.max_folder_bytes and use.files < MOST_FILES:
        return
    megabytes = settings.max_folder_bytes // 1_000_000
    raise McpError(
        f"The server's folder has more than {megabytes} MB or {MOST_FILES} files, so it was ended.",
        f"Delete files in {home}, or set a larger mcp.{settings.name}.max_folder_mb.",
    )


async def watch_folder(settings: ServerSettings, home: Path, offload: Offload) -> None:
    """Check the folder while the server runs, until it has too much. Raises McpError as `check_folder`."""
    while True:
        began = time.monotonic()
        await check_folder(settings, home, offload)
        await trio.sleep(max(LOOK_S, 10 * (time.monotonic() - began)))
