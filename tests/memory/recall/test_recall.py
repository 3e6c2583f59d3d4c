"""The index of conversations: what it finds, what it never shows, how it follows a file and a database."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from rumi.memory.recall.following import catch_up, prune_passages, unindex_owner
from rumi.memory.recall.messages import Passage
from rumi.memory.recall.presenting import shown
from rumi.memory.recall.search import count_passages, search_passages
from rumi.memory.recall.store import RecallStore
from rumi.models.model import text_tokens
from rumi.platform.chat_ids import BUILT_IN
from rumi.store.backend import PostgresServer
from rumi.store.journal.extraction import mark_extracted
from rumi.store.journal.forgetting import ExpiryCursor, delete_chat, expire_rows, forget_chat, sweep_forgotten
from rumi.store.journal.history import new_session
from tests.memory.recall.states import State


class Home:
    """A state, in a file or in a database, and its index."""

    def __init__(self, path: Path, url: str = "") -> None:
        self.path = path
        self.state = State(path / "state.db", url)
        self.database = PostgresServer(url) if url else self.state.path
        self.store = self.opened()

    def opened(self) -> RecallStore:
        return RecallStore(self.path / "recall.db", self.database, lambda: self.state.now)

    def change(self, sql: str, *parameters: object) -> None:
        self.state.store._db.execute(sql, parameters)

    def say(self, said: str, answered: str = "ok", chat: str = "cli", **more: object) -> str:
        return self.state.add_turn(chat, said, answered, **more)  # type: ignore[arg-type]

    def find(self, query: str, owner: str = "local", **more: object) -> list[Passage]:
        while self.store.do(catch_up(BUILT_IN)):
            pass
        return list(self.store.do(search_passages(owner, query, **more)))  # type: ignore[arg-type]

    def first(self, query: str, owner: str = "local", **more: object) -> str:
        found = self.find(query, owner, **more)
        return found[0].said if found else ""

    def prune(self) -> None:
        cursor: int | None = 0
        while cursor is not None:
            cursor = self.store.do(prune_passages(cursor))


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path, request.getfixturevalue("url") if request.param == "postgres" else "")
    yield home
    home.store.close()
    home.state.store.close()


@pytest.fixture
def in_a_file(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.store.close()
    home.state.store.close()


def at(text: str) -> float:
    return datetime.fromisoformat(text).astimezone().timestamp()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("what did we decide about the boiler?", "Al final compramos el calefón Orbis."),
        ("calderas", "Al final compramos el calefón Orbis."),
        ("KNEE PAIN", "Me duele la rodilla."),
        ("rodillas", "Me duele la rodilla."),
        ("where is my pet staying", "The dog stays with Tomás."),
        ("Tomas", "The dog stays with Tomás."),
        ("Tomaas", "The dog stays with Tomás."),
    ],
)
def test_words_forms_other_languages_and_misspellings_are_found(
    in_a_file: Home, query: str, said: str
) -> None:
    for text in (
        "Al final compramos el calefón Orbis.",
        "Me duele la rodilla.",
        "The dog stays with Tomás.",
        "Contame un chiste sobre gatos.",
        "Translate this into French.",
    ):
        in_a_file.say(text)
    assert in_a_file.first(query) == said


def test_an_owner_never_finds_anothers_words(home: Home) -> None:
    home.say("the secret garden party", chat="tg1")
    home.say("the garden gate", chat="tg2")
    home.say("garden of the group", chat="tg-5_3")
    assert [passage.chat for passage in home.find("garden party", "tg2")] == ["tg2"]
    assert [passage.chat for passage in home.find("garden", "tg-5")] == ["tg-5_3"]
    assert home.find("garden", "tg9") == []


def test_a_passage_has_its_date_and_its_taint(home: Home) -> None:
    home.say("first words", session=1)
    turn = home.say("the invoice of Marek", "2,300", tainted=True, session=1)
    home.say("last words", session=1)
    (found, *_) = home.find("Marek invoice")
    assert (found.turn, found.said, found.answered, found.tainted) == (
        turn,
        "the invoice of Marek",
        "2,300",
        True,
    )
    assert found.at == home.state.now - 60


def test_exchanges_beside_a_good_one_come_with_both_sides_and_only_once(home: Home) -> None:
    for text in ("which day?", "the invoice of Marek", "the invoice again", "was it paid?"):
        home.say(text, f"about {text}", session=1)
    home.say("the weather elsewhere", session=2)
    found = home.find("Marek invoice")
    assert found[0].said == "the invoice of Marek"
    assert sorted(passage.said for passage in found) == [
        "the invoice again",
        "the invoice of Marek",
        "was it paid?",
        "which day?",
    ]
    assert all(passage.answered == f"about {passage.said}" for passage in found)


@pytest.mark.parametrize("tokens", [60, 200, 1000])
def test_an_answer_fills_its_tokens_and_takes_no_more(in_a_file: Home, tokens: int) -> None:
    for number in range(60):
        in_a_file.say(f"the heron number {number} ñ", "it stands there. " * (number % 9), session=number // 7)
    found = in_a_file.find("heron", tokens=tokens)
    for language in ("en", "es", "pt"):
        assert text_tokens(shown(language, found)) <= tokens
    assert text_tokens(shown("en", found)) > tokens * 0.7


def test_of_a_long_side_the_sentences_with_the_words_are_shown(in_a_file: Home) -> None:
    long = " ".join(f"Sentence {number} is about nothing." for number in range(200))
    in_a_file.say("tell me", f"{long} The heron is grey. {long}")
    (found, *_) = in_a_file.find("heron")
    assert "The heron is grey." in found.answered
    assert len(found.answered) < 710
    assert found.answered[0] == found.answered[-1] == "…"


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("我昨天买了iPhone15手机", "iphone15"),
        ("我昨天买了iPhone15手机", "手机"),
        ("วันนี้อากาศดีมาก", "อากาศ"),
        ("ខ្ញុំចូលចិត្តកាហ្វេ", "កាហ្វេ"),
        ("हिन्दी में लिखो", "हिन्दी"),
        ("dinner 🍕 tonight", "🍕"),
        ("thanks 👍🏽", "👍"),
        ("a trip to 🇦🇷", "🇦🇷"),
        ("I write C++ here", "C++"),
        ("I write C# here", "c#"),
        ("the Wi-Fi is slow", "wifi"),
        ("the wifi is slow", "Wi-Fi"),
        ("send an e-mail", "email"),
    ],
)
def test_words_of_all_scripts_and_names_with_signs_are_found(in_a_file: Home, said: str, query: str) -> None:
    in_a_file.say(said)
    in_a_file.say("I write C here, plus something sharp")
    in_a_file.say("今天天气")
    in_a_file.say("ไปไหน ទៅណា 🎉 🇧🇷")
    assert in_a_file.first(query) == said


def test_days_bound_a_search_and_a_month_in_the_query_leads_to_it(in_a_file: Home) -> None:
    in_a_file.say("the boiler is loud", at=at("2026-02-10T10:00"))
    in_a_file.say("the boiler is fixed", at=at("2026-03-10T10:00"))
    in_a_file.say("the boiler is warm", at=at("2026-04-10T10:00"))
    in_a_file.say("hello", at=at("2026-05-01T10:00"))
    assert in_a_file.first("what about the boiler in March") == "the boiler is fixed"
    assert in_a_file.first("la caldera en febrero") == "the boiler is loud"
    found = in_a_file.find("boiler", since=at("2026-03-20T00:00"), until=at("2026-04-20T00:00"))
    assert [passage.said for passage in found] == ["the boiler is warm"]


def test_what_holds_now_comes_before_what_held_then(in_a_file: Home) -> None:
    in_a_file.say("my trainer is Hernán")
    for number in range(5):
        in_a_file.say(f"number {number}")
    in_a_file.say("my trainer is Carla")
    assert in_a_file.first("who is my trainer now?") == "my trainer is Carla"
    assert in_a_file.first("who was my trainer at first?") == "my trainer is Hernán"


def test_one_side_can_be_searched_alone(in_a_file: Home) -> None:
    in_a_file.say("lilac", "tulip")
    assert in_a_file.find("tulip", who="user") == []
    assert in_a_file.first("tulip", who="assistant") == "lilac"


@pytest.mark.parametrize(
    "query", ['"', "a OR", "NEAR(", "*", "said : x", "💥", "' --", "x" * 5000, "東京", "  "]
)
def test_no_query_is_syntax(in_a_file: Home, query: str) -> None:
    in_a_file.say("hello there")
    in_a_file.find(query)


def test_a_turn_that_goes_on_is_indexed_again_and_once(home: Home) -> None:
    home.say("plain words")
    home.find("words")
    home.change(
        "INSERT INTO history (chat, session, turn, message, tainted, created)"
        " VALUES ('cli', 1, 't1', ?, FALSE, 1.0)",
        '{"role":"assistant","content":"a hedgehog","tool_calls":[],"tool_call_id":null}',
    )
    assert home.first("hedgehog") == "plain words"
    assert home.store.do(count_passages()) == 1


def test_a_deleted_or_reset_chat_is_shown_no_more_and_leaves_no_word_behind(home: Home) -> None:
    home.say("the hippopotamus in chat a", chat="a")
    home.say("the hippopotamus in chat b", chat="b")
    assert len(home.find("hippopotamus")) == 2
    while home.state.store.run([delete_chat("a")])[0]:
        pass
    home.change("INSERT INTO sessions (chat, number, started, due) VALUES ('b', 1, 1.0, 0)")
    home.state.store.run([new_session("b", forget=True)])
    assert home.find("hippopotamus") == []  # before anything is removed
    home.state.store.run([sweep_forgotten()])
    home.prune()
    home.store.close()
    assert b"hippopotam" not in b"".join(file.read_bytes() for file in home.path.glob("recall.db*"))
    home.store = home.opened()


def test_a_turn_that_was_taken_back_is_found_no_more(home: Home) -> None:
    turn = home.say("the armadillo in a turn")
    home.say("the armadillo in another one")
    assert len(home.find("armadillo")) == 2
    home.change("UPDATE history SET undone = TRUE WHERE turn = ?", turn)
    assert len(home.find("armadillo")) == 1
    home.prune()
    assert home.store.do(count_passages()) == 1


def test_what_is_older_than_it_has_to_be_kept_goes_from_the_index_too(home: Home) -> None:
    home.say("an old marmot", at=at("2026-01-01T10:00"))
    home.say("a new marmot", at=at("2026-06-01T10:00"))
    assert len(home.find("marmot")) == 2
    place: ExpiryCursor | None = ExpiryCursor()
    while place is not None:
        place = home.state.store.run([expire_rows(at("2026-03-01T00:00"), place)])[0]  # type: ignore[assignment]
    home.prune()
    assert home.store.do(count_passages()) == 1


def test_an_owners_passages_are_removed_together(home: Home) -> None:
    home.say("meadow", chat="tg1")
    home.say("meadow", chat="tg2")
    home.find("meadow", "tg1")
    assert home.store.do(unindex_owner("tg1")) == 1
    assert home.find("meadow", "tg2") != []
    assert not any(home.state.store.run([forget_chat("tg1", 10**9)]))
    assert home.find("meadow", "tg1") == []


def test_the_line_of_a_session_that_ended_is_found(home: Home) -> None:
    home.say("hola")
    home.change("INSERT INTO sessions (chat, number, started, due) VALUES ('cli', 1, 1.0, 0)")
    home.state.store.run([mark_extracted("cli", 1, 2, "The user planned a kayak tour.", 5.0)])
    (found, *_) = home.find("kayak")
    assert (found.kind, found.said, found.at) == ("episode", "The user planned a kayak tour.", 5.0)


def test_the_index_is_made_again_if_it_is_missing_damaged_old_or_of_another_file(home: Home) -> None:
    home.say("a lighthouse")
    assert home.first("lighthouse") == "a lighthouse"
    file = home.path / "recall.db"

    def gone() -> None:
        file.unlink()

    def damaged() -> None:
        file.write_bytes(b"no database" * 1000)

    def old() -> None:
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 77")
        db.close()

    def earlier() -> None:
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 1")
        db.close()

    def ahead() -> None:
        with sqlite3.connect(file) as db:
            db.execute("UPDATE cursors SET value = 1e6")
        db.close()

    for spoil in (gone, damaged, old, earlier, ahead):
        home.store.close()
        spoil()
        home.store = home.opened()
        assert home.first("lighthouse") == "a lighthouse", spoil.__name__


def test_an_index_that_was_killed_in_between_goes_on_where_it_was(home: Home) -> None:
    for number in range(450):
        home.say(f"walrus {number}")
    assert home.store.do(catch_up(BUILT_IN))
    indexed = home.store.do(count_passages())
    assert 0 < indexed < 450
    home.store.close()
    home.store = home.opened()  # as another process would: the cursor is stored with the passages
    home.find("walrus")
    assert home.store.do(count_passages()) == 450


def test_the_index_only_reads_the_state(home: Home) -> None:
    with pytest.raises(Exception, match=r"readonly|read-only") as raised:
        home.store._state.read("DELETE FROM history")
    assert isinstance(raised.value, home.store._state.error)


def test_a_result_that_no_chat_was_told_of_is_found_with_its_files_beside(home: Home) -> None:
    columns = (
        "(kind, owner, chat, attached, question, options, language, model, state, answer, created, ended)"
    )
    home.change(
        f"INSERT INTO tasks {columns}"
        " VALUES ('web', 'local', '', TRUE, 'narwhal?', '{}', 'en', '', 'done', 'it swims', 1.0, ?)",
        home.state.now,
    )
    home.change(
        "INSERT INTO messages (id, chat, text, received, enclosures) VALUES (1, 'cli', 'x', 1.0, ?)",
        '[{"name": "pangolin.pdf"}]',
    )
    home.change("UPDATE messages SET turn = 't1', reply = 0 WHERE id = 1")
    home.say("read this")
    assert [passage.kind for passage in home.find("narwhal")] == ["task"]
    assert home.first("pangolin") == "read this pangolin.pdf"
    home.change("DELETE FROM tasks")
    assert home.find("narwhal") == []
