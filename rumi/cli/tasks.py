"""`rumi tasks`."""

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli import run_async
from rumi.cli.asking import ask
from rumi.cli.daemon import say
from rumi.cli.printing import JSON, cut, echo, echo_json, flat_lines, local_time
from rumi.cli.speaking import Listing, reader
from rumi.errors import RumiError, UsageError, single
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.printable import flat
from rumi.platform.texts.words import in_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rumi.cli.daemon import Launch

_ask = partial(ask, "tasks")

EXIT_CODES: Final = {"succeeded": 0, "out_of_budget": 3, "stopped": 130, "interrupted": 130}
"""Exit codes by the state of an ended task; the exit code of any other state is 1."""
UNCONFIRMED: Final = 5
"""Exit code of a task that succeeded without an action that nobody could confirm."""

LINE_CHARS: Final = 100


@click.group(cls=Listing, default="list", members={"research": "rumi.cli.research"})
def command() -> None:
    """List, show, follow, stop and delete tasks: work in the background, such as research."""


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
            in_words(language, task["state"]),
            flat(task["question"]),
        )
        echo(cut(f"{task['id']:>5}  {task['kind']:<5} {state:<14} {local_time(task['created'])}  {question}"))


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
@JSON
def stop(task: int, as_json: bool) -> None:
    """Stop task ID. Its result says that it was stopped."""
    from rumi.platform.texts import tasks as task_texts

    stopped = _ask("stop", id=task)
    if as_json:
        echo_json(as_report(stopped), indent=2)
        return
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


def run_printed(
    work: "Callable[[Launch], Awaitable[dict[str, Any]]]",
    *,
    background: bool,
    as_json: bool,
    unfinished: "Callable[[Launch, Mapping[str, Any]], None]" = lambda begun, task: None,
) -> None:
    """Start a daemon if none runs, have `work` run or begin a task, print its outcome, and exit.

    `unfinished` is called with a task that has not succeeded. With `as_json`, an error is printed as JSON.
    """
    from rumi.cli.daemon import launch_daemon

    try:
        begun = launch_daemon(DEFAULT_CHAT, {})
        done = run_async(work, begun)
    except (RumiError, BaseExceptionGroup) as raised:
        error = single(raised)
        if not as_json or not isinstance(error, RumiError):
            raise
        echo_json({"error": error.to_json()}, indent=2)
        raise click.exceptions.Exit(error.exit_code) from None
    if as_json:
        echo_json(as_report(done), indent=2)
    elif background:
        echo(str(done["id"]))
    else:
        echo(text_of(done), err=done["state"] == "failed")
    if not background:
        if done["state"] != "succeeded":
            unfinished(begun, done)
        raise click.exceptions.Exit(exit_code_of(done))


def as_report(task: "Mapping[str, Any]") -> dict[str, Any]:
    """Return the task as the object that `--json` prints: answer, report and usage."""
    names = ("id", "kind", "state", "question", "answer")
    times = {name: task[name] for name in ("created", "started", "ended")}
    return {**{name: task[name] for name in names}, **task["report"], "usage": task["spent"], **times}


def text_of(task: "Mapping[str, Any]") -> str:
    """Return a task's answer, cleaned for a terminal."""
    return flat_lines(task["answer"])


async def _follow(id: int) -> dict[str, Any]:
    from rumi.channels.attach.client import run_task
    from rumi.cli.control import connected

    async with connected() as client:
        return await run_task(client, {"do": "follow", "id": id}, say_step)


def say_step(step: str) -> None:
    """Print a step of a task on standard error, cleaned for a terminal."""
    say("· " + flat_lines(step).replace("\n", "\n  "))


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
    return flat_lines(text)


def _described(task: "Mapping[str, Any]") -> str:

    spent = task["spent"]
    tokens = spent["prompt_tokens"] + spent["completion_tokens"]
    used = f"{spent['calls']} calls · {tokens} tokens · {spent['seconds']:.0f} s · {spent['sources']} sources"
    head = f"{task['id']} · {task['kind']} · {in_words(reader(), task['state'])} · {used}"
    return "\n\n".join(filter(None, (head, flat_lines(task["question"]), text_of(task))))
