"""A research on a web of fifty pages, by a scripted model at a real server: what it reads and says."""

import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
import trio

from rumi.agent.breakers import TurnLimits
from rumi.agent.events import TurnEvent, TurnFinished
from rumi.agent.prompts.prompts import words_in
from rumi.agent.tool import Progress
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.models.chain import Chain, ChainStep
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import Message, Model
from rumi.models.offline import Offline
from rumi.models.server import ModelServer
from rumi.models.token_budget import TokenBudget
from rumi.tasks.research.kinds import PROMPTS
from rumi.tasks.research.sources import Sources
from rumi.tasks.research.web import WebResearch
from rumi.texts import Language
from rumi.web.messages import Fetch, Method, Page, SearchResults, SearchWeb, Topic
from rumi.web.search.searching import Searching
from tests.fakes import fifty_pages as island
from tests.fakes.fifty_pages import Island, fifty_pages
from tests.fakes.groq_server import KEY, Answer, Body, Script, answered_calls, serve_groq
from tests.fakes.search_servers import Give
from tests.tasks.research.desk import Desk
from tests.web.fetching import World, fetcher

NAME = "openai/gpt-oss-120b"
QUESTION = "When was the lighthouse of Bruma built?"


@dataclass
class Study:
    """A research that runs, and what its turn left."""

    web: Island
    world: World
    desk: Desk
    research: WebResearch
    stored: list[Message] = field(default_factory=list)

    async def turn(self, model: Model, language: Language = "en", **limits: int) -> TurnFinished:
        first = await self.research.prefetched()
        history = [
            *(Message("user", text) for text in first.messages),
            Message("user", self.research.question),
        ]
        turn_input = TurnInput(
            self.research.instructions,
            history,
            model,
            self.research.tools,
            replace(TurnLimits(max_turns=20), **limits),
            language,
            tainted=True,
            known_urls=first.links,
        )
        events: list[TurnEvent] = []

        async def store(message: TurnMessage) -> None:
            await trio.lowlevel.checkpoint()
            self.stored.append(message.message)

        with trio.fail_after(60):
            return await run_turn(turn_input, events.append, store)

    async def answered(self, script: Script, **limits: int) -> TurnFinished:
        async with serve_groq(script) as fake:
            server = ModelServer("groq", fake.base_url, KEY, dialect="groq", key_name="GROQ_API_KEY")
            model = ChatCompletions(server, NAME, name=f"groq:{NAME}", timeout_s=20)
            try:
                return await self.turn(
                    Chain([ChainStep(model, budget=TokenBudget(131_072))], chat="c"), **limits
                )
            finally:
                await server.aclose()

    @property
    def results(self) -> list[str]:
        return [message.content for message in self.stored if message.role == "tool"]


@asynccontextmanager
async def studying(
    desk: Desk, question: str = QUESTION, urls: Sequence[int] = (), context_tokens: int = 131_072
) -> AsyncIterator[Study]:
    async with fifty_pages() as web:
        searching = Searching("tavily", tavily_key="canary-0123456789", tavily_url=web.search.url)
        async with fetcher(web.web.endpoint, search=searching) as world:

            async def search(query: str, most: int, topic: Topic) -> SearchResults:
                return await world.ref.ask(SearchWeb(query, "task", most, topic))

            async def fetch(url: str, method: Method, progress: Progress) -> Page:
                return await world.ref.ask(Fetch(url, "task", method, progress, whole=True))

            research = WebResearch(
                question,
                [web.url(number) for number in urls],
                words=words_in(PROMPTS)["research-web"],
                today="2026-11-23",
                fetch=fetch,
                search=search,
                shell=desk,
                sources=desk.sources,
                context_tokens=context_tokens,
            )
            yield Study(web, world, desk, research)


def call(name: str, **arguments: object) -> tuple[str, str]:
    return (name, json.dumps(arguments))


async def test_a_research_answers_with_sources_that_open(desk: Desk) -> None:
    async with studying(desk) as study:
        url = study.web.url

        def script(body: Body) -> Answer:
            results = answered_calls(body)
            if not results:
                return Answer(
                    calls=[call("web_search", query="lighthouse"), call("web_search", query="Bruma")]
                )
            if len(results) == 2:
                return Answer(calls=[call("web_fetch", url=url(number)) for number in (2, 11, 44)])
            if len(results) == 5:
                return Answer(calls=[call("note", text="Built in 1874; page 11 lies")])
            # Pages that are fetched at once are numbered as they come.
            truth, lie, paper = (re.findall(r"^source (\[\d\])", result)[0] for result in results[2:5])
            return Answer(
                f'It was built in 1874: "{island.TRUTH}" {truth}. A company says that it was in "1921 by a '
                f'Swedish company" {lie}. "{island.PAPER_SAYS}" {paper} '
                f'Another page says "{island.LIES[37]}" [7]. It is famous.'
            )

        finished = await study.answered(script)
        assert finished.reason == "complete"
        report = await study.research.report(finished.answer)
        assert {source.address for source in report.sources} == {url(2), url(11), url(44)}
        assert (report.cited, report.removed) == ((1, 2, 3), (7,))
        assert report.missing_quotes == (island.LIES[37],)  # a lie of a page that was not read
        assert report.unverified[-1] == "It is famous."
        assert [claim.sources for claim in report.claims] != []
        for number in report.cited:
            assert island.TRUTH.split()[1] in await study.desk.sources.text(number)
        assert study.research.sources.notes == ("Built in 1874; page 11 lies",)
        assert sorted(study.web.paths) == ["/11", "/2", "/44"]


