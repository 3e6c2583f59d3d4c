"""The `web_fetch` tool: returns the content of a URL as text, or saves it as a file of the workspace."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, cast

from rumi.agent.tool import Progress, Question, Reach, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.sandbox.incoming import PlacedFile
from rumi.texts import Text
from rumi.web.messages import FetchError, Method, Page, Saved
from rumi.web.readers.pages.kinds import SNIFFED_BYTES, looks_like

MAX_TEXT_CHARS: Final = 50_000
"""Maximum number of characters of a page's text in a result. Links are taken from the whole page."""

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,40}/[a-z0-9][a-z0-9.+-]{0,60}")

SPEC = ToolSpec(
    name="web_fetch",
    description=(
        "Get a page of the web as Markdown, also JSON, text and PDF. Use addresses exactly as the user, a "
        "page or a search gave them: others may need the user's yes."
    ),
    parameters={
        "type": "object",
        "properties": {
            "url": {"type": "string"},
            "method": {
                "type": "string",
                "enum": ["GET", "HEAD"],
            },
        },
        "required": ["url"],
    },
)

SAVING_SPEC = ToolSpec(
    name=SPEC.name,
    description=f"{SPEC.description} With `save`, the file is stored there, unread.",
    parameters={
        "type": "object",
        "properties": {
            **cast(Mapping[str, object], SPEC.parameters["properties"]),
            "save": {
                "type": "string",
                "description": "Path, or folder/",
            },
        },
        "required": ["url"],
    },
)

_HTML: Final = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_HTML_ENDINGS: Final = (".html", ".htm", ".xhtml", ".mht", ".mhtml", ".php", ".asp", ".aspx", ".jsp")

SaveFile: TypeAlias = Callable[[str, str, Progress], Awaitable[tuple[Saved, PlacedFile]]]
"""Saves a URL to a path of the chat's workspace; see `rumi.web.files_from_web`."""


