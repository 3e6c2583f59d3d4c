"""Repositories with parts elsewhere, with names of two meanings, or without a HEAD."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.tasks.research.repository.placeholders import pointer
from rumi.tasks.research.repository.repository import CloneLimits, Repository
from rumi.tasks.research.sources import Source
from rumi.tasks.research.workspace import workspace_tools
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.fakes.git_server import ADVERTISED, CAPABILITIES, RESULT, dripping, git, imported, line, serves
from tests.fakes.web_server import Answering
from tests.tasks.research.repository_house import LIMITS, RepositoryHouse, call, repository_house

pytestmark = pytest.mark.bubblewrap
SELECTION = Selection("core", extra=("git", "chmod"))
OID = "5f1d2c3b4a" * 4
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 12345678\n"
MODULES = """\
[submodule "lib"]
\tpath = vendor/lib
\turl = https://example.com/lib.git
[submodule "near"]
\tpath = near
\turl = ../near.git
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
async def here(home: Path, tmp_path: Path) -> AsyncIterator[RepositoryHouse]:
    (tmp_path / "served").mkdir(exist_ok=True)
    answer = serves(tmp_path / "served")
    paths: dict[str, Answering] = {"/r/info/refs": answer, "/r/git-upload-pack": answer}
    engine = BubblewrapEngine(home, secrets.token_hex(6), LIMITS, selection=SELECTION)
    async with cleaned_up(engine), repository_house(engine, home, tmp_path / "cache", paths) as made:
        yield made


def commit(number: int, branch: str, files: dict[str, str], parent: int = 0) -> str:
    text = f"commit refs/heads/{branch}\nmark :{number}\ncommitter A <a@b> {1_600_000_000 + number} +0000\n"
    text += f"data {len(f'c{number}')}\nc{number}\n" + (f"from :{parent}\n" if parent else "")
    for path, content in files.items():
        mode, _, name = path.rpartition(" ")
        if mode == "160000":
            text += f"M 160000 {content} {name}\n"
        else:
            text += f"M {mode or '100644'} inline {name}\ndata {len(content.encode())}\n{content}\n"
    return text


def served(tmp_path: Path, *commits: str) -> Path:
    return imported(tmp_path / "served" / "r", "".join([*commits, "done\n"]).encode())


@pytest.fixture
def placeholders(tmp_path: Path) -> Path:
    files = {
        "data/big.bin": POINTER,
        "data/small.txt": "size 12\nnothing else\n" + "x" * 100,
        "data/about-lfs.md": "Pointers begin with\nversion https://git-lfs.github.com/spec/v1\n" + "y" * 90,
        "old.psd": POINTER.replace("git-lfs.github", "hawser.github"),
        "from-windows.bin": POINTER.replace("\n", "\r\n"),
        "extended.iso": POINTER.replace("oid", "ext-0-foo sha256:" + "cd" * 32 + "\noid"),
        ".gitmodules": MODULES,
        "160000 vendor/lib": OID,
        "160000 near": OID,
        "160000 unknown": OID,
        "120000 annexed": ".git/annex/objects/xx/yy/SHA256E-s5000000--ab.dat/SHA256E-s5000000--ab.dat",
        "120000 folder": "data",
    }
    return served(tmp_path, commit(1, "main", files))


