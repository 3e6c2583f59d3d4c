"""Finding the home, and reading its small text files."""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from rumi.errors import ConfigError
from rumi.platform import home_path as home_paths
from rumi.platform.home import Home
from rumi.platform.home_path import NoHome, left_behind, path_of_home
from rumi.platform.texts.language import detect_language
from rumi.texts import Text, joined, os_error, translate

_MOST_BYTES = 1_000_000


def home_from(environment: Mapping[str, str]) -> Path:
    """Check that only its owner can use the home, and return its path.

    If other users can read the home but not write to it, its mode is set to 700, and a message on standard
    error reports this.

    Raises:
        ConfigError: The path is not a folder, or the folder cannot be created.
        UnsafeHome: Other users could have changed the home. The message says what to do.
    """
    home = find_home(environment)
    if Home(home).refuse_if_unsafe():
        sentence = Text("Others could read {home}: now only its owner can use it (mode 700).", home=home)
        _warn(environment, sentence)
    return home


def _warn(environment: Mapping[str, str], sentence: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{translate(detect_language('auto', environment), sentence)}\n")
        sys.stderr.flush()


def find_home(environment: Mapping[str, str]) -> Path:
    """Return `RUMI_HOME`, by default `~/.rumi`, as an absolute path; create the folder if it is missing.

    A new folder gets mode 0700. This function does not check that the home is safe; `home_from` does.

    Raises:
        ConfigError: The path is unknown or is not a folder, or the folder cannot be created.
    """
    home = home_path(environment)
    new = not os.path.exists(home)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = Text("it is not a folder") if isinstance(error, FileExistsError) else os_error(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "Make room on its disk" if full else Text("Set RUMI_HOME to a folder that you may write to")
        raise ConfigError(
            "The home {home} cannot be made: {why}.", "{advice}.", home=home, why=why, advice=advice
        ) from None
    if new and (left := left_behind()) and Path(left) != home:
        _warn(environment, data_left(left))
    return home


def home_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the home, without creating the folder.

    Raises:
        ConfigError: The path is unknown, because neither `RUMI_HOME` nor `HOME` names a usable folder.
    """
    try:
        return Path(path_of_home(environment))
    except NoHome as error:
        refusal = _refusal(error)
        if left := left_behind():
            refusal.advice = joined([refusal.advice, data_left(left)])
        raise refusal from None


def data_left(path: str) -> Text:
    """Say where an earlier version put its data for a user without a home folder."""
    return Text("An earlier version put its data into {path}. To use them, set RUMI_HOME to it.", path=path)


def _refusal(error: NoHome) -> ConfigError:
    value, own = repr(error.value)[:200], Text("Set RUMI_HOME to a folder that you may write to.")
    absolute = Text("Write the folder's absolute path.")
    match error.kind:
        case home_paths.UNKNOWN:
            return ConfigError("HOME is not set, and user {id} has no home folder.", own, id=error.value)
        case home_paths.RELATIVE:
            return ConfigError("HOME is {value}, which is not an absolute path.", own, value=value)
        case home_paths.MISSING:
            return ConfigError("HOME is {value}, which is not a folder.", own, value=value)
        case home_paths.ANOTHERS:
            return ConfigError(
                "HOME is {value}, which belongs to another user, and this is root.",
                "Run Rumi without sudo, or set RUMI_HOME.",
                value=value,
            )
        case home_paths.NO_USER:
            return ConfigError(
                "RUMI_HOME names the user {value}, who does not exist here.", absolute, value=value
            )
        case _:
            return ConfigError(
                "RUMI_HOME is {value}; nothing replaced the variable in it.", absolute, value=value
            )


def read_text(path: Path) -> str:
    """Return the text of a file, or an empty text if the file does not exist.

    Raises:
        ConfigError: The file is not a regular file, is too large, is not UTF-8, or cannot be read.
    """
    try:
        # O_NONBLOCK, because opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(
            "{path} cannot be read: {reason}.",
            "Check its owner and mode.",
            path=path,
            reason=os_error(error),
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(
                "{path} is not a regular file.", "Remove it, or put a text file in its place.", path=path
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(_MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(raw) > _MOST_BYTES:
        raise ConfigError(
            "{path} is larger than {most_bytes} bytes.",
            "It holds a few lines of settings.",
            path=path,
            most_bytes=_MOST_BYTES,
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "{path} is not UTF-8 text (line {line}).", "Save it as UTF-8.", path=path, line=line
        ) from None
