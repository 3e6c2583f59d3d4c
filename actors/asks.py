"""Functions that find pending asks and deadlock cycles in an actor tree, without sending any message."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trio.lowlevel import Task

from actors.base_supervisor import BaseSupervisor
from actors.cell import Cell
from actors.request import SETTLED, Ask, name_of

AskStage = Literal["waits for room", "queued", "handled"]


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """An ask without a reply yet.

    `asker` is the path of the actor whose task waits, or the task's name if it belongs to no actor. `asked`
    is the path of the actor that has to reply, `request` the name of the request.
    """

    asker: str
    asked: str
    request: str
    stage: AskStage

    def __str__(self) -> str:
        return f"{self.asker} asks {self.asked}: {self.request} ({self.stage})"


def pending_asks(root: BaseSupervisor) -> tuple[PendingAsk, ...]:
    """Return all pending asks of the tree, in the order of the asked actors. Never waits."""
    cells = list(_cells(root))
    owners: dict[Task, str] = {task: cell.path for cell in cells for task in cell.tasks()}

    def asker(task: Task | None) -> str:
        return "" if task is None else owners.get(task, task.name)

    found: list[PendingAsk] = []
    for cell in cells:
        path = cell.path
        stages: tuple[tuple[AskStage, Iterable[Any]], ...] = (
            ("handled", cell.in_hand()),
            ("queued", cell.mailbox.queue),
        )
        for stage, items in stages:
            found += [
                PendingAsk(asker(item.task), path, name_of(item.message), stage)
                for item in items
                if type(item) is Ask and item.stage is not SETTLED
            ]
        found += [
            PendingAsk(asker(task), path, name_of(item.message), "waits for room")
            for task, item in cell.mailbox.waiting()
            if type(item) is Ask
        ]
    return tuple(found)


def circles(asks: Sequence[PendingAsk]) -> tuple[tuple[str, ...], ...]:
    """Return cycles of actors that wait for each other, as tuples of paths; at least one if any exists.

    A cycle is a deadlock if its actors handle one message at a time. With a higher concurrency, an actor of
    the cycle may still reply.
    """
    asked: dict[str, dict[str, None]] = {}
    for ask in asks:
        asked.setdefault(ask.asker, {})[ask.asked] = None
    found: list[tuple[str, ...]] = []
    path_so_far: list[str] = []
    done: set[str] = set()

    def walk(path: str) -> None:
        if path in path_so_far:
            found.append(tuple(path_so_far[path_so_far.index(path) :]))
        elif path not in done:
            path_so_far.append(path)
            for after in asked.get(path, ()):
                walk(after)
            path_so_far.pop()
            done.add(path)

    for start in sorted(asked):
        walk(start)
    return tuple(found)


def _cells(base_supervisor: BaseSupervisor) -> Iterator[Cell[Any]]:
    for child in base_supervisor.children():
        if isinstance(child, Cell):
            yield child
        elif isinstance(child, BaseSupervisor):
            yield from _cells(child)
