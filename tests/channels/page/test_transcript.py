"""A chat as windows see it, from events and from the journal."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rumi.agent.events import Thinking, ToolFinished, ToolOutput, ToolProgress, ToolStarted, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.channels.counters import Counts
from rumi.channels.page.board import Board
from rumi.channels.page.entries import TranscriptEntry
from rumi.channels.page.socket import FIRST_CHARS, FIRST_ENTRIES, SocketView
from rumi.channels.page.transcript import MOST_ENTRIES, Transcript
from rumi.chats.events import (
    MOST_STEPS,
    ChatEvent,
    Happening,
    Queued,
    Replied,
    TurnRestarted,
    TurnStarted,
)
from rumi.chats.hub import Hub
from rumi.models.model import Discarded, Message, TextDelta, ToolCall, Waiting
from rumi.platform.threads import Threads
from rumi.store.journal.records import Attachment, Button, HistoryEntry, StoredEntry, StoredReply
from rumi.store.journal.shown import ShownCall
from rumi.store.journal.transcript import StoredMessage

CALL = ToolCall("c1", "bash", '{"command": "ls"}')


def tell(transcript: Transcript, turn: str, *what: Happening) -> None:
    for happening in what:
        transcript.happened(ChatEvent("web", turn, 1.0, happening))


def stored(number: int, text: str, *said: Message, reply: str = "", **fields: Any) -> StoredMessage:
    """A message whose turn has said this."""
    turn = f"t{number}" if said else ""
    rows = tuple(
        StoredEntry(place, "web", 1, 1.0, HistoryEntry(turn, message)) for place, message in enumerate(said)
    )
    replied = StoredReply(70 + number, (number,), reply, turn, created=2.0) if reply else None
    message = StoredMessage(
        *(number, "web", 1, 1.0, text), turn=turn, entries=rows, reply=replied, answered=bool(replied)
    )
    return replace(message, reason="complete" if turn and replied else "", **fields)


def shown(entry: TranscriptEntry) -> str:
    return " | ".join(part.raw or str(part.data.get("title", part.kind)) for part in entry.parts)


def texts(transcript: Transcript) -> list[str]:
    return [f"{entry.id}: {shown(entry)}" for entry in transcript.in_order()]


def told(view: SocketView) -> list[Any]:
    """What the view sends now, each message by its type or its text."""
    for part in view.unrendered():
        part.render()
    return [message if message.startswith("+") else json.loads(message) for message in view.take()]


def view_of(transcript: Transcript) -> SocketView:
    board = Board(dict, Counts(), lambda chat: True, Hub())
    return SocketView(board, transcript, lambda: True, Threads())


def test_what_is_stored_and_what_happens_are_the_same_entries() -> None:
    transcript = Transcript()
    tell(transcript, "t4", TurnStarted("and now?", 4), TextDelta("Now "))
    transcript.begin(
        [
            stored(1, "hello", Message("assistant", "Hello."), reply="Hello."),
            stored(2, "/usage", reply="Nothing."),
            stored(4, "and now?", Message("user", "and now?")),
        ],
        more=False,
    )
    tell(transcript, "t4", TextDelta("this."))
    assert texts(transcript) == [
        *("m1: hello", "t1: Hello.", "m2: /usage", "r72: Nothing."),
        *("m4: and now?", "t4: Now this."),
    ]
    tell(transcript, "t4", TurnFinished("complete", "Now this."), Replied(74, (4,), "Now this."))
    mark = transcript.mark
    transcript.stored([stored(4, "and now?", Message("assistant", "Now this."), reply="Now this.")])
    changed = [part for entry in transcript.in_order() for part in entry.parts if part.changed > mark]
    assert changed == []  # what is read again is the same, so no text is sent again


def test_a_turn_that_is_joined_in_the_middle_shows_what_it_did_before() -> None:
    transcript = Transcript()
    second = ToolCall("c2", "bash", '{"command": "date"}')
    tell(transcript, "t1", TurnStarted("look", 1), Thinking(2), TextDelta("And now. "))
    tell(transcript, "t1", ToolStarted(second, {"command": "date"}))
    transcript.stored(
        [
            stored(
                *(1, "look", Message("assistant", "First. ", (CALL,))),
                Message("tool", "a.txt", tool_call_id="c1"),
                Message("assistant", "And now. ", (second,)),
            )
        ]
    )
    assert texts(transcript)[1] == "t1: First.  | $ ls | And now.  | $ date"


@pytest.mark.parametrize("silent", [True, False])
def test_a_schedules_turn_is_shown_with_its_reply_unless_that_is_silent(silent: bool) -> None:
    transcript = Transcript()
    tell(transcript, "t1", TurnStarted("look", 1, schedule=3), TextDelta("I look."))
    assert texts(transcript) == []
    tell(transcript, "t1", Replied(5, (1,), "Nothing.", schedule=3, silent=silent))
    assert transcript.wanted == (set() if silent else {1})
    if not silent:
        transcript.stored([stored(1, "look", Message("assistant", "I look."), reply="I look.", schedule=3)])
        said = transcript.in_order()[0]
        assert (said.kind, said.source) == ("event", "schedule 3")  # it is nobody's words


def test_what_waits_says_so_and_leaves_when_it_is_dropped() -> None:
    transcript = Transcript()
    tell(transcript, "t1", TurnStarted("one", 1))
    transcript.said(2, "two", 1.0)
    tell(transcript, "t2", Queued(2, "Queued (1 of 20).", 1))
    assert transcript.entries["m2"].head["state"] == "queued"
    view = view_of(transcript)
    told(view)
    tell(transcript, "", Replied(9, (2,), "Dropped.", silent=True))
    assert {"type": "gone", "ids": ["m2"]} in told(view)
    assert [entry.id for entry in transcript.in_order()] == ["m1", "t1"]


def test_further_messages_of_a_turn_stand_before_its_answer() -> None:
    transcript = Transcript()
    tell(transcript, "t1", TurnStarted("one", 1), TextDelta("So "))
    transcript.said(2, "two", 1.0)
    tell(transcript, "t1", TurnRestarted("one\ntwo", (1, 2)), TextDelta("Both."))
    assert texts(transcript) == ["m1: one", "m2: two", "t1: Both."]
    message = stored(1, "one", Message("assistant", "Both."), reply="Both.")
    assert message.reply is not None
    joined = replace(message, reply=replace(message.reply, messages=(1, 2), joined=(2,)))
    transcript.stored([joined])
    tell(transcript, "t1", Replied(71, (1, 2), "Both."))
    assert texts(transcript) == ["m1: one", "m2: two", "t1: Both."]


def test_a_stopped_answer_keeps_what_it_has_said() -> None:
    transcript = Transcript()
    tell(transcript, "t1", TurnStarted("tell", 1), TextDelta("It was "), ToolStarted(CALL, {"command": "ls"}))
    tell(transcript, "t1", TurnFinished("stopped", "Stopped."), Replied(5, (1,), "Stopped."))
    entry = transcript.entries["t1"]
    assert shown(entry) == "It was  | $ ls | Stopped."
    assert (entry.reason, entry.parts[1].data["state"], entry.parts[2].data["ending"]) == (
        *("stopped", "failed"),
        True,
    )


def test_a_view_sends_words_steps_and_output_without_the_rest_of_the_entry() -> None:
    transcript = Transcript()
    view = view_of(transcript)
    tell(transcript, "t1", TurnStarted("go", 1), TextDelta("a"))
    assert [message["type"] for message in told(view)] == ["entry", "entry", "mark"]
    tell(transcript, "t1", TextDelta("b"))
    tell(transcript, "t1", TextDelta("c"))
    assert told(view) == [{"type": "grow", "id": "t1", "n": 0}, "+bc"]  # no mark: it would be half of it
    tell(transcript, "t1", TextDelta("d"))
    assert told(view) == ["+d"]
    tell(transcript, "t1", ToolStarted(CALL, {"command": "ls"}))
    assert [message["type"] for message in told(view)] == ["head", "part", "mark"]
    for number in range(MOST_STEPS + 5):
        tell(transcript, "t1", ToolProgress("c1", f"step {number}", number))
    tell(transcript, "t1", ToolOutput("c1", "out"))
    (sent, _) = told(view)
    assert (sent["type"], len(sent["steps"]), sent["output"]) == ("tool", MOST_STEPS, "out")
    result = ToolResult(True, "x" * 3000, exit_code=0, duration_ms=20, diff="+a", shows=("a.png",))
    tell(transcript, "t1", ToolFinished(CALL, result, MOST_STEPS + 5))
    part = next(message for message in told(view) if message["type"] == "part")["part"]
    assert (part["state"], len(part["said"]), part["cut"], part["diff"]) == ("ok", 2000, True, "+a")
    assert (part["shows"], part["count"]) == (["a.png"], MOST_STEPS + 5)
    assert "output" not in part


def test_blocks_that_close_are_sent_for_the_text_that_grows_and_take_few_bytes() -> None:
    transcript = Transcript()
    view = view_of(transcript)
    tell(transcript, "t1", TurnStarted("go", 1), TextDelta("# A\n\nOne\n\nTwo"))
    told(view)

    def close_blocks() -> None:
        (part,) = transcript.growing()
        assert part.growing is not None
        part.growing.advance(part.raw, ended=part.ended)
        transcript.rendered(part, part.growing, ended=part.ended)

    close_blocks()
    grow = {"type": "grow", "id": "t1", "n": 0}
    assert told(view) == [grow, [{"to": 5, "html": "<h3 dir=auto>A</h3>"}]]
    tell(transcript, "t1", TextDelta("\n\n"))
    close_blocks()
    assert told(view) == ["+\n\n", [{"to": 10, "html": "<p dir=auto>One</p>"}]]


def test_a_window_that_comes_back_gets_only_what_it_has_missed() -> None:
    transcript = Transcript()
    view = view_of(transcript)
    tell(transcript, "t1", TurnStarted("go", 1), TextDelta("a"))
    mark = told(view)[-1]["mark"]
    tell(transcript, "t1", TextDelta("b"))
    again = view_of(transcript)
    again.resume(transcript.epoch, mark)
    (part, _) = told(again)
    assert (part["type"], part["part"]["raw"]) == ("part", "ab")
    of_another_process = view_of(transcript)
    of_another_process.resume("another", mark)
    assert [message["type"] for message in told(of_another_process)] == ["entry", "entry", "mark"]


def test_an_attempt_that_is_discarded_and_a_pause_leave_nothing() -> None:
    transcript = Transcript()
    tell(transcript, "t1", TurnStarted("go", 1), TextDelta("wrong"), Discarded(), Waiting(5.0, "Busy."))
    assert shown(transcript.entries["t1"]) == "waiting"
    assert transcript.entries["t1"].parts[0].data["until"] == 6.0
    tell(transcript, "t1", TextDelta("right"))
    assert shown(transcript.entries["t1"]) == "right"


def test_the_entries_in_memory_are_bounded_and_the_oldest_go() -> None:
    transcript = Transcript()
    transcript.begin([], more=False)
    for number in range(1, MOST_ENTRIES + 11):
        transcript.said(number, "hi", 1.0)
    assert len(transcript.entries) == MOST_ENTRIES
    assert transcript.earlier
    assert transcript.in_order()[0].id == "m11"


def test_a_message_is_dropped_with_its_answer_and_not_while_that_works() -> None:
    transcript = Transcript()
    transcript.begin([], more=False)
    tell(transcript, "t1", TurnStarted("first", 1), TextDelta("It "))
    transcript.stored([stored(2, "two", Message("assistant", "2."), reply="2.")])
    for number in range(3, MOST_ENTRIES):
        transcript.said(number, "hi", 1.0)
    ids = [entry.id for entry in transcript.in_order()]
    assert ids[:3] == ["m1", "t1", "m3"]  # a reader who asks for what is before message 3 gets both of 2
    tell(transcript, "t1", TextDelta("works."))
    assert shown(transcript.entries["t1"]) == "It works."


def test_a_view_looks_only_at_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript()
    for number in range(1, 60):
        transcript.stored([stored(number, "hi", Message("assistant", "Hello."), reply="Hello.")])
    view = view_of(transcript)
    assert [message["type"] for message in told(view)] == [*["entry"] * 118, "mark"]
    tell(transcript, "t70", TurnStarted("go", 70), TextDelta("a"))
    told(view)
    looked = list[str]()
    real = SocketView._entry

    def spied(view: SocketView, entry: TranscriptEntry, since: int) -> Iterator[str]:
        looked.append(entry.id)
        return real(view, entry, since)

    monkeypatch.setattr(SocketView, "_entry", spied)
    tell(transcript, "t70", TextDelta("b"))
    transcript.seen(73)
    told(view)
    assert looked == ["t3", "t70"]  # in the order in which they are shown


def test_files_and_others_words_have_parts_of_their_own() -> None:
    transcript = Transcript()
    attachments = (
        Attachment("file", "inbox/a.txt", "a.txt"),
        Attachment("words", source="a channel", text="Buy!"),
    )
    transcript.stored([stored(1, "what is it?", attachments=attachments)])
    parts = [part.data for part in transcript.entries["m1"].parts]
    assert parts == [
        {"kind": "file", "path": "inbox/a.txt", "name": "a.txt"},
        {"kind": "handed", "source": "a channel", "text": "Buy!"},
        {"kind": "text", "raw": "what is it?"},
    ]


def test_a_todo_list_is_one_card_live_and_stored() -> None:
    def todo(id: str, state: str) -> ToolCall:
        return ToolCall(id, "todo", json.dumps({"items": [{"text": "look", "state": state}]}))

    transcript, calls = Transcript(), (todo("c1", "doing"), todo("c2", "done"))
    tell(transcript, "t1", TurnStarted("go", 1))
    for call in calls:
        tell(transcript, "t1", ToolStarted(call, json.loads(call.arguments)))
    live = [part.data for part in transcript.entries["t1"].parts]
    transcript = Transcript()
    transcript.stored(
        [stored(1, "go", *(Message("assistant", "", (call,)) for call in calls), reply="Done.")]
    )
    assert [part.data for part in transcript.entries["t1"].parts][:1] == live
    assert live[0]["items"][0]["state"] == "done"


def test_the_buttons_of_a_reply_are_no_words() -> None:
    transcript = Transcript()
    tell(transcript, "", Replied(9, (1,), "Tea!", commands=("/snooze 10 min",)))
    entry = transcript.entries["r9"]
    assert (shown(entry), entry.head["buttons"]) == ("Tea!", [["/snooze 10 min", "/snooze 10 min"]])
    message = stored(1, "tea", reply="Tea!", notice=True)
    assert message.reply is not None
    later = (Button("x", "Later", "/snooze 10 min"),)
    transcript.stored([replace(message, reply=replace(message.reply, delivery=9, buttons=later))])
    assert (shown(entry), entry.head["buttons"]) == ("Tea!", [["Later", "/snooze 10 min"]])


def test_a_stored_call_shows_its_outcome_and_its_question() -> None:
    call = ShownCall(True, "a.txt", exit=0, ms=12, diff="+a")
    row = HistoryEntry("t1", Message("tool", "a.txt", tool_call_id="c1"), shown=call)
    message = stored(1, "look", Message("assistant", "", (CALL,)), reply="It is there.")
    message = replace(message, entries=(*message.entries, StoredEntry(9, "web", 1, 1.0, row)))
    transcript = Transcript()
    transcript.stored([message])
    tool = transcript.entries["t1"].parts[0].data
    assert (tool["title"], tool["state"], tool["ms"], tool["diff"]) == ("$ ls", "ok", 12, "+a")


def test_a_text_that_ends_while_it_is_rendered_is_rendered_to_its_end() -> None:
    transcript = Transcript()
    tell(transcript, "t1", TurnStarted("go", 1), TextDelta("One.\n\nTwo."))
    (part,) = transcript.growing()
    assert part.growing is not None
    part.growing.advance(part.raw)
    tell(transcript, "t1", TurnFinished("complete", "One.\n\nTwo."))
    transcript.rendered(part, part.growing, ended=False)
    assert transcript.growing() == [part]
    part.growing.advance(part.raw, ended=True)
    transcript.rendered(part, part.growing, ended=True)
    assert transcript.growing() == []
    assert [block.html for block in part.blocks or ()][-1].endswith("Two.</p>")


def test_of_long_texts_a_window_gets_the_end_first() -> None:
    transcript, long = Transcript(), "x" * (FIRST_CHARS // 4)
    transcript.begin(
        [stored(number, "go", Message("assistant", long), reply=long) for number in range(1, 13)], more=False
    )
    view = view_of(transcript)
    (begin,) = map(json.loads, view.begin())
    assert begin["earlier"]
    assert begin["ids"][0] == f"m{13 - FIRST_ENTRIES // 2}"
    sent = [message["entry"]["id"] for message in told(view) if message["type"] == "entry"]
    assert sent == begin["ids"]
    transcript.stored([stored(1, "gone", Message("assistant", long), reply=long)])
    assert [message["entry"]["id"] for message in told(view) if message["type"] == "entry"] == ["m1"]


def test_what_a_person_wrote_is_sent_once_and_not_rendered() -> None:
    transcript = Transcript()
    transcript.said(1, "# Look\n\nat *this*", 1.0)
    view = view_of(transcript)
    assert view.unrendered() == []
    (entry, _) = told(view)
    assert entry["entry"]["parts"] == [{"n": 0, "kind": "text", "raw": "# Look\n\nat *this*"}]
