"""The stored repositories: whole or not there, bounded, and the tasks' copies apart from them."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rumi.tasks.research.repository.cache import CloneState, RepositoryCache
from tests.conftest import ROOT

OID = "a" * 40
KNOWN = CloneState("sha1", {"refs/heads/main": OID}, {OID}, 300, True)
PACK, IDX = f"pack-{OID}.pack", f"pack-{OID}.idx"


@contextmanager
def files(folder: Path, **contents: bytes) -> Iterator[dict[str, int]]:
    """Files that are open for reading, by their names."""
    with ExitStack() as stack:
        made = dict[str, int]()
        for number, (name, content) in enumerate(contents.items()):
            path = folder / f"file{number}"
            path.write_bytes(content)
            made[name] = stack.enter_context(path.open("rb")).fileno()
        yield made


def store(cache: RepositoryCache, key: str, folder: Path, size: int = 10) -> None:
    with files(folder, **{PACK: b"x" * size, IDX: b"y"}) as made:
        cache.store(key, KNOWN, made)


def has(cache: RepositoryCache, key: str) -> bool:
    with cache.stored(key) as stored:
        return stored is not None


def entry(cache: RepositoryCache) -> Path:
    (folder,) = (path for path in cache.folder.iterdir() if path.is_dir())
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> RepositoryCache:
    return RepositoryCache(tmp_path / "cache", 2000)


def test_what_is_stored_comes_back(cache: RepositoryCache, tmp_path: Path) -> None:
    assert not has(cache, "a")
    store(cache, "a", tmp_path)
    with cache.stored("a") as stored:
        assert stored is not None
        assert stored.known == CloneState("sha1", KNOWN.refs, frozenset({OID}), 300, True)
        assert {name: file.read() for name, file in stored.files.items()} == {PACK: b"x" * 10, IDX: b"y"}
    assert not has(cache, "b")
    assert oct(entry(cache).stat().st_mode & 0o777) == "0o700"


def test_the_least_recently_used_ones_go_first(cache: RepositoryCache, tmp_path: Path) -> None:
    for number, key in enumerate("abc"):
        store(cache, key, tmp_path, 300)
        os.utime(cache._entry(key) / "state.json", (number, number + 1))
    assert has(cache, "a")  # which is a use
    store(cache, "d", tmp_path, 300)
    assert [has(cache, key) for key in "abcd"] == [True, False, True, True]


def test_a_repository_over_the_limit_is_not_stored(cache: RepositoryCache, tmp_path: Path) -> None:
    store(cache, "a", tmp_path, 10)
    store(cache, "b", tmp_path, 5000)
    assert [has(cache, key) for key in "ab"] == [True, False]


def test_an_entry_that_is_removed_stays_readable_for_its_reader(
    cache: RepositoryCache, tmp_path: Path
) -> None:
    store(cache, "a", tmp_path, 1000)
    os.utime(cache._entry("a") / "state.json", (1, 1))
    with cache.stored("a") as stored:
        assert stored is not None
        os.utime(cache._entry("a") / "state.json", (1, 1))
        store(cache, "b", tmp_path, 1100)
        assert not has(cache, "a")
        assert stored.files[PACK].read() == b"x" * 1000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"files": {}}',
        json.dumps(
            {"format": "sha1", "refs": {}, "shallow": [], "depth": 1, "filtered": True, "files": {}}
        ).encode(),
    ],
)
def test_a_damaged_entry_is_none(cache: RepositoryCache, tmp_path: Path, content: bytes) -> None:
    store(cache, "a", tmp_path)
    (entry(cache) / "state.json").write_bytes(content)
    assert not has(cache, "a")
    store(cache, "a", tmp_path)
    assert has(cache, "a")


def test_an_entry_with_other_names_or_files_is_none(cache: RepositoryCache, tmp_path: Path) -> None:
    store(cache, "a", tmp_path)
    state = json.loads((entry(cache) / "state.json").read_text())
    wrong = [
        {**state, "files": {"../../../etc/passwd": 10}},
        {**state, "refs": {"refs/heads/main": "../x"}},
        {**state, "shallow": ["x"]},
        {**state, "format": "md5"},
        {**state, "files": {**state["files"], PACK: 9}},
    ]
    for content in wrong:
        (entry(cache) / "state.json").write_text(json.dumps(content))
        assert not has(cache, "a"), content
    (entry(cache) / "state.json").write_text(json.dumps(state))
    assert has(cache, "a")
    (entry(cache) / PACK).unlink()
    (entry(cache) / PACK).symlink_to("/etc/passwd")
    assert not has(cache, "a")


def test_only_files_of_packs_are_stored(cache: RepositoryCache, tmp_path: Path) -> None:
    with files(tmp_path, **{"../config": b"x"}) as made, pytest.raises(OSError, match="not a file of a pack"):
        cache.store("a", KNOWN, made)
    assert not has(cache, "a")


@pytest.mark.long
def test_a_process_that_is_killed_leaves_no_half_entry(tmp_path: Path) -> None:
    folder, found = tmp_path / "cache", 0
    for _ in range(25):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.tasks.research.killed_cache", str(folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        ) as storing:
            assert storing.stdout is not None
            assert storing.stdout.readline() == b"ready\n"
            try:
                storing.wait(random.uniform(0, 0.15))
            except subprocess.TimeoutExpired:
                storing.kill()
        cache = RepositoryCache(folder, 3_000_000)
        for n in range(5):
            with cache.stored(f"https://example.com/{n}") as stored:
                if stored is not None:
                    found += 1
                    letter = stored.known.refs["refs/heads/main"][0].encode()
                    contents = {file.read() for file in stored.files.values()}
                    assert len(stored.files) == 3
                    assert len(contents) == 1
                    assert set(contents.pop()) == set(letter)
    assert found > 8
    cache = RepositoryCache(folder, 3_000_000)
    store(cache, "last", tmp_path)
    assert not list(folder.glob("*/.*"))
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 3_000_000
