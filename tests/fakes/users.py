"""A part of a test as an ordinary user, who may do less than the root that runs it."""

import ctypes
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

UID = 1234
"""The ordinary user; this one where the tests run as one anyway."""


def give(folder: Path) -> None:
    """Let the ordinary user reach and own a folder of the test."""
    if os.getuid() == 0:
        os.chown(folder, UID, UID)
        for above in folder.parents:
            if above.stat().st_mode & 0o001 == 0:
                above.chmod(above.stat().st_mode | 0o011)


def as_ordinary_user(function: Callable[[], Any]) -> Any:
    """What a function returns in a process of an ordinary user; its exception's text as AssertionError."""
    heard, told = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            become_ordinary()
            answer: object = function()
        except BaseException as error:  # noqa: BLE001 - this is another process, and it ends here
            answer = AssertionError(repr(error))
        os.write(told, pickle.dumps(answer))
        os._exit(0)
    os.close(told)
    with os.fdopen(heard, "rb") as file:
        answer = pickle.loads(file.read())
    os.waitpid(pid, 0)
    if isinstance(answer, AssertionError):
        raise answer
    return answer


def become_ordinary() -> None:
    """Change this process's user, and let that user look into it."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: the change has made /proc/self root's
