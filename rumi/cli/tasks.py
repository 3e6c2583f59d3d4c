"""`rumi tasks`."""

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli import run_async
from rumi.cli.asking import when_free
from rumi.cli.daemon import say
from rumi.cli.printing import echo, echo_json
from rumi.cli.speaking import reader
from rumi.errors import UsageError
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rumi.platform.home import Home

JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
EXIT_CODES: Final = {"succeeded": 0, "out_of_budget": 3, "stopped": 130, "interrupted": 130}
"""Exit codes by the state of an ended task; the exit code of any other state is 1."""
UNCONFIRMED: Final = 5
"""Exit code of a task that succeeded without an action that nobody could confirm."""

LINE_CHARS: Final = 100


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, show, follow, stop and delete tasks: work in the background, such as research."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@command.command("list")
@JSON
def list_(as_json: bool = False) -> None:
    """List the tasks, the latest first: number, kind, state, when it was asked for, question."""
    from rumi.platform.texts import tasks as task_texts

    tasks = _ask("list")
    if as_json:
        echo_json(tasks, indent=2)
        return
    language = reader()
    if not tasks:
        say(task_texts.task_list(language, ()))
    for task in tasks:
        state, question = (
            task_texts.task_state(language, task["state"]),
            flat(task_texts.shortly(task["question"])),
        )
        echo(f"{task['id']:>5}  {task['kind']:<5} {state:<14} {_when(task['created'])}  {question}")


@command.command()
@click.argument("task", type=click.IntRange(min=1), metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Wait for its end, and show its steps.")
@click.option("--source", type=click.IntRange(min=1), metavar="N", help="Print the stored text of a source.")
@JSON
def show(task: int, follow: bool, source: int | None, as_json: bool) -> None:
    """Show task ID: its question, what it has spent, and its answer."""
    if source is not None:
        echo(run_async(_source, task, source))
        return
    found = _ask("show", id=task)
    if follow and not found["ended"]:
        found = run_async(_follow, task)
    if as_json:
        echo_json(as_report(found), indent=2)
    else:
        echo(_described(found))


@command.command()
@click.argument("task", type=click.IntRange(min=1), metavar="ID")
def stop(task: int) -> None:
    """Stop task ID. Its result says that it was stopped."""
    from rumi.platform.texts import tasks as task_texts

    _ask("stop", id=task)
    echo(task_texts.task_stops(reader(), task))


@command.command()
@click.argument("task", type=click.IntRange(min=1), metavar="ID")
def delete(task: int) -> None:
    """Delete task ID, which has ended, with its sources and files."""
    _ask("delete", id=task)


def exit_code_of(task: "Mapping[str, Any]") -> int:
    """Return the exit code for the outcome of a task."""
    code = EXIT_CODES.get(str(task["state"]), 1)
    return code or (UNCONFIRMED if task["report"].get("not_done") else 0)


def as_report(task: "Mapping[str, Any]") -> dict[str, Any]:
    """Return the task as the object that `--json` prints: answer, report and usage."""
    names = ("id", "kind", "state", "question", "answer")
    times = {name: task[name] for name in ("created", "started", "ended")}
    return {**{name: task[name] for name in names}, **task["report"], "usage": task["spent"], **times}


def text_of(task: "Mapping[str, Any]") -> str:
    """Return a task's answer, cleaned for a terminal."""
    return "\n".join(flat(line) for line in str(task["answer"]).split("\n"))


def _ask(do: str, **fields: object) -> Any:
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    return run_async(when_free, home, "tasks", _here, {"do": do, **fields})


async def _here(home: "Home", request: "Mapping[str, object]") -> object:
    """Execute the request on the files of a home that no process has locked, so no task can be running."""
    from rumi.chats.services import ChatWorkspaces
    from rumi.cli.stored import stored_of
    from rumi.platform.caller import TERMINAL
    from rumi.platform.chat_ids import BUILT_IN
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.threads import Threads
    from rumi.store.journal.actor import open_journal
    from rumi.tasks.task_calls import task_call
    from rumi.tasks.tasks import StoredTasks

    home = home.with_files(load_settings(home.root, os.environ, {}).settings.store.workspaces)
    with home.lock("rumi tasks"):
        async with open_journal(stored_of(home).state) as ask:
            stored = StoredTasks(ask, ChatWorkspaces(home.workspaces, Threads()), home.tasks)
            return await task_call(stored, BUILT_IN)(TERMINAL, request)


async def _follow(id: int) -> dict[str, Any]:
    from rumi.channels.attach.client import run_task
    from rumi.cli.control import connected

    async with connected() as client:
        return await run_task(client, {"do": "follow", "id": id}, say_step)


def say_step(step: str) -> None:
    """Print a step of a task on standard error, cleaned for a terminal."""
    lines = "\n  ".join(flat(line) for line in step.split("\n"))
    say(f"· {lines}")


async def _source(id: int, number: int) -> str:
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.tasks.research.sources import Sources

    folder = Home(home_from(os.environ)).tasks / str(id)
    if not folder.is_dir():
        raise UsageError("Task {id} has no sources.", "Look at the list of tasks.", id=id)
    sources = await Sources.open(folder)
    if sources.get(number) is None:
        raise UsageError(
            "Task {id} has no source {number}.", "Its answer lists those that it has.", id=id, number=number
        )
    text = await sources.text(number)
    return "\n".join(flat(line) for line in text.split("\n"))


def _described(task: "Mapping[str, Any]") -> str:
    from rumi.platform.texts import tasks as task_texts

    spent = task["spent"]
    tokens = spent["prompt_tokens"] + spent["completion_tokens"]
    used = f"{spent['calls']} calls · {tokens} tokens · {spent['seconds']:.0f} s · {spent['sources']} sources"
    head = f"{task['id']} · {task['kind']} · {task_texts.task_state(reader(), task['state'])} · {used}"
    question = "\n".join(flat(line) for line in str(task["question"]).split("\n"))
    return "\n\n".join(filter(None, (head, question, text_of(task))))


def _when(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")
