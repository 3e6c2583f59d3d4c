"""The store part: the journal, the usage of model calls, facts about users, and the recall index."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors import ActorRef, ChildSpec
from rumi.app.parts.inputs import TreeInputs
from rumi.app.settings import budget_rules_of
from rumi.chats.budgets.meter import Budgets, Ledger, WriteNow
from rumi.memory.actor import AskMemory, Memory, asking
from rumi.memory.recall.actor import AskRecall, Recall
from rumi.memory.recall.actor import asking as asking_recall
from rumi.platform.disk_reserve import Reserve
from rumi.platform.threads import Threads
from rumi.store.journal.actor import Journal, JournalState
from rumi.store.journal.transaction import JournalMessage
from rumi.store.protocol import Trouble

JOURNAL_SHUTDOWN_S = 10.0


@dataclass(frozen=True, slots=True)
class StorePart:
    """The journal and the other stores. `journal_state` is kept when the journal's actor is restarted."""

    journal: ActorRef[JournalMessage]
    journal_state: JournalState
    reserve: Reserve
    budgets: Budgets
    ledger: ActorRef[WriteNow]
    memory: AskMemory
    recall: AskRecall
    retention_s: float


def add_store(
    inputs: TreeInputs,
    disk_changed: Callable[[Trouble | None], None],
    worker_status: Callable[[], Mapping[str, Any]],
) -> StorePart:
    """Add the journal, the worker's lease, the ledger, the memory and the recall index.

    `disk_changed` is called when the databases cannot be written, and when they can be written again.
    `worker_status` returns statistics of this worker, which other workers display.
    """
    root, home, workers = inputs.root, inputs.home, inputs.workers
    reserve = Reserve(home.reserve)
    state = JournalState(reserve, disk_changed, "full" if inputs.full else None)
    retention_s = inputs.loaded.settings.session.retention_s
    database, journal_threads = workers.database_of(home.state_db), Threads()
    journal = root.add(
        ChildSpec(
            "journal",
            lambda: Journal(database, journal_threads, time.time, state, retention_s, workers.ownership),
            capacity=1024,
            shutdown=JOURNAL_SHUTDOWN_S,
        )
    )
    # The lease is above all that serves chats: without it, nothing below may run.
    workers.add_lease(root, worker_status)
    budgets = Budgets(journal.ask, budget_rules_of(inputs.loaded), time.time)
    models = tuple(step.model.name for step in inputs.models.steps)
    ledger = root.add(ChildSpec("budgets", lambda: Ledger(budgets, models), shutdown=JOURNAL_SHUTDOWN_S))
    memory_database, memory_threads = workers.database_of(home.memory_db), Threads()
    memory = root.add(ChildSpec("memory", lambda: Memory(memory_database, memory_threads, time.time)))
    recall_threads = Threads()
    recall = root.add(
        ChildSpec("recall", lambda: Recall(home.recall_db, database, inputs.ids, recall_threads, time.time))
    )
    return StorePart(
        journal, state, reserve, budgets, ledger, asking(memory), asking_recall(recall), retention_s
    )
