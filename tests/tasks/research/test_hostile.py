"""Repositories that want to run programs, to write outside, or to take all there is."""

import hashlib
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Engine
from rumi.tasks.research.repository.repository import CloneLimits
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.fakes.git_server import RESULT, body_of, git, history, imported, line, serves
from tests.fakes.web_server import Answering, Asked, gives, until_gone
from tests.sandbox.desk import image_of
from tests.tasks.research.repository_house import LIMITS, RepositoryHouse, call, repository_house
from tests.web.fetching import children, open_sockets

SELECTION = Selection("core", extra=("git", "chmod"))
BLOB = b"content\n"
MARK = "/workspace/ran"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def image_with_git() -> Iterator[str]:
    with image_of("git", SELECTION) as name:
        yield name


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def both(request: pytest.FixtureRequest, home: Path) -> Engine:
    installation = secrets.token_hex(6)
    if request.param == "docker":
        image = request.getfixturevalue("image_with_git")
        return DockerEngine(installation, LIMITS, image=image, home=home)
    return BubblewrapEngine(home, installation, LIMITS, selection=SELECTION)


@pytest.fixture
async def here(both: Engine, home: Path, tmp_path: Path) -> AsyncIterator[RepositoryHouse]:
    """A room in a sandbox of either kind; what the tests put into `served` is served."""
    (tmp_path / "served").mkdir()
    async with (
        cleaned_up(both),
        repository_house(both, home, tmp_path / "cache", served_by(tmp_path)) as made,
    ):
        yield made


@pytest.fixture
async def bwrap(home: Path, tmp_path: Path) -> AsyncIterator[RepositoryHouse]:
    (tmp_path / "served").mkdir()
    engine = BubblewrapEngine(home, secrets.token_hex(6), LIMITS, selection=SELECTION)
    async with (
        cleaned_up(engine),
        repository_house(engine, home, tmp_path / "cache", served_by(tmp_path)) as made,
    ):
        yield made


def served_by(folder: Path) -> dict[str, Answering]:
    ends = ("/r/info/refs", "/r/git-upload-pack")
    return dict.fromkeys(ends, serves(folder / "served"))


def written_object(folder: Path, kind: str, content: bytes) -> str:
    return git(folder, "hash-object", "-t", kind, "-w", "--literally", "--stdin", stdin=content)


def tree(folder: Path, *entries: tuple[str, str, str]) -> str:
    """Write a tree as it is told, however git forbids it: mode, name and object of each entry."""
    rows = [f"{mode} {name}\0".encode() + bytes.fromhex(oid) for mode, name, oid in entries]
    return written_object(folder, "tree", b"".join(rows))


def repository_with(folder: Path, root: str) -> Path:
    """Make `main` a commit of this tree."""
    commit = git(folder, "commit-tree", "-m", "one", root)
    git(folder, "update-ref", "refs/heads/main", commit)
    return folder


def empty(tmp_path: Path) -> Path:
    return imported(tmp_path / "served" / "r", b"done\n")