async def test_pointers_and_submodules_are_marked_where_they_are_listed_and_read(
    here: RepositoryHouse, placeholders: Path
) -> None:
    async with here.opened("/r") as repository:
        facts = repository.facts()
        lfs = "a Git LFS pointer: the file itself (12.3 MB) is not in the repository"
        assert f"data/big.bin ({lfs})" in facts
        assert f"from-windows.bin ({lfs})" in facts
        assert "3 submodules are empty folders: " in facts
        address = here.server.url("/near.git")
        where = {
            "vendor/lib": "https://example.com/lib.git",
            "near": address,
            "unknown": "without an address",
        }
        for module, url in where.items():
            mark = f"a submodule: its files are in another repository, {url}, at the commit {OID[:12]}"
            assert f"{module} ({mark})" in facts
            read = await call(repository, "git_show", path=module)
            assert (read.ok, read.content) == (False, f"{module} is {mark}.")
            inner = await call(repository, "git_show", path=f"{module}/src/x.c")
            assert inner.content.startswith(f"{module}/src/x.c lies in a submodule. {module} is a submodule")
        top = (await call(repository, "git_show", path="")).content
        assert "commit near (a submodule: its files are in another repository, " in top
        assert "blob annexed (a link)" in top
        assert "blob extended.iso (a Git LFS pointer: the file itself (12.3 MB) is not" in top
        folder = (await call(repository, "git_show", path="data")).content
        assert "blob big.bin (a Git LFS pointer: the file itself (12.3 MB)" in folder
        assert "blob small.txt\n" in folder
        assert "blob about-lfs.md\n" in folder
        inside = (await call(repository, "git_show", path="vendor")).content
        assert (
            "commit lib (a submodule: its files are in another repository, https://example.com/lib" in inside
        )
        for path in ("data/big.bin", "extended.iso"):
            read = await call(repository, "git_show", path=path)
            assert read.content.startswith("This is a Git LFS pointer: the file itself (12.3 MB) is not in")
        annexed = await call(repository, "git_show", path="annexed")
        assert "This is a git-annex pointer: the file itself (5.0 MB) is not in" in annexed.content
        behind = await call(repository, "git_show", path="folder/small.txt")
        assert "folder is a link, which is not followed" in behind.content
        shown = await call(repository, "git_show")
        assert "are of a Git LFS pointer, not of the file itself" in shown.content


async def test_searches_name_what_they_could_not_search(here: RepositoryHouse, placeholders: Path) -> None:
    async def noted(path: str, text: str) -> Source | None:
        return None

    async with here.opened("/r") as repository:
        tools = {tool.spec.name: tool for tool in workspace_tools(here.shells[-1], noted, repository.marks)}
        big = "data/big.bin is a Git LFS pointer"
        for name, arguments, said in (
            ("grep", {"pattern": "nothing"}, (big, "vendor/lib is a submodule")),
            ("grep", {"pattern": "nothing", "path": "tree/data"}, (big,)),
            ("ls", {"path": "/workspace/tree/data"}, (big,)),
            ("find", {"pattern": "*.bin", "path": "tree"}, (big,)),
            ("read", {"path": "tree/data/big.bin"}, ("a Git LFS pointer: the file itself (12.3 MB) is",)),
            ("read", {"path": "tree/data/small.txt"}, ()),
        ):
            result = await tools[name].call(arguments)
            assert result.ok, (name, result)
            assert all(words in result.content for words in said), (name, result.content)
            assert ("Without their content" in result.content) == (name != "read")


def test_only_pointers_are_taken_for_pointers() -> None:
    for text in (
        "", "version https://git-lfs.github.com/spec/v1\n", "version 1\nsize 12\n", "x" + POINTER,
        POINTER.replace("size", "length"), "../data/annex/objects.txt", "annex/objects/x",
    ):  # fmt: skip
        assert pointer(text) == "", text
    for text in (
        POINTER, POINTER.rstrip("\n"), POINTER.replace("\n", "\r\n"), "/annex/objects/MD5-s1--abc\n",
        "../../.git/annex/objects/a/b/SHA1--x/SHA1--x",
    ):  # fmt: skip
        assert "pointer: the file itself" in pointer(text), text


@pytest.mark.parametrize(
    ("branches", "target", "taken"),
    [
        (("main", "other"), "refs/heads/master", "refs/heads/main"),
        (("gh-pages",), "refs/heads/master", "refs/heads/gh-pages"),
        (("b", "develop"), "refs/heads/gone/deep", "refs/heads/develop"),
    ],
)
async def test_a_head_without_a_branch_takes_another_one_and_says_so(
    here: RepositoryHouse, tmp_path: Path, branches: tuple[str, ...], target: str, taken: str
) -> None:
    repo = served(tmp_path, *(commit(at, name, {"f": name}) for at, name in enumerate(branches, 1)))
    git(repo, "symbolic-ref", "HEAD", target)
    for uri, more in (("/r", {}), (str(repo), {"local_allowed": True})):
        async with here.opened(uri, **more) as repository:
            facts = repository.facts()
            assert f"HEAD names {target}, which does not exist, so {taken} is used" in facts
            assert "Default branch: none" in facts
            assert all(name in facts.partition("Branches: ")[2] for name in branches)
            read = await call(repository, "git_show", path="f")
            assert f"1\t{taken.removeprefix('refs/heads/')}" in read.content
            assert any("is used unless" in step for step in here.progress)


