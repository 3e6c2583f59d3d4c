"""Steps: what mypy, strict, refuses, how requests are made of them, and that their names are unique."""

from pathlib import Path

import pytest

from rumi import memory
from rumi.memory import recall
from rumi.store import journal
from rumi.store.journal.tasks import begin_task, list_tasks
from rumi.store.steps import Run
from tests import mypy_snippet
from tests.store.registry import steps_in

SNIPPET = """
from collections.abc import Iterable
from typing import assert_type

from actors import ActorRef
from rumi.store.journal.transaction import JournalMessage
from rumi.store.steps import Run, Transaction, step


def of_chat(transaction: Transaction, chat: str) -> Iterable[str]:
    return (chat,)


@step(of_chat, owned=True)
def count(transaction: Transaction, chat: str, least: int = 0) -> int:
    return least


@step(reads=True)
def names(transaction: Transaction, *, prefix: str = "") -> tuple[str, ...] | None:
    return None


@step(of_chat)  # expected: arg-type
def of_a_number(transaction: Transaction, id: int) -> None:
    pass


@step(of_chat)  # expected: arg-type
def of_nothing(transaction: Transaction) -> None:
    pass


async def use(transaction: Transaction, journal: ActorRef[JournalMessage]) -> None:
    assert_type(await journal.ask(count("a", 1)), int)
    assert_type(await journal.ask(count("a", least=1)), int)
    assert_type(names(prefix="a"), Run[tuple[str, ...] | None])
    assert_type(count.do(transaction, "a"), int)
    count(1)  # expected: arg-type
    count()  # expected: call-arg
    count(chat="a")  # expected: call-arg
    count("a", most=1)  # expected: call-arg
    names("a")  # expected: call-arg
    count.do(transaction, 1)  # expected: arg-type
"""


def test_mypy_strict_refuses_wrong_arguments_of_a_step_and_a_wrong_key(tmp_path: Path) -> None:
    mypy_snippet.check(SNIPPET, tmp_path)


def test_calling_a_step_makes_a_request_and_executes_nothing() -> None:
    assert list_tasks("a", limit=1) == Run(list_tasks, ("a",), {"limit": 1})
    assert begin_task(7) != begin_task(8)


def test_a_request_has_the_name_of_its_step() -> None:
    assert begin_task(7).request_name == "begin_task"


@pytest.mark.parametrize("package", [journal, memory, recall], ids=lambda package: package.__name__)
def test_each_step_of_a_database_has_a_name_of_its_own(package: object) -> None:
    names = [step.name for step in steps_in(package)]  # type: ignore[arg-type]
    assert names
    assert len(names) == len(set(names))


def test_each_owned_step_says_what_must_be_owned() -> None:
    assert all(step.keys is not None for step in steps_in(journal) if step.owned)
