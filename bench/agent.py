"""The agent without a language model: real tasks with a scripted model, planted faults, and commands.

    python -m bench.agent [--sandbox auto|docker|bubblewrap] [--only WORD] [--faults] [--tasks-only]

Each task runs in the whole program and the real sandbox, several chats at once. Instead of a language model,
a server on loopback works off scripts (`bench.agent_model`), which write what models ordinarily write and
decide from what they read. A task is finished if its scripts came to their end and its checks hold: of files,
answers, questions to the user, and requests for pages.

`--faults` also plants faults in the program, each in turn, and shows that tasks which were finished are not
finished any more. The exit code is 1 if a task is not finished without a fault, or a fault is not found.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import trio

from bench import (
    agent_code,
    agent_data,
    agent_edits,
    agent_git,
    agent_outside,
    agent_shell,
    agent_time,
    house,
)
from bench.agent_commands import show as show_commands
from bench.agent_conversation import Conversation, Model
from bench.agent_faults import FAULTS, Fault
from bench.agent_misbehaving import show as show_misbehaving
from bench.agent_task import Done, Task
from bench.rounds import row
from rumi.agent.events import ConfirmationAsked, ToolFinished
from rumi.app.app import App
from rumi.chats.events import Replied
from rumi.platform.config.schema import SandboxSection
from rumi.sandbox.workspace import prepare_workspace
from tests.fakes.groq_server import KEY, serve_groq
from tests.fakes.web_server import WebServer, gives, serving

GROUPS = (
    *(agent_shell.SHELL, agent_shell.REFUSED, agent_edits.EDITS, agent_code.CODE, agent_git.GIT),
    *(agent_data.DATA, agent_time.TIME, agent_time.LONG, agent_outside.OUTSIDE, agent_outside.CHAT),
)
TASKS = tuple(task for group in GROUPS for task in group.all)
AT_ONCE = 6
"""Number of tasks that work at once. Tasks that mostly wait are not counted."""

ENDS_S = 240
NUMBERS = count(1)
"""Numbers of chats: with each fault, a task runs in another chat of the same home."""

FOUND = 3
"""With a planted fault, the run stops once this many tasks have failed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one task took, and why it is not finished."""

    task: str
    group: str
    calls: int
    refused: int
    prompt: int
    completion: int
    took_s: float
    wrong: str = ""


@dataclass
class Bench:
    """A running Rumi whose model works off scripts."""

    app: App
    model: Model
    web: WebServer

    async def run(self, task: Task) -> Cost:
        """Run a task in a new chat, and check what has come of it."""
        began = time.perf_counter()
        chat = f"{next(NUMBERS)}-{task.name.replace(' ', '-')}"
        folder = prepare_workspace(self.app.home.root, chat, *self.app.engine.user)
        await trio.to_thread.run_sync(task.put_files, folder, self.app.engine.user)
        place = self.web.url("").rstrip("/")
        turns = [(says.replace("{pages}", place), script) for says, script in task.turns]
        conversation = Conversation([turn for turn in turns if not turn[0].startswith("/")])
        done = Done(folder)
        visited = len(self.web.asked)
        self.model.running.append(conversation)
        with trio.move_on_after(ENDS_S) as ends:
            async with trio.open_nursery() as nursery:
                if task.meanwhile is not None:
                    nursery.start_soon(task.meanwhile, folder)
                for says, _ in turns:
                    done.answers.append(await self.say(chat, says, done, yes=task.consents))
                nursery.cancel_scope.cancel()
        self.model.running.remove(conversation)
        done.visited += [asked.target for asked in self.web.asked[visited:]]
        wrong = "it did not end in time" if ends.cancelled_caught else conversation.wrong
        wrong = wrong or ("" if conversation.ended else "the script did not come to its end")
        wrong = wrong or await trio.to_thread.run_sync(_unmet, task, done)
        refused = sum(result.refused for _, result in done.results)
        counts = (conversation.calls, refused, conversation.prompt, conversation.completion)
        return Cost(task.name, task.group, *counts, time.perf_counter() - began, wrong)

    async def say(self, chat: str, text: str, done: Done, *, yes: bool) -> str:
        """Return the reply to a message, and answer the questions that come before it."""
        hub, inbox = self.app.services.hub, self.app.inbox
        with hub.listening(chat) as events:
            number = await inbox.accept(chat, text, "en", channel="terminal")
            while True:
                what = (await events.receive()).what
                if isinstance(what, ToolFinished):
                    done.results.append((what.call.name, what.result))
                if isinstance(what, ConfirmationAsked):
                    hub.has_shown(what.id)
                    done.asked.append(what.text)
                    await inbox.chats.answer(chat, what.id, yes)
                if isinstance(what, Replied) and number in what.messages:
                    return what.text


def _unmet(task: Task, done: Done) -> str:
    """Return which check of a task does not hold; "" if all hold."""
    for number, check in enumerate(task.checks, 1):
        try:
            if not check(done):
                return f"check {number} does not hold; the answer: {done.answers[-1][:300]}"
        except Exception:  # noqa: BLE001  a file that a check reads may not be there
            return f"check {number}: {traceback.format_exc(limit=-1)}"
    return ""


@asynccontextmanager
async def open_bench(
    tasks: Sequence[Task], settings: Mapping[str, object], folder: Path | None = None
) -> AsyncIterator[Bench]:
    """Start Rumi with a scripted model, and a web server with the pages of these tasks."""
    model = Model()
    async with serve_groq(model) as server, serving() as web:
        place = web.url("").rstrip("/")
        web.paths |= {
            path: gives(page.replace("{pages}", place)) for task in tasks for path, page in task.pages.items()
        }
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": server.base_url}
        flags = {
            "language": "en",
            "memory.extract": False,
            "sandbox.tools": "work",
            "fetch.allow": [web.endpoint],
            **settings,
        }
        if "python_packages" in SandboxSection.model_fields:  # their index may not be reachable
            flags["sandbox.python_packages"] = []
        async with house.app(flags, env, folder) as app:
            yield Bench(app, model, web)


async def run_tasks(
    tasks: Sequence[Task],
    settings: Mapping[str, object],
    folder: Path | None = None,
    *,
    failures: int | None = None,
) -> list[Cost]:
    """Run tasks, several at once; return what each took. Stop after so many `failures`."""
    slots = trio.CapacityLimiter(AT_ONCE)
    costs: list[Cost] = []

    async with open_bench(tasks, settings, folder) as bench, trio.open_nursery() as nursery:

        async def run(task: Task) -> None:
            async with nullcontext() if task.waits else slots:
                costs.append(await bench.run(task))
            if sum(bool(cost.wrong) for cost in costs) == failures:
                nursery.cancel_scope.cancel()

        for task in tasks:
            nursery.start_soon(run, task)
    return sorted(costs, key=lambda cost: [task.name for task in tasks].index(cost.task))


HEAD = ("tasks", "finished", "calls", "refused", "prompt", "reply", "seconds")


def show_tasks(costs: Sequence[Cost]) -> None:
    """Print the sums of each group and of all, then why tasks are not finished."""
    print(f"\n{'group':12}" + "".join(f"{name:>10}" for name in HEAD))
    groups = {
        group: [cost for cost in costs if cost.group == group]
        for group in dict.fromkeys(c.group for c in costs)
    }
    for name, group in (*groups.items(), ("all", list(costs))):
        figures = [len(group), sum(not cost.wrong for cost in group)]
        columns = ("calls", "refused", "prompt", "completion", "took_s")
        figures += [round(sum(getattr(cost, column) for cost in group)) for column in columns]
        print(f"{name:12}" + "".join(f"{figure:>10,}" for figure in figures))
    for cost in costs:
        if cost.wrong:
            print(f"  NOT FINISHED: {cost.task}: {' '.join(cost.wrong.split())[:400]}")


async def find(fault: Fault, tasks: Sequence[Task], settings: Mapping[str, object], folder: Path) -> str:
    """Plant a fault; return which tasks are not finished any more, or "" if all are.

    The tasks of other groups run only if those of the groups for which the fault was made do not find it.
    """
    ran = 0
    for made_for in (True, False):
        some = [task for task in tasks if (task.group in fault.groups) == made_for]
        with fault.planted():
            costs = await run_tasks(some, {**settings, **fault.settings()}, folder, failures=FOUND)
        failed = [cost.task for cost in costs if cost.wrong]
        ran += len(costs)
        if failed:
            return f"{len(failed)} of {ran}: {', '.join(failed)}"
    return ""


async def show_faults(
    tasks: Sequence[Task], settings: Mapping[str, object], folder: Path, faults: Sequence[Fault] = FAULTS
) -> int:
    """Plant each fault in turn; print which tasks find it. Return how many are not found."""
    missed = 0
    print(f"\n{'planted fault':36}{'seconds':>8}  tasks that are not finished with it (stops at {FOUND})")
    for fault in faults:
        began = time.perf_counter()
        found = await find(fault, tasks, settings, folder)
        missed += not found
        took_s = time.perf_counter() - began
        print(f"{fault.name:36}{took_s:>8.0f}  {found or 'NONE: the fault is not found'}", flush=True)
    row("  faults found", f"{len(faults) - missed} of {len(faults)}", f"{len(faults)}")
    return missed


async def main() -> None:
    arguments = parse()
    settings = {"sandbox.backend": arguments.sandbox, "sandbox.policy": arguments.policy}
    tasks = [task for task in TASKS if arguments.only in f"{task.group}: {task.name}"]
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as temporary:
        folder = Path(temporary)
        costs = await run_tasks(tasks, settings, folder)
        show_tasks(costs)
        wrong = sum(bool(cost.wrong) for cost in costs)
        if arguments.faults:
            good = {cost.task for cost in costs if not cost.wrong}
            short = [task for task in tasks if task.name in good and not task.waits]
            wrong += await show_faults(short, settings, folder)
    if not arguments.only and not arguments.tasks_only:
        wrong += await show_misbehaving(settings)
        show_commands()
    if wrong:
        sys.exit(1)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sandbox", choices=("auto", "docker", "bubblewrap"), default="bubblewrap")
    parser.add_argument("--policy", choices=("strict", "open"), default="strict")
    parser.add_argument("--only", default="", help="the tasks whose group or name contains this")
    parser.add_argument("--faults", action="store_true", help="also plant faults, which tasks must find")
    parser.add_argument("--tasks-only", action="store_true", help="without misbehaving models and commands")
    return parser.parse_args()


if __name__ == "__main__":
    house.run(main)
