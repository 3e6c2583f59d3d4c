"""The status tree as a person reads it."""

from typing import Any

import pytest
from rich.console import Console

from rumi.control.view import duration, render


def item(id: str, *children: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {
        "id": id, "kind": "actor", "state": "running", "incarnation": 1, "restarts": 0,
        "mailbox": {"depth": 0, "capacity": 64}, "dead_letters": 0, "doing": "", "age_s": 1.0,
        "last_error": None, "children": list(children), **changes,
    }  # fmt: skip


def shown(tree: dict[str, Any], width: int = 80) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    status = {
        "program": "1", "pid": 7, "uptime_s": 61, "model": "offline",
        "sandbox": {"engine": "bubblewrap", "degraded": ["no bound on memory"]}, "tree": tree,
    }  # fmt: skip
    console.print(render(status))
    console.file.close()
    return console.export_text()


def test_the_tree_fits_into_eighty_columns_and_names_what_each_actor_does() -> None:
    long = "turn t3: bash " + "x" * 200
    text = shown(item("rumi", item("journal"), item("chats", item("a" * 64, doing=long), item("b"))))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "turn t3: bash" in text
    assert "degraded: no bound on memory" in text
    assert "├ journal" in text
    assert "  └ b" in text


def test_what_one_actor_does_takes_no_room_from_names_and_states() -> None:
    text = shown(item("rumi", item("sandbox:tg123456", doing="x" * 200), item("sender", state="restarting")))
    assert "├ sandbox:tg123456 running " in text
    assert "└ sender           restarting " in text
    assert "…" in text


def test_restarts_mail_and_errors_are_shown_where_there_are_any() -> None:
    text = shown(item("rumi", restarts=3, last_error="ValueError: no", mailbox={"depth": 9, "capacity": 64}))
    row = text.splitlines()[-1]
    assert "3" in row
    assert "9" in row
    assert "ValueError: no" in row


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (42, "42 s"),
        (185, "3 min 5 s"),
        (120, "2 min"),
        (7800, "2 h 10 min"),
        (349_200, "4 d 1 h"),
    ],
)
def test_durations_are_told_in_their_largest_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
