"""`rumi bot`."""

import os
from functools import partial
from typing import Any

import click

from rumi.cli.asking import ask
from rumi.cli.bot_project import apply, diff
from rumi.cli.bot_skills import skills_of
from rumi.cli.daemon import say
from rumi.cli.model_names import model_option
from rumi.cli.printing import JSON, confirm, echo, echo_json, flat_lines
from rumi.cli.speaking import Listing, reader
from rumi.platform.printable import flat
from rumi.platform.texts.words import in_words
from rumi.texts import gettext, ngettext

_ask = partial(ask, "bots")

NAME = click.argument("name")


@click.group(cls=Listing, default="list")
def command() -> None:
    """Make, run, wake and stop bots: each works on its own towards a goal, in iterations."""


@command.command()
@NAME
@click.option("-d", "--description", default="", metavar="TEXT", help="What it is to do.")
def create(name: str, description: str) -> None:
    """Make the bot NAME: a folder with its config.md, to be edited."""

    made = _ask("create", name=name, description=description)
    echo(
        gettext(
            reader(),
            "🤖 The bot {name} is made. Write what it is to do in {path}\nStart it with: rumi bot run {name}",
            name=name,
            path=f"{made['folder']}/config.md",
        )
    )


@command.command()
@NAME
@click.option("-p", "--prompt", default="", metavar="TEXT", help="The goal of this session.")
@click.option("-n", "--iterations", type=click.IntRange(min=0), help="At most so many; 0 is no limit.")
@model_option("-m", "--model", default="")
@click.option("-s", "--sandbox", default="", metavar="ACCESS", help="read-only or workspace-write.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=-1,
    type=int,
    metavar="[SESSION]",
    help="Go on with a session that has ended before its goal: this one, or the last.",
)
@click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(file_okay=False, resolve_path=True),
    help="Have it work on a copy of this folder: see rumi bot diff and rumi bot apply.",
)
@click.option("--skip-git-check", is_flag=True, help="Copy DIR also if it is in no git work tree.")
@click.option("--discard", is_flag=True, help="Lose the changes of the project that it had before.")
@click.option("--plan", is_flag=True, help="Have it propose a plan first, and do nothing before your yes.")
@click.option(
    "--background", is_flag=True, help="Print the session's number and exit; the report comes later."
)
@JSON
def run(
    name: str,
    prompt: str,
    iterations: int | None,
    model: str,
    sandbox: str,
    resume: int | None,
    workspace: str | None,
    skip_git_check: bool,
    discard: bool,
    plan: bool,
    background: bool,
    as_json: bool,
) -> None:
    """Run the bot NAME until its goal or a limit.

    Press Enter to wake it, type to talk to it, Ctrl-C to stop it.

    Exits with 0 when it is complete, 3 at a limit, 130 when it was stopped.
    """
    from rumi.cli.bot_run import BotRun, run_bot

    asked: dict[str, Any] = {"goal": prompt, "model": model, "sandbox": sandbox, "plan": plan}
    if iterations is not None:
        asked["iterations"] = iterations
    if resume is not None:
        asked["session"] = max(0, resume)
    if workspace is not None:
        asked |= {"workspace": workspace, "skip_git_check": skip_git_check, "discard": discard}
    run_bot(BotRun(name, asked, background=background, as_json=as_json))


@command.command("list")
@JSON
def list_(as_json: bool = False) -> None:
    """List the bots: name, state of the last session, description."""
    from rumi.platform.texts import bots as bot_texts

    found = _ask("list")
    if as_json:
        echo_json(found, indent=2)
        return
    language = reader()
    if not found:
        say(bot_texts.bot_list(language, ()))
    for bot in found:
        state = bot_texts.bot_state(language, bot["state"] or "")
        echo(f"{bot['name']:<20} {state:<16} {flat(bot['problem'] or bot['description'])}")


