"""A model that also draws facts from conversations: from each `say my KEY is VALUE` the one that it states.

`keep KEY=VALUE` remembers with the tool. Everything else is `telegram_model`'s.
"""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.telegram_model import think
from tests.cli.telegram_world import World
from tests.fakes.groq_replies import Answer, Behaviour, Body, Hang, answered_calls, last_user_text

_STATED = re.compile(r"(?:User|Usuario): say my (\w+) is (\w+)")


@dataclass
class Mind:
    """`lessons` is what it was given to draw from. While it `hangs` it draws nothing; `says` it instead."""

    extractions: list[str] = field(default_factory=list)
    hangs: bool = False
    says: str = ""

    def __call__(self, body: Body) -> Behaviour:
        if '{"facts"' in body["messages"][0]["content"]:
            return self._draw(body["messages"][-1]["content"])
        word, _, rest = last_user_text(body).partition(" ")
        if word == "keep":
            if results := answered_calls(body):
                return Answer(results[-1])
            key, _, value = rest.partition("=")
            return Answer(calls=[("remember", json.dumps({"key": key, "value": value}))])
        return think(body)

    def _draw(self, conversation: str) -> Behaviour:
        self.extractions.append(conversation)
        if self.hangs:
            return Hang()
        facts = [{"key": key, "value": value} for key, value in _STATED.findall(conversation)]
        return Answer(self.says or json.dumps({"facts": facts}))


def mind_of(world: World) -> Mind:
    """Put such a model into the world."""
    mind = Mind()
    world.do(setattr, world.groq, "_choose", mind)
    return mind


def facts(home: Path) -> list[tuple[Any, ...]]:
    """Owner, key and value of what is known, the oldest first."""
    return _rows(home / "memory.db", "SELECT owner, key, value FROM facts ORDER BY id")


def sessions_to_extract(home: Path) -> list[tuple[Any, ...]]:
    """The sessions in which something was said that nothing was learned from."""
    return _rows(home / "state.db", "SELECT chat, number FROM sessions WHERE fresh")


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()
