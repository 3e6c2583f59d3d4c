"""`make pictures`: the real program's screens, drawn as SVG, and the page's if there is a Chromium.

The model is the built-in one and the sandbox bubblewrap, so that the pictures are the same on every machine.
Values that differ in each run (times, ids, sizes) are replaced by one example.
"""

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from docs.making import page
from docs.making.screens import Window, drawn, window, write

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
RUMI = str(Path(sys.executable).with_name("rumi"))
COLUMNS = 80

CHAT_MASKS = [
    (r"exit (\d+) · [\d.]+ (?:ms|s)", r"exit \1 · 12 ms"),
    (r"exit code (\d+) \([\d.]+ (?:ms|s)\)", r"exit code \1 (12 ms)"),
    (r"· cli · [\d.]+ (?:ms|s)(?: · \d+ tokens)?", "· cli · 1.4 s"),
    (r"bwrap-[0-9a-f]{12}", "bwrap-72ebd8a054af"),
]
STATUS_MASKS = [
    (r"process \d+ · up [\w. ]+ ·", "process 4711 · up 41 s ·"),
    (r"state\.db [\d.]+ KB", "state.db 86.0 KB"),
    (r"memory\.db [\d.]+ KB", "memory.db 20.5 KB"),
    (r"chats? at work, [\d.]+ s", "chats at work, 3 s"),
    (r"[\d.]+ s in bash", "32 s in bash"),
    (r"bwrap-[0-9a-f]{12}", "bwrap-72ebd8a054af"),
    (r"last update [\d.]+ s ago", "last update 4 s ago"),
    (r"being removed, [\d.]+ s", "being removed, 4 s"),
]
CTRL_C = "\x03"


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        write(PICTURES / "chat.svg", chat(Path(folder) / "chat"))
        write(PICTURES / "status.svg", status(Path(folder) / "status"))
    if shutil.which("chromium"):
        page.make_pictures()


def chat(home: Path) -> str:
    """A person works with files, the assistant remembers something, and a command is stopped."""
    env = environment(home)
    with window([RUMI, "chat"], env, columns=COLUMNS, rows=40) as terminal:
        terminal.see("›")
        say(terminal, "write notes.txt: buy bread, call Ana; then run wc -w notes.txt", "4 notes.txt", 2)
        say(terminal, "remember city = Rosario", "Rosario", 2)
        say(terminal, "run sleep 600", "$ sleep 600")
        terminal.type(CTRL_C)
        terminal.see("Stopped")
        return drawn(terminal.screen, "rumi", CHAT_MASKS)


def status(home: Path) -> str:
    """A bot with several chats at work, one of them in a command that takes long, and one that gave up."""
    env = environment(home)
    house = page.Installation(home)
    with house.telegram(), house.running():
        for _ in range(6):
            house.writes(1003, "crash")
        for person, text in ((1001, "run sleep 600"), (1002, "write a.txt: b; then run sleep 500")):
            house.writes(person, text)
        house.writes(1004, "list files")
        page.until(lambda: house.is_answered(7) and delivered(home))
        with window([RUMI, "status"], env, columns=COLUMNS, rows=40) as terminal:
            terminal.see("control")
            return drawn(terminal.screen, "rumi status", STATUS_MASKS)


def delivered(home: Path) -> bool:
    """Return True if no reply waits for Telegram any more."""
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        (waiting,) = db.execute("SELECT count(*) FROM outbox WHERE delivered IS NULL").fetchone()
    return bool(waiting == 0)


def say(terminal: Window, text: str, answer: str, times: int = 1) -> None:
    """Type a line and wait for its result."""
    terminal.type(f"{text}\r")
    terminal.see(answer, times)


def environment(home: Path) -> dict[str, str]:
    """Return the program's environment, which contains nothing of this machine."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        'language = "en"\n[model]\ndefault = "offline"\n[sandbox]\nbackend = "bubblewrap"\ntimeout_s = 600\n'
        "[telegram]\nallowed_users = [1001, 1002, 1003, 1004]\n"
    )
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "RUMI_HOME": str(home)}


if __name__ == "__main__":
    main()
