"""Every request to the journal has the same answer on SQLite and on PostgreSQL."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from rumi.store.backend import PostgresServer, SqliteFile
from rumi.store.journal.forgetting import ExpiryCursor
from rumi.store.journal.leases import claim_partitions, join_cluster, release_partitions
from rumi.store.journal.records import Figures
from rumi.store.journal.schema import ON_A_SERVER
from rumi.store.journal.store import JournalError, Store
from rumi.store.ownership import PARTITIONS, Ownership, partition_of
from rumi.store.steps import Step
from tests.postgres import Server
from tests.store.journal.requests import FIRST, PARTITION_KEYS, SETUP, STEPS, STRATEGIES

PARTS = 6
"""The steps are done in so many parts, so that examples stay small."""

BEGAN = 1_790_000_000.0


class Both:
    """A store of each kind, with one clock, and emptied for each example."""

    def __init__(self, url: str, folder: Path) -> None:
        self.now = BEGAN
        self._folder = folder
        self._files = 0
        self.server = PostgresServer(url, ON_A_SERVER)
        self.ownership = Ownership("w1")
        self.postgres = Store(self.server, lambda: self.now, self.ownership)
        self._tables = [
            name
            for (name,) in self._rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            if name != "schema_versions"
        ]
        self.sqlite: Store | None = None

    def _rows(self, sql: str) -> list[Any]:
        return list(self.postgres._db.execute(sql))

    def empty(self) -> None:
        if self.sqlite is not None:
            self.sqlite.close()
        self.now = BEGAN
        self._files += 1
        path = self._folder / f"{self._files}.db"
        self.sqlite = Store(SqliteFile(path), lambda: self.now)
        self._rows_of(f"TRUNCATE {', '.join(self._tables)} RESTART IDENTITY")
        mine = {partition_of(key) for key in PARTITION_KEYS}
        others = tuple(number for number in range(PARTITIONS) if number not in mine)
        requests = (
            join_cluster("w1", "1", "", 1e9),
            claim_partitions("w1", 256),
            release_partitions("w1", others),
        )
        self.sqlite.run(requests)
        _, claimed, _ = self.postgres.run(requests)
        fences = {partition.number: partition.fence for partition in claimed}  # type: ignore[attr-defined]
        self.ownership.set({number: fence for number, fence in fences.items() if number in mine})

    def _rows_of(self, sql: str) -> None:
        self.postgres._db.execute(sql).close()

    def run(self, request: Any) -> tuple[object, object]:
        assert self.sqlite is not None
        return _answer(self.sqlite, request), _answer(self.postgres, request)

    def close(self) -> None:
        if self.sqlite is not None:
            self.sqlite.close()
        self.postgres.close()


def _answer(store: Store, request: Any) -> object:
    try:
        (answer,) = store.run([request])
    except (JournalError, TypeError) as error:
        return "refused", str(error)
    return _comparable(answer)


def _is_refused(answer: object) -> bool:
    return isinstance(answer, tuple) and answer[:1] == ("refused",)


def _comparable(answer: Any) -> Any:
    """Return an answer without what differs rightly: NUL, sizes, and numbers that nobody sees."""
    if isinstance(answer, str):
        return answer.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(answer, Figures):
        return replace(answer, bytes=0)
    if isinstance(answer, ExpiryCursor):
        return answer.table
    if isinstance(answer, tuple):
        return tuple(map(_comparable, answer))
    if is_dataclass(answer) and not isinstance(answer, type):
        return type(answer), tuple(
            _comparable(getattr(answer, dataclass_field.name)) for dataclass_field in fields(answer)
        )
    return answer


@pytest.fixture(scope="module")
def both(postgres: Server, empty_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    url = postgres.copy_of(empty_database)
    made = Both(url, tmp_path_factory.mktemp("both"))
    yield made
    made.close()
    postgres.drop(url)


def _sequences(steps: Sequence[Step[Any, ..., Any]]) -> st.SearchStrategy[list[Any]]:
    """Return sequences with a request for each of these steps, and others that store what they find."""

    def mixed(setup: list[Any], requests: list[Any]) -> list[Any]:
        found = [FIRST, *setup[: len(setup) // 2]]
        rest = setup[len(setup) // 2 :]
        for index, request in enumerate(requests):
            found += [*rest[index : index + 1], request]
        return found

    return st.builds(
        mixed,
        st.lists(SETUP, min_size=6, max_size=18),
        st.permutations(steps)
        .flatmap(lambda order: st.tuples(*(STRATEGIES[step] for step in order)))
        .map(list),
    )


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("part", range(PARTS))
def test_sqlite_and_postgres_give_every_request_the_same_answer(both: Both, part: int) -> None:
    steps, done = STEPS[part::PARTS], Counter[Step[Any, ..., Any]]()
    different: list[tuple[object, ...]] = []
    refused = 0

    @hypothesis.settings(
        max_examples=8,
        print_blob=False,
        phases=(hypothesis.Phase.generate,),  # the failed request says enough, and shrinking takes minutes
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(_sequences(steps))
    def same(requests: list[Any]) -> None:
        nonlocal refused
        both.empty()
        for place, request in enumerate(requests):
            both.now += 61.5
            if request.step is join_cluster:  # a worker's name is used once
                worker, *rest = request.args
                request = join_cluster(f"{worker}-{place}", *rest)
            sqlite, postgres = both.run(request)
            if _is_refused(sqlite) and _is_refused(postgres):
                refused += 1
                return  # numbers go on differently from here
            if postgres != sqlite:
                different.append((request, sqlite, postgres))
                return
            done[request.step] += 1

    same()
    assert not different, different[0]
    assert set(steps) <= set(done)
    assert refused < sum(done.values()) / 20


def test_every_step_is_compared() -> None:
    parts = [STEPS[part::PARTS] for part in range(PARTS)]
    assert sorted(step.name for part in parts for step in part) == sorted(step.name for step in STEPS)
    assert set(STRATEGIES) == set(STEPS)
