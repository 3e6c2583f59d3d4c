"""One Rumi with its page for all tests of a module, and one browser."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.channels.page.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """A browser that has just come in."""
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}) as client:
        assert client.get(served.new_link()).status_code == 303
        yield client