async def test_each_page_says_its_number_and_a_second_look_has_the_same(desk: Desk) -> None:
    async with studying(desk) as study:
        url = study.web.url
        script = [
            Answer(calls=[call("web_search", query="lighthouse")]),
            Answer(calls=[call("web_fetch", url=url(2))]),
            Answer(calls=[call("web_fetch", url=url(37))]),
            Answer(calls=[call("web_fetch", url=url(2))]),
            Answer(calls=[call("web_fetch", url=study.web.web.url("/none"))]),
            Answer("Done [1]."),
        ]
        await study.answered(script)
        heads = [result.split("\n")[0].split(" · ")[0] for result in study.results]
        assert heads[1:4] == ["source [1]", "source [2]", "source [1]"]
        assert "nobody is here" in heads[4]  # neither the user nor a page gave that address
        again = await Sources.open(desk.workspace.parent.parent.parent / "sources")
        assert [source.address for source in again.all] == [url(2), url(37)]


async def test_what_a_page_orders_does_not_happen(desk: Desk) -> None:
    """The model obeys; the program does not."""
    async with studying(desk, "What are the orders?") as study:
        url = study.web.url
        leak = study.web.web.url(f"{island.COMMANDED}question")

        def script(body: Body) -> Answer:
            done = len(answered_calls(body))
            if done == 0:
                return Answer(calls=[call("web_search", query="orders")])
            if done == 1:
                return Answer(calls=[call("web_fetch", url=url(42))])
            if done == 2:
                return Answer(
                    calls=[
                        call("web_fetch", url=leak),
                        call("web_search", query="anything"),
                        call("remember", key="a", value="b"),
                        call("send_file", path="x"),
                        call("bash", command="touch /workspace/pwned"),
                        call("read", path="/etc/passwd"),
                        call("read", path="../../etc/passwd"),
                    ]
                )
            return Answer("It orders things [1][2].")

        finished = await study.answered(script)
        report = await study.research.report(finished.answer)
        assert report.answer == "It orders things [1]."
        assert set(study.web.paths) == {"/42"}
        assert not (desk.workspace / "pwned").exists()
        refused = study.results[2:]
        assert "nobody is here" in refused[0]
        assert all("there is no tool" in result for result in refused[2:5])
        assert all("/workspace" in result for result in refused[5:7])
        page = study.results[1]
        assert page.count("</page>") == 1
        assert page.endswith("</page>")


async def test_a_large_page_is_a_file_with_an_outline(desk: Desk) -> None:
    async with studying(desk, urls=[43], context_tokens=32_000) as study:
        first = await study.research.prefetched()
        (shown,) = first.messages
        assert len(shown) < 20_000
        assert "all of it is in pages/1.md" in shown
        assert "1: # The log" in shown
        assert "only the first 1,000,000 bytes of the page were read" in shown
        script = [
            Answer(calls=[call("grep", pattern="lamp of the lighthouse", path="pages")]),
            Answer(calls=[call("find", pattern="*.md"), call("ls", path="pages")]),
            Answer(calls=[call("read", path="pages/1.md", offset=250, limit=90)]),
            Answer(
                f'"{island.FACT_AT_THE_END}" [1] It stands in pages/1.md:5, and not in pages/1.md:999999.'
            ),
        ]
        finished = await study.answered(script)
        assert island.FACT_AT_THE_END in study.results[0]
        assert "pages/1.md" in study.results[1]
        assert study.results[3].startswith("source [1] · pages/1.md: lines 250-339")
        report = await study.research.report(finished.answer)
        assert report.missing_quotes == ()
        assert report.missing_places == ("pages/1.md:999999",)
        assert len(report.sources) == 1
        assert (desk.workspace / "pages/1.md").read_text() == await desk.sources.text(1)


class LongestStep(trio.abc.Instrument):
    """The most time that the event loop's thread has worked without a break, in seconds of its processor."""

    def __init__(self) -> None:
        self.seconds, self._began = 0.0, time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seconds = max(self.seconds, time.thread_time() - self._began)


