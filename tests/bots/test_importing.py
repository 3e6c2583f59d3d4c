"""What another program's bots are taken over from."""

import json
from pathlib import Path

import pytest

from rumi.bots import BotError
from rumi.bots.importing import foreign_bots

CONFIG = '+++\nmodel = "groq:some"\nweb = true\n+++\nKeep the garden.'


def foreign(home: Path, memory: object) -> Path:
    bot = home / "bots" / "garden"
    bot.mkdir(parents=True)
    (bot / "config.md").write_text(CONFIG)
    (bot / "memory.json").write_text(memory if isinstance(memory, str) else json.dumps(memory))
    return home


@pytest.mark.parametrize(
    ("memory", "facts", "history"),
    [
        ({}, (), ()),
        ([], (), ()),
        ({"entries": {"soil": "clay", "beds": 3}}, (("soil", "clay"), ("beds", "3")), ()),
        (
            {
                "entries": [{"key": "soil", "value": "clay"}, {"value": "no key"}, 7],
                "history": [
                    {"iteration": 1, "response_summary": "Dug."},
                    "Sown.",
                    {"summary": " "},
                    {"summary": "Watered.", "timestamp": "2026-01-01T00:00:00Z"},
                    None,
                ],
            },
            (("soil", "clay"),),
            ("Dug.", "Sown.", "Watered."),
        ),
        ({"entries": {"soil": {"value": "clay", "created_at": "x"}}}, (("soil", "clay"),), ()),
    ],
)
def test_facts_and_history_are_read_in_each_form(
    memory: object, facts: object, history: object, tmp_path: Path
) -> None:
    (found,) = foreign_bots(foreign(tmp_path, memory))
    assert (found.name, found.facts, found.history) == ("garden", facts, history)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BotError, match="has no bots"):
        foreign_bots(tmp_path)
    for number, text in enumerate(("{", "[" * 100_000)):
        with pytest.raises(BotError, match=r"memory\.json cannot be read"):
            foreign_bots(foreign(tmp_path / str(number), text))
