"""The talk as windows see it, from events and from the journal."""

import json

import pytest

from rumi.agent.events import ToolFinished, ToolProgress, ToolStarted, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.channels.counters import Counts
from rumi.channels.page.board import Board
from rumi.channels.page.browser_view import BrowserView
from rumi.channels.page.transcript import MOST_ENTRIES, Transcript, stored_entries
from rumi.chats.events import MOST_STEPS, ChatEvent, Happening, Queued, Replied, TurnStarted
from rumi.models.model import Message, TextDelta, ToolCall
from rumi.platform.threads import Threads
from rumi.platform.untrusted_text import untrusted_block
from rumi.sandbox.incoming import about_file
from rumi.store.journal.records import HistoryEntry, StoredEntry

RESTARTED = Replied(7, (3,), "I was restarted while working on it.")


def shown(transcript: Transcript) -> list[str]:
    return [entry.growing for entry in transcript.entries.values()]


def event(turn: str, what: TurnStarted | TextDelta | TurnFinished | Queued | Replied) -> ChatEvent:
    return ChatEvent("web", turn, 1.0, what)


def stored(*said: tuple[str, Message]) -> list[StoredEntry]:
    return [
        StoredEntry(number, "web", 1, 1.0, HistoryEntry(turn, message))
        for number, (turn, message) in enumerate(said, 1)
    ]


def test_what_was_said_before_stands_before_what_happened_until_somebody_looked() -> None:
    transcript = Transcript()
    transcript.happened(event("t2", RESTARTED))
    transcript.happened(event("t3", TurnStarted("and now?", 4)))
    transcript.happened(event("t3", TextDelta("Now ")))
    transcript.begin(
        stored(
            ("t1", Message("user", "hello")),
            ("t1", Message("assistant", "Hello.")),
            ("t3", Message("user", "and now?")),
        )
    )
    transcript.happened(event("t3", TextDelta("this.")))
    assert shown(transcript) == ["hello", "Hello.", RESTARTED.text, "and now?", "Now this."]
    transcript.undelivered(RESTARTED)
    assert len(transcript.entries) == 5


@pytest.mark.parametrize("silent", [True, False])
def test_a_schedules_turn_is_shown_with_its_reply_unless_that_is_silent(silent: bool) -> None:
    transcript, call = Transcript(), ToolCall("c1", "read_file", "{}")
    for what in (TurnStarted("look", 1, schedule=3), TextDelta("I look. "), ToolStarted(call, {"path": "a"})):
        transcript.happened(ChatEvent("web", "t1", 1.0, what))
    assert shown(transcript) == []
    assert not transcript.working
    for last in (TurnFinished("complete", "news"), Replied(5, (1,), "news", schedule=3, silent=silent)):
        transcript.happened(ChatEvent("web", "t1", 2.0, last))
    assert shown(transcript) == ([] if silent else ["look", "news"])
    assert not transcript.working
    transcript.happened(event("t2", TurnStarted("hello", 2)))
    transcript.happened(event("t2", TextDelta("hi")))
    assert shown(transcript)[-2:] == ["hello", "hi"]


def test_a_changed_file_comes_with_its_diff() -> None:
    transcript = Transcript()
    call = ToolCall("c1", "edit_file", "{}")
    result = ToolResult(True, "edited a", diff="--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b")
    happened = (TurnStarted("go", 1), ToolStarted(call, {"path": "a"}), ToolFinished(call, result))
    for what in happened:
        transcript.happened(ChatEvent("web", "t1", 1.0, what))
    part = list(transcript.entries.values())[-1].parts[0]
    assert (part["title"], part["diff"], part["state"]) == ("edit_file a", result.diff, "ok")


def test_a_call_has_its_last_steps_and_their_number() -> None:
    transcript = Transcript()
    calls = [ToolCall(id, "research", "{}") for id in ("a", "b")]
    steps = [ToolProgress("a", f"page {number}", number) for number in range(1, 1001)]
    begun = [ToolStarted(call, {"query": call.id}) for call in calls]
    for what in (TurnStarted("go", 1), *begun, *steps, ToolProgress("b", "one", 1)):
        transcript.happened(ChatEvent("web", "t1", 1.0, what))
    entry = list(transcript.entries.values())[-1]
    before = entry.shape()
    transcript.happened(ChatEvent("web", "t1", 1.0, ToolProgress("b", "two", 2)))
    transcript.happened(ChatEvent("web", "t1", 1.0, ToolFinished(calls[0], ToolResult(True, "x"), 1000)))
    transcript.happened(ChatEvent("web", "t1", 1.0, ToolProgress("a", "too late", 1001)))
    first, second = entry.parts
    assert (first["count"], first["state"], second["state"]) == (1000, "ok", "running")
    assert isinstance(first["steps"], list)
    assert len(first["steps"]) == MOST_STEPS
    assert first["steps"][-1] == {"number": 1000, "text": "page 1000"}
    assert second["steps"] == [{"number": 1, "text": "one"}, {"number": 2, "text": "two"}]
    assert before["parts"][1]["steps"] == [{"number": 1, "text": "one"}]  # type: ignore[index]  # as it was told


