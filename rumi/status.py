"""The status dump: what the process and every actor in it do, as plain data. Reads, and never waits."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from actors import NodeStatus
from rumi import __version__

SHAPE_VERSION = 1

MOST_CHILDREN = 15
"""Children of one node in the outline: those that do something come first."""


@dataclass(frozen=True, slots=True)
class StatusSource:
    """Makes the dump of one process. `about` are facts that do not change while it runs."""

    tree: Callable[[], NodeStatus]
    about: Mapping[str, object]
    started: float = field(default_factory=time.monotonic)

    def dump(self) -> dict[str, object]:
        """The dump, as JSON knows it. Ages and times in seconds."""
        return {
            "version": SHAPE_VERSION,
            "program": __version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self.started, 3),
            **self.about,
            "tree": node(self.tree(), trio.current_time()),
        }


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
