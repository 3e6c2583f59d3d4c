"""Stores and fetches a workspace in forks that are killed at one system call after another.

`killed_carrying FOLDER`: `FOLDER/old` and `FOLDER/new` are two versions of a workspace. It prints a line for
each fork: its number, and what it was doing.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import trio

from rumi.platform.threads import Threads
from rumi.sandbox.carrying import WorkspaceCarrier
from rumi.sandbox.packing import PackLimits
from rumi.store.journal.actor import open_journal
from rumi.store.journal.piece_store import JournalPieces

AUDITED = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.utime")


async def carry(home: Path, what: str, kill_at: int) -> None:
    """Do it, and die at that call."""
    calls = 0

    def count(event: str, arguments: object) -> None:
        nonlocal calls
        if event.startswith(AUDITED):
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    async with open_journal(home / "state.db") as ask:

        async def asked(request):  # type: ignore[no-untyped-def]
            count("open", ())  # before a transaction, and after it
            reply = await ask(request)
            count("open", ())
            return reply

        carrier = WorkspaceCarrier(
            home / "one", (os.getuid(), os.getgid()), JournalPieces(asked), Threads(), PackLimits()
        )
        fence = 1 if what == "store" else 2
        if what == "store":
            await carrier.fetch("cli", fence)
            replaced(home, home.parent / "new")
        sys.addaudithook(count)
        calls = 0
        await (carrier.store if what == "store" else carrier.fetch)("cli", fence)
        calls = -(10**9)


def replaced(home: Path, version: Path) -> None:
    shutil.rmtree(home / "one" / "cli", ignore_errors=True)
    shutil.copytree(version, home / "one" / "cli", symlinks=True)


async def prepared(home: Path, folder: Path, what: str) -> None:
    """The old version is stored; for a fetch the new one is too, and the folder has the old one."""
    home.mkdir()
    replaced(home, folder / "old")
    async with open_journal(home / "state.db") as ask:
        carrier = WorkspaceCarrier(
            home / "one", (os.getuid(), os.getgid()), JournalPieces(ask), Threads(), PackLimits()
        )
        await carrier.fetch("cli", 1)
        await carrier.store("cli", 1)
        if what == "fetch":
            replaced(home, folder / "new")
            await carrier.store("cli", 1)
            replaced(home, folder / "old")


def main(folder: Path) -> None:
    for what in ("store", "fetch"):
        number, killed = 0, True
        while killed:
            number += 2
            home = folder / f"{what}-{number}"
            trio.run(prepared, home, folder, what)
            child = os.fork()
            if child == 0:
                trio.run(carry, home, what, number)
                os._exit(0)
            killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
            print(number, what, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
