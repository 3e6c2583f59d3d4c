"""Answers control calls on the files of a home that no process has locked, so nothing can be running."""

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from rumi.app.engine import chat_files_at_rest, sandbox_limits
from rumi.app.settings import budget_rules_of
from rumi.chats.services import ChatWorkspaces
from rumi.cli.stored import stored_of
from rumi.memory.actor import open_memory
from rumi.platform.caller import TERMINAL
from rumi.platform.calls import answer
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.cascade import load_settings
from rumi.platform.threads import Threads
from rumi.store.journal.actor import open_journal

if TYPE_CHECKING:
    from rumi.app.app import App
    from rumi.platform.home import Home

COMMANDS: Final = {
    "bots": "bot",
    "recall": "chats search",
    "schedules": "schedule",
    "triggers": "schedule trigger",
    "usage": "models usage",
}
"""The names of the commands that have another name than their control call."""


async def answer_at_rest(home: "Home", call: str, request: Mapping[str, object]) -> object:
    """Answer a request of the control call with that name. The home is locked meanwhile.

    Raises:
        RumiError: The request failed, or the home or its databases cannot be used.
    """
    with home.lock(f"rumi {COMMANDS.get(call, call)}"):
        async with part_at_rest(home, call) as part:
            return await answer(part, call, TERMINAL, request)


@asynccontextmanager
async def app_at_rest(home: "Home", purpose: str) -> AsyncIterator["App"]:
    """Lock the home for a command, and run a complete app in this process, for as long as the block lasts.

    Raises:
        RumiError: The home is locked, or the app does not start.
    """
    from rumi.app.app import open_app
    from rumi.app.engine import find_engine
    from rumi.app.settings import cluster_of
    from rumi.store.cluster.building import leases_of

    loaded = load_settings(home.root, os.environ, {})
    with home.lock(purpose):
        cluster = cluster_of(loaded)
        engine = await find_engine(home, loaded, leases=leases_of(cluster))
        async with open_app(home, loaded, engine, cluster=cluster) as app:
            yield app


@asynccontextmanager
async def part_at_rest(home: "Home", call: str) -> AsyncIterator[object]:
    """Open the databases that the call needs; return what answers it."""
    stored = stored_of(home)
    if call == "memory":
        from rumi.memory.memory_calls import MemoryCalls

        async with open_memory(stored.memory) as memory:
            yield MemoryCalls(memory, BUILT_IN)
        return
    loaded, threads = load_settings(home.root, os.environ, {}), Threads()
    home = home.with_files(loaded.settings.store.workspaces)
    workspaces = ChatWorkspaces(chat_files_at_rest(home, sandbox_limits(loaded)), threads)
    # The journal first also for the recall index, which only reads the database: this migrates it.
    async with open_journal(stored.state) as ask:
        match call:
            case "recall":
                from rumi.app.recall_calls import RecallCommands
                from rumi.memory.recall.actor import open_recall
                from rumi.tasks.schedules.stored import StoredSchedules

                async with open_recall(home.recall_db, stored.state, BUILT_IN) as recall:
                    yield RecallCommands(recall, BUILT_IN, time.time, StoredSchedules(ask).zone_of)
            case "usage":
                from rumi.app.budget_calls import UsageCalls
                from rumi.chats.budgets.meter import Budgets

                yield UsageCalls(Budgets(ask, budget_rules_of(loaded), time.time), BUILT_IN)
            case "chats":
                from rumi.chats.chat_calls import ChatCalls
                from rumi.chats.linked_folders import SandboxFolders
                from rumi.chats.recorder.recorder import delete_recordings
                from rumi.chats.undo.snapshots import Snapshots
                from rumi.store.journal.forgetting import delete_chat

                async def delete(chat: str) -> None:
                    while await ask(delete_chat(chat)):  # deletes in bounded steps; True while rows are left
                        continue
                    await workspaces.remove(chat)
                    await threads(partial(delete_recordings, home.root, (chat,)))

                async def stop(chat: str) -> None:
                    """Do nothing: no container runs."""

                folders = SandboxFolders(
                    workspaces.files.folders, stop, lambda chat: False, Snapshots(home), threads
                )
                yield ChatCalls(ask, BUILT_IN, delete, folders)
            case "schedules":
                from rumi.tasks.bots.files import BotFiles
                from rumi.tasks.schedules.schedule_calls import ScheduleCalls
                from rumi.tasks.schedules.stored import StoredSchedules

                limits, has_bot = loaded.settings.schedules, BotFiles(home.root).has
                yield ScheduleCalls(StoredSchedules(ask, limits, has_bot=has_bot), BUILT_IN)
            case "triggers":
                from rumi.channels.triggers.trigger_calls import TriggerCalls
                from rumi.channels.triggers.triggers import Triggers, triggers_of

                yield TriggerCalls(Triggers(triggers_of(loaded)), ask, BUILT_IN)
            case "tasks" | "bots":
                from rumi.tasks.bots.bot_calls import BotCalls
                from rumi.tasks.bots.files import BotFiles
                from rumi.tasks.task_calls import TaskCalls
                from rumi.tasks.tasks import StoredTasks

                tasks = StoredTasks(ask, workspaces, home.tasks)
                if call == "tasks":
                    yield TaskCalls(tasks, BUILT_IN)
                else:
                    async with open_memory(stored.memory) as memory:
                        yield BotCalls(BotFiles(home.root, home.files), tasks, memory, threads)