class WebFetch(Tool):
    """The `web_fetch` tool for the chat that `fetch` is bound to.

    The protocol `Fetch` describes the effects, the steps and the errors. With `save`, the tool can also save
    files.
    """

    specs = (SPEC, SAVING_SPEC)
    spec = SPEC
    concurrent = True
    looks_outside = True
    only_reads = True

    def __init__(
        self, fetch: Callable[[str, Method, Progress], Awaitable[Page]], save: SaveFile | None = None
    ) -> None:
        self._fetch = fetch
        self._save = save
        if save is not None:
            self.spec = SAVING_SPEC

    def saves(self, arguments: Mapping[str, object]) -> bool:
        """Return True for a call that saves a file."""
        return self._save is not None and arguments.get("save") not in (None, "")

    def reading(self) -> "WebFetch":
        """Return the tool without `save`; a tool that never saves is its own reading form."""
        return WebFetch(self._fetch) if self._save is not None else self

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question for a URL that is not in `known_urls`; an unknown URL could leak data.

        A known URL without its fragment counts as known too.
        """
        from rumi.web.url import parse_target  # the parser is loaded on its first use, not at startup

        url = arguments.get("url")
        if not isinstance(url, str) or _method(arguments) is None:
            return None
        try:
            target = parse_target(url)
        except FetchError:
            return None
        if target.href in known_urls or target.href in {
            known_url.partition("#")[0] for known_url in known_urls
        }:
            return None
        saved = arguments.get("save") if self.saves(arguments) else None
        path = {"path": saved} if isinstance(saved, str) else {}
        # A standing approval covers reading, not what a file would replace.
        reach = None if path else Reach(self.spec.name, host=target.origin, address=target.page, reads=True)
        return Question("fetch", {"url": target.href, "host": target.host, **path}, reach=reach)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Fetch the page. On cancellation, nothing of the fetch keeps running."""
        return await self.call_reporting(arguments, lambda step: None)

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Fetch the page or save the file, and report redirects and the progress of large downloads."""
        url, method = arguments.get("url"), _method(arguments)
        if not isinstance(url, str):
            return ToolResult(False, Text("web_fetch needs `url`, a string"))
        if method is None:
            return ToolResult(False, Text("web_fetch takes `method` as GET or HEAD"))
        if arguments.get("save") not in (None, ""):
            return await self._saved(url, method, arguments["save"], progress)
        try:
            page = await self._fetch(url, method, progress)
        except FetchError as error:
            return failure(url, error)
        return await self.reported(page, method)

    async def _saved(self, url: str, method: Method, path: object, progress: Progress) -> ToolResult:
        if self._save is None:
            return ToolResult(False, Text("web_fetch cannot save files here"), refused=True)
        if method != "GET" or not isinstance(path, str):
            return ToolResult(False, Text("web_fetch takes `save` as a path, and only with GET"))
        relative = path.removeprefix("/workspace/") if path != "/workspace" else "."
        try:
            saved, placed = await self._save(url, relative, progress)
        except FetchError as error:
            return failure(url, error)
        except RumiError as error:
            return ToolResult(
                False, Text("not saved: {error}", error=error.for_model), advice=error.for_people
            )
        asked = "/".join(part for part in relative.split("/") if part not in ("", "."))
        return report_saved(saved, placed, named_here=placed.path == asked)

    async def reported(self, page: Page, method: Method) -> ToolResult:
        """Return the tool result for a page."""
        return report(page, method)


def report(page: Page, method: Method = "GET") -> ToolResult:
    """Return the tool result for a page: facts about the page, then its content in an untrusted block."""
    left_out = len(page.text) - MAX_TEXT_CHARS
    cut = [f"the last {left_out} characters of the text are left out"] if left_out > 0 else []
    result = page_result(page, page_inside(page, method), cut=cut)
    return replace(result, whole_output=page.text.encode("utf-8", "replace")) if cut else result


def report_saved(saved: Saved, placed: PlacedFile, *, named_here: bool) -> ToolResult:
    """Return the tool result for a saved file: its path and facts about it, and never its content.

    Unless the file was `named_here`, its server has named it, and the path is in an untrusted block.
    """
    head = saved.head[:SNIFFED_BYTES]
    text = not looks_like(head) and b"\0" not in head
    page = _HTML.match(head) is not None
    facts = [
        f"{saved.size:,} bytes",
        _type(saved.media_type),
        "an HTML page" if page else looks_like(head),
        f"{saved.lines:,} line ends" if text and saved.size else "",
        f"sha256 {saved.sha256[:16]}…",
        f"after {saved.redirects} redirect{'s' * (saved.redirects > 1)}" if saved.redirects else "",
        f"in {saved.tries} tries" if saved.tries > 1 else "",
        "unpacked: the server had compressed it for the transfer" if saved.unpacked else "",
        "replaced the file that was there" if placed.replaced else "",
    ]
    notes = []
    if not saved.size:
        notes.append("The file is empty.")
    if page and not placed.path.lower().endswith(_HTML_ENDINGS):
        notes.append(
            "It is an HTML page, perhaps a login or an error page, and not the kind of file of its name. "
            "Look at it before you use it."
        )
    if not saved.sized:
        notes.append("The server did not say where the file ends, so its end may be missing.")
    path = f"/workspace/{placed.path}"
    said = f"saved{f' {path}' if named_here else ''}: {' · '.join(filter(None, facts))}"
    named = () if named_here else (untrusted_block(saved.url, f"saved as {path}"),)
    content = "\n".join((said, *notes, *named))
    return ToolResult(True, content, tainted=True, links=(saved.url,))


def page_result(page: Page, text: str, *, first: Sequence[str] = (), cut: Sequence[str] = ()) -> ToolResult:
    """Return a tool result for a page: one line of facts, starting with `first`, then `text` in a block.

    The block is delimited as untrusted. `cut` describes the parts of the page that are left out.
    """
    cut = [*([one_line(page.cut, 300)] if page.cut else []), *cut]
    facts = [*first, f"status {page.status}", _type(page.media_type)]
    if page.redirects:
        facts.append(f"after {page.redirects} redirect{'s' * (page.redirects > 1)}")
    facts += [f"cut: {limit}" for limit in cut]
    untrusted = untrusted_block(page.url, text)
    cached = ["from the cache"] if page.cached else []
    return ToolResult(
        ok=True,
        content=f"{' · '.join(facts + cached)}\n{untrusted}",
        truncated=bool(cut),
        same_as=f"{' · '.join(facts)}\n{untrusted}",
        tainted=True,
        links=tuple(dict.fromkeys((page.url, *page.links))),
    )


def failure(url: str, error: FetchError) -> ToolResult:
    """Return the tool result for a failed fetch. Text from the server is in a delimited untrusted block."""
    if not error.answered:
        return ToolResult(False, Text("not fetched: {error}", error=error.for_model))
    return ToolResult(
        False, Text("not fetched\n{url}", url=untrusted_block(url, error.for_model)), tainted=True
    )


def page_inside(page: Page, method: Method = "GET") -> str:
    """Return a page's title and text, up to `MAX_TEXT_CHARS`, or a description of a page without text."""
    title = f"title: {' '.join(page.title.split())[:300]}" if page.title.strip() else ""
    text = page.text[:MAX_TEXT_CHARS].strip() or page.described
    if not text:
        text = "(HEAD has no text)" if method == "HEAD" else "(no text)"
    return f"{title}\n\n{text}" if title else text


def _type(media_type: str) -> str:
    """Return the media type if it is well-formed, otherwise `unknown type`.

    The check is needed because the server chooses the media type, and the result shows it outside of the
    untrusted block.
    """
    lowered = media_type.lower()
    return lowered if _MEDIA_TYPE.fullmatch(lowered) else "unknown type"


def _method(arguments: Mapping[str, object]) -> Method | None:
    method = arguments.get("method")
    if method is None:  # many models write null for arguments that they omit
        return "GET"
    if not isinstance(method, str):
        return None
    known: dict[str, Method] = {"GET": "GET", "HEAD": "HEAD"}
    return known.get(method.upper())
