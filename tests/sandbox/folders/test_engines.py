"""A linked folder in both engines: what commands see and change, its limits, and what an end leaves."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest

from actors import Supervisor
from rumi.app.backup import back_up
from rumi.app.restore import restorable
from rumi.chats.undo.restoring import Restoring
from rumi.chats.undo.snapshots import Snapshots
from rumi.platform.home import Home
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import Command, CommandResult, Engine, SandboxLimits
from rumi.sandbox.folders.linked import LinkedFolders
from rumi.sandbox.folders.views import Views
from rumi.sandbox.incoming import put_file
from rumi.sandbox.overview import overview
from rumi.sandbox.project.tree import ProjectLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.workspace import listing, measure, open_beneath
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.folders.linking import CHAT, FILES, Linking, change, files_in, linking, write

MB = 1 << 20
SMALL = SandboxLimits(workspace_bytes=4 * MB, workspace_files=200)


def read(folder: Path, name: str) -> bytes:
    """Return a file's content, as tools of the host read it."""
    with open(open_beneath(folder, name), "rb") as file:
        return file.read()


def put(files: ChatFiles, user: tuple[int, int]) -> str:
    """Put a file into the chat's files, as an upload does."""
    ready, stored = files.ready(CHAT), files.stored(CHAT)
    return put_file(ready, "later", BytesIO(b"sent"), user=user, limits=SMALL, max_bytes=MB, counted=stored)


@dataclass(frozen=True, slots=True)
class Desk:
    """One linked chat with its sandbox."""

    project: Path
    files: ChatFiles
    folders: LinkedFolders
    sandboxes: Sandboxes

    async def sh(self, script: str) -> CommandResult:
        """Run a script."""
        return await self.sandboxes.run(CHAT, Command(("bash", "-c", script)))


@asynccontextmanager
async def desk(engine: Engine, path: Path) -> AsyncIterator[Desk]:
    home = Home(path / "home").make()
    write(path / "project", FILES)
    (path / "project" / "keep").chmod(0o600)
    shared = engine.kind == "docker"
    if shared and os.getuid():
        pytest.skip("Docker sees only mounts of root")
    views, bounds = Views(engine.user, shared=shared), ProjectLimits(10 * MB, 1000)
    folders = LinkedFolders(home.root, home.folders, home.workspaces, engine.user, bounds, views)
    files = ChatFiles(home.workspaces, engine.user, folders)
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, SMALL, home.root, files=files)
    try:
        async with root.running():
            assert folders.link(CHAT, path / "project").how == "overlay"
            yield Desk(path / "project", files, folders, sandboxes)
            await sandboxes.stop(CHAT)
    finally:
        folders.close_all()
    assert str(home.folders) not in Path("/proc/self/mountinfo").read_text()


async def test_commands_change_a_layer_and_everything_sees_it(
    make_engine: MakeEngine, new_installation: str, tmp_path: Path
) -> None:
    engine = make_engine(SMALL, new_installation)
    async with cleaned_up(engine), desk(engine, tmp_path) as here:
        done = await here.sh(
            "cat keep; echo two >> a.txt; rm -r d; mkdir d; echo n > d/n; echo i > AGENTS.md"
        )
        assert (done.stdout.text(), done.exit_code) == ("k\n", 0), done.stderr.text()
        assert files_in(here.project) == FILES
        shown = here.files.shown(CHAT)
        assert read(shown, "a.txt") == b"one\ntwo\n"
        assert [entry.name for entry in listing(shown)[0]] == ["d", "a.txt", "AGENTS.md", "keep"]
        assert overview(shown).instructions[0].text.strip() == "i"
        assert measure(here.files.stored(CHAT)).files == 4  # a.txt, AGENTS.md, d, d/n
        name = put(here.files, engine.user)
        assert (await here.sh(f"cat {name}; echo more >> {name}")).stdout.text() == "sent"
        assert (await here.sh("ls persons")).exit_code == 2  # which the kernel remembers
        (here.project / "persons").write_text("p\n")
        await here.sandboxes.quiet(CHAT)  # the end of a turn
        assert (await here.sh("cat persons")).stdout.text() == "p\n"


async def test_only_what_is_above_the_folder_counts(
    make_engine: MakeEngine, new_installation: str, tmp_path: Path
) -> None:
    engine = make_engine(SMALL, new_installation)
    async with cleaned_up(engine), desk(engine, tmp_path) as here:
        (here.project / "big").write_bytes(b"x" * 8 * MB)
        assert (await here.sh("wc -c < big; echo small > small")).ended == "exited"
        full = await here.sh("head -c 9000000 /dev/zero > filling")
        assert full.ended == "workspace_full"
        assert (await here.sh("rm filling")).exit_code == 0
        held = await here.sh("exec 5>held; rm held; head -c 9000000 /dev/zero >&5; sleep 9")
        assert held.ended == "workspace_full"


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Linking]:
    with linking(tmp_path, "overlay") as made:
        yield made


def test_an_undo_restores_the_layer_with_its_deletions(overlay: Linking) -> None:
    files = ChatFiles(overlay.home / "workspace", folders=overlay.folders)
    snapshots = Snapshots(overlay.home, files=files)
    change(overlay.seen)
    before = files_in(overlay.seen)
    snapshots.take(CHAT, "t1", tainted=False)
    (overlay.seen / "d").unlink()
    write(overlay.seen, {"a.txt": "worse\n", "d/other": "o\n", "more": "m\n"})
    restoring = Restoring(snapshots)
    assert restoring.build(CHAT, "t1") is not None
    restoring.commit(CHAT)
    assert files_in(overlay.seen) == before
    assert files_in(overlay.project) == FILES
    assert overlay.apply() == 8
    snapshots.applied(CHAT)
    with pytest.raises(Exception, match="applied"):
        restoring.build(CHAT, "t1")


def test_a_backup_has_the_changes_and_not_the_folder(overlay: Linking, tmp_path: Path) -> None:
    (overlay.home / "memory.db").touch()
    change(overlay.seen)
    overlay.folders.record(CHAT)
    seen, changes = files_in(overlay.seen), overlay.changes()
    backup = back_up(Home(overlay.home), tmp_path / "backup").path
    assert not (backup / "folders" / CHAT / "upper" / "keep" / "y").exists()
    overlay.folders.clear(CHAT)
    with restorable(Home(overlay.home), backup) as found:
        found.commit()
    overlay.folders.close(CHAT)
    assert overlay.changes() == changes
    assert files_in(overlay.seen) == seen
    assert overlay.apply() == 8


def test_a_deleted_chat_leaves_the_folder_and_nothing_else(overlay: Linking) -> None:
    change(overlay.seen)
    files = ChatFiles(overlay.home / "workspace", folders=overlay.folders)
    files.drop_changes(CHAT)
    assert files_in(overlay.seen) == FILES
    change(overlay.seen)
    files.forget(CHAT)
    assert not (overlay.home / "folders" / CHAT).exists()
    assert files_in(overlay.project) == FILES
    assert not files.has(CHAT)
