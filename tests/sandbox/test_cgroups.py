import os
import secrets
from pathlib import Path

import pytest
import trio

from rumi.sandbox.cgroups import Cgroups
from rumi.sandbox.engine import SandboxError, SandboxLimits

LIMITS = SandboxLimits(memory_bytes=100, cpus=0.5, pids=10)
INSTALLATION = secrets.token_hex(6)


def first_version(root: Path, controllers: tuple[str, ...] = ("memory", "pids", "cpu")) -> Path:
    """Folders that look like version 1's hierarchies, with this process in /here of the first."""
    for name in controllers:
        (root / name / "here").mkdir(parents=True)
        for folder in (root / name, root / name / "here"):
            (folder / "tasks").touch()
    own = root / "own"
    own.write_text("".join(f"{number}:{name}:/here\n" for number, name in enumerate(controllers)) + "0::/\n")
    return own


def second_version(root: Path, controllers: str = "cpu io memory pids") -> Path:
    """Folders that look like version 2's hierarchy, with this process alone in /service."""
    (root / "service").mkdir(parents=True)
    for folder in (root, root / "service"):
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text("")
    (root / "service/cgroup.procs").write_text(f"{os.getpid()}\n")
    own = root / "own"
    own.write_text("0::/service\n")
    return own


def written(cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What would be written to the kernel, by file."""
    seen: dict[str, str] = {}

    def note(self: Path, text: str, *_: object) -> int:
        seen[self.name] = text
        return len(text)

    monkeypatch.setattr(Path, "write_text", note)
    assert cgroups.create("chat", LIMITS) is not None
    return seen


def test_groups_of_the_first_version_are_made_below_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = Cgroups(INSTALLATION, root=tmp_path, own=first_version(tmp_path))
    assert cgroups.kind == "v1"
    assert cgroups.bounded == {"memory", "pids", "cpu"}
    assert written(cgroups, monkeypatch) == {
        "memory.limit_in_bytes": "100",
        "pids.max": "12",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
    }
    assert (tmp_path / f"memory/here/rumi-{INSTALLATION}/rumi-runner-{INSTALLATION}-chat").is_dir()


def test_what_a_kernel_lacks_is_not_bounded(tmp_path: Path) -> None:
    cgroups = Cgroups(INSTALLATION, root=tmp_path, own=first_version(tmp_path, ("pids",)))
    assert cgroups.bounded == {"pids"}


def test_a_group_delegated_to_this_process_alone_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = second_version(tmp_path)
    (tmp_path / "service/rumi").mkdir()
    kept = Path.write_text

    def append(self: Path, text: str, *_: object) -> int:
        # As the kernel does it: what is written to this file adds to what it says.
        if self.name == "cgroup.subtree_control":
            text = f"{self.read_text()} {text.lstrip('+')}"
        return kept(self, text)

    monkeypatch.setattr(Path, "write_text", append)
    cgroups = Cgroups(INSTALLATION, root=tmp_path, own=own)
    assert cgroups.kind == "v2"
    assert cgroups.bounded == {"memory", "pids", "cpu"}
    assert (tmp_path / "service/rumi/cgroup.procs").read_text() == "0"
    assert written(cgroups, monkeypatch) == {
        "memory.max": "100",
        "pids.max": "12",
        "cpu.max": "50000 100000",
    }
    assert (tmp_path / f"service/rumi-{INSTALLATION}/rumi-runner-{INSTALLATION}-chat").is_dir()


def test_where_nothing_can_be_written_there_are_no_groups(tmp_path: Path) -> None:
    cgroups = Cgroups(INSTALLATION, root=tmp_path / "none", own=tmp_path / "none")
    assert cgroups.kind == "none"
    assert cgroups.bounded == frozenset()
    assert cgroups.create("chat", LIMITS) is None
    assert cgroups.leftovers() == []


def test_a_scope_of_the_users_systemd_is_named_and_bounded(tmp_path: Path) -> None:
    cgroups = Cgroups(INSTALLATION, root=tmp_path, own=tmp_path / "none")
    assert cgroups.scope("chat", LIMITS) == []
    cgroups.kind = "scope"
    words = cgroups.scope("chat", LIMITS)
    assert words[:3] == ["systemd-run", "--user", "--scope"]
    assert words[-1] == "--"
    for word in ("MemoryMax=100", "MemorySwapMax=0", "TasksMax=14", "CPUQuota=50%", "--slice=rumi.slice"):
        assert word in words
    assert f"--unit=rumi-runner-{INSTALLATION}-chat.scope" in words


@pytest.fixture
def real() -> Cgroups:
    cgroups = Cgroups(INSTALLATION)
    if cgroups.kind not in ("v1", "v2"):
        pytest.skip("no control groups can be made here")
    return cgroups


async def test_a_group_bounds_its_members_and_goes_with_them(real: Cgroups) -> None:
    group = real.create("chat", SandboxLimits())
    assert group is not None
    sleeping = await trio.lowlevel.open_process(["sleep", "31536099"])
    for fd in group.open_members():
        os.write(fd, str(sleeping.pid).encode())
        os.close(fd)
    assert group.members() == {sleeping.pid}
    assert real.leftovers() == [group]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeping.wait)
        await group.remove()
    assert sleeping.returncode == -9
    assert real.leftovers() == []
    assert not group.folders[0].parent.exists()
    await group.remove()


async def test_a_group_that_cannot_be_removed_is_an_error(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    cgroups = Cgroups(INSTALLATION, root=tmp_path, own=first_version(tmp_path))
    group = cgroups.create("chat", LIMITS)
    assert group is not None  # its files, ordinary ones here, keep its folders from being removed
    with pytest.raises(SandboxError, match="cannot be removed"):
        await group.remove()


async def test_leftovers_are_those_of_one_installation(real: Cgroups) -> None:
    group, foreign = (
        real.create("chat", SandboxLimits()),
        Cgroups("badbadbadbad").create("chat", SandboxLimits()),
    )
    assert group is not None
    assert foreign is not None
    assert real.leftovers() == [group]
    await group.remove()
    await foreign.remove()
