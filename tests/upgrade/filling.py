"""Makes a home with the program of another version, for the tests of upgrades, and packs it.

    git archive v0.3.0 | tar -x -C /tmp/tree
    python -m tests.upgrade.filling /tmp/tree tests/upgrade/homes/0.3.0.tar.xz

The tree's own code runs, with this environment's packages and the model `offline`. What its version has no
command for is left out.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tests.cli.telegram_world import FIRST_PERSON, World

COMMANDS = (
    ("config", "set", "agent.max_turns", "12"),
    ("chat", "-p", "$ sh -c 'echo hello > notes.txt; cat notes.txt'", "--yes"),
    ("chat", "-p", "remember favourite_colour = blue", "--yes"),
    ("chat", "--chat", "work", "-p", "write plan.md: # Plan", "--yes"),
    ("chat", "--chat", "work", "-p", "what do you know about me"),
    ("chat", "--chat", "work", "--new", "-p", "list files"),
    ("memory", "set", "city", "Lisbon"),
    ("schedule", "add", "every monday 08:00", "water the plants"),
    ("schedule", "add", "every day 07:00", "what time is it", "--turn"),
    ("bot", "create", "garden", "-d", "Keeps the garden's diary"),
    ("bot", "run", "garden", "-p", "write diary.md: tomatoes", "-n", "1"),
)
LEFT_OUT = ("rootfs", "reserve", "run", "logs", "sandbox-user", "packs", "cache")
"""What is large and made again, or belongs to the machine."""

SKILL = "---\nname: tea\ndescription: How this house makes tea.\n---\n\nFour minutes, no sugar.\n"


def run(tree: Path, home: Path, *words: str) -> None:
    """Run one command of the tree's program, and print how it ended."""
    done = subprocess.run(
        [sys.executable, "-m", "rumi", *words],
        cwd=tree,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    told = (done.stdout + done.stderr).strip().splitlines()
    print(f"{done.returncode}  {' '.join(words)}  {told[-1] if told else ''}")


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    own = {"RUMI_HOME": str(home), "RUMI_SANDBOX__BACKEND": "bubblewrap", "LANG": "C.UTF-8", "TZ": "UTC"}
    return {**kept, **own, "PYTHONDONTWRITEBYTECODE": "1", **more}


def talk_on_telegram(tree: Path, home: Path, world: World) -> None:
    """Have a person write two messages to the bot, and wait for the replies."""
    env = environment(
        home,
        TELEGRAM_TOKEN=world.api.token,
        TELEGRAM_BASE_URL=world.telegram.root,
        RUMI_TELEGRAM__ALLOWED_USERS=f"[{FIRST_PERSON}]",
        RUMI_MODEL__DEFAULT="offline",
        RUMI_MODEL__FALLBACKS="[]",
    )
    program = subprocess.Popen([sys.executable, "-m", "rumi", "telegram"], cwd=tree, env=env)
    try:
        person = world.person(language_code="en")
        room = world.api.chats[person.id]
        for text in ("remember pet = a cat", "$ date > today.txt"):
            before = len(replies(home))
            world.do(world.api.say, person, text, room)
            until = time.monotonic() + 60
            while len(replies(home)) <= before and time.monotonic() < until:
                time.sleep(0.2)
        print("telegram:", replies(home))
    finally:
        program.send_signal(signal.SIGTERM)
        program.wait(60)


def replies(home: Path) -> list[str]:
    """The delivered replies of Telegram chats."""
    try:
        with closing(sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True)) as db:
            sql = "SELECT text FROM outbox WHERE chat LIKE 'tg%' AND delivered IS NOT NULL"
            return [text for (text,) in db.execute(sql)]
    except sqlite3.Error:
        return []


def pack(home: Path, target: Path) -> None:
    """Write the home as a small archive, with whole databases and without what is made again."""
    for name in LEFT_OUT:
        path = home / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for database in home.glob("*.db"):
        with closing(sqlite3.connect(database)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("VACUUM")
        for suffix in ("-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(target, "w:xz") as archive:
        archive.add(home, arcname="home", filter=plain)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


def main() -> None:
    tree, target = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory(prefix="rumi-home-") as folder, World() as world:
        home = Path(folder) / "home"
        (home / "skills" / "tea").mkdir(parents=True, mode=0o700)
        home.chmod(0o700)
        (home / "skills" / "tea" / "SKILL.md").write_text(SKILL, "utf-8")
        for words in COMMANDS:
            run(tree, home, *words)
        talk_on_telegram(tree, home, world)
        pack(home, target)


if __name__ == "__main__":
    main()
