"""The talk as windows see it, from events and from the journal."""

from rumi.agent import TurnFinished
from rumi.channels.page.transcript import MOST_ENTRIES, Transcript, told_before
from rumi.chats import ChatEvent, Replied, TurnStarted
from rumi.journal import HistoryEntry, StoredEntry
from rumi.marked import block
from rumi.models import Message, TextDelta
from rumi.sandbox import about_file

RESTARTED = Replied(7, (3,), "I was restarted while working on it.")


def shown(transcript: Transcript) -> list[str]:
    return [entry.growing for entry in transcript.entries.values()]


def event(turn: str, what: TurnStarted | TextDelta | TurnFinished | Replied) -> ChatEvent:
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
    file = block("a file that the user sent", about_file("x.png", "image/png", 5))
    words = block("mail of Ana", "buy it")
    said = (
        (1, Message("user", "[The user sends files.]")),
        (1, Message("user", f"[The user hands this on.]\n{file}")),
        (1, Message("user", f"[The user hands this on.]\n{words}")),
        (2, Message("user", "hello")),
    )
    rows = [
        StoredEntry(id, "cli", session, 1.0, HistoryEntry("t", m)) for id, (session, m) in enumerate(said)
    ]
    assert [(entry.id, entry.parts) for entry in told_before(rows)] == [
        ("h1", [{"kind": "file", "path": "x.png"}]),
        ("h2", [{"kind": "handed", "source": "mail of Ana", "text": "buy it"}]),
        ("s3", [{"kind": "session"}]),
        ("h3", [{"kind": "text", "text": "hello"}]),
    ]
