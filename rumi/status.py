"""The status dump: what the process and every actor in it do, as plain data. Reads, and never waits."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import trio

from actors import NodeStatus
from rumi import __version__

SHAPE_VERSION = 1


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
