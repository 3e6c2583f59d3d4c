"""Reads the home of another assistant."""

import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rumi.app.moving import chatgpt, hermes, nanobot, openbot, openclaw
from rumi.app.moving.finding import found_homes, has_sign, program_of
from rumi.app.moving.reading import Budget, HomeReader, TooMuch
from rumi.app.moving.records import TITLES, ForeignHome, Kind
from rumi.errors import UsageError
from rumi.tasks.bots.foreign import foreign_folder
from rumi.texts import Text, os_error

READERS: Final[Mapping[Kind, Callable[[HomeReader], None]]] = {
    "openclaw": openclaw.read,
    "nanobot": nanobot.read,
    "hermes": hermes.read,
    "openbot": openbot.read,
    "chatgpt": chatgpt.read_folder,
}


def usual_home(kind: Kind) -> Path:
    """Return the program's home of the person.

    Raises:
        UsageError: There is none.
    """
    for found, folder in found_homes(Path.home()):
        if found == kind:
            return folder
    if kind == "chatgpt":
        raise UsageError("Name the export.", "rumi import chatgpt PATH-OF-THE-ZIP")
    raise UsageError(
        "There is no home of {program} here.",
        "Name its folder: rumi import {kind} PATH",
        program=TITLES[kind],
        kind=kind,
    )


def read_home(kind: Kind, path: Path, budget: Budget) -> ForeignHome:
    """Return all that a home holds. Blocking: a thread that reads ends soon after `budget.stop` was set.

    If a limit of the whole import is reached, what was found until then is returned, and that is noted.

    Raises:
        UsageError: The path is not a home of the program, or cannot be read.
        Stopped: The person has stopped it.
    """
    moved = ForeignHome(kind, str(path))
    try:
        if kind == "chatgpt" and stat.S_ISREG(path.stat().st_mode):
            with foreign_folder(path.parent) as top:
                _within(moved, lambda: chatgpt.read_zip(HomeReader(top, moved, budget), path))
            return moved
        if kind != "chatgpt" and not has_sign(kind, path):
            raise UsageError(
                "{path} is not a home of {program}.", "Name its folder.", path=path, program=TITLES[kind]
            )
        if kind != "chatgpt" and (other := program_of(path, kind)) != kind:
            raise UsageError(
                "{path} is a home of {program}.", "rumi import {kind} {path}",
                path=path, program=TITLES[other], kind=other,
            )  # fmt: skip
        with foreign_folder(path) as top:
            _within(moved, lambda: READERS[kind](HomeReader(top, moved, budget)))
    except OSError as error:
        raise UsageError(
            "{path} cannot be read: {why}.", "Check the path and its owner.", path=path, why=os_error(error)
        ) from error
    return moved


def _within(moved: ForeignHome, read: Callable[[], None]) -> None:
    try:
        read()
    except TooMuch:
        moved.leave("sessions", moved.home, Text("the rest: the limits of one import are reached"))
