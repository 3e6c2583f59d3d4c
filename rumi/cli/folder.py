"""Where a chat of the terminal works: on the folder that it was started in, or on files of its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rumi.cli.daemon import say, working_folder
from rumi.cli.printing import echo, prompt
from rumi.cli.speaking import tr
from rumi.errors import ConfigError, UsageError
from rumi.platform.chat_ids import BUILT_IN, DEFAULT_CHAT, chat_of_folder
from rumi.platform.texts.folders import folder_name

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home

SETTING = "terminal.workspace"


def place_of(
    home: "Home", loaded: "Loaded", chat: str | None, *, here: bool, own: bool, person: bool
) -> tuple[str, Path | None]:
    """Return the chat, and the folder that it works on; None if the chat has files of its own.

    `chat` is the chat that the command names, if any; `here` and `own` are its flags. If the settings say so,
    a `person` is asked, once; the answer is stored in config.toml.

    Raises:
        UsageError: `here` is set, and the command was started in no folder that a chat can work on.
        Abort: the person leaves instead of answering.
    """
    if own:
        return chat or DEFAULT_CHAT, None
    folder = working_folder()
    if here:
        return _here(folder, chat)
    setting = loaded.settings.terminal.workspace
    if chat is not None or folder is None or setting == "own":
        return chat or DEFAULT_CHAT, None
    if setting == "here":
        at = git_root(folder) is not None or _is_below(folder, _user_folder())
        return _here(folder, None) if at and _may_work_on(folder, home.root) else (DEFAULT_CHAT, None)
    if not person or not looks_like_project(folder, home.root) or _ask(folder, home) == "own":
        return DEFAULT_CHAT, None
    return _here(folder, None)


def _here(folder: Path | None, chat: str | None) -> tuple[str, Path]:
    if folder is None:
        raise UsageError("The folder that you stand in does not exist any more.", "Go to another: cd")
    if chat == DEFAULT_CHAT:
        raise UsageError(
            "The chat {chat} keeps its own files.",
            "Leave --chat out, or choose another name with --here.",
            chat=chat,
        )
    return chat or chat_of_folder(str(folder), BUILT_IN), folder


def looks_like_project(folder: Path, home: Path) -> bool:
    """Return True for a folder in a git work tree, and for one below the user's home that has files.

    `home` is Rumi's own folder, which is no project.
    """
    if not _may_work_on(folder, home):
        return False
    if git_root(folder) is not None:
        return True
    try:
        with os.scandir(folder) as entries:
            return _is_below(folder, _user_folder()) and any(
                not entry.name.startswith(".") for entry in entries
            )
    except OSError:
        return False


def git_root(folder: Path) -> Path | None:
    """Return the root of the git work tree that has the folder; None if there is none.

    A repository of the whole home folder, as some people have it for their settings, does not count.
    """
    user = _user_folder()
    for root in (folder, *folder.parents):
        if root == user or root == Path("/"):
            return None
        if os.path.lexists(root / ".git"):
            return root
    return None


def _may_work_on(folder: Path, home: Path) -> bool:
    """Return False for `/`, the user's home folder, Rumi's own, and all folders that contain one of them."""
    mine = (_user_folder(), Path(os.path.realpath(home)))
    return not any(folder == one or _is_below(one, folder) for one in mine) and not _is_below(folder, mine[1])


def _is_below(folder: Path, top: Path) -> bool:
    return folder != top and folder.is_relative_to(top)


def _user_folder() -> Path:
    return Path(os.path.realpath(os.path.expanduser("~")))


def changed_files(chat: str) -> list[str]:
    """Return the names of the files that a chat of the daemon has changed in its folder; none on an error."""
    import trio

    from rumi.cli.asking import ask
    from rumi.errors import RumiError

    async def no_daemon(home: "Home", request: Mapping[str, object]) -> object:
        await trio.lowlevel.checkpoint()
        return {"files": []}

    try:
        found = ask("chats", "diff", no_daemon, chat=chat, files=[])
    except RumiError:  # completion cannot show an error
        return []
    return [one["path"] for one in found["files"]]


def _ask(folder: Path, home: "Home") -> Literal["here", "own"]:
    """Ask where to work, and store the answer; if it cannot be stored, say so: it holds for this run."""
    name = folder_name(folder)
    echo(tr("You are in {folder}.", folder=name))
    echo(tr("What shall I work on, here and in other projects?"))
    echo(tr("  1  On the folder: I see its files. Nothing in it changes until you accept my changes."))
    echo(tr("  2  On files of my own: I see nothing of the folder."))
    while (said := prompt(tr("1 or 2"), "1").strip()) not in ("1", "2"):
        echo(tr("Please answer with 1 or 2."))
    chosen: Literal["here", "own"] = "here" if said == "1" else "own"
    from rumi.platform.config.editing import set_keys

    try:
        set_keys(home.root / "config.toml", {SETTING: chosen})
    except ConfigError as error:
        from rumi.cli.speaking import reader
        from rumi.platform.texts.translation import error_text

        say(error_text(reader(), error))
    else:
        echo(tr("Stored. To be asked again: rumi config set terminal.workspace ask"))
    echo()
    return chosen
