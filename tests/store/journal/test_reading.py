"""Lists of chats, their titles, what was said before, and searches in it."""

import pytest

from rumi.models.model import Message
from rumi.store.journal import reading as steps_of_reading
from rumi.store.journal.filing import name_chat, title_chat, titles_of, untitled
from rumi.store.journal.history import append_history, new_session
from rumi.store.journal.reading import list_chats, read_history, search_history
from rumi.store.journal.records import FoundEntries, HistoryEntry, StoredChat
from tests.store.journal.accepting import accept
from tests.store.journal.conftest import Opening


class Book:
    """A journal with its answers, one request at a time."""

    def __init__(self, opening: Opening) -> None:
        self.now = 1000.0
        self.store = opening(lambda: self.now)

    def do(self, request: object) -> object:
        self.now += 1
        return self.store.run([request])[0]  # type: ignore[list-item]

    def chats(self, *without: str) -> list[str]:
        found = self.do(list_chats(without))
        assert isinstance(found, tuple)
        return [hit.chat for hit in found]

    def say(self, chat: str, *texts: str, session: int = 1, role: str = "user") -> None:
        entries = tuple(HistoryEntry("t", Message(role, text)) for text in texts)  # type: ignore[arg-type]
        self.do(append_history(chat, session, entries))

    def search(self, words: str, **given: object) -> list[str]:
        found = self.do(search_history(words, **given))  # type: ignore[arg-type]
        assert isinstance(found, FoundEntries)
        return [hit.entry.message.content for hit in found.entries]


@pytest.fixture
def book(opening: Opening) -> Book:
    return Book(opening)


def test_chats_are_listed_the_latest_first_and_others_can_be_left_out(book: Book) -> None:
    for chat in ("cli", "tg5", "notes", "cli", "tg-7_1", "web"):
        book.do(accept(chat, f"hello from {chat}"))
    assert book.chats() == ["web", "tg-7_1", "cli", "notes", "tg5"]
    assert book.chats("tg") == ["web", "cli", "notes"]
    assert book.chats("tg", "w") == ["cli", "notes"]
    first = book.do(list_chats(limit=1))
    assert first == (StoredChat("web", "", "hello from web", 1006.0, 6),)


def test_a_title_is_kept_replaced_and_removed(book: Book) -> None:
    book.do(accept("cli", "x"))
    titles = []
    for title in ("Taxes", "Taxes 2026", ""):
        book.do(name_chat("cli", title))
        (chat,) = book.do(list_chats())  # type: ignore[misc]
        titles.append(chat.title)
    assert titles == ["Taxes", "Taxes 2026", ""]


def test_a_persons_title_is_never_replaced_by_the_programs(book: Book) -> None:
    for chat in ("a", "b", "c"):
        book.do(accept(chat, "x"))
    book.do(name_chat("a", "Mine"))
    book.do(name_chat("b", ""))
    assert [book.do(title_chat(chat, "made")) for chat in ("a", "b", "c")] == [False, False, True]
    assert book.do(title_chat("c", "made better"))
    assert book.do(untitled("c", "x")) is None
    assert book.do(titles_of(("a", "b", "c"))) == {"a": "Mine", "c": "made better"}
    book.do(name_chat("c", "Mine too"))
    assert not book.do(title_chat("c", "made again"))


def test_what_was_said_is_read_backwards_through_all_sessions(book: Book) -> None:
    book.do(new_session("cli"))
    book.say("cli", "1", "2", "3")
    book.do(new_session("cli"))
    book.say("notes", "other")
    book.say("cli", "4", "5", session=2)
    last = book.do(read_history("cli", limit=3))
    assert isinstance(last, tuple)
    assert [hit.entry.message.content for hit in last] == ["3", "4", "5"]
    before = book.do(read_history("cli", before=last[0].id))
    assert isinstance(before, tuple)
    assert [(hit.session, hit.entry.message.content) for hit in before] == [(1, "1"), (1, "2")]
    going_on = book.do(read_history("cli", going_on=True))
    assert isinstance(going_on, tuple)
    assert [hit.entry.message.content for hit in going_on] == ["4", "5"]


def test_what_was_reset_is_neither_read_nor_found(book: Book) -> None:
    book.do(new_session("cli"))
    book.say("cli", "secret")
    book.do(new_session("cli", forget=True, extract_first=True))
    assert book.do(read_history("cli")) == ()
    assert book.search("secret") == []


def test_a_search_wants_all_words_and_overlooks_case_and_accents(book: Book) -> None:
    book.say("cli", "El ÁRBOL es alto", "un arbol y un río", "nothing")
    book.say("tg5", "arbol")
    book.say("cli", "arbol in a result", role="tool")
    assert book.search("árbol") == ["arbol", "un arbol y un río", "El ÁRBOL es alto"]
    assert book.search("arbol alto") == ["El ÁRBOL es alto"]
    assert book.search("arbol", without=("tg",)) == ["un arbol y un río", "El ÁRBOL es alto"]
    assert book.search("arbol", chat="tg5") == ["arbol"]
    assert book.search("  ") == []
    assert book.search("user") == [], "the words of the encoding are not what was said"


def test_a_search_goes_on_slice_by_slice(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_of_reading, "SEARCHED", 10)
    book.say("cli", *(f"{number} {'needle' if number % 20 == 0 else 'hay'}" for number in range(45)))
    found, before, slices = [], 2**63 - 1, 0
    while before:
        part = book.do(search_history("needle", before=before))
        assert isinstance(part, FoundEntries)
        found += [hit.entry.message.content for hit in part.entries]
        before, slices = part.next, slices + 1
    assert found == ["40 needle", "20 needle", "0 needle"]
    assert slices == 5


def test_a_damaged_entry_does_not_end_a_search(book: Book) -> None:
    book.say("cli", "before needle")
    book.say("cli", "x")
    book.store._db.execute("UPDATE history SET message = '{' WHERE id = 2")
    assert book.search("needle") == ["before needle"]
