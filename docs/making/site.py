"""The documentation's site: a hook of MkDocs, which runs in an environment of its own (`make site`).

The navigation has the audiences of `docs/README.md` and its pages in their order. Pages and files outside of
`docs/` that a page links to are a part of the site: Markdown as pages, and other files as text in `source/`,
which a browser shows without a server. Folders of the repository have no page; their names stay as text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PROJECT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "actors/README.md")
"""Pages outside of `docs/`."""

LINK = re.compile(r"(?<!!)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<place>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()([^)\s]+)\)")
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
WORKER = "assets/worker_in_a_folder.js"
THEIRS = "https://unpkg.com/iframe-worker/shim"

NAMED = re.compile(r"(?<![\w`/(\[])(docs/[\w./-]+\.md(?:#[\w-]+)?|(?:CONTRIBUTING|SECURITY)\.md)(?![\w`\])])")
"""A page that the changelog names in plain text."""


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor that code hosts make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def page_of(path: str) -> str:
    """Return the page of the site for a Markdown file of the repository, below `docs/`."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return "project/" + path.replace("/", "-")


def target(path: str) -> str | None:
    """Return the file of the site, below `docs/`, for a file of the repository; None for a folder."""
    if (ROOT / path).is_dir():
        return "decisions/index.md" if path.rstrip("/") == "docs/decisions" else None
    if path.endswith(".md"):
        return page_of(path)
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.txt"


def rewritten(text: str, path: str) -> str:
    """Return a Markdown file's text with links to files of the site. `path` is relative to the repository."""
    here = posixpath.dirname(page_of(path))

    def place_of(link: str) -> str | None:
        found = target(posixpath.normpath(posixpath.join(posixpath.dirname(path), link)))
        return found and posixpath.relpath(found, here or ".")

    def link(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match["place"]):
            return match[0]
        place = place_of(match["place"])
        if place is None:
            return match["label"]
        label, anchor = match["label"], match["anchor"] or ""
        if label == posixpath.basename(match["place"]) and place.endswith(".md") and not anchor:
            label = title(ROOT / posixpath.normpath(posixpath.join(posixpath.dirname(path), match["place"])))
        return f"[{label}]({place}{'' if place.endswith('.txt') else anchor})"

    def picture(match: re.Match[str]) -> str:
        return f"{match[1]}{place_of(match[2]) or match[2]})"

    def prose(part: str) -> str:
        if path == "CHANGELOG.md":
            part = NAMED.sub(r"[\1](\1)", part)
        return PICTURE.sub(picture, LINK.sub(link, part))

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [prose(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, prose(text[end:])])


def title(path: Path) -> str:
    """Return a page's first heading."""
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ").replace("`", "")


def decisions() -> str:
    """Return the page that lists the decisions."""
    paths = sorted(DOCS.glob("decisions/[0-9]*.md"))
    lines = [f"- [{path.name[:4]}: {title(path)}]({path.name})" for path in paths]
    return (
        "# Decisions\n\nWhy Rumi is as it is: context, choice, alternatives, consequences.\n\n"
        + "\n".join(lines)
    )


def navigation() -> list[dict[str, Any]]:
    """Return the pages by audience, as `docs/README.md` has them; a page that is named twice stands once."""
    text = (DOCS / "README.md").read_text("utf-8")
    found: list[dict[str, Any]] = [{"Start": ["README.md", page_of("README.md")]}]
    seen: set[str] = set()
    for audience, part in re.findall(r"^## (For \w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        pages = []
        for match in LINK.finditer(part):
            place = target(posixpath.normpath(f"docs/{match['place']}"))
            if place and place.endswith(".md") and place not in seen:
                seen.add(place)
                pages.append(place)
        found.append({audience: pages})
    return found


def on_config(config: MkDocsConfig) -> None:
    """Set the navigation, and anchors as code hosts make them, so that links work in both places."""
    config.nav = navigation()
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": slug}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages and the source files outside of `docs/`."""
    for path in PROJECT:
        content = rewritten((ROOT / path).read_text("utf-8"), path)
        files.append(File.generated(config, page_of(path), content=content))
    files.append(File.generated(config, "decisions/index.md", content=decisions()))
    worker = (Path(__file__).parent / "worker_in_a_folder.js").read_bytes()
    files.append(File.generated(config, WORKER, content=worker))
    for path in sorted(_linked_sources(files)):
        content = (ROOT / path).read_bytes()
        files.append(File.generated(config, f"source/{path}.txt", content=content))


def on_post_page(output: str, page: Any, **_: object) -> str:
    """Replace the one script that the theme loads from another server."""
    return output.replace(THEIRS, posixpath.relpath(WORKER, posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, **_: object) -> str:
    """Replace it in the page for what is not found, too."""
    return output_content.replace(THEIRS, f"/{WORKER}") if template_name == "404.html" else output_content


def _linked_sources(files: Files) -> set[str]:
    found = set()
    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages() if file.generated_by is None]
    for path in [*pages, *PROJECT]:
        for match in LINK.finditer(FENCE.sub("", (ROOT / path).read_text("utf-8"))):
            place = posixpath.normpath(posixpath.join(posixpath.dirname(path), match["place"]))
            outside = not place.startswith(("docs/", "../")) and not place.endswith(".md")
            if outside and not re.match(r"[a-z]+:", match["place"]) and (ROOT / place).is_file():
                found.add(place)
    return found


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Rewrite the links of a page of `docs/`."""
    if page.file.generated_by is not None:
        return markdown
    return rewritten(markdown, f"docs/{page.file.src_uri}")