async def test_a_large_page_does_not_hold_up_others(desk: Desk) -> None:
    async with studying(desk, urls=[2, 43]) as study:
        longest = LongestStep()
        trio.lowlevel.add_instrument(longest)
        await study.research.prefetched()
        trio.lowlevel.remove_instrument(longest)
        assert longest.seconds < 0.03


async def test_pages_that_were_given_are_read_before_the_question(desk: Desk) -> None:
    async with studying(desk, urls=[2, 42, 2, 44]) as study:
        study.web.web.paths.pop("/42")
        first = await study.research.prefetched()
        assert len(first.messages) == 3  # a page that says that it is not there is shown, and is no source
        assert "not a source" in first.messages[1]
        assert sorted(source.address for source in desk.sources.all) == [study.web.url(2), study.web.url(44)]
        assert study.web.url(3) in first.links or first.links
        assert island.PAPER_SAYS in first.messages[2]


async def test_an_address_that_cannot_be_fetched_is_told(desk: Desk) -> None:
    async with studying(desk, urls=[2]) as study:
        study.research.urls = (*study.research.urls, "http://10.0.0.1/", "no address")
        first = await study.research.prefetched()
        assert len(first.messages) == 1
        assert [url for url, _ in first.failed] == ["http://10.0.0.1/", "no address"]


async def test_a_cancelled_research_leaves_no_connection(desk: Desk) -> None:
    from tests.fakes.web_server import silence

    async with studying(desk, urls=[2, 3, 4]) as study:
        for path in ("/2", "/3", "/4"):
            study.web.web.paths[path] = silence
        with trio.move_on_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(study.research.prefetched)
                await study.web.web.until(lambda server: server.open == 3)
                nursery.cancel_scope.cancel()
            await study.web.web.until(lambda server: server.open == 0)
        assert study.web.web.open == 0
        assert desk.sources.all == ()


async def test_the_limit_of_sources_ends_the_reading(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rumi.tasks.research.sources.MOST_SOURCES", 1)
    async with studying(desk) as study:
        script = [
            Answer(calls=[call("web_search", query="lighthouse")]),
            Answer(calls=[call("web_fetch", url=study.web.url(2))]),
            Answer(calls=[call("web_fetch", url=study.web.url(37))]),
            Answer("So it is [1][2]."),
        ]
        finished = await study.answered(script)
        assert "may read no more" in study.results[2]
        assert (await study.research.report(finished.answer)).answer == "So it is [1]."


async def test_what_a_limit_cuts_gives_what_was_found(desk: Desk) -> None:
    async with studying(desk) as study:
        script = [
            Answer(calls=[call("web_search", query="lighthouse")]),
            Answer(calls=[call("web_fetch", url=study.web.url(2)), call("note", text="Built in 1874 [1].")]),
            Answer("It was probably built in 1874 [1], and again in 1921 [2]."),
        ]
        finished = await study.answered(script, max_turns=2)
        assert finished.reason == "max_turns"
        text, report = await study.research.finish(finished.answer, False, "es")
        assert text.endswith("Incompleto. Lo que se había anotado hasta ahí:\n\n- Built in 1874 [1].")
        assert "It was probably built in 1874 [1], and again in 1921." in text
        made = json.loads(report)
        assert (made["complete"], made["notes"]) == (False, ["Built in 1874 [1]."])
        assert made["removed_citations"] == [2]
        text, report = await study.research.finish(finished.answer, True, "en")
        assert "noted until then" not in text
        assert json.loads(report)["complete"] is True


@pytest.mark.parametrize(
    ("question", "language", "intro"),
    [
        (QUESTION, "en", "I am a demo"),
        ("¿Quién hizo el lighthouse de Bruma?", "es", "Soy una demo"),
    ],
)
async def test_the_offline_model_searches_reads_and_cites(
    desk: Desk, question: str, language: Language, intro: str
) -> None:
    async with studying(desk, question) as study:
        finished = await study.turn(Offline(language), language)
        assert finished.reason == "complete"
        assert sorted(study.web.paths) == ["/11", "/2", "/37"]
        report = await study.research.report(finished.answer, language)
        assert report.answer.startswith(intro)
        assert (report.cited, report.removed, report.unverified) == ((1, 2, 3), (), ())
        assert f"{island.TRUTH}." in [claim.sentence for claim in report.claims]
        assert len(report.claims) == 4


async def test_the_offline_model_reads_what_it_was_given(desk: Desk) -> None:
    async with studying(desk, urls=[2, 43, 44]) as study:
        finished = await study.turn(Offline("en"))
        report = await study.research.report(finished.answer)
        assert study.results == []
        assert report.cited == (1, 2, 3)
        assert (report.removed, report.unverified) == ((), ())
        assert "The weather was as always." in report.answer


async def test_the_offline_model_says_that_it_found_nothing(desk: Desk) -> None:
    async with studying(desk) as study:
        study.web.search.answering = lambda asked: Give({"results": []})
        finished = await study.turn(Offline("en"))
        assert finished.answer == "I found no page with text."
