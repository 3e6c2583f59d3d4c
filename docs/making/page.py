"""The pictures of the page: the real program with a Telegram server on loopback, in Chromium.

`python -m docs.making.page` takes them again. Nothing in them is drawn: the model is the built-in one, the
sandbox is bubblewrap. One fault is planted: the message "crash" crashes its chat.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.fakes.bot_api import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"

CONFIG = """\
language = "en"
[model]
default = "offline"
[sandbox]
backend = "bubblewrap"
timeout_s = 600
[telegram]
allowed_users = [1001, 1002, 1003, 1004]
"""

PROGRAM = """
from rumi.chats.chat import Chat
from rumi.cli import main
judge = Chat._judge
def planted(self, message):
    if message.text == "crash":
        raise RuntimeError("a planted fault")
    judge(self, message)
Chat._judge = planted
main()
"""

SAID = (
    "write shopping.txt: bread, olives, three lemons; then run wc -w shopping.txt",
    "read shopping.txt",
    "run sh -c 'ls -l / | head -4'",
    "run sleep 200",
)
"""The messages in the page's chat. The last one still runs when the picture is taken."""

TOLD = (
    (1002, "run sh -c 'seq 300000 | sort -r | head -1'"),
    (1004, "write plan.md: Saturday, the museum; then read plan.md"),
    (1002, "run sleep 2"),
    (1004, "run sleep 1"),
    (1002, "run false"),
    (1004, "run sleep 4"),
    (1004, "crash"),
    (1002, "run sh -c 'seq 2000000 | sort -rn | tail -1'"),
)
"""The messages to the bot, one after the other."""

SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}
BOUND_S = 60.0


class Installation:
    """A Rumi that serves a Telegram bot and the page."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._telegram: subprocess.Popen[str]
        self._rumi: subprocess.Popen[bytes]
        self.env: dict[str, str] = {}

    @contextlib.contextmanager
    def telegram(self) -> Iterator[None]:
        """Run a Telegram server on loopback."""
        command = [sys.executable, "-m", "tests.fakes.telegram_server"]
        pipe = subprocess.PIPE
        with (self.home / "telegram").open("w") as told:
            self._telegram = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=told, text=True)
        try:
            until(lambda: "\n" in (self.home / "telegram").read_text())
            self.env = {
                **os.environ,
                "RUMI_HOME": str(self.home),
                "TELEGRAM_TOKEN": TOKEN,
                "TELEGRAM_BASE_URL": self._address(),
            }
            yield
        finally:
            self._telegram.terminate()
            self._telegram.communicate(timeout=BOUND_S)

    def _address(self) -> str:
        return (self.home / "telegram").read_text().partition("\n")[0]

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Serve within a block; yield the page's login link."""
        told = self.home / "told"
        with told.open("w") as out:
            command = [sys.executable, "-c", PROGRAM, "telegram", "--web", "127.0.0.1:0"]
            self._rumi = subprocess.Popen(command, cwd=ROOT, env=self.env, stderr=out)
        try:
            until(lambda: "Serving" in told.read_text())
            yield next(word for word in told.read_text().split() if "/login?code=" in word)
        finally:
            self._rumi.send_signal(signal.SIGTERM)
            self._rumi.wait(BOUND_S)

    def writes(self, who: int, text: str) -> None:
        """Send a message to the bot as that user."""
        telegram: IO[str] | None = self._telegram.stdin
        assert telegram is not None
        print(who, text, file=telegram, flush=True)

    def is_answered(self, times: int) -> bool:
        """Return True if that many messages have their replies."""
        with contextlib.closing(sqlite3.connect(self.home / "state.db")) as db:
            (count,) = db.execute("SELECT count(*) FROM messages WHERE reply IS NOT NULL").fetchone()
        return bool(count >= times)


def until(holds: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + BOUND_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


def make_pictures(folder: Path = PICTURES) -> list[Path]:
    """Take all pictures of the page; they are named `page-….png`."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        home = Path(temporary)
        (home / "config.toml").write_text(CONFIG)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        installation = Installation(home)
        with installation.telegram(), installation.running() as link:
            _live(installation)
            return list(_taken(browser, link, folder))


def _live(installation: Installation) -> None:
    """Let the bot work, so that the page shows something."""
    for answered, (who, text) in enumerate(TOLD):
        installation.writes(who, text)
        until(partial(installation.is_answered, answered + 1))
    for _ in range(6):
        installation.writes(1003, "crash")
    installation.writes(1001, "run sleep 300")
    time.sleep(2)


def _taken(browser: "Browser", link: str, folder: Path) -> Iterator[Path]:
    width, height = SCREENS["desktop"]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(link)
    for text in SAID:
        page.fill("#message", text)
        page.press("#message", "Enter")
        page.wait_for_selector(
            ".entry.answer.running" if text == SAID[-1] else ".entry.answer.done:last-child"
        )
        time.sleep(0.5)
    time.sleep(5)
    for scheme in ("light", "dark"):
        for screen, (width, height) in SCREENS.items():
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.set_viewport_size({"width": width, "height": height})
            _look_at(page, "#talk" if scheme == "light" else "#house")
            path = folder / f"page-{screen}-{scheme}.png"
            page.screenshot(path=path)
            yield path

    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": SCREENS["desktop"][0], "height": SCREENS["desktop"][1]})
    page.click("#open-shelf")
    page.fill("#words", "olives")
    page.click("#open-files")
    page.wait_for_selector("#shelf-found li")
    page.wait_for_selector("#files-list li")
    path = folder / "page-chats.png"
    page.screenshot(path=path)
    yield path


def _look_at(page: "Page", what: str) -> None:
    """Scroll to a part of the page that does not fit on the screen."""
    page.evaluate("log.scrollTop = log.scrollHeight")
    page.evaluate(
        f"document.querySelector({what!r}).scrollIntoView()" if what != "#talk" else "scrollTo(0, 0)"
    )
    time.sleep(0.5)


if __name__ == "__main__":
    for picture in make_pictures():
        sys.stdout.write(f"{picture.relative_to(ROOT)} {picture.stat().st_size / 1000:.0f} kB\n")
