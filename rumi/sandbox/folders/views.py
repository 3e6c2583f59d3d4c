"""Views: mounts that show a folder with a chat's changes above it. Each has a process that holds it."""

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.sandbox.folders import holder
from rumi.sandbox.folders.links import FolderFault
from rumi.texts import os_error

ANSWER_S: Final = 10.0
END_S: Final = 10.0
UPPER, WORK, VIEW = "upper", "work", "view"


class NoView(Exception):
    """This machine cannot show the folder through an overlay; the text says which step failed."""


@dataclass(frozen=True, slots=True)
class _View:
    process: subprocess.Popen[bytes]
    path: Path


class Views:
    """The views of this process. Blocking; calls for one chat must not overlap.

    `user` is the uid and gid of commands. With `shared`, the mounts are in the host's namespace.
    """

    def __init__(self, user: tuple[int, int], *, shared: bool) -> None:
        self._user = user
        self._shared = shared
        self._views: dict[str, _View] = {}

    def open(self, chat: str, folder: Path, state: Path) -> Path:
        """Return the path at which this process sees the chat's files; mount them if they are not yet.

        Raises:
            NoView: The mount is not possible.
        """
        if (view := self._views.get(chat)) is not None:
            if view.process.poll() is None:
                return view.path
            self.close(chat)
        for name in (UPPER, WORK, VIEW):
            (state / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(state / UPPER, *self._user)
        view = self._start(folder, state)
        self._views[chat] = view
        return view.path

    def refresh(self, chat: str) -> None:
        """Make changes in the folder visible. No command of the chat may run."""
        if (view := self._views.get(chat)) is not None:
            try:
                assert view.process.stdin is not None
                view.process.stdin.write(b"refresh\n")
                view.process.stdin.flush()
                fresh = _line(view.process) == "fresh"
            except OSError:
                fresh = False
            if not fresh:
                self.close(chat)

    def path(self, chat: str) -> Path | None:
        """Return the path of the chat's mount; None if there is none."""
        view = self._views.get(chat)
        return None if view is None else view.path

    def is_open(self, chat: str) -> bool:
        """Return True if the chat's files are mounted."""
        return chat in self._views

    def close(self, chat: str) -> None:
        """Remove the chat's mount. No process may use it."""
        if (view := self._views.pop(chat, None)) is not None:
            _end(view.process)

    def close_all(self) -> None:
        """Remove all mounts."""
        for chat in tuple(self._views):
            self.close(chat)

    def _start(self, folder: Path, state: Path) -> _View:
        settings: dict[str, object] = {
            "uid": self._user[0],
            "gid": self._user[1],
            "lower": folder,
            "upper": (state / UPPER).absolute(),
            "work": (state / WORK).absolute(),
            "view": (state / VIEW).absolute(),
            "shared": "1" if self._shared else "",
            "mapped": "1" if os.geteuid() == 0 else "",
        }
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(holder.__file__),
                    *(f"{k}={v}" for k, v in settings.items()),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env={},
                cwd="/",
            )
        except (OSError, ValueError) as error:
            raise NoView(str(error)) from error
        answer = _line(process)
        if answer != "ready":
            _end(process)
            raise NoView(answer.removeprefix("failed ") or "its process ended")
        here = (state / VIEW).absolute()
        return _View(process, here if self._shared else Path(f"/proc/{process.pid}/root{here}"))


def _line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout.fileno(), select.POLLIN)
    if not poll.poll(ANSWER_S * 1000):
        return ""
    return process.stdout.readline().decode("utf-8", "replace").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def why_no_overlay(runs: Path, user: tuple[int, int]) -> str:
    """Try an overlay in the home's folder `runs`; return "" if it works, otherwise the step that failed."""
    place = Path(tempfile.mkdtemp(prefix="probe-", dir=runs))
    views = Views(user, shared=False)
    try:
        (place / "lower").mkdir()
        views.open("probe", place / "lower", place)
    except (NoView, OSError) as error:
        return str(error)
    finally:
        views.close_all()
        shutil.rmtree(place, ignore_errors=True)
    return ""


def sweep(folders: Path) -> int:
    """Remove mounts below the home's folder of links that a killed process left; return their number.

    Only the process that holds the home's lock may call this. Blocks briefly.
    """
    prefix, count = f"{folders.absolute()}/", 0
    with contextlib.suppress(OSError), open("/proc/self/mountinfo") as file:
        points = [_unescaped(line.split()[4]) for line in file]
        for point in reversed(points):
            if point.startswith(prefix) and os.path.basename(point) == VIEW:
                holder.unmount(point)
                count += 1
    return count


def _unescaped(name: str) -> str:
    """Return a path of mountinfo, in which spaces and backslashes are octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(code, character)
    return name


def unreachable(folder: Path, error: OSError) -> FolderFault:
    """Return the error for a folder that cannot be reached any more."""
    return FolderFault(
        "{folder} cannot be reached: {reason}. The changes of this chat are kept.",
        "Put the folder back, then try again.",
        folder=folder,
        reason=os_error(error),
    )
