"""`rumi skills`."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import Listing, ntr, reader, say, tr, translate
from rumi.platform.printable import flat
from rumi.platform.texts.translation import error_text
from rumi.platform.texts.words import in_words
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.agent.skills.catalogue import Catalogue
    from rumi.agent.skills.disabled import DisabledSkills
    from rumi.agent.skills.messages import Skill, SkillEntry
    from rumi.agent.skills.trust import TrustedSkills

WIDTH = 80
MOST_NOTED = 20


@click.group(cls=Listing, default="list")
def command() -> None:
    """Show the skills, switch them on and off, make new ones.

    A skill is a folder with a SKILL.md: in RUMI_HOME/skills, in the folders of
    [skills] dirs, or in .rumi/skills of the folder that you are in.
    """


@command.command(name="list")
@click.option("-a", "--all", "everything", is_flag=True, help="Also disabled and hidden skills.")
@JSON
def list_(everything: bool, as_json: bool) -> None:
    """List the skills that are on."""
    from rumi.agent.skills.skill_calls import skill_row

    listed = _Here().catalogue.look().listed
    shown = [entry for entry in listed.entries if everything or entry.off is None]
    if as_json:
        echo_json([skill_row(entry) for entry in shown], indent=2)
        for problem in listed.problems:
            say(problem, err=True)
        return
    wide = max((len(entry.skill.name) for entry in shown), default=0)
    for entry in shown:
        for line in _row(entry, wide, everything):
            echo(line)
    if left := len(listed.entries) - len(shown):
        echo(
            ntr(
                "{count} is off: rumi skills list -a shows it.",
                "{count} are off: rumi skills list -a shows them.",
                left,
            )
        )
    if not listed.entries:
        say("There are no skills. Make one with: rumi skills create NAME")
    noted = [(entry.skill.name, note) for entry in shown for note in entry.skill.header.notes]
    for name, note in noted[:MOST_NOTED]:
        say("{name}: {note}", name=name, note=note, err=True)
    if len(noted) > MOST_NOTED:
        left = len(noted) - MOST_NOTED
        say("And {count} more notes: rumi skills info NAME shows a skill's.", count=left, err=True)
    for problem in listed.problems:
        say(problem, err=True)


@command.command()
@click.argument("name")
@JSON
def info(name: str, as_json: bool) -> None:
    """Show one skill: where from, what it needs.

    Also show what it hides: of several skills NAME, the last source's is used.
    """
    from rumi.agent.skills.skill_calls import skill_row

    here = _Here()
    if as_json:
        echo_json(skill_row(here.find(name)), indent=2)
        return
    for line in _described(here, here.find(name)):
        echo(line)


@command.command()
@click.argument("name")
def enable(name: str) -> None:
    """Switch a skill on, also in a running Rumi."""
    from rumi.agent.skills.switching import switch_on

    here = _Here()
    called, changed = switch_on(here.config, name, here.catalogue.look().find(name))
    here.say_if_overridden()
    say(Text("{name} is on.", name=called) if changed else Text("{name} was on already.", name=called))


@command.command()
@click.argument("name")
def disable(name: str) -> None:
    """Switch a skill off, also in a running Rumi."""
    from rumi.agent.skills.disabled import set_disabled

    here = _Here()
    skill = here.find(name).skill
    changed = set_disabled(here.config, skill.name, off=True)
    here.say_if_overridden()
    say(
        Text("{name} is off.", name=skill.name)
        if changed
        else Text("{name} was off already.", name=skill.name)
    )


@command.command()
@click.argument("name")
@click.option("--code", is_flag=True, help="A skill that is a program, with a skill.py.")
@click.option("-d", "--description", default="", metavar="TEXT", help="Its purpose, and when to use it.")
def create(name: str, code: bool, description: str) -> None:
    """Make a new skill in RUMI_HOME/skills.

    NAME is a word such as tidy-folder. It works at once, and has its own test.
    """
    from rumi.agent.skills.creating import create_skill, how_to_test
    from rumi.agent.skills.messages import SkillEntry

    here = _Here()
    before = here.catalogue.look().find(name)
    folder = create_skill(here.home / "skills", name, description=description, code=code)
    say("Made {folder}", folder=folder)
    if isinstance(before, SkillEntry):
        now = here.find(name).skill
        if now.folder == folder:
            say("It now replaces the one from {skill}.", skill=_source(before.skill))
        else:
            say("Here it is hidden by the one from {now}, {folder}", now=_source(now), folder=now.folder)
    say(
        "Write what it does in {folder}, and try it with: {command}",
        folder=folder / "SKILL.md",
        command=how_to_test(folder),
    )


@command.command()
@click.argument("name")
def trust(name: str) -> None:
    """Let a skill of this project run its code.

    NAME is trusted as it is now: when any of its files has changed, its code does not run until it is trusted
    again. The words of a trusted skill count as yours: without trust, a turn that reads it asks before it
    does anything that could do harm.
    """
    from rumi.agent.skills.switching import trust_skill

    here = _Here()
    skill = here.find(name).skill
    if skill.source.kind != "project":
        say("{name} needs no trust: it is from {skill}.", name=skill.name, skill=_source(skill))
        return
    content, changed = trust_skill(here.trusted, skill)
    if not changed:
        say("{name} is trusted already, as it is now.", name=skill.name)
        return
    say("Trusted {name}, as it is now in {folder}:", name=skill.name, folder=skill.folder)
    for path, _, raw in content.files:
        echo(f"  {flat(path)} ({len(raw)} bytes)")
    echo(f"sha256 {content.digest}")


class _Here:
    """The skills of the home and of the working directory, with their settings."""

    home: Path
    config: Path
    catalogue: "Catalogue"
    trusted: "TrustedSkills"
    disabled: "DisabledSkills"

    def __init__(self) -> None:
        from rumi.agent.skills.catalogue import Catalogue, sources
        from rumi.agent.skills.disabled import DisabledSkills
        from rumi.agent.skills.trust import TrustedSkills
        from rumi.platform.config.cascade import load_settings
        from rumi.platform.config.files import home_from

        self.home = home_from(os.environ)
        self.config = self.home / "config.toml"
        settings = load_settings(self.home, os.environ, {}).settings
        self.trusted = TrustedSkills(self.home / "skills-trusted.json")
        self.disabled = DisabledSkills(self.config, os.environ)
        found = sources(self.home, settings.skills.dirs, Path.cwd())
        self.catalogue = Catalogue(found, self.disabled, self.trusted)

    def find(self, name: str) -> "SkillEntry":
        """Return the skill of that name.

        Raises:
            SkillError: No skill has that name.
        """
        from rumi.agent.skills.messages import SkillError

        found = self.catalogue.look().find(name)
        if isinstance(found, SkillError):
            raise found
        return found

    def say_if_overridden(self) -> None:
        """Print a warning if the environment overrides config.toml."""
        if self.disabled.is_overridden:
            say(
                "RUMI_SKILLS__DISABLED is set here and overrides config.toml: this change has no "
                "effect while it is set.",
                err=True,
            )


_OFF = {
    "config": Text("off"),
    "environment": Text("off by RUMI_SKILLS__DISABLED"),
    "itself": Text("off by its own SKILL.md"),
}


def _row(entry: "SkillEntry", wide: int, everything: bool) -> Iterator[str]:
    skill = entry.skill
    marks = [tr("code")] * skill.has_code + ([translate(_OFF[entry.off])] if entry.off else [])
    if skill.source.kind != "bundled":
        marks.insert(0, in_words(reader(), skill.source.kind))
    about = (f"({', '.join(marks)}) " if marks else "") + flat(skill.header.description)
    line = f"{skill.name:<{wide}}  {about}"
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    yield line if len(line) <= columns else f"{line[: columns - 1]}…"
    if everything:
        for hidden in entry.hides:
            yield f"{'':<{wide}}  {tr('hides the one from {hidden}', hidden=translate(_source(hidden)))}"


def _described(here: _Here, entry: "SkillEntry") -> Iterator[str]:
    from rumi.agent.skills.messages import SkillError
    from rumi.agent.skills.opening import open_skill

    skill, header = entry.skill, entry.skill.header
    version = f" {flat(header.version)}" if header.version else ""
    yield f"{skill.name}{version}: {translate(_OFF[entry.off]) if entry.off else tr('on')}"
    yield from textwrap.wrap(flat(header.description), WIDTH, initial_indent="  ", subsequent_indent="  ")
    try:
        opened = open_skill(skill)
        more = [tr("and {more_files} more", more_files=opened.more_files)] if opened.more_files else []
        files = [*(file.path for file in opened.files), *more]
    except SkillError as error:
        files = [error_text(reader(), error)]
    rows = [
        (tr("from"), translate(_source(skill))),
        (tr("folder"), str(skill.folder)),
        *(
            (
                tr("hides"),
                tr(
                    "the one from {hidden}, {folder}", hidden=translate(_source(hidden)), folder=hidden.folder
                ),
            )
            for hidden in entry.hides
        ),
        (tr("code"), translate(_code(here, skill))),
        (tr("needs"), ", ".join(header.tools_required)),
        (tr("tags"), ", ".join(header.tags)),
        (tr("files"), ", ".join(files)),
        (tr("license"), header.license),
        (tr("works with"), header.compatibility),
        (
            tr("allows"),
            tr("{allowed_tools} (for other assistants)", allowed_tools=", ".join(header.allowed_tools))
            if header.allowed_tools
            else "",
        ),
    ]
    notes = [(tr("note"), translate(note)) for note in header.notes]
    for name, value in [
        *rows,
        *header.metadata.items(),
        *notes,
    ]:
        if value:
            yield f"{flat(name):<11} {flat(value)}"


def _code(here: _Here, skill: "Skill") -> str:
    from rumi.agent.skills.folder import snapshot
    from rumi.agent.skills.messages import SkillError

    if not skill.has_code:
        return ""
    if skill.source.kind != "project":
        return "skill.py"
    try:
        trusted = here.trusted.is_trusted(skill.folder, snapshot(skill.folder))
    except SkillError as error:
        return Text("skill.py, which cannot be trusted: {message}", message=error.message)
    return (
        Text("skill.py, trusted as it is now")
        if trusted
        else Text("skill.py, not trusted: rumi skills trust {name}", name=skill.name)
    )


def _source(skill: "Skill") -> str:
    return {
        "bundled": Text("Rumi itself"),
        "home": "RUMI_HOME/skills",
        "dirs": "[skills] dirs",
        "project": Text("this project"),
    }[skill.source.kind]
