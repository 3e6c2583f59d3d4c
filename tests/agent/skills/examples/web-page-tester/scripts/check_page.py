"""Check a page: check_page.py PAGE --json REPORT. Exit 1 if a check failed."""

import argparse
import json
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """What the checks need to know of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = {"lang", "title"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at a tag."""
        names = dict(attrs)
        if tag == "html" and names.get("lang"):
            self.failed.discard("lang")
        if tag == "title":
            self.failed.discard("title")
        if tag == "img" and "alt" not in names:
            self.failed.add("alt")


options = argparse.ArgumentParser()
options.add_argument("page", type=Path)
options.add_argument("--json", type=Path, required=True)
given = options.parse_args()
page = Page()
page.feed(given.page.read_text())
given.json.write_text(json.dumps({"failed": sorted(page.failed)}))
raise SystemExit(1 if page.failed else 0)
