"""The status dump: what the process and every actor in it do, as plain data. Reads, and never waits."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from actors import NodeStatus
from rumi import __version__

SHAPE_VERSION = 2
"""Goes up when a field goes or means something else; docs/status.md describes the shape."""

MOST_CHILDREN = 15
"""Children of one node in the outline: those that do something come first."""


@dataclass(frozen=True, slots=True)
class StatusSource:
    """Makes the dump of one process. `about` are facts that do not change while it runs.

    `files` are those whose sizes are told, `failed` what went wrong in chats that gave up: (time, error).
    """

    tree: Callable[[], NodeStatus]
    about: Mapping[str, object]
    files: Sequence[Path] = ()
    failed: Callable[[], Mapping[str, tuple[float, str]]] = field(default=dict)
    started: float = field(default_factory=time.monotonic)

    def dump(self) -> dict[str, object]:
        """The dump, as JSON knows it. Ages and times in seconds, sizes in bytes.

        Nothing is asked of an actor: the figures are those that they keep, the sizes the file system's.
        """
        tree = self.tree()
        journal = next((child for child in tree.children if child.id == "journal"), None)
        return {
            "version": SHAPE_VERSION,
            "program": __version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self.started, 3),
            "time": round(time.time(), 3),
            **self.about,
            "databases": {path.name: size_of(path) for path in self.files},
            "outbox": journal.figures.get("outbox") if journal is not None else None,
            "storage": {
                "trouble": journal.figures.get("trouble") if journal is not None else None,
                "trouble_s": journal.figures.get("trouble_s") if journal is not None else None,
            },
            "failed": {
                chat: {"time": round(at, 3), "error": error} for chat, (at, error) in self.failed().items()
            },
            "tree": node(tree, trio.current_time()),
        }


def size_of(database: Path) -> int:
    """Bytes of a database and of what is written and not yet merged into it; 0 for one that is not there."""
    total = 0
    for path in (database, database.with_name(f"{database.name}-wal")):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def node(status: NodeStatus, now: float) -> dict[str, object]:
    """One node of the tree and those below it. `age_s` is how long it has been in what it does."""
    return {
        "id": status.id,
        "kind": status.kind,
        "state": status.state,
        "incarnation": status.incarnation,
        "restarts": status.restarts,
        "mailbox": {"depth": status.depth, "capacity": status.capacity},
        "dead_letters": status.dead_letters,
        "doing": status.doing,
        "age_s": None if status.since is None else round(now - status.since, 3),
        "last_error": status.last_error,
        "figures": dict(status.figures),
        "children": [node(child, now) for child in status.children],
    }


def outline(status: NodeStatus) -> str:
    """The tree for a narrow screen: a line a node, what it does behind it."""
    return "\n".join(_lines(status, "", ""))


def _lines(status: NodeStatus, lead: str, below: str) -> Iterator[str]:
    words = [status.id, *_remarks(status)]
    yield lead + " · ".join(words)
    children = list(status.children)
    if len(children) > MOST_CHILDREN:
        children.sort(key=lambda child: not child.doing)
    shown, more = children[:MOST_CHILDREN], len(children) - MOST_CHILDREN
    for place, child in enumerate(shown):
        last = place == len(shown) - 1 and more <= 0
        yield from _lines(child, below + ("└ " if last else "├ "), below + ("  " if last else "│ "))
    if more > 0:
        yield f"{below}└ … +{more}"


def _remarks(status: NodeStatus) -> Sequence[str]:
    """What is worth a word: a state that is not the usual one, restarts, mail, work."""
    remarks = [] if status.state == "running" else [str(status.state)]
    if status.restarts:
        remarks.append(f"↻{status.restarts}")
    if status.depth:
        remarks.append(f"✉{status.depth}")
    if status.doing:
        remarks.append(status.doing)
    elif status.last_error:
        remarks.append(status.last_error)
    return remarks
