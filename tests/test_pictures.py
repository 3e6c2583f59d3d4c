"""What `make pictures` makes: recordings that a player shows as it was, and pictures of bounded size."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyte
import pytest

from docs.making import pictures
from docs.making.screens import DARK, LIGHT, Look, Window, cast, drawn, window

PROGRAM = """
print("\\x1b[31mWhat is it?\\x1b[0m", flush=True)
print("It is", input(), flush=True)
print("Bye", input(), flush=True)
"""


def test_a_recording_played_again_shows_the_same_screen_at_its_times(tmp_path: Path) -> None:
    began = time.monotonic()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with window([sys.executable, "-c", PROGRAM], environment, columns=60, rows=12) as terminal:
        terminal.see("What is it?")
        asked_s = time.monotonic() - began
        terminal.type("café\r", 0.01)
        terminal.see("It is café")
        head, *events = map(json.loads, cast(terminal, "A question").splitlines())
        shown = terminal.text()
    took_s = time.monotonic() - began
    assert (head["version"], head["width"], head["height"], head["title"]) == (2, 60, 12, "A question")
    assert {kind for _, kind, _ in events} == {"o"}
    times = [at_s for at_s, _, _ in events]
    assert times == sorted(times)
    assert times[0] < asked_s
    (answered_s,) = [at_s for at_s, _, text in events if "It is" in text]
    assert asked_s - 0.6 <= answered_s <= took_s  # `see` looks for 0.6 s longer
    screen = pyte.Screen(60, 12)
    player = pyte.Stream(screen)
    for _, _, text in events:
        player.feed(text)
    assert "\n".join(line.rstrip() for line in screen.display) == shown


def test_a_character_that_comes_in_two_pieces_is_one() -> None:
    screen = pyte.Screen(20, 2)
    process = subprocess.Popen(["true"])
    process.wait()
    terminal = Window(screen, process, -1, pyte.ByteStream(screen))
    terminal.output = [(0.5, b"a\xc3"), (1.0, b"\xa1"), (1.5, b"\xc3"), (2.0, b"\xa9")]
    _, *events = map(json.loads, cast(terminal, "").splitlines())
    assert events == [[0.5, "o", "a"], [1.0, "o", "á"], [2.0, "o", "é"]]


@pytest.mark.parametrize(("look", "other"), [(DARK, LIGHT), (LIGHT, DARK)])
def test_a_picture_has_the_colours_of_its_background_only(look: Look, other: Look) -> None:
    screen = pyte.Screen(40, 3)
    pyte.Stream(screen).feed("plain \x1b[34mblue\x1b[0m \x1b[7mturned\x1b[0m in 31 ms")
    svg = drawn(screen, "colours", [(r"\d+ ms", "12 ms")], look)
    for colour in (look.text, look.ground, look.frame, look.colours["blue"]):
        assert colour in svg
    for colour in (other.ground, other.frame, other.colours["blue"]):
        assert colour not in svg
    assert "12 ms" in svg
    assert "31 ms" not in svg


def test_the_pictures_are_few_small_and_complete() -> None:
    files = {path.name: path for path in pictures.PICTURES.rglob("*") if path.is_file()}
    assert len(files) <= 30
    expected = {
        f"chat-{width}-{language}-{theme}.svg"
        for width in pictures.WIDTHS
        for language in pictures.SAID
        for theme in pictures.THEMES
    }
    assert {path.name for path in pictures.SCREENS.iterdir()} == expected
    assert {"first-chat.cast", "folder.cast", "chat.svg", "folder.svg", "status.svg"} <= set(files)
    most_kb = {".svg": 20, ".cast": 200, ".png": 150}
    assert {
        name for name, path in files.items() if path.stat().st_size > 1000 * most_kb[path.suffix]
    } == set()
    for name in ("first-chat.cast", "folder.cast"):
        head, *events = map(json.loads, files[name].read_text("utf-8").splitlines())
        assert head["version"] == 2
        assert len(events) > 10
