"""A fast path for `rumi status --json`, which scripts call often: it imports almost nothing."""

import os
import sys

from rumi.channels.attach.one_call import STATUS, ask
from rumi.platform.home_path import NoHome, path_of_home
from rumi.platform.home_permissions import dangers

TIMEOUT_S = 2.0
"""Maximum seconds for this fast path; after that, the full command asks again with a longer timeout."""


def print_status() -> bool:
    """Print the daemon's status dump. If that fails, print nothing and return False.

    After a failure, the complete `rumi status` command finds the reason and reports it.
    """
    try:
        root = path_of_home(os.environ)
    except (NoHome, OSError):
        return False
    if dangers(root):
        return False
    try:
        answer = ask(os.path.join(root, "run", "control.sock"), STATUS, TIMEOUT_S)
    except OSError:
        return False
    opening, end = b'{"ok": true, "result": ', b"}\n"
    if not (answer.startswith(opening) and answer.endswith(end)):
        return False
    try:
        sys.stdout.buffer.write(_safe(answer[len(opening) : -len(end)]) + b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        from rumi.cli.group import output_failed

        sys.exit(output_failed(error))
    return True


def _safe(dump: bytes) -> bytes:
    """Return the JSON text with control characters escaped. Printable ASCII text is returned unchanged.

    JSON itself already escapes all ASCII control characters except DEL.
    """
    if dump.isascii() and b"\x7f" not in dump:
        return dump
    from rumi.platform.printable import escaped

    return escaped(dump.decode("utf-8", "replace")).encode()
