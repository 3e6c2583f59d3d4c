"""The folder that sandboxes see as /skills: the copies in it, and what a running sandbox sees of changes."""

import os
import secrets
import stat
from pathlib import Path

import pytest

from rumi.agent.skills.catalogue import Catalogue
from rumi.agent.skills.disabled import Disabled
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import SkillSource
from rumi.agent.skills.mounting import Mounts
from rumi.agent.skills.trust import TrustedSkills
from rumi.sandbox.engine import Command, Container, Engine, SandboxLimits, skills_folder
from rumi.sandbox.workspace import prepare_workspace
from tests.agent.skills.making import write_skill
from tests.fakes.engines import cleaned_up


class Home:
    """A home with its own skills and a project's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.own, self.project = root / "skills", root / "project"
        self.off: frozenset[str] = frozenset()
        self.trusted = TrustedSkills(root / "trusted.json")
        self.mounts = Mounts(skills_folder(root), self.trusted)
        found = (SkillSource("home", self.own), SkillSource("project", self.project))
        self.catalogue = Catalogue(found, lambda: Disabled(self.off), self.trusted)

    def look(self) -> set[str]:
        """Look at the skills as a message does; the names in the folder."""
        self.mounts.sync(self.catalogue.look().enabled())
        return {entry.name for entry in skills_folder(self.root).iterdir()} if self.made else set()

    @property
    def made(self) -> bool:
        return skills_folder(self.root).exists()

    def seen(self, path: str) -> str:
        return (skills_folder(self.root) / path).read_text()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "run").mkdir(mode=0o700)
    return Home(tmp_path)


def with_script(root: Path, name: str, text: str = "print(1)\n") -> Path:
    folder = write_skill(root, name)
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts/do.py").write_text(text)
    return folder


def test_enabled_skills_are_there_and_disabled_ones_go(home: Home) -> None:
    with_script(home.own, "one")
    with_script(home.own, "two")
    assert home.look() == {"one", "two"}
    assert home.seen("one/scripts/do.py") == "print(1)\n"
    home.off = frozenset({"one"})
    assert home.look() == {"two"}
    home.off = frozenset()
    assert home.look() == {"one", "two"}


def test_a_projects_skill_is_there_only_with_the_trusted_content(home: Home) -> None:
    folder = with_script(home.project, "theirs")
    assert home.look() == set()
    home.trusted.trust(folder, snapshot(folder))
    assert home.look() == {"theirs"}
    (folder / "scripts/do.py").write_text("print('evil')\n")
    (skill,) = home.catalogue.look().enabled()
    assert home.mounts.mount(skill) == "the user has not trusted it"
    assert not (skills_folder(home.root) / "theirs").exists()


def test_a_copy_is_made_again_when_its_skill_is_used_after_a_change(home: Home) -> None:
    folder = with_script(home.own, "one")
    home.look()
    inode = (skills_folder(home.root) / "one").stat().st_ino
    (skill,) = home.catalogue.look().enabled()
    assert home.mounts.mount(skill) == ""
    assert (skills_folder(home.root) / "one").stat().st_ino == inode, "nothing has changed"
    (folder / "scripts/do.py").write_text("print(2)\n")
    assert home.mounts.mount(skill) == ""
    assert home.seen("one/scripts/do.py") == "print(2)\n"


def test_the_next_start_keeps_the_copies(home: Home) -> None:
    with_script(home.own, "one")
    home.look()
    inode = (skills_folder(home.root) / "one").stat().st_ino
    assert Home(home.root).look() == {"one"}
    assert (skills_folder(home.root) / "one").stat().st_ino == inode


def test_every_user_can_read_a_copy_whatever_the_umask(home: Home) -> None:
    folder = with_script(home.own, "one")
    (folder / "scripts/run.sh").write_text("#!/bin/sh\n")
    (folder / "scripts/run.sh").chmod(0o700)
    before = os.umask(0o077)
    try:
        home.look()
    finally:
        os.umask(before)
    copy = skills_folder(home.root) / "one"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (copy, *copy.rglob("*"))}
    assert modes == {"one": 0o755, "scripts": 0o755, "SKILL.md": 0o644, "do.py": 0o644, "run.sh": 0o755}


def test_links_hidden_files_and_caches_are_not_copied(home: Home, tmp_path: Path) -> None:
    folder = with_script(home.own, "one")
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    (folder / "scripts/__pycache__").mkdir()
    (folder / "scripts/__pycache__/do.pyc").write_text("x")
    home.look()
    assert {path.name for path in (skills_folder(home.root) / "one").rglob("*")} == {
        "SKILL.md",
        "scripts",
        "do.py",
    }


def test_a_skill_that_is_a_link_to_a_folder_is_copied(home: Home, tmp_path: Path) -> None:
    elsewhere = with_script(tmp_path / "elsewhere", "one")
    home.own.mkdir()
    (home.own / "one").symlink_to(elsewhere)
    assert home.look() == {"one"}


def test_a_folder_that_is_too_large_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rumi.agent.skills.folder.MOST_FOLDER_BYTES", 100)
    with_script(home.own, "one", "x" * 200)
    (skill,) = home.catalogue.look().enabled()
    assert "more than" in home.mounts.mount(skill)
    assert home.look() == set()


async def ran(box: Container, *words: str) -> tuple[int, str]:
    said = bytearray()
    code = await box.execute(Command(words), said.extend, said.extend)
    return code, said.decode()


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def image(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("docker_image")) if request.param == "docker" else ""


async def test_a_running_sandbox_sees_each_change_and_can_make_none(image: str, home: Home) -> None:
    from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
    from rumi.sandbox.docker.engine import DockerEngine

    installation, limits = secrets.token_hex(6), SandboxLimits()
    engine: Engine = (
        DockerEngine(installation, limits, image=image, home=home.root)
        if image
        else BubblewrapEngine(home.root, installation, limits)
    )
    folder = with_script(home.own, "one", "#!/bin/sh\necho first\n")
    async with cleaned_up(engine):
        box = await engine.create("cli", prepare_workspace(home.root, "cli", *engine.user))
        assert await ran(box, "ls", "/skills") == (0, "")
        home.look()
        assert await ran(box, "sh", "/skills/one/scripts/do.py") == (0, "first\n")
        for words in (("touch", "/skills/x"), ("touch", "/skills/one/x"), ("rm", "-r", "/skills/one")):
            code, said = await ran(box, *words)
            assert (code, "Read-only" in said) == (1, True)
        (folder / "scripts/do.py").write_text("#!/bin/sh\necho second\n")
        home.mounts.mount(home.catalogue.look().enabled()[0])
        assert await ran(box, "sh", "/skills/one/scripts/do.py") == (0, "second\n")
        home.off = frozenset({"one"})
        home.look()
        assert await ran(box, "ls", "/skills") == (0, "")