@command.command()
@NAME
@JSON
def show(name: str, as_json: bool) -> None:
    """Show the bot NAME: its configuration, its instructions and its last session."""
    from rumi.platform.texts import bots as bot_texts

    found = _ask("show", name=name)
    if as_json:
        echo_json(found, indent=2)
        return
    state = bot_texts.bot_state(reader(), found["state"] or "")
    echo(f"{found['name']} · {state} · {flat(found['folder'])}")
    keys = ("model", "max_iterations", "sleep_secs", "stop_phrase", "sandbox", "report_to")
    for key in keys:
        echo(f"{key:<15} {flat(str(found[key]))}")
    for note in found["notes"]:
        say(flat(note))
    echo("\n" + flat_lines(found["instructions"]))


@command.command()
@NAME
def stop(name: str) -> None:
    """Stop the bot NAME. Its session can go on later."""
    from rumi.platform.texts import bots as bot_texts

    _ask("stop", name=name)
    echo(bot_texts.bot_stops(reader(), name))


@command.command()
@NAME
@click.argument("text", default="")
def wake(name: str, text: str) -> None:
    """End the sleep of the bot NAME, and say TEXT to it."""
    from rumi.platform.texts import bots as bot_texts

    _ask("wake", name=name, text=text)
    echo(bot_texts.bot_wakes(reader(), name))


@command.command()
@NAME
@JSON
def history(name: str, as_json: bool) -> None:
    """Show the sessions of the bot NAME, the latest first, with the summaries of their iterations."""
    from rumi.platform.texts import tasks as task_texts

    found = _ask("history", name=name)
    if as_json:
        echo_json(found, indent=2)
        return
    language = reader()
    for session in found:
        state = in_words(language, session["state"])
        echo(f"{session['id']} · {state} · {flat(task_texts.shortly(session['question']))}")
        for iteration in session["iterations"]:
            echo(f"  {iteration['number']}. {flat(task_texts.shortly(iteration['summary']))}")


command.add_command(diff)
command.add_command(apply)


@command.group()
@NAME
@click.pass_context
def memory(ctx: click.Context, name: str) -> None:
    """Show, set, remove and clear what the bot NAME remembers."""
    ctx.obj = name


@memory.command("show")
@JSON
@click.pass_obj
def memory_show(name: str, as_json: bool) -> None:
    """Print all facts."""
    found = _ask("memory", name=name)
    if as_json:
        echo_json(found, indent=2)
        return
    for fact in found:
        echo(f"{flat(fact['key'])}: {flat(fact['value'])}")


@memory.command("set")
@click.argument("key")
@click.argument("value")
@click.pass_obj
def memory_set(name: str, key: str, value: str) -> None:
    """Remember VALUE under KEY."""
    stored = _ask("remember", name=name, key=key, value=value)
    echo(f"{flat(stored['key'])}: {flat(stored['value'])}")


@memory.command("remove")
@click.argument("key")
@click.pass_obj
def memory_remove(name: str, key: str) -> None:
    """Forget all facts under KEY."""
    from rumi.platform.texts import memory as memory_texts

    echo(memory_texts.forgotten(reader(), key, _ask("forget", name=name, key=key)["forgotten"]))


@memory.command("clear")
@click.pass_obj
def memory_clear(name: str) -> None:
    """Forget all facts."""

    echo(
        gettext(
            reader(),
            "The bot {name} forgot {count} facts.",
            name=name,
            count=_ask("clear", name=name)["forgotten"],
        )
    )


@command.group()
@NAME
@click.pass_context
def skills(ctx: click.Context, name: str) -> None:
    """List, search, install and remove the skills of the bot NAME, which lie in its folder."""
    ctx.obj = name


@skills.command("list")
@JSON
@click.pass_obj
def skills_list(name: str, as_json: bool) -> None:
    """List them, also the flat ones of RUMI_HOME/skills."""
    found = _ask("skills", name=name)
    if as_json:
        echo_json(found["skills"], indent=2)
    for skill in () if as_json else found["skills"]:
        echo(f"{flat(skill['name']):<24} {flat(skill['description'])}")
    for problem in found["problems"]:
        say(flat(problem))


