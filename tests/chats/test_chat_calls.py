"""Calls about chats and messages as a page makes them: lists, titles, search, branches, waiting messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.chats.chat_calls import ChatCalls
from rumi.chats.titles import words_of
from rumi.errors import UsageError
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.caller import TERMINAL
from rumi.platform.calls import answer
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.schema import ChatSection
from rumi.store.journal.reading import read_history
from rumi.store.journal.records import Attachment, Incoming
from tests.chats.house import House, echo, house, reply_to

QUEUE = ChatSection(together_s=0.0)


async def slow(request: ModelRequest, emit: Emit) -> Reply:
    """Answers as `echo` does, after 100 s and a call if the last word is "wait"."""
    if request.messages[-1].content.endswith("wait"):
        await trio.sleep(100)
        return Reply("", (ToolCall("c", "bash", '{"command": "echo x"}'),))
    return await echo(request, emit)


class Page:
    """A house, and what its page can ask for."""

    def __init__(self, home: House) -> None:
        self.home = home
        self._calls = ChatCalls(
            home.services.journal.ask,
            BUILT_IN,
            home.inbox.chats.delete,
            None,
            home.services.hub,
            inbox=home.inbox,
            attachment=lambda name: Attachment("file", name, name),
        )

    async def call(self, do: str, **fields: Any) -> Any:
        return await answer(self._calls, "chats", TERMINAL, {"do": do, **fields})

    async def branch(self, chat: str, message: int, **fields: Any) -> str:
        """Branch, and wait for the answer."""
        with self.home.services.hub.listening(chat) as events:
            made = await self.call("branch", chat=chat, message=message, **fields)
            assert "/undo" in made["note"]
            return await reply_to(events, made["message"])

    def prompt(self) -> list[str]:
        """What the model was told last, without the notes of the program."""
        model: Any = self.home.services.context.model_for("cli", "en", "")
        return [m.content for m in model.requests[-1].messages if m.role in ("user", "assistant")]


@asynccontextmanager
async def page(
    path: Path, model: Any = slow, section: ChatSection = QUEUE, **more: Any
) -> AsyncIterator[Page]:
    async with house(path, model, chat_section=section, **more) as home:
        yield Page(home)


async def test_a_message_is_edited_and_answered_again_from_what_came_before_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path) as pages:
        for text in ("one", "two", "three"):
            await pages.home.ask(text, "work")
        assert await pages.branch("work", 2, text="zwei") == "you said zwei"
        assert pages.prompt() == ["one", "you said one", "zwei"]
        assert await pages.branch("work", 4) == "you said zwei", "the same words once more"
        assert pages.prompt() == ["one", "you said one", "zwei"]
        await pages.home.ask("four", "work")
        assert pages.prompt()[-3:] == ["zwei", "you said zwei", "four"]
        await pages.home.ask("/sessions 1", "work")
        await pages.home.ask("five", "work")
        assert pages.prompt()[-3:] == ["three", "you said three", "five"], "the old session is kept"
        rows = await pages.home.services.journal.ask(read_history("work"))
        assert [row.entry.message.content for row in rows].count("one") == 1
    async with page(tmp_path) as pages:  # another process
        await pages.home.ask("/sessions 3", "work")
        await pages.home.ask("six", "work")
        assert pages.prompt()[:3] == ["one", "you said one", "zwei"]


async def test_a_branch_waits_for_the_turn_that_runs_and_steers_nothing(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path, section=ChatSection(together_s=0.0, when_busy="steer")) as pages:
        await pages.home.ask("one", "work")
        await pages.home.inbox.accept("work", "please wait")
        await trio.sleep(1)
        with pages.home.services.hub.listening("work") as events:
            made = await pages.call("branch", chat="work", message=1, text="yes")
            await trio.sleep(1)
            assert pages.home.services.hub.turn("work").queued
            assert await reply_to(events, made["message"]) == "you said yes", "no answer to a question"
        assert pages.prompt() == ["yes"]
        await pages.home.inbox.accept("work", "again wait")
        await trio.sleep(1)
        running = pages.home.inbox.chats.at_work("work")
        with pages.home.services.hub.listening("work") as events:
            made = await pages.call("branch", chat="work", message=running, text="quickly")
            await pages.home.inbox.accept("work", "/stop")
            assert await reply_to(events, made["message"]) == "you said quickly"
        assert pages.prompt() == ["yes", "you said yes", "quickly"]


async def test_a_branch_that_waits_when_the_process_ends_is_begun_by_the_next(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path) as pages:
        await pages.home.ask("one", "work")
        await pages.home.ask("two", "work")
        await pages.home.inbox.accept("work", "please wait")
        await trio.sleep(1)
        made = await pages.call("branch", chat="work", message=2, text="zwei")
        await pages.home.inbox.chats.wind_down(0.0, 5.0)
    async with page(tmp_path) as pages:
        with pages.home.services.hub.listening("work") as events:
            await pages.home.inbox.chats.open("work")
            assert await reply_to(events, made["message"]) == "you said zwei"
        assert pages.prompt() == ["one", "you said one", "zwei"]


async def test_what_cannot_be_branched_is_refused_with_words(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path) as pages:
        await pages.home.ask("one", "work")
        await pages.home.ask("/status", "work")
        await pages.home.ask("hello", "tg7")
        for fields, why in (
            ({"chat": "work", "message": 2}, "cannot begin anew from the message 2"),
            ({"chat": "work", "message": 1, "text": " "}, "is empty"),
            ({"chat": "work", "message": 1, "text": "/reset"}, "A command cannot"),
            ({"chat": "tg7", "message": 3}, "would be one of"),
            ({"chat": "other", "message": 1}, "other"),
        ):
            with pytest.raises(UsageError, match=why):
                await pages.call("branch", **fields)
        await pages.home.ask("/reset", "work")
        with pytest.raises(UsageError, match="cannot begin anew"):
            await pages.call("branch", chat="work", message=1)


async def test_a_waiting_message_is_dropped_in_silence_and_its_words_come_back(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path) as pages:
        running = await pages.home.inbox.accept("work", "please wait")
        await trio.sleep(1)
        waits = await pages.home.inbox.accept("work", "and *then*", None, [Attachment("file", "k", "a.csv")])
        await trio.sleep(1)
        with pages.home.services.hub.listening("work") as events:
            found = await pages.call("drop", chat="work", message=waits)
            assert found == {"dropped": True, "text": "and *then*", "files": ["a.csv"]}
            replied: Any = (await events.receive()).what
            assert (replied.messages, replied.silent) == ((waits,), True)
        for message in (waits, running, 99):
            found = await pages.call("drop", chat="work", message=message)
            assert found == {"dropped": False, "text": "", "files": []}
        assert not pages.home.services.hub.turn("work").queued
        (line,) = await pages.call("list")
        assert (line["state"], line["unread"]) == ("works", 0)
        await pages.home.ask("/stop", "work")
        assert await pages.home.open_chats() == ()


async def test_the_list_of_chats_reads_well_and_comes_in_pages(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path) as pages:
        for chat, text in (("a", "first"), ("b", "## *Second*\n- thing"), ("c", "third"), ("cli", "x")):
            await pages.home.ask(text, chat)
        await pages.home.inbox.accept_all([Incoming(chat="a", text="Look at it", schedule=8)])
        await trio.sleep(1)
        await pages.call("rename", chat="b", title=" My\nchat ")
        await pages.call("pin", chat="b", pinned=True)
        await pages.call("archive", chat="c", archived=True)
        listed = await pages.call("list", archived=False, limit=1)
        assert [(one["chat"], one["title"], one["automatic"]) for one in listed] == [
            ("b", "My chat", False), ("a", "first", True),
        ]  # fmt: skip
        assert (listed[0]["text"], listed[0]["by"]) == ("you said ## Second thing", "assistant")
        assert listed[1]["text"].endswith("Look at it"), "the answer, not the program's words to the model"
        assert (listed[1]["state"], listed[1]["unread"], listed[1]["session"]) == ("idle", 2, 1)
        rest = await pages.call("list", archived=False, limit=9, before=listed[1]["number"])
        assert [(one["chat"], one["title"]) for one in rest] == [("cli", "")]
        (kept,) = await pages.call("list", archived=True)
        assert kept["chat"] == "c"
        await pages.call("archive", chat="c", archived=False)
        await pages.call("rename", chat="a", title="")
        await pages.home.ask("more", "a")
        titles = {one["chat"]: one["title"] for one in await pages.call("list")}
        assert titles == {"a": "", "b": "My chat", "c": "third", "cli": ""}
        new = (await pages.call("new"))["chat"]
        assert len(new) == 10
        assert BUILT_IN.check_chosen(new)
        with pytest.raises(UsageError, match="longer than 100"):
            await pages.call("rename", chat="a", title="x" * 101)


async def test_a_search_shows_where_the_words_are_and_finds_titles(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with page(tmp_path) as pages:
        await pages.home.ask("where is the Árbol?", "work")
        await pages.home.ask("x", "cli")
        await pages.call("rename", chat="cli", title="An arbol")
        found = await pages.call("search", words="arbol")
        hits = [(hit["entry"], hit["title"], hit["excerpt"], list(hit["marks"])) for hit in found["entries"]]
        assert hits == [
            ("t1", "where is the Árbol?", "you said where is the Árbol?", [(22, 27)]),
            ("m1", "where is the Árbol?", "where is the Árbol?", [(13, 18)]),
        ]
        assert [(one["chat"], list(one["marks"])) for one in found["titles"]] == [
            ("cli", [(3, 8)]), ("work", [(13, 18)]),
        ]  # fmt: skip
        assert (await pages.call("search", words="arbol", chat="work"))["titles"] == []


async def test_an_export_in_pages_is_whole_and_has_each_session_once(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.chats.chat_calls.PAGE", 3)
    async with page(tmp_path) as pages:
        for text in ("one", "two", "/new", "three"):
            await pages.home.ask(text, "work")
        await pages.home.ask("/list add milk", "work")
        text, after, count = "", 0, 0
        while count == 0 or after:
            part = await pages.call("export", chat="work", after=after)
            text, after, count = text + part["text"], part["next"], count + 1
        assert count > 2
        assert [line for line in text.splitlines() if line.startswith("#")][:3] == [
            "# work", "## Session 1", "## Session 2",
        ]  # fmt: skip
        assert [text.count(f"\n{said}\n") for said in ("one", "you said two", "three")] == [1, 1, 1]
        whole = await pages.call("export", chat="work", form="json", after=0)
        assert whole["entries"][0]["chat"] == "work"


async def test_the_model_makes_a_better_title_once_if_it_is_asked_to(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def names(request: ModelRequest, emit: Emit) -> Reply:
        if request.messages[0].content.startswith("Name a conversation"):
            asked.append(request.messages[-1].content)
            return Reply('"Three **kinds** of fruit."')
        return await echo(request, emit)

    section = ChatSection(together_s=0.0, titles="model")
    async with page(tmp_path, names, section, thinks=True) as pages:
        for chat in ("fruit", "mine"):
            await pages.home.ask(f"tell me of {'apples and pears ' * 9}", chat)
            if chat == "fruit":
                await trio.sleep(1)
            else:
                await pages.call("rename", chat=chat, title="Mine")
                await trio.sleep(1)
            await pages.home.ask("more", chat)
        await pages.home.ask("hello", "cli")
        titles = {one["chat"]: (one["title"], one["automatic"]) for one in await pages.call("list")}
        assert titles["fruit"] == ("Three kinds of fruit", True)
        assert titles["mine"] == ("Mine", False)
        assert titles["cli"] == ("", False)
        assert len(asked) <= 2
    (off := tmp_path / "off").mkdir()
    async with page(off, slow, ChatSection(together_s=0.0, titles="off")) as pages:
        await pages.home.ask("one", "work")
        await trio.sleep(1)
        assert [one["title"] for one in await pages.call("list")] == [""]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("short", "short"),
        ("# Plan the *trip*", "Plan the trip"),
        (f"{'eleven char ' * 5}and more, at last", f"{'eleven char ' * 4}eleven char…"),
        ("x" * 61, "x" * 59 + "…"),
        ("```\n```", ""),
    ],
)
def test_a_title_is_cut_at_a_word(text: str, title: str) -> None:
    assert words_of(text) == title
