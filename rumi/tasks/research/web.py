"""Research on the web: instructions, tools, the pages fetched first, and the check of the answer."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from rumi.agent.tool import Progress, Question, Tool, ToolResult
from rumi.agent.tools.bash import CommandShell
from rumi.agent.tools.search_files import MOST_BYTES
from rumi.agent.tools.web_fetch import WebFetch, page_inside, page_result
from rumi.agent.tools.web_search import WebSearch
from rumi.agent.tools.write_file import WriteFile
from rumi.models.model import ToolSpec, text_tokens
from rumi.models.token_budget import prompt_share
from rumi.platform.openat import shown
from rumi.platform.threads import Offload, Threads
from rumi.platform.untrusted_text import harmless, one_line
from rumi.tasks.research.receipts import Report, check
from rumi.tasks.research.sources import NOTE_CHARS, Source, Sources, SourcesFull
from rumi.tasks.research.workspace import workspace_tools
from rumi.texts import Language, Text
from rumi.web.messages import FetchError, Method, Page, SearchResults, Topic

PAGE_SHARE: Final = 1 / 8
"""Maximum share of a prompt that one page may take."""

PREFETCHED_SHARE: Final = 1 / 2
"""Maximum share of a prompt that all first pages of a research task may take together."""

_BEGINNING_CHARS: Final = 6000
_OUTLINE_LINES: Final = 60
_HEADING_CHARS: Final = 120
_HEADING: Final = re.compile(r"^(#{1,6} .*)$", re.MULTILINE)
_FILE: Final = re.compile(r"pages/([1-9]\d{0,5})\.md")

FetchPage = Callable[[str, Method, Progress], Awaitable[Page]]
SearchWeb = Callable[[str, int, Topic], Awaitable[SearchResults]]


@dataclass(frozen=True, slots=True)
class Prefetched:
    """The pages that a research task fetches first. `messages` contains their texts.

    The prompt contains `messages` as user messages before the question. `links` contains the URLs on these
    pages. `failed` contains each URL that could not be fetched, with its error.
    """

    messages: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    failed: tuple[tuple[str, FetchError], ...] = ()


class WebResearch:
    """One research task on the web.

    `words` is the text of the prompt `research-web`. `fetch` and `search` are bound to the task; `fetch`
    returns whole pages. `shell` is the task's sandbox. `today` is a date in ISO 8601. `context_tokens` is the
    maximum context of the model.
    """

    def __init__(
        self,
        question: str,
        urls: Sequence[str] = (),
        *,
        words: str,
        today: str,
        fetch: FetchPage,
        search: SearchWeb,
        shell: CommandShell,
        sources: Sources,
        context_tokens: int = 131_072,
        offload: Offload | None = None,
    ) -> None:
        self.question = question
        self.urls = tuple(dict.fromkeys(urls))
        self.sources = sources
        self.instructions = f"{words}\n\nToday is {today}."
        self._search = search
        self._found = False
        self._failures: dict[str, None] = {}
        self._fetch = fetch
        self._offload = offload or Threads()
        self._prompt_tokens = prompt_share(context_tokens)
        self._pages = Pages(sources, shell, self._offload)
        self.tools: tuple[Tool, ...] = (
            WebSearch(self._searched),
            ResearchFetch(self._fetched, self._pages, int(self._prompt_tokens * PAGE_SHARE)),
            *workspace_tools(shell, self._stored_page),
            Note(sources),
        )

    async def prefetched(self, progress: Progress = lambda step: None) -> Prefetched:
        """Fetch the first pages of the research concurrently. `progress` gets the steps.

        If a page has at most 50 KB, its message contains the whole page. If it is longer, its message
        contains the beginning, and the whole text is stored in the workspace. On cancellation, no fetch
        continues.
        """
        share = int(self._prompt_tokens * PREFETCHED_SHARE / max(len(self.urls), 1))
        got: dict[str, ToolResult | FetchError] = {}

        async def one(url: str) -> None:
            progress(one_line(url, 200))
            try:
                got[url] = await self._pages.shown(await self._fetch(url, "GET", progress), share)
            except FetchError as error:
                got[url] = error

        async with trio.open_nursery() as nursery:
            for url in self.urls:
                nursery.start_soon(one, url)
        results = [result for url in self.urls if isinstance(result := got[url], ToolResult)]
        return Prefetched(
            tuple(result.content for result in results),
            tuple(dict.fromkeys(link for result in results for link in result.links)),
            tuple((url, error) for url in self.urls if isinstance(error := got[url], FetchError)),
        )

    async def _searched(self, query: str, most: int, topic: Topic) -> SearchResults:
        try:
            results = await self._search(query, most, topic)
        except FetchError as error:
            self._failures[str(error)] = None
            raise
        self._found = True
        return results

    async def _fetched(self, url: str, method: Method, progress: Progress) -> Page:
        try:
            return await self._fetch(url, method, progress)
        except FetchError as error:
            self._failures[str(error)] = None
            raise

    @property
    def unreached(self) -> tuple[str, ...]:
        """Return the errors if no search engine and no page could be reached; otherwise an empty tuple."""
        return () if self._found or self.sources.all else tuple(self._failures)

    async def report(self, answer: str, language: Language = "en") -> Report:
        """Check an answer against the sources, in a worker thread.

        Raises:
            RumiError: The stored texts cannot be read.
        """
        texts = await self.sources.texts()
        lines = {text.source.file: text.text.count("\n") + 1 for text in texts}

        def exists(path: str, line: int) -> bool:
            # A page may quote a reference to a file line; repeating it is correct.
            return 1 <= line <= lines.get(path, 0) or any(f"{path}:{line}" in text.text for text in texts)

        return await self._offload(
            partial(check, answer, texts, exists, language=language, asked=self.question)
        )

    async def finish(self, answer: str, complete: bool, language: Language) -> tuple[str, str]:
        """Return the final text of the research for people, and the report as JSON.

        `complete` is False if a limit ended the research; then the text also contains the notes of the
        research.

        Raises:
            RumiError: The stored texts cannot be read.
        """
        return (await self.report(answer, language)).end(self.sources.notes, complete, language)

    async def _stored_page(self, path: str, text: str) -> Source | None:
        await trio.lowlevel.checkpoint()
        found = _FILE.fullmatch(path)
        return self.sources.get(int(found[1])) if found is not None else None


class Pages:
    """The pages of a research task.

    Each page is a source; a long page is also stored as a file in the workspace.
    """

    def __init__(self, sources: Sources, shell: CommandShell, offload: Offload) -> None:
        self._sources = sources
        self._offload = offload
        self._writer = WriteFile(shell)

    async def shown(self, page: Page, most_tokens: int) -> ToolResult:
        """Register a page as a source; return the text of the page that the model gets.

        Of a long page, only the outline and the beginning are returned. An error page, or a page without
        text, is not registered as a source.
        """
        text = await self._offload(lambda: harmless(page.text).strip())
        if page.status >= 400 or not text:
            return page_result(page, page_inside(page), first=["not a source"])
        try:
            source = await self._sources.add("page", page.url, page.title, text)
        except SourcesFull as error:
            return ToolResult(False, str(error), tainted=True)
        number = f"source [{source.number}]"
        size = len(text.encode("utf-8", "replace"))
        if size <= MOST_BYTES and text_tokens(text) <= most_tokens:
            return page_result(page, _titled(page, text), first=[number])
        written = await self._writer.put(f"/workspace/{source.file}", text.encode("utf-8", "replace"))
        if written.content not in ("created", "overwritten"):
            problem = f"too long to show, and it could not be stored: {written.content}"
            first = [number, one_line(problem, 300)]
        else:
            lines = text.count("\n") + 1
            first = [
                number,
                f"{size} bytes, {lines} lines: too long to show",
                f"all of it is in {source.file}, for grep and read",
            ]
        in_short = await self._offload(partial(_in_short, text, most_tokens))
        return page_result(page, _titled(page, in_short), first=first)


class ResearchFetch(WebFetch):
    """The tool `web_fetch` of a research task. It registers each page as a source."""

    def __init__(self, fetch: FetchPage, pages: Pages, most_tokens: int) -> None:
        super().__init__(fetch)
        self._pages = pages
        self._most_tokens = most_tokens

    async def reported(self, page: Page, method: Method) -> ToolResult:
        """Register the page as a source; return its text for the model. Answers to HEAD are not sources."""
        if method == "HEAD":
            return await super().reported(page, method)
        return await self._pages.shown(page, self._most_tokens)


class Note:
    """The tool `note`: stores results of a research task, in case a limit ends the task early."""

    concurrent = True
    spec = ToolSpec(
        name="note",
        description="Keep what you have established, with its sources, in case a limit ends the task.",
        parameters={
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    )

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def prepare(self) -> None:
        """Do nothing: the tool needs no preparation."""
        await trio.lowlevel.checkpoint()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: a note needs no approval, because it stays in its task."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Store the note on the disk before returning."""
        text = arguments.get("text")
        if not isinstance(text, str) or not text.strip():
            return ToolResult(False, Text("note needs `text`, a string that is not empty"))
        if len(text) > NOTE_CHARS:
            return ToolResult(
                False, Text("note takes a `text` of at most {note_chars} characters", note_chars=NOTE_CHARS)
            )
        if not await self._sources.note(text.strip()):
            return ToolResult(False, Text("there are too many notes. Answer with what you have"))
        return ToolResult(True, f"noted, number {len(self._sources.notes)}", tainted=True)


def _titled(page: Page, text: str) -> str:
    title = " ".join(page.title.split())[:300]
    return f"title: {title}\n\n{text}" if title else text


def _in_short(text: str, most_tokens: int) -> str:
    """Return the outline of a text with line numbers, and the beginning of the text."""
    outline = _outline(text)
    most_chars = max(500, min(_BEGINNING_CHARS, most_tokens * 3 // 2))
    beginning = text[:most_chars]
    beginning = beginning[: beginning.rfind("\n") + 1 or most_chars].rstrip()
    listed = ["The outline, with the numbers of lines:", *outline, ""] if outline else []
    return "\n".join([*listed, "The beginning:", beginning, "[… the rest is only in the file …]"])


def _outline(text: str) -> list[str]:
    found: list[str] = []
    line, at = 1, 0
    for heading in _HEADING.finditer(text):
        line += text.count("\n", at, heading.start())
        at = heading.start()
        found.append(f"{line}: {shown(heading[1])[:_HEADING_CHARS]}")
    if len(found) > _OUTLINE_LINES:
        return [*found[:_OUTLINE_LINES], f"… and {len(found) - _OUTLINE_LINES} more headings"]
    return found
