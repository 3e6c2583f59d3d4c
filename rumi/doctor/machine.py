"""The machine: Python, the disk, the clock, the words that it can show. Blocking, briefly."""

import os
import sys
import time
from pathlib import Path

import rumi
from rumi.doctor.check import Check
from rumi.home import Home

LOW_DISK_BYTES = 1_000_000_000
LOW_INODES = 10_000
CLOCK_S = 86_400.0
"""Files may come from a machine whose clock is a little ahead, not from another day."""


def machine(home: Home) -> list[Check]:
    """All of it."""
    return [_python(), *_disk(home), _clock(home), _terminal(), _programs()]


def _python() -> Check:
    # An older Python never gets here: the package refuses to be installed there.
    return Check(
        "python", "ok", f"Python {'.'.join(map(str, sys.version_info[:3]))}, Rumi {rumi.__version__}"
    )


def _disk(home: Home) -> list[Check]:
    figures = os.statvfs(home.root)
    free, inodes = figures.f_bavail * figures.f_frsize, figures.f_favail
    found = f"{free / 1e9:.1f} GB free" if free >= LOW_DISK_BYTES else f"{free / 1e6:.0f} MB free"
    room = f"Make room on the disk of {home.root}, or set RUMI_HOME to a folder on another one."
    low_inodes = figures.f_files and inodes < LOW_INODES  # some file systems have none to run out of
    checks = [Check("disk", "failure", f"only {inodes} files more fit on it", room)] if low_inodes else []
    if free < LOW_DISK_BYTES:
        return [Check("disk", "failure", found, room), *checks]
    return checks or [Check("disk", "ok", found)]


def _clock(home: Home) -> Check:
    """Without a server to ask: time cannot be before what already happened."""
    now = time.time()
    told = time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
    newest = 0.0
    for path in (Path(rumi.__file__), home.state_db, home.logs / "audit.jsonl"):
        try:
            newest = max(newest, path.stat().st_mtime)
        except OSError:
            continue
    if now < newest - CLOCK_S:
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest))
        return Check("clock", "failure", f"it says {told}, and files here are of {last}", SET_CLOCK)
    return Check("clock", "ok", told)


SET_CLOCK = "Set the clock: timedatectl set-ntp true. Certificates, sessions and due dates need it."


def _terminal() -> Check:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    language = (
        os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or "not set"
    )
    if encoding.lower().replace("-", "") != "utf8":
        return Check(
            "terminal", "warning", f"it takes {encoding}, no UTF-8: accents are lost", "export LANG=C.UTF-8"
        )
    return Check("terminal", "ok", f"UTF-8; LANG is {language}")


def _programs() -> Check:
    from rumi.building import missing_programs

    missing = missing_programs()
    if missing:
        return Check(
            "programs",
            "warning",
            f"this host lacks {', '.join(missing)}, and so does a sandbox made from it",
            "Install them, then: rumi sandbox build",
        )
    return Check("programs", "ok", "all allowed programs are here")