@skills.command("search")
@click.argument("source", type=click.Path())
@click.argument("words", nargs=-1)
@JSON
@click.pass_obj
def skills_search(name: str, source: str, words: tuple[str, ...], as_json: bool) -> None:
    """List the skills of SOURCE whose name or description has all WORDS.

    SOURCE is a folder, a file, or the https address of a git repository, also with #FOLDER behind it.
    """
    found = [
        skill
        for skill in skills_of(source)
        if all(word.casefold() in f"{skill.name} {skill.description}".casefold() for word in words)
    ]
    if as_json:
        echo_json([{"name": skill.name, "description": skill.description} for skill in found], indent=2)
        return
    for skill in found:
        echo(f"{flat(skill.name):<24} {flat(skill.description)}")


@skills.command("install")
@click.argument("source", type=click.Path())
@click.argument("wanted", nargs=-1, metavar="[SKILL]...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def skills_install(name: str, source: str, wanted: tuple[str, ...], yes: bool) -> None:
    """Install skills of SOURCE after showing their text; no code comes along.

    SOURCE is a folder, a file, or the https address of a git repository, also with #FOLDER behind it.
    """
    from rumi.tasks.bots.config import BotError

    language, found = (
        reader(),
        [bot_skill for bot_skill in skills_of(source) if not wanted or bot_skill.name in wanted],
    )
    if not found:
        raise BotError(
            "{source} has no such skill.",
            "List its skills: rumi bot skills NAME search SOURCE",
            source=source,
        )
    for skill in found:
        echo(f"## {flat(skill.name)}: {flat(skill.description)}\n")
        echo(flat_lines(skill.text) + "\n")
    if not yes and not confirm(
        ngettext(
            language,
            "Install this skill in the bot {name}?",
            "Install these {count} skills in the bot {name}?",
            len(found),
            name=name,
        ),
        err=True,
    ):
        raise click.exceptions.Exit(1)
    shown = [
        {"name": bot_skill.name, "description": bot_skill.description, "text": bot_skill.text}
        for bot_skill in found
    ]
    # Send the shown texts, so that a change of the source after the confirmation has no effect.
    for installed in _ask("install_skills", name=name, skills=shown):
        echo(flat(installed))


@skills.command("remove")
@click.argument("skill")
@click.pass_obj
def skills_remove(name: str, skill: str) -> None:
    """Delete the skill SKILL of its own."""
    _ask("remove_skill", name=name, skill=skill)


@command.command()
@NAME
def delete(name: str) -> None:
    """Delete the bot NAME with its files, skills and memory. Its sessions stay among the tasks."""
    _ask("delete", name=name)


@command.command("import")
@click.argument("folder", default="~/.openbot")
@JSON
def import_(folder: str, as_json: bool) -> None:
    """Take over the bots of openbot from FOLDER: configuration, skills, memory and history.

    Bots and skills that are there already stay as they are.
    """

    done = _ask("import", folder=os.path.abspath(os.path.expanduser(folder)))
    if as_json:
        echo_json(done, indent=2)
        return
    language = reader()
    for bot in done["bots"]:
        if bot["taken"]:
            echo(
                gettext(
                    language,
                    "🤖 {name}: {facts} facts, {iterations} iterations",
                    name=bot["name"],
                    facts=bot["facts"],
                    iterations=bot["iterations"],
                )
            )
        for problem in bot["problems"]:
            say(f"{flat(bot['name'])}: {flat(problem)}")
    for skill in done["skills"]:
        echo(flat(skill))
    for skill in done["skills_there"]:
        say(gettext(language, "The skill {name} was there already and stays as it was.", name=flat(skill)))
    for problem in done["problems"]:
        say(flat(problem))
