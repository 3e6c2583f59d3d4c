"""The two task kinds of research: on the web, and in a repository."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from rumi.agent.tools.delegate import Delegate
from rumi.errors import RumiError
from rumi.models.model import Message
from rumi.platform.texts.translation import error_text
from rumi.platform.threads import Threads
from rumi.platform.untrusted_text import one_line
from rumi.platform.zones import local_at
from rumi.sandbox.engine import SandboxLimits
from rumi.store.journal.records import Reason
from rumi.tasks.kinds import Finished, TaskContext, TaskWork
from rumi.tasks.research.prose import commits_in, file_references_in
from rumi.tasks.research.receipts import Report, check
from rumi.tasks.research.repository.cache import RepositoryCache
from rumi.tasks.research.repository.repository import Repository, open_repository
from rumi.tasks.research.repository.tools import git_tools
from rumi.tasks.research.sources import Source, Sources
from rumi.tasks.research.web import Note, WebResearch
from rumi.tasks.research.workspace import workspace_tools
from rumi.web.links import urls_in_words
from rumi.web.messages import StreamFetcher
from rumi.web.tree import Web
from rumi.web.url import parse_target

PROMPTS: Final = Path(__file__).parent / "prompts"
"""The folder of the prompt texts for research. A home may replace these texts."""

SAID_FAILURES: Final = 3
"""Maximum number of failures in the error message if nothing could be reached."""

MOST_REFERENCES: Final = 200
"""Maximum number of file lines, and of commits, checked per answer. The rest count as missing."""


class WebKind:
    """The task kind for research on the web. Its option `urls` lists the pages to fetch first.

    `words` is the text of its prompt.
    """

    def __init__(self, web: Web, words: str, now: Callable[[], float]) -> None:
        self._web = web
        self._words = words
        self._now = now

    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        """Prepare a research task on the web, and fetch its first pages.

        Raises:
            RumiError: The task's files cannot be used, or none of the requested pages can be read.
        """
        task, language = context.task, context.language
        sources = await Sources.open(context.files)
        urls = [parse_target(url).href for url in _strings(json.loads(task.options).get("urls"))]
        research = WebResearch(
            task.question,
            urls,
            words=self._words,
            today=local_at(self._now(), context.zone).date().isoformat(),
            fetch=partial(self._web.fetch, context.key, whole=True),
            search=partial(self._web.search, context.key),
            shell=context.shell,
            sources=sources,
            context_tokens=context.context_tokens,
        )
        first = await research.prefetched(context.report)
        # None of the requested pages can be read. A resumed task with stored sources continues all the same.
        if first.failed and not first.messages and not sources.all:
            raise first.failed[0][1]
        for url, error in first.failed:
            context.report(one_line(f"{url}: {error}", 300))

        async def finish(answer: str, reason: Reason) -> Finished:
            text, report = await research.finish(answer, reason == "complete", language)
            if reason != "complete" or not research.unreached:
                return Finished(text, report)
            # An answer from the model's memory alone is not research, however certain it sounds.
            error = unreachable(research.unreached)
            report = json.dumps({**json.loads(report), "error": error.to_json()}, ensure_ascii=False)
            return Finished(f"❌ {error_text(language, error)}\n\n{text}", report, "failed")

        missed = [f"[{one_line(url, 300)} could not be fetched: {error}]" for url, error in first.failed]

        yield TaskWork(
            instructions=research.instructions,
            tools=(*research.tools, Delegate()),
            finish=finish,
            before=tuple(Message("user", text) for text in (*first.messages, *missed)),
            known_urls=(*urls_in_words(task.question), *urls, *first.links),
            sources=lambda: len(sources.all),
        )


class RepositoryKind:
    """The task kind for research in a repository.

    Its options: `uri` (the address), `ref` (what to check out), `full` (clone the whole history), and `local`
    (allow a local folder).
    """

    def __init__(
        self, words: str, streams: Callable[[], StreamFetcher], cache: RepositoryCache, limits: SandboxLimits
    ) -> None:
        self._words = words
        self._streams = streams
        self._cache = cache
        self._limits = limits

    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        """Clone the repository; the clone exists until the block ends.

        Raises:
            RumiError: The repository cannot be cloned. The error says why.
        """
        options: dict[str, Any] = json.loads(context.task.options)
        sources = await Sources.open(context.files)
        async with open_repository(
            str(options.get("uri", "")),
            ref=str(options.get("ref") or ""),
            full=bool(options.get("full")),
            shell=context.shell,
            workspace=context.workspace,
            cache=self._cache,
            network=self._streams(),
            progress=context.report,
            local_allowed=bool(options.get("local")),
            sandbox_limits=self._limits,
        ) as repository:

            async def noted(path: str, text: str) -> Source | None:
                return await sources.add("file", path, path, text)

            async def finish(answer: str, reason: Reason) -> Finished:
                report = await _checked(answer, context, sources, repository)
                return Finished(*report.end(sources.notes, reason == "complete", context.language))

            yield TaskWork(
                instructions=f"{self._words}\n\n{repository.facts()}",
                tools=(
                    *git_tools(repository),
                    *workspace_tools(context.shell, noted, repository.marks),
                    Note(sources),
                    Delegate(),
                ),
                finish=finish,
                known_urls=urls_in_words(context.task.question),
                sources=lambda: len(sources.all),
            )


async def _checked(answer: str, context: TaskContext, sources: Sources, repository: Repository) -> Report:
    """Check an answer against the repository and the sources."""
    lines = {
        (reference.path, line)
        for reference in file_references_in(answer)
        for line in (reference.first, reference.last)
    }
    there = {line for line in sorted(lines)[:MOST_REFERENCES] if await repository.exists(*line)}
    named = sorted({name for _, name in commits_in(answer)})[:MOST_REFERENCES]
    commits = {name for name in named if await repository.commit(name) is not None}
    texts = await sources.texts()
    return await Threads()(
        lambda: check(
            answer,
            texts,
            lambda path, line: (path, line) in there,
            is_commit=commits.__contains__,
            language=context.language,
            asked=context.task.question,
        )
    )


def unreachable(why: Sequence[str]) -> RumiError:
    """Return the error for a research task that could not read any source."""
    reasons = " ".join(why[-SAID_FAILURES:])
    return RumiError(
        "Nothing was read, because nothing could be reached: {reasons}",
        "Look at the network with: rumi doctor",
        reasons=reasons,
    )


def _strings(found: object) -> Sequence[str]:
    return [str(item) for item in found] if isinstance(found, list) else []
