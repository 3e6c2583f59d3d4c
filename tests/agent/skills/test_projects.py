"""The skills of windows' folders: each counts only for the messages of its own window."""

import secrets
import stat
from pathlib import Path

import pytest

from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.disabled import Disabled
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import ForPrompt, Listing, Opened, ReadInstructions, SkillError
from rumi.agent.skills.mounting import Mounts
from rumi.agent.skills.trust import TrustedSkills
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.engine import SandboxLimits, skills_folder
from rumi.sandbox.workspace import prepare_workspace
from tests.agent.skills.making import asked, write_skill
from tests.agent.skills.test_mounting import ran
from tests.fakes.engines import cleaned_up


class Projects:
    """A home, and two folders with skills of their own, one of each under the same name."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        (self.home / "run").mkdir(parents=True, mode=0o700)
        write_skill(self.home / "skills", "ours", description="of the home")
        self.folders = {name: root / name for name in ("one", "two")}
        for name, folder in self.folders.items():
            write_skill(folder / ".rumi" / "skills", "build", description=f"builds {name}")
            write_skill(folder / ".rumi" / "skills", f"only-{name}")
        self.trusted = TrustedSkills(self.home / "trusted.json")
        self.mounts = Mounts(skills_folder(self.home), self.trusted)

    def catalogue(self, project: Path | None = None) -> Catalogue:
        """The skills with a folder's, or without any."""
        return Catalogue(sources(self.home, (), project), Disabled, self.trusted)

    def trust(self, name: str, skill: str) -> None:
        """Trust a skill of a folder as it is."""
        folder = self.folders[name] / ".rumi" / "skills" / skill
        self.trusted.trust(folder, snapshot(folder))


async def test_a_question_sees_the_skills_of_its_own_folder_alone(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    one, two = (str(projects.folders[name]) for name in ("one", "two"))
    async with asked(projects.catalogue(), of_project=projects.catalogue) as skills:

        async def names(project: str) -> set[str]:
            shown = (await skills.ask(ForPrompt("", 100, (), project))).shown
            return {f"{skill.name}: {skill.description}" for skill in shown if "uil" in skill.description}

        assert await names(one) == {"build: builds one"}
        assert await names(two) == {"build: builds two"}
        assert await names("") == set()
        listed = await skills.ask(Listing())
        assert "ours" in {entry.skill.name for entry in listed.entries}
        assert isinstance(await skills.ask(ReadInstructions("only-one", project=two)), SkillError)
        assert isinstance(await skills.ask(ReadInstructions("only-one")), SkillError)
        found = await skills.ask(ReadInstructions("only-one", project=one))
        assert isinstance(found, Opened)
        assert not found.skill.vouched, "words of a folder that is not trusted taint the turn"


async def test_sandboxes_reach_a_trusted_skill_of_a_folder_and_list_none(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    projects.trust("one", "build")
    one, two = (str(projects.folders[name]) for name in ("one", "two"))
    places = []
    for _ in range(2):  # the second time as a process that starts later
        mounts = Mounts(skills_folder(projects.home), projects.trusted)
        async with asked(projects.catalogue(), mounts=mounts, of_project=projects.catalogue) as skills:
            found = await skills.ask(ReadInstructions("build", project=one))
            other = await skills.ask(ReadInstructions("build", project=two))
            ours = await skills.ask(ReadInstructions("ours", project=one))
        assert isinstance(found, Opened)
        assert isinstance(other, Opened)
        assert isinstance(ours, Opened)
        assert (other.sandbox_folder, ours.sandbox_folder) == ("", "/skills/ours")
        assert "not trusted" in other.why_not
        places.append(found.sandbox_folder)
    first, second = places
    assert first == second, "conversations name the place"
    shared = skills_folder(projects.home)
    assert (shared / first.removeprefix("/skills/") / "SKILL.md").is_file()
    assert "build" not in {entry.name for entry in shared.iterdir()}
    assert stat.S_IMODE((shared / ".projects").stat().st_mode) == 0o311


@pytest.mark.bubblewrap
async def test_a_sandbox_runs_a_script_of_a_folder_and_cannot_list_folders(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    scripts = projects.folders["one"] / ".rumi" / "skills" / "build" / "scripts"
    scripts.mkdir()
    (scripts / "do.sh").write_text("echo built\n")
    projects.trust("one", "build")
    async with asked(projects.catalogue(), mounts=projects.mounts, of_project=projects.catalogue) as skills:
        found = await skills.ask(ReadInstructions("build", project=str(projects.folders["one"])))
    assert isinstance(found, Opened)
    engine = BubblewrapEngine(projects.home, secrets.token_hex(6), SandboxLimits())
    async with cleaned_up(engine):
        box = await engine.create("cli", prepare_workspace(projects.home, "cli", *engine.user))
        assert await ran(box, "sh", f"{found.sandbox_folder}/scripts/do.sh") == (0, "built\n")
        assert "build" not in (await ran(box, "ls", "-A", "/skills"))[1].split()
        code, said = await ran(box, "ls", "/skills/.projects")
        assert (code, "Permission denied" in said) == (2, True)