def test_a_window_is_told_steps_without_the_rest_of_the_entry() -> None:
    transcript = Transcript()
    window = BrowserView(Board(dict, Counts(), lambda chat: True), transcript, lambda: True, Threads())
    transcript.watchers.add(window)
    call = ToolCall("a", "research", "{}")

    def happen(what: Happening) -> None:
        transcript.happened(ChatEvent("web", "t1", 1.0, what))

    for what in (TurnStarted("go", 1), TextDelta("word " * 10_000), ToolStarted(call, {"query": "moss"})):
        happen(what)
    assert [name for name, _ in window.take()] == ["entry", "entry"]
    for number in range(1, 10_001):
        happen(ToolProgress("a", "x" * 200, number))
    [(name, told)] = window.take()
    assert name == "steps"
    assert len(json.dumps(told)) < MOST_STEPS * 250
    assert list(window.take()) == []
    happen(ToolProgress("a", "one more", 10_001))
    happen(TextDelta("said meanwhile"))
    assert [name for name, _ in window.take()] == ["entry"]
    happen(TextDelta(" and more"))
    happen(ToolProgress("a", "two more", 10_002))
    assert [name for name, _ in window.take()] == ["more", "steps"]


def test_a_reply_that_nobody_has_is_the_answer_that_the_history_ends_with() -> None:
    transcript = Transcript()
    transcript.begin(stored(("t1", Message("user", "hello")), ("t1", Message("assistant", "Hello."))))
    transcript.undelivered(Replied(1, (1,), "Hello."))
    transcript.undelivered(RESTARTED)
    transcript.happened(event("t2", RESTARTED))
    assert shown(transcript) == ["hello", "Hello.", RESTARTED.text]
    assert [entry.delivery for entry in transcript.entries.values()] == [0, 1, 7]


def test_the_talk_is_bounded_and_the_oldest_go() -> None:
    transcript = Transcript()
    for number in range(MOST_ENTRIES):
        transcript.happened(event(f"t{number}", TurnStarted(str(number), number)))
        transcript.happened(event(f"t{number}", TurnFinished("complete", "done")))
    assert len(transcript.entries) == MOST_ENTRIES
    assert shown(transcript)[-2:] == [str(MOST_ENTRIES - 1), "done"]
    assert not transcript.working


def test_what_was_handed_on_shows_where_it_comes_from_and_sessions_are_told_apart() -> None:
    file = untrusted_block("a file that the user sent", about_file("x.png", "image/png", 5))
    words = untrusted_block("mail of Ana", "buy it")
    said = (
        (1, Message("user", "[The user sends files.]")),
        (1, Message("user", f"[The user hands this on.]\n{file}")),
        (1, Message("user", f"[The user hands this on.]\n{words}")),
        (2, Message("user", "hello")),
    )
    rows = [
        StoredEntry(id, "cli", session, 1.0, HistoryEntry("t", m)) for id, (session, m) in enumerate(said)
    ]
    assert [(entry.id, entry.parts) for entry in stored_entries(rows)] == [
        ("h1", [{"kind": "file", "path": "x.png"}]),
        ("h2", [{"kind": "handed", "source": "mail of Ana", "text": "buy it"}]),
        ("s3", [{"kind": "session"}]),
        ("h3", [{"kind": "text", "text": "hello"}]),
    ]


def test_a_message_that_waits_says_so_and_its_turn_stands_behind_the_one_before() -> None:
    transcript = Transcript()
    transcript.happened(event("t1", TurnStarted("one", 1)))
    transcript.sent(transcript.say("two", 1.0), 2)
    transcript.happened(event("t2", Queued(2, "it waits", 1)))
    transcript.happened(event("t1", TurnFinished("complete", "first")))
    transcript.happened(event("t2", TurnStarted("two", 2)))
    transcript.happened(event("t2", TurnFinished("complete", "second")))
    states = [(entry.state, entry.parts[0]["text"]) for entry in transcript.entries.values()]
    assert states == [
        ("sent", "one"), ("done", "first"), ("sent", "two"), ("queued", "it waits"), ("done", "second"),
    ]  # fmt: skip


def listed(*states: str, id: str = "c1") -> ToolStarted:
    items = [{"text": f"step {n}", "state": state} for n, state in enumerate(states)]
    return ToolStarted(ToolCall(id, "todo", json.dumps({"items": items})), {"items": items})


def states(part: dict[str, object]) -> list[str]:
    return [item["state"] for item in part["items"]]  # type: ignore[attr-defined]


def test_a_todo_list_is_one_card_that_later_calls_update_in_place() -> None:
    transcript = Transcript()
    bad = ToolStarted(ToolCall("c3", "todo", "{}"), {"items": "none"})
    before: tuple[Happening, ...] = (TurnStarted("go", 1), listed("doing", "open"), TextDelta("first"))
    for what in before:
        transcript.happened(ChatEvent("web", "t1", 1.0, what))
    _, entry = transcript.entries.values()
    shape, revision = entry.shape(), entry.revision
    for what in (listed("done", "doing", id="c2"), ToolFinished(listed().call, ToolResult(True, "1/2")), bad):
        transcript.happened(ChatEvent("web", "t1", 1.0, what))
    assert [part["kind"] for part in entry.parts] == ["todo", "text", "tool"]
    assert states(entry.parts[0]) == ["done", "doing"]
    assert states(shape["parts"][0]) == ["doing", "open"]  # type: ignore[index]
    assert entry.revision > revision


def test_the_last_list_of_each_turn_is_shown_again_from_the_history() -> None:
    rows = stored(
        ("t1", Message("user", "go")),
        ("t1", Message("assistant", "", (listed("open").call,))),
        ("t1", Message("assistant", "on", (listed("done", "open", id="c2").call,))),
        ("t1", Message("assistant", "done")),
        ("t2", Message("assistant", "", (listed("doing").call,))),
    )
    parts = [part for entry in stored_entries(rows) for part in entry.parts]
    assert [part["kind"] for part in parts] == ["text", "text", "todo", "text", "todo"]
    assert [states(part) for part in parts if part["kind"] == "todo"] == [["done", "open"], ["doing"]]
