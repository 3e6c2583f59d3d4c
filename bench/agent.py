"""The agent without a language model: real tasks with an ideal model, models that misbehave, and commands.

    python -m bench.agent [--sandbox auto|docker|bubblewrap] [--policy strict|open] [--only WORD]

Each task runs in the whole program and the real sandbox, with files in a chat's workspace. Instead of a
model, a server on loopback works off a script, which reads the results as a model does and makes no needless
call. So the figures are the least that such a task costs: model calls, and the tokens of whole requests. A
task's result is checked on the disk or in the answer; if one is wrong, the exit code is 1.

Two scripts of a task differ only in how they read and edit files: with commands, or with the file tools.
"""

import argparse
import statistics
import sys
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import agent_code, agent_data, agent_files, agent_texts, house
from bench.agent_commands import show as show_commands
from bench.agent_misbehaving import show as show_misbehaving
from bench.agent_work import Model, Task, Variant
from bench.rounds import row
from rumi.agent.events import ToolFinished
from rumi.app.app import App
from rumi.chats.events import Replied
from rumi.sandbox.workspace import prepare_workspace
from tests.fakes.groq_server import KEY, serve_groq
from tests.fakes.web_server import gives, serving

TASKS = (*agent_files.TASKS, *agent_data.TASKS, *agent_texts.TASKS, *agent_code.TASKS)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one task took. `refused` are calls by the command policy, `errors` other failed ones."""

    task: str
    variant: Variant
    calls: int
    prompt: int
    completion: int
    refused: int
    errors: int
    wrong: str = ""

    @property
    def figures(self) -> tuple[int, ...]:
        return self.calls, self.prompt, self.completion, self.refused, self.errors


@dataclass
class Bench:
    """A running Rumi whose model works off scripts."""

    app: App
    model: Model
    pages: str
    """Where the pages of tasks are."""

    async def run(self, task: Task, variant: Variant) -> Cost:
        """Run a task in a new chat, and check its result."""
        chat = f"{task.name}-{variant}".replace(" ", "-")
        folder = prepare_workspace(self.app.home.root, chat, *self.app.engine.user)
        task.put_files(folder, self.app.engine.user)
        self.model.begin()
        failed: list[str] = []
        answer = ""
        for turn in task.turns:
            self.model.steps = list(turn.steps(variant))
            answer = await self.say(chat, turn.says.replace("{pages}", self.pages), failed)
        try:
            wrong = "" if task.check(folder, answer) else f"the check failed; the answer: {answer}"
        except Exception:  # noqa: BLE001  a file that a check reads may not be there
            wrong = f"{traceback.format_exc(limit=-1)}; the answer: {answer}"
        wrong = self.model.wrong or wrong
        refused = sum(content.startswith("Refused: ") for content in failed)
        model = self.model
        counts = (model.calls, model.prompt, model.completion, refused, len(failed) - refused)
        return Cost(task.name, variant, *counts, wrong)

    async def say(self, chat: str, text: str, failed: list[str]) -> str:
        """Return the reply to a message; the results of failed calls are added to `failed`."""
        with self.app.services.hub.listening(chat) as events:
            number = await self.app.inbox.accept(chat, text, "en", channel="terminal")
            while True:
                what = (await events.receive()).what
                if isinstance(what, ToolFinished) and not what.result.ok:
                    failed.append(what.result.content)
                if isinstance(what, Replied) and number in what.messages:
                    return what.text


@asynccontextmanager
async def open_bench(tasks: Sequence[Task], settings: Mapping[str, object]) -> AsyncIterator[Bench]:
    """Start Rumi with a model for these tasks, and a web server with their pages."""
    model = Model()
    pages = {path: gives(page) for task in tasks for path, page in task.pages.items()}
    async with serve_groq(model) as server, serving(pages) as web:
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": server.base_url}
        flags = {
            "language": "en",
            "memory.extract": False,
            "sandbox.tools": "work",
            "fetch.allow": [web.endpoint],
            **settings,
        }
        async with house.app(flags, env) as app:
            yield Bench(app, model, web.url("").rstrip("/"))


async def run_tasks(
    tasks: Sequence[Task], settings: Mapping[str, object], variants: Sequence[Variant] = ("bash", "files")
) -> list[Cost]:
    """Run each task with each of its scripts."""
    async with open_bench(tasks, settings) as bench:
        return [
            await bench.run(task, variant)
            for task in tasks
            for variant in task.variants
            if variant in variants
        ]


HEAD = ("calls", "prompt", "reply", "refused", "errors")


def line(name: str, variant: str, figures: Sequence[float]) -> None:
    print(f"{name:30} {variant:6}" + "".join(f"{figure:>10,.0f}" for figure in figures))


def show_tasks(costs: Sequence[Cost]) -> None:
    """Print a line for each run, then totals and medians: of all tasks, and of those with both scripts."""
    print(f"\n{'task':30} {'script':6}" + "".join(f"{name:>10}" for name in HEAD))
    for cost in costs:
        line(cost.task, cost.variant, cost.figures)
        if cost.wrong:
            print(f"  WRONG: {cost.wrong}")
    if not costs:
        return
    both = {cost.task for cost in costs if cost.variant == "files"}
    bash = [cost for cost in costs if cost.variant == "bash"]
    groups = {f"{len(bash)} tasks": bash}
    if both:
        groups[f"{len(both)} tasks with both"] = [cost for cost in bash if cost.task in both]
        groups[f"{len(both)} tasks with both "] = [cost for cost in costs if cost.variant == "files"]
    print()
    for name, group in groups.items():
        columns = list(zip(*(cost.figures for cost in group), strict=True))
        variant = group[0].variant
        line(f"{name.strip()}: total", variant, [sum(column) for column in columns])
        line(f"{name.strip()}: median", variant, [statistics.median(column) for column in columns])


async def main() -> None:
    arguments = parse()
    settings = {"sandbox.backend": arguments.sandbox, "sandbox.policy": arguments.policy}
    tasks = [task for task in TASKS if arguments.only in task.name]
    costs = await run_tasks(tasks, settings, arguments.scripts)
    show_tasks(costs)
    wrong = sum(bool(cost.wrong) for cost in costs)
    row("  wrong results", f"{wrong}", "0")
    if not arguments.only:
        wrong += await show_misbehaving(settings)
        show_commands()
    if wrong:
        sys.exit(1)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sandbox", choices=("auto", "docker", "bubblewrap"), default="bubblewrap")
    parser.add_argument("--policy", choices=("strict", "open"), default="strict")
    parser.add_argument("--only", default="", help="the tasks whose name contains this")
    parser.add_argument("--scripts", nargs="+", choices=("bash", "files"), default=["bash", "files"])
    return parser.parse_args()


if __name__ == "__main__":
    house.run(main)
