"""The status dump: the state of the process and every actor, as plain data. Making it never waits."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from actors import NodeStatus
from rumi import __version__
from rumi.channels.status_dump import Item, rows
from rumi.platform.commit import own_commit
from rumi.platform.timestamps import utc

COMMIT: Final = own_commit()
"""The commit of the code that runs, read at the start: a clone may have another one checked out later."""

SHAPE_VERSION = 3
"""Version of the dump's format: raised when a field is removed or changes its meaning.

`docs/status.md` describes the format.
"""

MOST_CHILDREN = 15
"""Maximum number of children per node in the outline; active children come first."""


@dataclass(frozen=True, slots=True)
class StatusSource:
    """Makes the status dump of one process.

    `about` contains values that do not change while the process runs.

    `files` are the files whose sizes are reported. `failed` returns, for each chat that is no longer
    restarted after errors, the time and the last error. `counts` returns the counters of
    `rumi.channels.counters`, and `pending` the number of messages without a final reply. `workers`
    returns the last known workers that share the database; it is None if the process has its own database.
    `services` returns the state of the configured calendars and of the enabled plugins, if there are any.
    """

    tree: Callable[[], NodeStatus]
    about: Mapping[str, object]
    files: Sequence[Path] = ()
    failed: Callable[[], Mapping[str, tuple[float, str]]] = field(default=dict)
    counts: Callable[[], Mapping[str, object]] = field(default=dict)
    pending: Callable[[], int] = field(default=int)
    workers: Callable[[], Sequence[Mapping[str, object]]] | None = None
    services: Callable[[], Mapping[str, object]] = field(default=dict)
    started: float = field(default_factory=time.monotonic)

    def dump(self) -> dict[str, object]:
        """Return the dump as JSON types. Ages are in seconds, times in RFC 3339, sizes in bytes.

        No actor is asked: figures come from the actors' memory, sizes from the file system.
        """
        tree = self.tree()
        journal = next((child for child in tree.children if child.id == "journal"), None)
        return {
            "version": SHAPE_VERSION,
            "program": __version__,
            "commit": COMMIT,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self.started, 3),
            "time": utc(time.time()),
            **self.about,
            "databases": {path.name: size_of(path) for path in self.files},
            "outbox": journal.metrics.get("outbox") if journal is not None else None,
            "storage": {
                "trouble": journal.metrics.get("trouble") if journal is not None else None,
                "trouble_s": journal.metrics.get("trouble_s") if journal is not None else None,
            },
            "failed": {
                chat: {"time": utc(at), "error": error} for chat, (at, error) in self.failed().items()
            },
            "counts": dict(self.counts()),
            "pending": self.pending(),
            **({} if self.workers is None else {"workers": list(self.workers())}),
            **self.services(),
            "tree": node(tree, trio.current_time()),
        }


def size_of(database: Path) -> int:
    """Return the size in bytes of a database and its WAL; 0 if the database does not exist."""
    total = 0
    for path in (database, database.with_name(f"{database.name}-wal")):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def node(status: NodeStatus, now: float) -> dict[str, object]:
    """Return one node of the actor tree with its descendants.

    `age_s` is the duration of the node's current activity, in seconds.
    """
    return {
        "id": status.id,
        "kind": status.kind,
        "state": status.state,
        "incarnation": status.incarnation,
        "restarts": status.restarts,
        "mailbox": {"depth": status.depth, "capacity": status.capacity},
        "dead_letters": status.dead_letters,
        "doing": status.activity,
        "age_s": None if status.since is None else round(now - status.since, 3),
        "last_error": status.last_error,
        "figures": dict(status.metrics),
        "children": [node(child, now) for child in status.children],
    }


def outline(status: NodeStatus) -> str:
    """Return the actor tree for a narrow screen: one line per node, with the node's activity."""
    return "\n".join(
        f"{row.lead}{_words(row.what)}" for row in rows(node(status, trio.current_time()), _shown)
    )


def _shown(node: Item) -> tuple[Sequence[Item], str]:
    children, more = node["children"], len(node["children"]) - MOST_CHILDREN
    if more <= 0:
        return children, ""
    return sorted(children, key=lambda child: not child["doing"])[:MOST_CHILDREN], f"… +{more}"


def _words(what: Item | str) -> str:
    """Return a node's name, an unusual state, restarts, queued messages, and current work."""
    if isinstance(what, str):
        return what
    restarts, mail = what["restarts"], what["mailbox"]["depth"]
    state = "" if what["state"] == "running" else str(what["state"])
    work = what["doing"] or what["last_error"]
    words = (what["id"], state, restarts and f"↻{restarts}", mail and f"✉{mail}", work)
    return " · ".join(word for word in words if word)
