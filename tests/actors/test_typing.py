"""What mypy, strict, knows: the reply of an ask, and which messages an actor takes."""

import re
from pathlib import Path

import pytest

SNIPPET = """
from dataclasses import dataclass
from typing import assert_type

from actors import Actor, ActorRef, ChildSpec, DynamicSupervisor, Request, Supervisor


@dataclass(frozen=True, slots=True)
class Get(Request[int]):
    key: str


@dataclass(frozen=True, slots=True)
class Names(Request[list[str]]):
    pass


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: int


class Store(Actor[Get | Names | Put]):
    async def receive(self, message: Get | Names | Put) -> object:
        assert_type(self.ref, ActorRef[Get | Names | Put])
        match message:
            case Get(key):
                return len(key)
            case Names():
                return ["a"]
            case Put():
                return None


root = Supervisor("root")
store = root.add(ChildSpec("store", Store))
assert_type(store, ActorRef[Get | Names | Put])
keyed = root.add_supervisor(DynamicSupervisor("keyed", lambda key: ChildSpec(key, Store)))
assert_type(keyed, DynamicSupervisor[Get | Names | Put])
putter: ActorRef[Put] = store


async def use() -> None:
    assert_type(await store.ask(Get("a")), int)
    assert_type(await store.ask(Names()), list[str])
    await store.tell(Put("a", 1))
    ref = await keyed.get_or_start("a")
    assert_type(await ref.ask(Get("a")), int)
    assert_type(keyed.lookup("a"), ActorRef[Get | Names | Put] | None)
    await store.tell("no message of its")  # expected: arg-type
    await store.ask(Put("a", 1))  # expected: arg-type
    await putter.tell(Get("a"))  # expected: arg-type
    wrong: str = await store.ask(Get("a"))  # expected: arg-type
    wider: ActorRef[Get | Put | str] = store  # expected: assignment
    print(wrong, wider)
"""


def test_mypy_strict_knows_replies_and_messages(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    output, errors, _ = api.run(["--strict", "--no-incremental", "--show-error-codes", str(file)])
    assert errors == ""
    found = re.findall(r"snippet\.py:(\d+): error: .*\[([a-z-]+)\]", output)
    expected = [
        (str(number), line.split("# expected: ")[1])
        for number, line in enumerate(SNIPPET.splitlines(), 1)
        if "# expected: " in line
    ]
    assert found == expected, output
