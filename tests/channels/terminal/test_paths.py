"""Completion of `@` with paths: bounded, and hidden names only behind a dot."""

import time
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from rumi.channels.mentions import MOST_OFFERED
from rumi.channels.terminal.changes import ChangeCompleter
from rumi.channels.terminal.paths import PathCompleter, pasted


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "A b.txt", ".env", 'q"uote.txt', "line\nbreak"):
        (tmp_path / name).write_text("-")
    for name in (".git", "alpha dir", "sub"):
        (tmp_path / name).mkdir()
    (tmp_path / "sub" / "x.csv").write_text("-")
    (tmp_path / "dangling").symlink_to("nowhere")
    return tmp_path


def completed(text: str) -> list[str]:
    """The lines that completion can make of a text."""
    document = Document(text)
    found = PathCompleter().get_completions(document, CompleteEvent())
    return [text[: len(text) + one.start_position] + one.text for one in found]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("see @a", ['see @"alpha dir/', 'see @"A b.txt"', "see @a.txt"]),
        ('see @"al', ['see @"alpha dir/']),
        ("see @sub/", ["see @sub/x.csv"]),
        ("see @./sub/X", ["see @./sub/x.csv"]),
        ("see @.", ["see @.env"]),
        ("see @.g", []),
        (r"see @A\ ", ['see @"A b.txt"']),
        ("see @q", ["see @'q\"uote.txt'"]),
        ("see @line", []),
        ("mail a@a", []),
        ("!cat @a", []),
        ("see @nowhere/", []),
        ("see a.t", []),
    ],
)
def test_what_follows_an_at_sign_is_completed(text: str, lines: list[str]) -> None:
    assert completed(text) == lines


def test_a_folder_of_20000_names_is_completed_at_once_and_in_part(folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(20_000):
        (many / f"f{number:05}").touch()
    began = time.perf_counter()
    assert len(completed("@many/f")) == MOST_OFFERED
    assert completed("@many/f00017") == ["@many/f00017"]
    assert time.perf_counter() - began < 2


def test_a_pasted_path_is_a_mention_and_other_texts_stay(folder: Path) -> None:
    drop = f"'{folder}/a.txt' "
    assert pasted(drop, Document("see")) == " @a.txt "
    assert pasted(drop, Document("see ")) == "@a.txt "
    assert pasted(drop, Document("!cat ")) == drop
    assert pasted("two\r\nlines\r", Document("")) == "two\nlines\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("/diff ", ["/diff a.py", "/diff 'b c.txt'", "/diff lib/a.py"]),
        ("/apply A", ["/apply a.py", "/apply lib/a.py"]),
        ("/discard a.py ", ["/discard a.py 'b c.txt'", "/discard a.py lib/a.py"]),
        ("/diff 'b c", ["/diff 'b c.txt'"]),
        ("/diff zzz", []),
        ("/diff", []),
        ("/diff\nx", []),
        ("see a", []),
    ],
)
def test_a_command_about_changes_is_completed_with_changed_files(text: str, lines: list[str]) -> None:
    asked: list[str] = []

    def changed() -> list[str]:
        asked.append(text)
        return ["a.py", "b c.txt", "lib/a.py"]

    completer = ChangeCompleter(changed)
    for _ in range(3):  # typed slowly
        found = completer.get_completions(Document(text), CompleteEvent())
        assert [text[: len(text) + one.start_position] + one.text for one in found] == lines
    assert len(asked) <= 1
    assert not list(ChangeCompleter(None).get_completions(Document(text), CompleteEvent()))
