"""The tools with which a chat's model starts a research task."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol

import trio

from rumi.agent.tool import Progress, Question, ToolResult
from rumi.models.model import ToolSpec
from rumi.platform.texts.questions import Detail, Value
from rumi.platform.untrusted_text import untrusted_block
from rumi.store.journal.records import TaskRecord
from rumi.web.links import links_in

MOST_URLS: Final = 10

Ask = Callable[[TaskRecord, Progress], Awaitable[TaskRecord]]
"""Runs an attached task to its end, and returns the ended task."""

_TEXT: Final = {"type": "string"}
_BACKGROUND: Final = {"type": "boolean"}


class StartTask(Protocol):
    """A function that starts a detached task: a task that runs in the background."""

    async def __call__(self, task: TaskRecord, /) -> TaskRecord:
        """Start the task; return it with its number."""
        ...


def _specs(
    name: str, description: str, own: Mapping[str, object], needed: tuple[str, ...]
) -> tuple[ToolSpec, ToolSpec]:
    """Return two specifications of a tool for models: without and with the `background` argument."""

    def spec(more: Mapping[str, object]) -> ToolSpec:
        properties = {"question": _TEXT, **own, **more}
        return ToolSpec(
            name, description, {"type": "object", "properties": properties, "required": list(needed)}
        )

    return spec({}), spec({"background": _BACKGROUND})


class ResearchTool:
    """The tool `research`: a separate researcher reads the web and answers with sources.

    The tasks that the tool starts take the owner, the chat, the language and the model from `task`. Without
    `begin`, no task can run in the background. `slots` limits the number of tasks that run at once.
    """

    concurrent = True
    turn_only = True
    name = "research"
    specs = _specs(
        name,
        "Have a researcher read the web and answer with sources, in minutes; in the background if need be.",
        {"urls": {"type": "array", "items": _TEXT}},
        ("question",),
    )
    kind = "web"

    def __init__(
        self, ask: Ask, task: TaskRecord, slots: trio.CapacityLimiter, begin: StartTask | None = None
    ) -> None:
        self._ask = ask
        self._task = task
        self._slots = slots
        self._begin = begin
        self.spec = self.specs[begin is not None]

    async def prepare(self) -> None:
        """Do nothing: the tool needs no preparation."""
        await trio.lowlevel.checkpoint()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question for the user, because a research request may send private data out."""
        asked = self._asked(arguments)
        if isinstance(asked, str):
            return None
        urls = [value.text for value in asked.get("urls", ()) if isinstance(value, Value)]
        consent = (str(asked["question"]), *str(asked.get("url", "")).split(), *urls)
        return Question("research", asked, consent)

    def _asked(self, arguments: Mapping[str, object]) -> dict[str, Detail] | str:
        """Return the arguments as the user sees them, or an error message."""
        question, urls = arguments.get("question"), arguments.get("urls")
        if not isinstance(question, str) or not question.strip():
            return f"{self.name} needs `question`, a string that is not empty"
        urls = [] if urls is None else urls
        if not isinstance(urls, list) or len(urls) > MOST_URLS or not all(isinstance(u, str) for u in urls):
            return f"{self.name} takes `urls` as a list of at most {MOST_URLS} strings"
        to = tuple(Value(f"{number}", url) for number, url in enumerate(urls, 1))
        return {**({"urls": to} if to else {}), "question": question.strip(), **_in_background(arguments)}

    def _options(self, arguments: Mapping[str, object]) -> dict[str, object]:
        return {"urls": arguments.get("urls") or []}

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Run the research without showing its steps."""
        return await self.call_reporting(arguments, lambda step: None)

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Run the research and return its answer, or start the research in the background.

        On cancellation, stops the research completely.
        """
        asked = self._asked(arguments)
        if isinstance(asked, str):
            return ToolResult(False, asked)
        task = TaskRecord(
            self.kind,
            self._task.owner,
            str(asked["question"]),
            self._task.chat,
            options=json.dumps(self._options(arguments)),
            language=self._task.language,
            model=self._task.model,
        )
        if arguments.get("background") is True and self._begin is not None:
            begun = await self._begin(task)
            return ToolResult(True, f"task {begun.id} has begun; the user gets its result as a message")
        async with self._slots:
            done = await self._ask(task, progress)
        inside = untrusted_block(f"{self.name}: task {done.id}", f"{done.state}\n\n{done.answer}")
        # Links with a query are left out, so that opening one asks first: a query can carry data to its host.
        links = tuple(link for link in links_in(done.answer) if "?" not in link)
        return ToolResult(done.state in ("succeeded", "out_of_budget"), inside, tainted=True, links=links)


class RepositoryTool(ResearchTool):
    """The tool `research_repo`: a separate researcher reads a repository."""

    name = "research_repo"
    specs = _specs(name, "The same with a git repository.", {"uri": _TEXT, "ref": _TEXT}, ("uri", "question"))
    kind = "repo"

    def _asked(self, arguments: Mapping[str, object]) -> dict[str, Detail] | str:
        uri, ref = arguments.get("uri"), arguments.get("ref")
        asked = super()._asked({"question": arguments.get("question")})
        if isinstance(asked, str):
            return asked
        if not isinstance(uri, str) or not uri.strip():
            return f"{self.name} needs `uri`, a string that is not empty"
        if ref is not None and not isinstance(ref, str):
            return f"{self.name} takes `ref` as a string"
        named = {"ref": ref} if ref else {}
        return {"url": uri.strip(), **named, **asked, **_in_background(arguments)}

    def _options(self, arguments: Mapping[str, object]) -> dict[str, object]:
        return {"uri": str(arguments["uri"]).strip(), "ref": arguments.get("ref") or ""}


class KindTool(ResearchTool):
    """A tool that starts tasks of a plugin's kind: the plugin's entry point names both."""

    def __init__(
        self,
        name: str,
        description: str,
        ask: Ask,
        task: TaskRecord,
        slots: trio.CapacityLimiter,
        begin: StartTask | None = None,
    ) -> None:
        self.name = self.kind = name
        self.specs = _specs(name, description, {}, ("question",))
        super().__init__(ask, task, slots, begin)

    def _asked(self, arguments: Mapping[str, object]) -> dict[str, Detail] | str:
        background = {"background": True} if arguments.get("background") is True else {}
        return super()._asked({"question": arguments.get("question"), **background})

    def _options(self, arguments: Mapping[str, object]) -> dict[str, object]:
        return {}


def _in_background(arguments: Mapping[str, object]) -> dict[str, Detail]:
    return {"background": "true"} if arguments.get("background") is True else {}
