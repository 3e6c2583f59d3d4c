"""One Rumi with its page for all tests of a module, and one browser."""

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from rumi.sandbox.processes import descendants
from tests.channels.page.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


MOST_S: Final = 300.0
"""How long a test in a browser may take: `evaluate` alone would wait for ever."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("page") / "home") as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # for machines that are busy

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def bounded(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the browser of a test that takes very long: its calls fail then, and the other tests go on."""
    if "browser" not in request.fixturenames:
        yield
        return
    timer = threading.Timer(MOST_S, _end_browsers)
    timer.start()
    yield
    timer.cancel()


def _end_browsers() -> None:
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"chromium" in words[0] and not any(word.startswith(b"--type=") for word in words):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """A browser that has just come in."""
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}) as client:
        assert client.get(served.new_link()).status_code == 303
        yield client