@pytest.mark.long
async def test_a_tag_and_a_branch_of_one_name_mean_the_same_in_every_tool(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = served(
        tmp_path,
        commit(1, "main", {"f": "of the tag\n"}),
        commit(2, "v1", {"f": "of the branch\n"}, 1),
        commit(3, "main", {"f": "of main\n"}, 1),
        "tag v1\nfrom :1\ntagger A <a@b> 1600000000 +0000\ndata 2\nv1\n",
        "reset refs/tags/main\nfrom :1\n\n",
    )
    git(repo, "symbolic-ref", "HEAD", "refs/heads/v1")
    tag, branch = git(repo, "rev-parse", "refs/tags/v1^{commit}"), git(repo, "rev-parse", "refs/heads/v1")
    note = "v1 is a tag and a branch: the tag is meant. The branch is refs/heads/v1."
    for uri, more in (("/r", {}), (str(repo), {"local_allowed": True})):
        async with here.opened(uri, **more) as repository:
            assert branch[:40] in repository.facts()  # the default branch is the branch
            for name, meant in (("v1", tag), ("heads/v1", branch)):
                assert await repository.resolve(name) == meant
                assert await repository.commit(name) == meant
                if uri == "/r":
                    content = "of the tag" if meant == tag else "of the branch"
                    said = await everywhere(repository, name, content)
                    assert all((note in content) == (name == "v1") for content in said), said
            ranged = await call(repository, "git_log", ref="v1..main")
            assert note in ranged.content
            assert "main is a tag and a branch" in ranged.content
            absent = await call(repository, "git_show", ref="v1", path="nothing")
            assert note in absent.content
    async with here.opened("/r", ref="v1") as repository:
        assert tag in repository.facts()
        assert note in repository.facts()


async def everywhere(repository: Repository, ref: str, content: str) -> list[str]:
    """What each tool says about a revision; each must see the same content."""
    calls = {
        "git_show": await call(repository, "git_show", ref=ref, path="f"),
        "git_blame": await call(repository, "git_blame", ref=ref, path="f"),
        "git_diff": await call(repository, "git_diff", from_="refs/heads/main", to=ref),
    }
    for tool, result in calls.items():
        assert content in result.content, (tool, result.content)
    logged = await call(repository, "git_log", ref=ref, count=1)
    assert (": c1" in logged.content) == (content == "of the tag")
    written = await call(repository, "git_checkout", ref=ref)
    assert written.ok
    return [*(result.content for result in calls.values()), logged.content, written.content]


async def test_references_of_other_kinds_and_names_with_slashes_are_found(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = served(tmp_path, commit(1, "main", {"f": "1"}), commit(2, "feature/a/b", {"f": "2"}, 1))
    pull = git(repo, "commit-tree", "-m", "pulled", "-p", "main", "main^{tree}")
    git(repo, "update-ref", "refs/pull/7/head", pull)
    for ref in ("pull/7/head", "refs/pull/7/head"):
        async with here.opened("/r", ref=ref) as repository:
            assert f"{pull} of" in repository.facts()
    async with here.opened("/r") as repository:
        assert "pulled" in (await call(repository, "git_log", ref="pull/7/head", count=1)).content
        assert "ref refs/pull/7/head" in (await call(repository, "git_refs", filter="pull")).content
        for ref in ("feature/a/b", "origin/feature/a/b", "refs/heads/feature/a/b", "feature/a/b~0"):
            assert "c2" in (await call(repository, "git_log", ref=ref, count=1)).content
        short = await call(repository, "git_show", ref=git(repo, "rev-parse", "--short=8", "main"))
        assert "c1" in short.content
        gone = await call(repository, "git_log", ref="pull/8/head")
        assert (gone.ok, "no commit pull/8/head" in gone.content) == (False, True)
    error = await here.refusal("/r", ref="pull/8/head")
    assert "no branch or tag pull/8/head" in error.message


async def test_a_detached_head_and_loose_annotated_tags_of_a_folder_are_read(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = served(tmp_path, commit(1, "main", {"f": "1"}), commit(2, "main", {"f": "2"}, 1))
    first = git(repo, "rev-parse", "main~1")
    git(repo, "tag", "-a", "-m", "one", "v1", "main~1")
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    (repo / "refs/heads/broken").write_text("1" * 40 + "\n")
    (repo / "refs/heads/odd").write_text("not an id\n")
    for detached in (False, True):
        if detached:
            git(repo, "update-ref", "--no-deref", "HEAD", first)
        async with here.opened(str(repo), local_allowed=True) as repository:
            refs = (await call(repository, "git_refs")).content
            assert f"tag v1 {first[:12]}" in refs
            assert "branch alias" in refs
            assert "broken" not in refs
            assert any("refs/heads/broken" in step for step in here.progress)
            assert (first in repository.facts()) is detached
            assert ("Default branch: main" in repository.facts()) is not detached


async def test_a_partial_clone_of_this_machine_says_what_it_lacks(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = served(tmp_path, commit(1, "main", {"kept": "1", "gone": "2" * 200, "lost/x": "3"}))
    for name in ("main:gone", "main:lost"):
        oid = git(repo, "rev-parse", name)
        gone = repo / "objects" / oid[:2] / oid[2:]
        if not gone.exists():
            loosen(repo)
        gone.unlink()
    async with here.opened(str(repo), local_allowed=True) as repository:
        assert "were not written: the clone lacks a part of them" in repository.facts()
        assert "1\t1" in (await call(repository, "git_show", path="kept")).content
        for path in ("gone", "lost"):
            read = await call(repository, "git_show", path=path)
            assert (read.ok, "it is partial, or damaged" in read.content) == (False, True), read.content
        assert "blob gone (not in the clone)" in (await call(repository, "git_show", path="")).content


async def test_a_path_in_another_encoding_is_read_as_it_is_listed(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    repo = served(tmp_path, commit(1, "main", {"f": "1"}))
    blob = git(repo, "hash-object", "-w", "--stdin", stdin=b"words\n")
    rows = b"100644 blob %s\tcaf\xe9.txt\x00100644 blob %s\tna\xc3\xafve.txt\x00" % ((blob.encode(),) * 2)
    inner = git(repo, "mktree", "-z", stdin=rows)
    root = git(repo, "mktree", "-z", stdin=f"040000 tree {inner}\tsub\0".encode())
    git(repo, "update-ref", "refs/heads/main", git(repo, "commit-tree", "-m", "one", root))
    async with here.opened("/r") as repository:
        listed = (await call(repository, "git_show", path="sub")).content
        for name in ("caf\ufffd.txt", "naïve.txt"):
            assert f"blob {name}" in listed
            assert "1\twords" in (await call(repository, "git_show", path=f"sub/{name}")).content
        assert not (await call(repository, "git_show", path="sub/\ufffd.txt")).ok


def loosen(repo: Path) -> None:
    """Unpack the packs of a repository into loose objects."""
    for pack in list((repo / "objects" / "pack").glob("*.pack")):
        content = pack.read_bytes()
        for file in (repo / "objects" / "pack").glob(f"{pack.stem}.*"):
            file.unlink()
        git(repo, "unpack-objects", "-q", stdin=content)


async def test_a_clone_ends_in_its_time_however_the_server_drips(
    here: RepositoryHouse, tmp_path: Path
) -> None:
    served(tmp_path, commit(1, "main", {"f": "1"}))
    for path, content, kind in (
        ("/r/info/refs", CAPABILITIES, ADVERTISED),
        ("/r/git-upload-pack", line(f"{OID} HEAD\n"), RESULT),
    ):
        before = here.server.paths[path]
        here.server.paths[path] = dripping(content, kind)
        with trio.fail_after(20):
            error = await here.refusal("/r", limits=CloneLimits(time_s=0.5))
        assert "did not come within 0.5 s" in error.message
        here.server.paths[path] = before
