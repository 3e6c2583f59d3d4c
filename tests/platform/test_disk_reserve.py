"""Room that is held back, and what is large below a home: on a real small disk."""

import os
import subprocess
from pathlib import Path

import pytest

from rumi.app.disk_check import require_writable_disk
from rumi.errors import UsageError
from rumi.platform.disk_reserve import MOST_BYTES, Reserve, free_bytes, largest
from rumi.platform.home import Home


def fill(disk: Path, leave: int = 0) -> Path:
    filler = disk / "filler"
    filler.write_bytes(bytes(max(0, free_bytes(disk) - leave)))
    return filler


def test_the_reserve_is_of_real_blocks_and_is_freed_at_once(small_disk: Path) -> None:
    reserve = Reserve(small_disk / "reserve")
    before = free_bytes(small_disk)
    assert reserve.make()
    assert reserve.make(), "it is there already"
    assert before - free_bytes(small_disk) >= reserve.size > 0
    assert (small_disk / "reserve").stat().st_mode & 0o777 == 0o600
    fill(small_disk)
    assert free_bytes(small_disk) == 0
    assert reserve.give_back()
    assert free_bytes(small_disk) >= reserve.size
    assert not reserve.give_back(), "there is no second one"


def test_it_is_made_only_where_there_is_room_for_it_twice(small_disk: Path) -> None:
    reserve = Reserve(small_disk / "reserve")
    filler = fill(small_disk, leave=reserve.wanted - 8192)
    assert not reserve.make()
    filler.unlink()
    assert reserve.make()
    assert [entry.name for entry in small_disk.iterdir()] == ["reserve"]


def test_a_large_disk_gives_sixteen_megabytes(tmp_path: Path) -> None:
    assert Reserve(tmp_path / "reserve").size == MOST_BYTES


def test_a_link_in_its_place_is_replaced_and_not_followed(small_disk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    (small_disk / "reserve").symlink_to(other)
    reserve = Reserve(small_disk / "reserve")
    assert reserve.make()
    assert not (small_disk / "reserve").is_symlink()
    assert other.read_bytes() == b"mine"


def test_what_is_large_is_named_with_a_command_that_deletes_it(tmp_path: Path) -> None:
    for name, size in (("a b", 3_000_000), ("small", 1000), ("tg5", 2_000_000)):
        folder = tmp_path / "workspace" / name / "deep"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(os.urandom(size))
    (tmp_path / "workspace" / "tg5" / "link").symlink_to("/")
    (tmp_path / "cache" / "repositories").mkdir(parents=True)
    (tmp_path / "cache" / "repositories" / "pack").write_bytes(os.urandom(1_500_000))
    (tmp_path / "logs").mkdir()
    for number in (1, 2):
        (tmp_path / "logs" / f"audit.jsonl.{number}").write_bytes(os.urandom(400_000))
    (tmp_path / "state.db.before-4").write_bytes(os.urandom(900_000))
    found = largest(tmp_path, most=10)
    assert [candidate.path.name for candidate in found] == [
        "a b",
        "tg5",
        "repositories",
        "state.db.before-4",
        "*.jsonl.*",
    ]
    for candidate in found:
        subprocess.run(candidate.command, shell=True, check=True)
    assert largest(tmp_path) == []
    assert (tmp_path / "workspace" / "a b").is_dir()
    assert Path("/etc").is_dir()


def test_a_start_needs_room_and_takes_the_reserve_for_it(small_disk: Path) -> None:
    home = Home(small_disk / "home").make()
    reserve = Reserve(home.reserve)
    assert reserve.make()
    assert not require_writable_disk(home, "en")
    fill(small_disk)
    assert require_writable_disk(home, "en")
    assert not home.reserve.exists()
    (small_disk / "more").write_bytes(bytes(free_bytes(small_disk)))
    with pytest.raises(UsageError, match=r"is full\. Make room"):
        require_writable_disk(home, "en")
    assert list(home.run.iterdir()) == []


def test_a_full_disk_keeps_nobody_from_holding_the_home(small_disk: Path) -> None:
    home = Home(small_disk / "home").make()
    with home.lock("rumi chat"):
        pass
    fill(small_disk)
    with home.lock("rumi chat"):
        assert home.lock_holder()
