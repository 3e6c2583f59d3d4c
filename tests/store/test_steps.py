"""The register of requests to a database: what mypy, strict, refuses, and that each request has its step."""

from pathlib import Path
from typing import get_args

from rumi.memory import rows as memory
from rumi.memory.messages import MemoryMessage
from rumi.store.journal import store as journal_store
from rumi.store.journal import transaction as journal
from tests import mypy_snippet

SNIPPET = """
from dataclasses import dataclass
from typing import assert_type

from actors import Request
from rumi.store.steps import Steps, Transaction


@dataclass(frozen=True, slots=True)
class Get(Request[int]):
    key: str


@dataclass(frozen=True, slots=True)
class Names(Request[tuple[str, ...] | None]):
    pass


steps: Steps[Transaction] = Steps()


@steps.of(Get)
def get(request: Get, transaction: Transaction) -> int:
    return len(request.key)


@steps.of(Names)
def names(request: Names, transaction: Transaction) -> tuple[str, ...]:
    return ("a",)


@steps.of(Get)  # expected: arg-type
def text(request: Get, transaction: Transaction) -> str:
    return request.key


@steps.of(Get)  # expected: arg-type
def nothing(request: Get, transaction: Transaction) -> None:
    pass


@steps.of(Get)  # expected: arg-type
def of_another(request: Names, transaction: Transaction) -> int:
    return 1


def use(transaction: Transaction) -> None:
    assert_type(steps.do(Get("a"), transaction), int)
    assert_type(steps.do(Names(), transaction), tuple[str, ...] | None)
"""


def test_mypy_strict_refuses_a_step_of_another_request_or_with_another_reply(tmp_path: Path) -> None:
    mypy_snippet.check(SNIPPET, tmp_path)


def _kinds_of(base: type) -> set[str]:
    """Return the names of all kinds of requests below a base."""
    below = base.__subclasses__()
    return set().union(*map(_kinds_of, below)) if below else {base.__name__}


def test_each_request_of_the_journal_and_of_the_memory_has_its_step() -> None:
    assert journal_store  # it imports all modules with steps
    assert {kind.__name__ for kind in journal.steps.kinds} == _kinds_of(journal.JournalRequest)
    assert set(memory.steps.kinds) == set(get_args(MemoryMessage))
