"""What a working installation needs, checked one by one, each with its mend."""

import os
import shutil
import stat
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import trio

from rumi.config import Loaded, load_settings
from rumi.errors import RumiError
from rumi.home import Home
from rumi.sandbox import SandboxError

Verdict = Literal["ok", "warning", "failure"]
LOW_DISK_BYTES = 1_000_000_000
CHECK_S = 30.0
"""How long one check may take."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `mend` says what to do, empty where nothing is to be done."""

    name: str
    verdict: Verdict
    found: str
    mend: str = ""


async def examine(home: Home) -> list[Check]:
    """Check everything; a check that fails stops no other."""
    checks = [_python(), _home(home), _disk(home), _programs(), _journal(home), _holder(home)]
    try:
        loaded = load_settings(home.root, os.environ, {})
    except RumiError as error:
        return [*checks, Check("configuration", "failure", error.message, error.advice)]
    checks.append(Check("configuration", "ok", "config.toml, environment and .env are valid"))
    checks.extend(Check("configuration", "warning", note) for note in loaded.notes)
    checks.append(_model(loaded))
    checks.extend(await _bounded("docker", lambda: _docker(home, loaded)))
    checks.extend(await _bounded("bubblewrap", lambda: _bubblewrap(home, loaded)))
    return _judged_together(checks, loaded)


def _python() -> Check:
    # An older Python never gets here: the package refuses to be installed there.
    return Check("python", "ok", f"Python {'.'.join(map(str, sys.version_info[:3]))}")


def _home(home: Home) -> Check:
    mode = stat.S_IMODE(home.root.stat().st_mode)
    if mode & 0o077:
        return Check(
            "home", "failure", f"{home.root} can be read by others (mode {mode:o})", f"chmod 700 {home.root}"
        )
    if not os.access(home.root, os.W_OK):
        return Check(
            "home", "failure", f"{home.root} cannot be written", "Set RUMI_HOME to a folder you own."
        )
    return Check("home", "ok", str(home.root))


def _disk(home: Home) -> Check:
    free = shutil.disk_usage(home.root).free
    if free < LOW_DISK_BYTES:
        return Check("disk", "failure", f"{free / 1e6:.0f} MB free", "Make room on the disk of RUMI_HOME.")
    return Check("disk", "ok", f"{free / 1e9:.0f} GB free")


def _model(loaded: Loaded) -> Check:
    from rumi.app import model_settings_of
    from rumi.models import build_models, lacks_key

    try:
        settings = model_settings_of(loaded, "en")
        if lacks_key(settings):
            return Check(
                "model",
                "warning",
                f"{settings.default} needs GROQ_API_KEY; without it the offline model is used",
                "Put GROQ_API_KEY=… into .env in RUMI_HOME, or into the environment.",
            )
        return Check("model", "ok", build_models(settings).name)
    except RumiError as error:
        return Check("model", "failure", error.message, error.advice)


async def _bounded(name: str, check: Callable[[], Awaitable[list[Check]]]) -> list[Check]:
    with trio.move_on_after(CHECK_S):
        try:
            return await check()
        except SandboxError as error:
            return [Check(name, "warning", error.message, error.advice)]
        except RumiError as error:
            return [Check(name, "failure", error.message, error.advice)]
    return [Check(name, "failure", f"no answer within {CHECK_S:.0f} s", "Is the daemon stuck? Restart it.")]


async def _docker(home: Home, loaded: Loaded) -> list[Check]:
    from rumi.building import find_engine, image_state

    engine = await find_engine(home, loaded, "docker")
    try:
        checks = [Check("docker", "ok", "the daemon answers")]
        checks.extend(Check("docker", "warning", f"degraded: {why}") for why in engine.degraded)
        image = await image_state(engine, loaded)
        if image.fault:
            checks.append(Check("image", "warning", image.fault, "It is built at the first chat."))
        else:
            checks.append(Check("image", "ok", f"{image.image}, made of {image.made_of}"))
        boxes = await engine.boxes()
        if boxes and not home.holder():
            names = ", ".join(box.name for box in boxes)
            checks.append(Check("containers", "warning", f"left over: {names}", "rumi sandbox clean"))
        else:
            checks.append(Check("containers", "ok", f"{len(boxes)} of this installation"))
    finally:
        await engine.aclose()
    return checks


async def _bubblewrap(home: Home, loaded: Loaded) -> list[Check]:
    from rumi.building import find_engine

    engine = await find_engine(home, loaded, "bubblewrap")
    checks = [Check("bubblewrap", "ok", "a sandbox starts")]
    checks.extend(Check("bubblewrap", "warning", f"degraded: {why}") for why in engine.degraded)
    await engine.aclose()
    return checks


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


def _journal(home: Home) -> Check:
    import sqlite3

    path = home.state_db
    if not path.exists():
        return Check("state.db", "ok", "not there yet")
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
        try:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            db.close()
    except sqlite3.OperationalError as error:
        return Check(
            "state.db", "failure", f"cannot be read: {error}", "Make room on the disk, then try again."
        )
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        aside = Path(f"{path}.damaged")
        return Check("state.db", "failure", f"damaged: {found}", f"Stop Rumi, then: mv {path} {aside}")
    return Check("state.db", "ok", f"{path.stat().st_size / 1e6:.1f} MB, sound")


def _holder(home: Home) -> Check:
    try:
        return Check("running", "ok", home.holder() or "no Rumi runs on this home")
    except RumiError as error:
        return Check("running", "failure", error.message, error.advice)


def _judged_together(checks: list[Check], loaded: Loaded) -> list[Check]:
    """Where no engine works, or not the one that the configuration names, that is a failure."""
    works = {check.name for check in checks if check.verdict == "ok"}
    wanted = loaded.settings.sandbox.backend
    engines = {"docker", "bubblewrap"} if wanted == "auto" else {wanted}
    if not engines & works:
        what = (
            "neither Docker nor bubblewrap works here" if wanted == "auto" else f"{wanted} does not work here"
        )
        checks.append(Check("sandbox", "failure", what, "Mend one of them: commands need a sandbox."))
    return checks
