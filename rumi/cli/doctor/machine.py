"""Checks of the machine: Python, the clock, the terminal, the proxies, and the disk. Blocks briefly."""

import os
import sys
import time
from pathlib import Path

import rumi
from rumi.cli.doctor.check import Check
from rumi.platform.commit import own_commit, version
from rumi.platform.home import Home
from rumi.platform.proxies import SetupError, proxies
from rumi.sandbox.disk import free_on
from rumi.texts import Text

LOW_DISK_BYTES = 1_000_000_000
LOW_INODES = 10_000
SET_THE_CLOCK = Text("Set the clock: timedatectl set-ntp true. Certificates, sessions and due dates need it.")
CLOCK_S = 86_400.0
"""A file's time may be this many seconds in the future: it may come from a machine with a fast clock."""


def machine(home: Home) -> list[Check]:
    """Run the checks that do not need a home."""
    return [_python(), _clock(home), _terminal(), *_proxy()]


def disk(home: Home) -> list[Check]:
    """Check that the home's disk has free space and free inodes."""
    metrics = free_on(home.root)
    free, inodes = metrics.bytes, metrics.files
    size = f"{free / 1e9:.1f} GB" if free >= LOW_DISK_BYTES else f"{free / 1e6:.0f} MB"
    found = Text("{size} free", size=size)
    advice = Text(
        "Make room on the disk of {root}, or set RUMI_HOME to a folder on another one.", root=home.root
    )
    checks = []
    if free < LOW_DISK_BYTES:
        checks.append(Check("disk", "failure", found, advice))
    if inodes < LOW_INODES:  # infinite on file systems without a limit of files
        checks.append(
            Check("disk", "failure", Text("only {inodes} files more fit on it", inodes=inodes), advice)
        )
    return checks or [Check("disk", "ok", found)]


def _python() -> Check:
    # An older Python never gets here, because pip refuses to install the package there.
    python = ".".join(map(str, sys.version_info[:3]))
    ours = version(rumi.__version__, own_commit())
    return Check("python", "ok", Text("Python {version}, Rumi {rumi}", version=python, rumi=ours))


def _clock(home: Home) -> Check:
    """Check the clock without a server: the clock is wrong if it shows a time before a known past event."""
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
    newest = 0.0
    for path in (Path(rumi.__file__), home.state_db, home.logs / "audit.jsonl"):
        try:
            newest = max(newest, path.stat().st_mtime)
        except OSError:
            continue
    if now < newest - CLOCK_S:
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest))
        found = Text("the clock says {shown}, but files here are from {last}", shown=shown, last=last)
        return Check("clock", "failure", found, SET_THE_CLOCK)
    return Check("clock", "ok", shown)


def _terminal() -> Check:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower().replace("-", "") != "utf8":
        found = Text("it uses {encoding}, not UTF-8: accents are lost", encoding=encoding)
        return Check("terminal", "warning", found, Text("export LANG=C.UTF-8"))
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or "not set"
    return Check("terminal", "ok", Text("UTF-8; LANG is {locale}", locale=locale))


def _proxy() -> list[Check]:
    """Check the environment's proxies; no finding without a proxy and with a readable NO_PROXY."""
    try:
        known = proxies()
    except SetupError as error:
        return [Check("proxy", "failure", error.message, error.advice)]
    if known.warning is not None:
        fix = Text("Write hosts, addresses and networks, such as: example.com, 192.0.2.7, ::1, 10.0.0.0/8")
        return [Check("proxy", "warning", known.warning, fix)]
    used = {f"{proxy.variable}={proxy.shown}": None for proxy in known.by_scheme.values()}
    return [Check("proxy", "ok", ", ".join(used))] if used else []
