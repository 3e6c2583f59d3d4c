"""The bubblewrap command line that starts a server's process in its own sandbox.

The server sees `/usr`, the folders in which its command is installed, a home folder of its own, and the
configured folders. It sees nothing else of $RUMI_HOME or of the user's home. The server's processes share a
PID namespace, so they end together.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rumi.agent.mcp.launchers import started
from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.paths import HOME, TEMPORARY, Unseen, check, expanded
from rumi.platform.home_path import known_folder
from rumi.sandbox.confined.root import TOP, system_words

_OF_ETC_FOR_NETWORKS: Final = (
    "gai.conf",
    "host.conf",
    "hosts",
    "nsswitch.conf",
    "protocols",
    "resolv.conf",
    "services",
)
_OF_ETC_FOR_HOSTS: Final = ("nsswitch.conf", "protocols", "services")
"""Files of /etc for a server without `network`; its `hosts` is written for it."""

CERTIFICATES: Final = (
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
"""Variables that name certificates. A server with a network inherits them, and sees what they name."""

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
"""Variables that a server inherits from Rumi's environment; in a sandbox, HOME is replaced."""

_SHEBANG_BYTES: Final = 256


def sandboxed(
    bwrap: Path,
    settings: ServerSettings,
    home: Path,
    command: Sequence[str],
    seccomp_fd: int,
    environment_fd: int,
    etc: Mapping[str, int],
) -> list[str]:
    """Return the command line that starts a server's `command` in the sandbox.

    `home` is the server's own folder. The started process must inherit `seccomp_fd`, `environment_fd`, which
    has what `environment_words` returns, and the descriptors of the files `etc`, which the sandbox gets in
    /etc.

    Raises:
        McpError: The command or a folder in `paths` does not exist, such a folder contains files of Rumi, or
            the server names a file that the sandbox does not have.
    """
    section, root = settings.section, home.parent.parent
    given = [*_given(settings, root.resolve())]
    shown = _shown(settings, Path(command[0]), root)
    empty = check(settings, root, shown)
    words = [str(bwrap), "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
    words += ["--new-session", "--hostname", "rumi-mcp", "--cap-drop", "ALL"]
    # Without `network`, the launcher has entered a network namespace that has nothing but `lo`.
    words.append("--share-net")
    words += system_words(_OF_ETC_FOR_NETWORKS if section.network else _OF_ETC_FOR_HOSTS, etc)
    words += ["--bind", str(home), HOME]
    # A folder that the server names, but does not have: what it writes there must fail, and not vanish.
    covers = [one.path for one in empty if any(Path(top) in one.path.parents for top in TEMPORARY)]
    for covered in covers:
        words += ["--tmpfs", str(covered)]
    for path in shown:
        words += ["--ro-bind", str(path), str(path)]
    users = Path(known_folder())
    for folder in given:
        words += ["--bind", str(folder), str(folder)]
        # Programs look for their files below HOME: ~/.kube of the user is also the server's ~/.kube.
        if folder.is_relative_to(users) and folder != users:
            words += ["--bind", str(folder), str(Path(HOME, folder.relative_to(users)))]
    for covered in covers:
        words += ["--remount-ro", str(covered)]
    own_home = expanded(settings.env.get("HOME", HOME))
    words += ["--remount-ro", "/", "--chdir", HOME]
    words += ["--clearenv", "--args", str(environment_fd), "--setenv", "HOME", own_home]
    return [*words, "--seccomp", str(seccomp_fd), "--", *command]


def hidden_folders(settings: ServerSettings, rumi_home: Path) -> list[Unseen]:
    """Return the folders of this machine that a server names, and that its sandbox does not show.

    Raises:
        McpError: The program does not exist, or the server names a file that the sandbox does not have.
    """
    if not settings.section.command or not settings.section.sandbox:
        return []
    program, _ = started(settings.section)
    return check(settings, rumi_home, _shown(settings, program, rumi_home))


def _shown(settings: ServerSettings, program: Path, rumi_home: Path) -> list[Path]:
    """Return the files and folders outside of `/usr` that the sandbox shows read-only."""
    return [*installation(program, rumi_home), *(_certificates() if settings.section.reaches_hosts else ())]


def _given(settings: ServerSettings, rumi_home: Path) -> Iterator[Path]:
    """Yield the configured folders.

    Raises:
        McpError: A folder does not exist, or contains files of Rumi.
    """
    for path in settings.section.paths:
        folder = Path(path).expanduser().absolute()
        if not folder.exists():
            raise McpError(
                "mcp.{name}.paths has {path}, which does not exist.", name=settings.name, path=path
            )
        # In both directions: neither the home itself, nor a folder above it, nor a part of it.
        if rumi_home.is_relative_to(folder.resolve()) or folder.resolve().is_relative_to(rumi_home):
            raise McpError(
                "mcp.{name}.paths has {path}, which holds files of Rumi itself.",
                "Name a folder that does not hold RUMI_HOME.",
                name=settings.name,
                path=path,
            )
        yield folder


def _certificates() -> list[Path]:
    """Return the files and folders that the variables `CERTIFICATES` name."""
    named = [Path(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)]
    return [path for path in named if path.is_absolute() and path.exists()]


def installation(program: Path, rumi_home: Path) -> list[Path]:
    """Return the files and folders outside of `/usr` that a program needs.

    These are the program, the targets of its links, and its interpreters. For a file in a folder `bin` or
    `shims` (of pyenv and asdf), the result contains the parent of that folder; for any other file, the file's
    own folder. If that folder contains the user's home or Rumi's home, the result contains only the file
    itself.
    """
    found: dict[Path, None] = {}
    users = Path(known_folder())
    homes = {users, users / ".local", rumi_home.absolute(), rumi_home.resolve()}
    for file in _way(program):
        if not file.is_relative_to("/usr") and not any(file.is_relative_to(f"/{top}") for top in TOP):
            folder = file.parent.parent if file.parent.name in ("bin", "shims") else file.parent
            wide = any(home.is_relative_to(folder) for home in homes)
            found[file if wide else folder] = None
    return [
        path for path in found if not any(path != other and path.is_relative_to(other) for other in found)
    ]


def _way(program: Path) -> Iterator[Path]:
    """Yield a program and the targets of its links; then its interpreter in the same way, and so on."""
    for _ in range(16):  # limited, because links and interpreters may form a cycle
        for _ in range(16):
            yield program
            if not program.is_symlink():
                break
            program = Path(os.path.normpath(program.parent / os.readlink(program)))
        real = Path(os.path.realpath(program))
        if real != program:  # a folder in the path is a link
            yield real
        interpreter = _interpreter(real)
        if interpreter is None:
            return
        program = interpreter


def _interpreter(script: Path) -> Path | None:
    try:
        with script.open("rb") as file:
            first = file.read(_SHEBANG_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    words: Sequence[str] = os.fsdecode(first.removeprefix(b"#!")).split()
    if not first.startswith(b"#!") or not words:
        return None
    if Path(words[0]).name == "env":
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        found = shutil.which(name) if name else None
        return Path(found).absolute() if found else None
    return Path(words[0])
