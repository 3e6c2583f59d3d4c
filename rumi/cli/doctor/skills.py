"""The check of the installed skills."""

from pathlib import Path
from typing import Final

from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.trust import TrustedSkills
from rumi.cli.doctor.check import Check
from rumi.platform.config.cascade import Loaded
from rumi.platform.home import Home
from rumi.platform.printable import flat
from rumi.texts import Text

MOST_NAMED: Final = 3


def skills(home: Home, loaded: Loaded) -> list[Check]:
    """Find the skills of the home, the configuration and the working directory, and check them."""
    found = sources(home.root, loaded.settings.skills.dirs, Path.cwd())
    listed = Catalogue(found, trusted=TrustedSkills(home.root / "skills-trusted.json")).look().listed
    noted = [entry.skill for entry in listed.entries if entry.skill.header.notes]
    if listed.problems:
        named = "; ".join(map(flat, listed.problems[:MOST_NAMED]))
        text = Text(
            "{loaded} skills are read; {count} are not, or only in part: {named}",
            loaded=len(listed.entries),
            count=len(listed.problems),
            named=named,
        )
        return [Check("skills", "warning", text, Text("See all of them with: rumi skills list"))]
    if noted:
        named = "; ".join(flat(f"{skill.name}: {skill.header.notes[0]}") for skill in noted[:MOST_NAMED])
        text = Text(
            "{loaded} skills are read; of {count}, something is unusual: {named}",
            loaded=len(listed.entries),
            count=len(noted),
            named=named,
        )
        return [Check("skills", "ok", text)]
    return [Check("skills", "ok", Text("{loaded} skills are read", loaded=len(listed.entries)))]