async def test_attributes_neither_run_a_filter_nor_change_a_byte(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    contents = {
        "a.txt": b"one\r\ntwo\n$Id$ $Format:%H$\n\xff\xfe",
        "b.txt": "ñ\n".encode(),
        "sub/c.txt": b"$Id: x $\r\n",
        ".gitattributes": (
            b"[attr]evil filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=UTF-16\n"
            b"* filter=evil diff=evil merge=evil\n*.txt evil export-ignore export-subst\n"
        ),
        "sub/.gitattributes": b"*.txt text eol=crlf ident filter=evil -diff\n",
    }
    stream = b"commit refs/heads/main\ncommitter A <a@b> 1600000000 +0000\ndata 3\none"
    for name, content in contents.items():
        stream += b"\nM 100644 inline %s\ndata %d\n%s" % (name.encode(), len(content), content)
    stream += b"\ncommit refs/heads/main\ncommitter A <a@b> 1600000001 +0000\ndata 3\ntwo"
    stream += b"\nM 100644 inline sub/c.txt\ndata 4\nnew\n\ndone\n"
    imported(tmp_path / "served" / "r", stream)
    async with here.opened("/r", ref="main") as repository:
        await call(repository, "git_checkout", ref="HEAD~1")
        folder = here.sandboxes.workspace(here.shells[-1].key) / "tree"
        assert {name: (folder / name).read_bytes() for name in contents} == contents
        told = await call(repository, "git_diff", from_="HEAD~1", to="HEAD")
        assert "+new" in told.content  # `-diff` would hide it


async def test_links_and_submodules_are_no_way_out(here: RepositoryHouse, tmp_path: Path) -> None:
    repo = empty(tmp_path)
    target, blob = written_object(repo, "blob", b"/etc/passwd"), written_object(repo, "blob", BLOB)
    up, modules = (
        written_object(repo, "blob", b"../../.."),
        written_object(
            repo,
            "blob",
            b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% /workspace/ran\n'
            b"\tupdate = !touch /workspace/ran\n",
        ),
    )
    root = tree(
        repo,
        ("100644", ".gitmodules", modules),
        ("100755", "a.sh", blob),
        ("120000", "out", target),
        ("120000", "up", up),
        ("160000", "x", "1" * 40),
    )
    repository_with(repo, root)
    async with here.opened("/r") as repository:
        assert "2 files of" in repository.facts()
        assert (
            "2 links are written as files that hold their target. 1 submodules are empty"
            in repository.facts()
        )
        folder = here.sandboxes.workspace(here.shells[-1].key) / "tree"
        assert sorted(path.name for path in folder.rglob("*")) == [".gitmodules", "a.sh", "out", "up", "x"]
        assert not any(path.is_symlink() for path in folder.rglob("*"))
        assert (folder / "out").read_text() == "/etc/passwd"
        shown = await call(repository, "git_show", path="out")
        assert "1\t/etc/passwd" in shown.content
        inside = await call(repository, "git_show", path="x")
        assert "submodule" in inside.content
        assert "No such file" in await here.shells[-1].sh(f"ls {MARK}")


def names(repo: Path, blob: str) -> dict[str, str]:
    """Trees with names that lead out, or into git's own folder."""
    inner = tree(repo, ("100644", "evil.txt", blob))
    hooks = tree(repo, ("100755", "post-checkout", blob))
    inside = tree(repo, ("100644", "config", blob), ("40000", "hooks", hooks))
    return {
        "..": tree(repo, ("40000", "..", inner)),
        "../x": tree(repo, ("100644", "../x", blob)),
        "/x": tree(repo, ("100644", "/tmp/x", blob)),
        ".": tree(repo, ("40000", ".", inner)),
        ".git": tree(repo, ("40000", ".git", inside)),
        ".GIT": tree(repo, ("40000", ".GIT", inside)),
        "git~1": tree(repo, ("40000", "git~1", inside)),
        "a/../../x": tree(repo, ("40000", "a", tree(repo, ("40000", "..", inner)))),
    }


@pytest.mark.long
async def test_names_that_lead_out_are_refused_and_nothing_is_written(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = empty(tmp_path)
    trees = names(repo, written_object(repo, "blob", BLOB))
    for number, (name, root) in enumerate(trees.items()):
        repository_with(repo, root)
        async with here.opened("/r", cache=None) as repository:
            facts = repository.facts()
            assert "were not written" in facts, name
            listed = await here.shells[-1].sh("ls -A /workspace; find /workspace /tmp -name '*evil*'")
            assert listed == "repo.git\n", name
            await call(repository, "git_log")
            workspace = here.sandboxes.workspace(here.shells[number].key)
            assert not list(workspace.parent.glob("*/evil.txt")), name


async def test_a_file_behind_a_link_of_the_same_name_stays_inside(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = empty(tmp_path)
    inner = tree(repo, ("100644", "evil.txt", written_object(repo, "blob", BLOB)))
    out = written_object(repo, "blob", b"/tmp")
    repository_with(repo, tree(repo, ("120000", "a", out), ("40000", "a", inner)))
    async with here.opened("/r") as repository:
        assert "1 files of" in repository.facts()
        found = await here.shells[-1].sh("find /workspace/tree /tmp -name evil.txt; find /workspace -type l")
        assert found == "/workspace/tree/a/evil.txt\n"


async def test_too_many_files_are_refused_before_one_is_written(
    bwrap: RepositoryHouse, tmp_path: Path
) -> None:
    repo = empty(tmp_path)
    blob = written_object(repo, "blob", BLOB)
    leaf = tree(repo, *(("100644", f"f{n:04}", blob) for n in range(1000)))
    repository_with(repo, tree(repo, *(("40000", f"d{n:03}", leaf) for n in range(101))))
    async with bwrap.opened("/r") as repository:
        assert "it has more than 100000. Read them with git_show" in repository.facts()
        assert "1\tcontent" in (await call(repository, "git_show", path="d007/f0042")).content
        assert await bwrap.shells[-1].sh("ls -A /workspace") == "repo.git\n"


@pytest.mark.long
async def test_a_tree_of_trees_that_are_the_same_ends(bwrap: RepositoryHouse, tmp_path: Path) -> None:
    repo = empty(tmp_path)
    inner = tree(repo, ("100644", "f", written_object(repo, "blob", BLOB)))
    for _ in range(12):  # 10 to the 12th files
        inner = tree(repo, *(("40000", f"d{n}", inner) for n in range(10)))
    repository_with(repo, inner)
    with trio.fail_after(60):
        async with bwrap.opened("/r") as repository:
            assert "it has more than 100000" in repository.facts()


@pytest.mark.long
async def test_a_huge_file_is_left_out_or_ends_at_the_limit(bwrap: RepositoryHouse, tmp_path: Path) -> None:
    size = 100 * 1024 * 1024
    repo = empty(tmp_path)
    head = b"commit refs/heads/main\ncommitter A <a@b> 1600000000 +0000\ndata 3\none"
    head += b"\nM 100644 inline small\ndata 3\nok\n\nM 100644 inline huge\ndata %d\n" % size
    git(repo, "fast-import", "--quiet", stdin=head + bytes(size) + b"\ndone\n")
    async with bwrap.opened("/r") as repository:
        facts = repository.facts()
        assert "1 files of" in facts
        assert "Left out, because the clone does not have them: " in facts
        assert "huge" in facts
        assert await bwrap.shells[-1].sh("ls tree; cat tree/small") == "small\nok\n"
        shown = await call(repository, "git_show", path="huge")
        assert "larger than 5 MB, so the clone left it out" in shown.content
    async with bwrap.opened("/r", full=True) as repository:
        assert "were not written" in repository.facts()
        assert await bwrap.shells[-1].sh("ls -A /workspace") == "repo.git\n"
        shown = await call(repository, "git_show", path="huge")
        assert "(not text)" in shown.content


async def test_a_server_that_leaves_no_file_out_is_used_all_the_same(
    bwrap: RepositoryHouse, tmp_path: Path
) -> None:
    repo = empty(tmp_path)
    git(repo, "config", "uploadpack.allowFilter", "false")
    blob = written_object(repo, "blob", secrets.token_bytes(6_000_000))
    repository_with(repo, tree(repo, ("100644", "large", blob)))
    async with bwrap.opened("/r") as repository:
        assert "1 files of" in repository.facts()
        assert "5 MB" not in repository.facts()
        assert await bwrap.shells[-1].sh("wc -c <tree/large") == "6000000\n"


async def test_a_repository_of_sha256_is_read_like_others(bwrap: RepositoryHouse, tmp_path: Path) -> None:
    folder = tmp_path / "served" / "r"
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "--object-format=sha256", ".")
    git(folder, "fast-import", "--quiet", stdin=history(30))
    head = git(folder, "rev-parse", "main")
    for _ in range(2):  # the second time from the cache
        async with bwrap.opened("/r") as repository:
            assert f"{head} of 2017-07-15: Change 30" in repository.facts()
            assert (
                "Dev 1\tvalue_1 = 1\n"
                in (await call(repository, "git_blame", path="src/code.py", end=3)).content
            )
            assert len(head) == 64
    async with bwrap.opened(str(folder), local_allowed=True) as repository:
        assert "Change 1\n" in (await call(repository, "git_log", count=50)).content


async def test_a_repository_over_the_limit_is_refused(bwrap: RepositoryHouse, tmp_path: Path) -> None:
    repo = empty(tmp_path)
    blob = written_object(repo, "blob", secrets.token_bytes(2_000_000))
    repository_with(repo, tree(repo, ("100644", "a", blob)))
    error = await bwrap.refusal("/r", limits=CloneLimits(most_bytes=1_000_000))
    assert error.message == "The server sends more than the 1.0 MB that the repository may take."
    assert list(bwrap.cache.folder.glob("*/*")) == []


async def test_a_pack_that_is_none_is_refused_by_git(bwrap: RepositoryHouse, tmp_path: Path) -> None:
    repository_with(repo := empty(tmp_path), tree(repo, ("100644", "a", written_object(repo, "blob", BLOB))))
    real = serves(tmp_path / "served")
    body = b"PACK\0\0\0\2\0\0\0\1" + secrets.token_bytes(300)
    broken = gives(line("packfile\n") + line(b"\x01" + body) + b"0000", media_type=RESULT)

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        data = await body_of(stream, asked)
        again = Asked(asked.method, asked.target, asked.headers, b"\r\n\r\n" + data)
        await (broken if b"command=fetch" in data else real)(stream, again)

    bwrap.server.paths["/r/git-upload-pack"] = answer
    error = await bwrap.refusal("/r")
    assert error.message == "What the server sent is not a valid pack of git."
    assert "incoming" not in await bwrap.shells[-1].sh("ls -A /workspace")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A working copy whose configuration, hooks and attributes name programs that leave a mark."""
    folder, mark = tmp_path / "mine", tmp_path / "mark"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main", ".")
    for n in range(3):
        (folder / "a.txt").write_text(f"{n}\n")
        (folder / ".gitattributes").write_text("*.txt filter=evil diff=evil merge=evil\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"change {n}")
    git(folder, "tag", "-a", "-m", "one", "v1", "HEAD~1")
    git(folder, "gc", "--quiet")
    (folder / "a.txt").write_text("last\n")
    git(folder, "commit", "--quiet", "-am", "loose")
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\necho ran >>{mark}\ncat\n")
    program.chmod(0o755)
    for key in (
        "core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv",
        "diff.evil.command", "diff.external", "gpg.program", "core.pager", "core.sshCommand",
        "core.alternateRefsCommand", "credential.helper", "core.editor", "uploadpack.packObjectsHook",
    ):  # fmt: skip
        git(folder, "config", key, str(program))
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        shutil.copy(program, folder / ".git/hooks" / hook)
    return folder


async def test_a_folder_of_this_machine_is_read_and_runs_nothing(here: RepositoryHouse, local: Path) -> None:
    (local / ".git/objects/info").mkdir(exist_ok=True)
    (local / ".git/objects/info/alternates").write_text("/etc\n")
    (local / ".git/refs/heads/out").symlink_to("/etc/passwd")
    (local / ".git/objects/pack/pack-link.pack").symlink_to("/etc/passwd")
    before = fingerprint(local)
    async with here.opened(str(local), local_allowed=True) as repository:
        assert ": loose" in repository.facts()
        told = await call(repository, "git_log")
        assert [word in told.content for word in ("loose", "change 0", "change 2")] == [True] * 3
        assert "+1" in (await call(repository, "git_diff", from_="main~3", to="v1")).content
        assert "last" in (await call(repository, "git_blame", path="a.txt")).content
        await call(repository, "git_checkout", ref="v1")
        assert "out" not in (await call(repository, "git_refs")).content.partition("<page")[2]
        shell = here.shells[-1]
        assert "evil" not in await shell.sh("cat repo.git/config; ls repo.git/hooks repo.git/objects/info")
    assert not (local.parent / "mark").exists()
    assert fingerprint(local) == before
    (local / ".git/objects/pack/pack-link.pack").unlink()
    (local / ".git/objects/info/alternates").unlink()
    (local / ".git/refs/heads/out").unlink()
    bare = git(local.parent, "-c", "safe.directory=*", "clone", "--quiet", "--bare", str(local), "bare.git")
    assert bare == ""
    async with here.opened(str(local.parent / "bare.git"), local_allowed=True, ref="v1") as repository:
        assert "change 1" in repository.facts()


def fingerprint(folder: Path) -> Mapping[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def test_folders_that_are_no_repository_are_refused(
    bwrap: RepositoryHouse, local: Path, tmp_path: Path
) -> None:
    git(
        local,
        "-c",
        "core.fsmonitor=false",
        "worktree",
        "add",
        "--quiet",
        "--no-checkout",
        str(tmp_path / "linked"),
    )
    (tmp_path / "plain").mkdir()
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "--quiet", ".")
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake/.git").symlink_to(local / ".git")
    for folder, why in (
        ("linked", "linked working copy"),
        ("plain", "not a git repository"),
        ("new", "empty"),
        ("fake", "linked working copy"),
        ("none", "cannot be read"),
    ):
        error = await bwrap.refusal(str(tmp_path / folder), local_allowed=True)
        assert why in error.message, (folder, error)
    error = await bwrap.refusal(str(local), local_allowed=False)
    assert "command line" in error.message


@pytest.mark.long
async def test_a_clone_that_is_cancelled_leaves_nothing(bwrap: RepositoryHouse, tmp_path: Path) -> None:
    repo = empty(tmp_path)
    blob = written_object(repo, "blob", secrets.token_bytes(3_000_000))
    repository_with(repo, tree(repo, ("100644", "a", blob)))
    real = serves(tmp_path / "served")

    async def slow(stream: trio.abc.Stream, asked: Asked) -> None:
        class Slowly:
            async def send_all(self, data: bytes) -> None:
                for start in range(0, len(data), 50_000):
                    await stream.send_all(data[start : start + 50_000])
                    await trio.sleep(0.01)

            async def receive_some(self, most: int) -> bytes:
                return bytes(await stream.receive_some(most))

        await real(Slowly(), asked)  # type: ignore[arg-type]
        await until_gone(stream)

    bwrap.server.paths["/r/git-upload-pack"] = slow
    began = trio.current_time()
    async with bwrap.opened("/r", cache=None) as repository:
        assert "1 files" in repository.facts()
    whole_s = trio.current_time() - began
    await bwrap.sandboxes.stop(bwrap.shells[-1].key)
    sockets, processes = open_sockets(), children()
    cancelled = 0
    for n in range(20):
        with trio.move_on_after(whole_s * n / 20) as scope:
            async with bwrap.opened("/r", cache=None):
                pass
        cancelled += scope.cancelled_caught
        shell = bwrap.shells[-1]
        await bwrap.server.until(lambda server: server.open == 0)
        assert "git" not in await shell.sh("cat /proc/[0-9]*/comm 2>/dev/null || true"), n
        assert "incoming" not in await shell.sh("ls -A /workspace"), n
        await bwrap.sandboxes.stop(shell.key)
        assert (open_sockets(), children()) == (sockets, processes), n
    assert cancelled >= 10
    assert not bwrap.cache.folder.exists()
    assert not list(bwrap.sandboxes.workspace("x").parent.glob("tmp*"))
