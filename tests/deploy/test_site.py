"""The documentation's site, as `make site` builds it: complete, and without a request to another server."""

import http.server
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from markdown_it import MarkdownIt

from tests.conftest import REQUIRED, ROOT

MKDOCS = ROOT / ".venv/site/bin/mkdocs"
LOADING = {"src", "srcset", "poster", "data", "action"}
SHOWN = ("li", "pre", "table", "h1", "h2", "h3")

pytestmark = pytest.mark.long


class Page(HTMLParser):
    """What a page loads, links to, has anchors for, and how many elements of each kind its text has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.count = dict.fromkeys(SHOWN, 0)
        self._article = False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._article = self._article or tag == "article"
        for name, value in attrs:
            if name in LOADING or (name == "href" and tag == "link" and ("rel", "canonical") not in attrs):
                self.loads.append(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name == "id":
                self.anchors.add(value or "")
        if self._article and tag in self.count:
            self.count[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self._article = self._article and tag != "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS.exists():
        assert "site" not in REQUIRED, "there is no .venv/site: make site"
        pytest.skip("there is no .venv/site: make site")
    target = tmp_path_factory.mktemp("site")
    command = [str(MKDOCS), "build", "--strict", "--quiet", "--site-dir", str(target)]
    environment = {"PATH": os.environ["PATH"], "NO_MKDOCS_2_WARNING": "1", "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_no_page_loads_anything_of_another_server(site: Path) -> None:
    loaded = {load for path in site.rglob("*.html") for load in Page(path).loads}
    assert loaded
    assert not [load for load in loaded if re.match(r"[a-z]+:|//", load) and not load.startswith("data:")]
    for path in site.rglob("*.css"):
        urls = re.findall(r"url\(['\"]?([^)'\"]+)|@import ['\"]([^'\"]+)", path.read_text("utf-8"))
        assert not [url for pair in urls for url in pair if re.match(r"https?:|//", url)], path


def test_each_link_leads_to_a_page_or_file_and_its_heading(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            place, anchor = urldefrag(link)
            if re.match(r"[a-z]+:", link):
                continue
            target = (path.parent / unquote(place)).resolve() if place else path
            lost = anchor and target in pages and unquote(anchor) not in pages[target].anchors
            if not target.is_file() or lost:
                dead.append(f"{path.name}: {link}")
    assert dead == []
    assert any("source/rumi/chats/inbox.py.txt" in link for page in pages.values() for link in page.links)


def test_pages_have_the_lists_code_and_tables_that_a_code_host_shows(site: Path) -> None:
    """MkDocs reads an older Markdown: lists behind a text, and code in lists, need more spaces and lines."""
    differing = []
    for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/decisions").glob("*.md")]:
        tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text("utf-8"))
        opened = {"list_item_open": "li", "fence": "pre", "code_block": "pre", "table_open": "table"}
        expected = dict.fromkeys(SHOWN, 0)
        for token in tokens:
            kind = token.tag if token.type == "heading_open" else opened.get(token.type)
            if kind in expected:
                expected[kind] += 1
        name = "index.html" if path.name == "README.md" else path.with_suffix(".html").name
        shown = Page(site / path.parent.relative_to(ROOT / "docs") / name).count
        if shown != expected:
            differing.append(f"{path.name}: {expected} there, {shown} here")
    assert differing == []


def test_the_navigation_has_each_page_by_audience(site: Path) -> None:
    text = (site / "index.html").read_text("utf-8")
    tabs = re.findall(r'md-tabs__link">\s*([^<]+?)\s*</a>', text)
    assert tabs == ["Start", "For you", "For operators", "For engineers"]
    linked = set(Page(site / "index.html").links)
    pages = {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")} - {"README.html"}
    assert pages <= linked
    assert "project/SECURITY.html" in linked


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.browser
@pytest.mark.parametrize("way", ["http", "file"])
def test_search_finds_a_page_in_a_browser_that_asks_nobody_else(site: Path, way: str) -> None:
    from playwright.sync_api import sync_playwright

    with served(site) as url, sync_playwright() as playwright:
        base = url if way == "http" else site.as_uri()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        try:
            page = browser.new_page()
            asked: list[str] = []
            errors: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"{base}/cluster.html")
            page.click("input[name=query]")
            page.keyboard.type("snooze")
            found = page.wait_for_selector(".md-search-result__link[href*='schedules.html']", timeout=20_000)
            assert found is not None
            page.goto(f"{base}/operations.html")
            assert not errors
            assert not [
                address for address in asked if not address.startswith((f"{base}/", "data:", "blob:"))
            ]
        finally:
            browser.close()
