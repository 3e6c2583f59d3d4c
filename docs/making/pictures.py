"""`make pictures`: screens of the real program as SVG, recordings, and the page's if there is a Chromium.

The model is the built-in one and the sandbox bubblewrap, so that the pictures are the same on every machine.
In a picture, values that differ in each run (times, ids, sizes) are replaced by one example. A recording (an
asciicast) has the real output and its times. `docs/screens.md` shows the screens in each width, language and
theme.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.making import page
from docs.making.screens import DARK, LIGHT, Window, cast, drawn, window, write

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
SCREENS = PICTURES / "screens"
RUMI = str(Path(sys.executable).with_name("rumi"))
COLUMNS = 80
WIDTHS = (60, 100, 200)
THEMES = {"dark": DARK, "light": LIGHT}
PACE_S = 0.04
"""The pause after each key in a recording, in seconds."""

SAID = {
    "en": (
        "write notes.txt: buy bread, call Ana; then run wc -w notes.txt",
        "4 notes.txt",
        "remember city = Rosario",
        "run sleep 600",
        "Stopped",
    ),
    "es": (
        "escribe notas.txt: comprar pan, llamar a Ana; luego ejecuta wc -w notas.txt",
        "5 notas.txt",
        "recuerda ciudad = Rosario",
        "ejecuta sleep 600",
        "cancelada",
    ),
}
"""What a person says in each language, the output of the first line, and a word of the reply to Ctrl-C."""

CHAT_MASKS = [
    (r"^✓ (.+) · [\d.]+ s", r"✓ \1 · 3.0 s"),
    (r"(exit|salida) (\d+) · [\d.]+ (?:ms|s)", r"\1 \2 · 12 ms"),
    (r"exit code (\d+) \([\d.]+ (?:ms|s)\)", r"exit code \1 (12 ms)"),
    (r"bakery-[0-9a-f]+", "bakery-3c760c0b"),
    (r"· (cli|bakery-3c760c0b) · [\d.]+ (?:ms|s)(?: · \d+ tokens)?", r"· \1 · 1.4 s"),
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
        svg, recording = chat(Path(folder) / "chat")
        write(PICTURES / "chat.svg", svg)
        write(PICTURES / "first-chat.cast", recording)
        write(PICTURES / "status.svg", status(Path(folder) / "status"))
        for language in SAID:
            for theme in THEMES:
                screens(Path(folder) / f"{language}-{theme}", language, theme)
        if works_on_folders():
            svg, recording = work(Path(folder) / "work")
            write(PICTURES / "folder.svg", svg)
            write(PICTURES / "folder.cast", recording)
    if shutil.which("chromium"):
        page.make_pictures()


def chat(home: Path) -> tuple[str, str]:
    """Return the picture and the recording of a first chat."""
    env = environment(home)
    with window([RUMI, "chat"], env, columns=COLUMNS, rows=40) as terminal:
        talk(terminal, "en", PACE_S)
        return drawn(terminal.screen, "rumi", CHAT_MASKS), cast(terminal, "Rumi: a first chat")


def talk(terminal: Window, language: str, pace_s: float = 0.0) -> None:
    """A person works with files, the assistant remembers something, and a command is stopped."""
    write_and_count, counted, remember, long_command, stopped = SAID[language]
    terminal.see("›")
    say(terminal, write_and_count, counted, 2, pace_s)
    say(terminal, remember, "Rosario", 2, pace_s)
    say(terminal, long_command, "$ sleep 600", 1, pace_s)
    terminal.type(CTRL_C)
    terminal.see(stopped)


def screens(home: Path, language: str, theme: str) -> None:
    """Draw the chat at each width, in a language and on a background."""
    env = environment(home, language, theme)
    for columns in WIDTHS:
        with window([RUMI, "chat", "--chat", f"at-{columns}"], env, columns=columns, rows=40) as terminal:
            talk(terminal, language)
            masks = [(rf"at-{columns}\b", "cli"), *CHAT_MASKS]
            svg = drawn(terminal.screen, f"rumi, {columns}", masks, THEMES[theme])
            write(SCREENS / f"chat-{columns}-{language}-{theme}.svg", svg)


def works_on_folders() -> bool:
    """Return True if this version works in project folders."""
    told = subprocess.run([RUMI, "chat", "--help"], capture_output=True, text=True, check=True)
    return "--here" in told.stdout


def work(home: Path) -> tuple[str, str]:
    """Return the picture and the recording of work in a folder: a change, what it is, and its way there."""
    project = home / "bakery"
    project.mkdir(parents=True)
    env = {**environment(home / ".rumi"), "HOME": str(home)}
    (project / "prices.csv").write_text("bread,2.40\nrolls,0.55\n")
    with window([RUMI, "--here"], env, columns=COLUMNS, rows=40, folder=project) as terminal:
        terminal.see("›")
        say(terminal, "edit prices.csv: bread,2.40 => bread,2.60", "/diff", 1, PACE_S)
        say(terminal, "/diff", "@@", 1, PACE_S)
        say(terminal, "/apply", "?", 1, PACE_S)
        terminal.type("y\r", PACE_S)
        terminal.see("✅")
        if "2.60" not in (project / "prices.csv").read_text():
            raise RuntimeError("The change is not in the folder.")
        return drawn(terminal.screen, "rumi --here", CHAT_MASKS), cast(terminal, "Rumi: work in a folder")


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


def say(terminal: Window, text: str, answer: str, times: int = 1, pace_s: float = 0.0) -> None:
    """Type a line and wait for its result."""
    terminal.type(text, pace_s)
    terminal.type("\r")
    terminal.see(answer, times)


def environment(home: Path, language: str = "en", theme: str = "dark") -> dict[str, str]:
    """Return the program's environment, which contains nothing of this machine."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        f'language = "{language}"\n[terminal]\ntheme = "{theme}"\n[model]\ndefault = "offline"\n'
        '[sandbox]\nbackend = "bubblewrap"\ntimeout_s = 600\n'
        "[telegram]\nallowed_users = [1001, 1002, 1003, 1004]\n"
    )
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "RUMI_HOME": str(home)}


if __name__ == "__main__":
    main()
