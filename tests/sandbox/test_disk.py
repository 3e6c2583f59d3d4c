"""The disk is bounded, a chat's part of it and the whole: every test with a box runs with both engines."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from actors import ChildSpec, Supervisor
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.cgroups import Cgroups
from rumi.sandbox.disk import LOOK_LEAST_S, Disk, DiskWatch, Running, fillers, free_on
from rumi.sandbox.engine import Command, Engine, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.use import nobody
from rumi.sandbox.workspace import measure
from tests.fakes.containers import FakeEngine
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.test_promises import World

MB = 1 << 20
LIMITS = SandboxLimits(
    memory_bytes=128 * MB,
    pids=64,
    tmp_bytes=8 * MB,
    timeout_s=15,
    output_limit=10_000,
    workspace_bytes=64 * MB,
    workspace_files=2000,
)


@pytest.fixture(scope="session")
def filler(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A program that fills a disk in every way but the plain one."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler; on Debian: apt-get install gcc libc6-dev")
    made = tmp_path_factory.mktemp("filler") / "filler"
    source = Path(__file__).parent.parent / "fakes/filler.c"
    subprocess.run([compiler, "-static", "-O1", "-o", str(made), str(source)], check=True)
    return made.read_bytes()


@asynccontextmanager
async def running(engine: Engine, home: Path, limits: SandboxLimits) -> AsyncIterator[World]:
    root = Supervisor("root")
    async with cleaned_up(engine):
        sandboxes = add_sandboxes(root, engine, limits, home)
        async with root.running():
            yield World(engine, sandboxes, home)


@pytest.fixture
async def world(make_engine: MakeEngine, new_installation: str, tmp_path: Path) -> AsyncIterator[World]:
    async with running(make_engine(LIMITS, new_installation), tmp_path / "home", LIMITS) as world:
        yield world


@pytest.fixture
def loop_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 1 GB in a file, of which root has no part to itself."""
    folder, image = tmp_path / "disk", tmp_path / "image"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(1024 * MB)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk of its own can be mounted: {error}")
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


# A chat's own limit


@pytest.mark.parametrize("way", ["nameless", "opened", "mapped", "private", "threaded", "shut"])
async def test_what_a_count_of_folders_does_not_see_is_bounded_too(
    world: World, filler: bytes, way: str
) -> None:
    world.file("filler", filler)
    free = free_on(world.home).bytes
    result = await world.run("./filler", way, "700")
    assert (result.ended, result.exit_code) == ("workspace_full", 137), result
    # What had no name is gone with its process.
    assert measure(world.sandboxes.workspace("one")).bytes < 8 * LIMITS.workspace_bytes
    assert free - free_on(world.home).bytes < 8 * LIMITS.workspace_bytes


@pytest.mark.parametrize(("way", "how"), [("fallocates", "fallocate"), ("reserves", "ioctl")])
async def test_no_command_takes_a_disk_in_one_call(world: World, filler: bytes, way: str, how: str) -> None:
    world.file("filler", filler)
    result = await world.run("./filler", way, "10000")
    assert (result.ended, result.exit_code) == ("exited", 1)
    assert result.stderr.text().startswith(f"{how}: Operation not ")
    assert measure(world.sandboxes.workspace("one")).bytes < 2 * MB


async def test_no_open_file_is_parked_in_a_socket(world: World, filler: bytes) -> None:
    world.file("filler", filler)
    result = await world.run("./filler", "in_flight", "700")
    assert (result.ended, result.exit_code) == ("exited", 1)
    assert result.stderr.text() == "sendmsg: Operation not permitted\n"


async def test_a_million_small_files_end_at_the_limit(world: World, filler: bytes) -> None:
    world.file("filler", filler)
    result = await world.run("./filler", "many", "1000")
    assert (result.ended, result.exit_code) == ("workspace_full", 137)
    assert measure(world.sandboxes.workspace("one")).files < 500_000


async def test_another_chats_growth_ends_no_command(world: World) -> None:
    # As much as the first chat may have at all is taken by the second while the first holds a nameless file.
    results = []

    async def first() -> None:
        results.append(await world.sh("exec 3> x; rm x; head -c 1000000 /dev/zero >&3; sleep 2; echo fine"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        assert (await world.sh("cat /dev/zero > x", chat="two")).ended == "workspace_full"
    assert (results[0].ended, results[0].stdout.text()) == ("exited", "fine\n")


# Set-id files


async def test_no_file_of_a_workspace_has_a_set_id_bit(world: World, filler: bytes) -> None:
    world.file("filler", filler)
    result = await world.run("./filler", "sets_ids", "0")
    said = dict(line.split(": ") for line in result.stdout.text().splitlines())
    assert said.pop("openat2") == "Function not implemented"
    assert said.pop("chmod without") == "Success"
    assert set(said.values()) == {"Operation not permitted"}, said
    assert len(said) == 9
    await world.sh("mkdir -m 2755 folder; mkdir -m 1777 sticky; find /workspace -perm /6000 > found")
    assert not [path for path in world.sandboxes.workspace("one").iterdir() if path.stat().st_mode & 0o6000]


# The whole disk


@pytest.fixture
def busy_processors() -> Iterator[None]:
    """Eight other processes that take all the processor time they get."""
    others = [subprocess.Popen(["yes"], stdout=subprocess.DEVNULL) for _ in range(8)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.long
@pytest.mark.alone
async def test_ten_chats_that_fill_the_disk_leave_the_reserve(
    make_engine: MakeEngine, new_installation: str, loop_disk: Path
) -> None:
    await fill_the_disk(make_engine, new_installation, loop_disk)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.usefixtures("busy_processors")
async def test_ten_chats_leave_the_reserve_on_a_busy_machine_too(
    make_engine: MakeEngine, new_installation: str, loop_disk: Path
) -> None:
    await fill_the_disk(make_engine, new_installation, loop_disk)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.bubblewrap
@pytest.mark.usefixtures("busy_processors")
async def test_ten_chats_leave_the_reserve_without_control_groups_too(
    new_installation: str, loop_disk: Path, tmp_path: Path
) -> None:
    none = Cgroups(new_installation, root=tmp_path / "none")

    def make(limits: SandboxLimits, installation: str) -> Engine:
        return BubblewrapEngine(tmp_path / "home", installation, limits, cgroups=none)

    await fill_the_disk(make, new_installation, loop_disk)


async def fill_the_disk(make_engine: MakeEngine, installation: str, loop_disk: Path) -> None:
    limits = replace(LIMITS, workspace_bytes=512 * MB, reserve_bytes=256 * MB, timeout_s=30)
    home = loop_disk / "home"
    home.mkdir(mode=0o700)
    least = 1024 * MB
    results = {}
    async with running(make_engine(limits, installation), home, limits) as world:

        async def fill(chat: str) -> None:
            results[chat] = await world.run("sh", "-c", "yes > x", chat=chat)

        async def look() -> None:
            nonlocal least
            while True:
                least = min(least, int(free_on(home).bytes))
                await trio.sleep(0.005)

        async def work() -> None:
            results["other"] = await world.sh(
                "for i in 1 2 3 4 5 6; do echo line >> log; sleep 0.5; done; echo fine", chat="other"
            )

        chats = [f"chat{number}" for number in range(10)]
        for chat in (*chats, "other"):
            await world.sandboxes.prepare(chat)
        async with trio.open_nursery() as watching:
            watching.start_soon(look)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
                for chat in chats:
                    nursery.start_soon(fill, chat)
            watching.cancel_scope.cancel()
        print(f"least {least / MB:.0f} MB")
        assert least > 32 * MB
        assert {results[chat].ended for chat in chats} <= {"disk_full", "workspace_full"}
        assert results["other"].stdout.text() == "fine\n"
        # The program itself goes on writing, into the reserve.
        state = max(least - 128 * MB, 1)
        assert (home / "state").write_bytes(bytes(state)) == state
        refused = await world.run("touch", "more", chat="other")
        assert (refused.ended, refused.exit_code) == ("disk_full", None)
        for chat in chats:
            assert (await world.run("rm", "-f", "x", chat=chat)).ended == "exited"
        assert (await world.run("touch", "more", chat="other")).ended == "exited"


# The watch, in virtual time


@dataclass
class FakeUse:
    bytes: int = 0
    files: int = 0
    hidden: bool = False


class FakeDisk:
    """A file system of 100 GB of which the test says what is free; the reserve is 1 GB."""

    def __init__(self) -> None:
        self.free = 50_000 * MB
        self.looks = 0

    def __call__(self, folder: Path) -> os.statvfs_result:
        self.looks += 1
        blocks = self.free // 4096
        return os.statvfs_result((4096, 4096, 25_600_000, blocks, blocks, 10**6, 10**6, 10**6, 0, 255))


class Bench:
    def __init__(self, home: Path) -> None:
        self.disk = FakeDisk()
        self.engine = FakeEngine()
        self.uses: dict[str, FakeUse] = {}
        self.measuring_s = 0.0
        self.root = Supervisor("root")
        limits = SandboxLimits(timeout_s=60, workspace_bytes=512 * MB)
        disk = Disk(home, statvfs=self.disk)
        self.sandboxes: Sandboxes = add_sandboxes(
            self.root, self.engine, limits, home, measure=self._measure, disk=disk
        )

    async def _measure(self, path: Path, processes: object) -> FakeUse:
        await trio.sleep(self.measuring_s)
        return replace(self.uses.setdefault(path.name, FakeUse()))

    async def sleep(self, chat: str, seconds: float, ended: dict[str, str]) -> None:
        result = await self.sandboxes.run(chat, Command(("sleep", str(seconds))))
        ended[chat] = result.ended

    def grow(self, chat: str, megabytes: int) -> None:
        self.uses.setdefault(chat, FakeUse()).bytes += megabytes * MB
        self.disk.free -= megabytes * MB


async def test_at_the_reserve_commands_that_grew_end_and_others_go_on(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    bench, ended = Bench(tmp_path), dict[str, str]()
    async with bench.root.running(), trio.open_nursery() as nursery:
        for chat in ("large", "larger", "small"):
            nursery.start_soon(bench.sleep, chat, 20, ended)
        await trio.sleep(5)
        bench.disk.free = 1500 * MB
        await trio.sleep(1)
        bench.grow("large", 300)
        bench.grow("larger", 320)
        bench.grow("small", 2)
        await trio.sleep(2)
        assert ended == {"large": "disk_full", "larger": "disk_full"}
    assert ended["small"] == "exited"


async def test_a_watch_that_is_late_looks_further_ahead(autojump_clock: MockClock, tmp_path: Path) -> None:
    async def free_at_the_end(lateness_s: float) -> int:
        bench, ended = Bench(tmp_path), dict[str, str]()
        async with bench.root.running(), trio.open_nursery() as nursery:
            nursery.start_soon(bench.sleep, "fills", 20, ended)
            await trio.sleep(5)
            bench.disk.free = 1400 * MB
            await trio.sleep(1)
            while not ended:
                await trio.sleep(0.01)
                bench.grow("fills", 2 + int(200 * lateness_s))  # 200 MB/s in either case
                autojump_clock.jump(lateness_s)
        assert ended == {"fills": "disk_full"}
        return bench.disk.free

    assert await free_at_the_end(0) < 1050 * MB
    assert await free_at_the_end(0.4) > 1050 * MB


async def test_a_wait_that_begins_between_two_looks_brings_the_next_one_forward(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    disk, root = Disk(tmp_path, statvfs=FakeDisk()), Supervisor("root")
    root.add(ChildSpec("disk", lambda: DiskWatch(disk, measure)))
    async with root.running():
        with disk.runs(Running(tmp_path, nobody, FakeUse(), lambda why: None)):
            await trio.sleep(0.02)  # the next look would come in LOOK_LONGEST_S
            since, began = disk.look(), trio.current_time()
            await disk.until_taken(since, 0, 0, seconds=60)
            assert trio.current_time() - began <= LOOK_LEAST_S


async def test_no_command_begins_while_the_others_are_paused(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    bench, ended = Bench(tmp_path), dict[str, str]()
    async with bench.root.running(), trio.open_nursery() as nursery:
        await bench.sleep("late", 0, {})
        bench.engine.commands.clear()
        nursery.start_soon(bench.sleep, "fills", 20, ended)
        await trio.sleep(5)
        bench.disk.free, bench.measuring_s = 1500 * MB, 0.5
        bench.grow("fills", 490)
        await trio.sleep(0.4)  # the look at the disk, and into the pause
        bench.disk.free = 2000 * MB
        nursery.start_soon(bench.sleep, "late", 0, ended)
        await trio.sleep(0.1)
        assert bench.engine.commands == [("fills", "sleep")]
        await trio.sleep(1)
        assert bench.engine.commands == [("fills", "sleep"), ("late", "sleep")]
        assert ended == {"fills": "disk_full", "late": "exited"}


async def test_another_program_that_fills_the_disk_ends_no_command(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    bench, ended = Bench(tmp_path), dict[str, str]()
    async with bench.root.running(), trio.open_nursery() as nursery:
        nursery.start_soon(bench.sleep, "idle", 20, ended)
        for _ in range(10):
            await trio.sleep(1)
            bench.disk.free = max(bench.disk.free - 8_000 * MB, 0)
        assert bench.disk.free == 0
        assert (await bench.sandboxes.run("other", Command(("say", "x")))).ended == "disk_full"
    assert ended["idle"] == "exited"


async def test_what_cannot_be_counted_counts_as_what_the_disk_lost(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    bench, ended = Bench(tmp_path), dict[str, str]()
    async with bench.root.running(), trio.open_nursery() as nursery:
        for chat in ("hides", "shows"):
            nursery.start_soon(bench.sleep, chat, 20, ended)
        await trio.sleep(3)
        bench.uses["hides"].hidden = True
        for _ in range(3):
            bench.disk.free -= 200 * MB
            await trio.sleep(1.5)
        assert ended == {"hides": "workspace_full"}
    assert ended["shows"] == "exited"


async def test_where_nothing_runs_nobody_looks(autojump_clock: MockClock, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.root.running():
        await bench.sleep("a", 1, {})
        looks = bench.disk.looks
        await trio.sleep(1000)
    assert bench.disk.looks == looks
    assert looks < 100


def test_the_default_reserve_is_a_tenth_and_at_most_a_gigabyte(tmp_path: Path) -> None:
    def small(_: Path) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 500_000, *[400_000] * 2, 1000, *[900] * 2, 0, 255))

    assert free_on(tmp_path, statvfs=FakeDisk()).reserve_bytes == 1024 * MB
    assert free_on(tmp_path, statvfs=small).reserve_bytes == 50_000 * 4096
    assert free_on(tmp_path, 7, statvfs=small).reserve_bytes == 7
    assert free_on(tmp_path, 0, statvfs=small).reserve_files == 0
    assert free_on(tmp_path, statvfs=small).reserve_files == 100
    assert free_on(tmp_path / "not" / "yet", statvfs=small).bytes == 400_000 * 4096


async def test_growth_is_judged_against_the_largest() -> None:
    def command(was: int, now: int, files: int = 0) -> tuple[Running, FakeUse]:
        made = Running(Path("/"), nobody, FakeUse(was * MB), lambda _: None)
        use = FakeUse(now * MB, files)
        made.looked(use)
        return made, use

    largest, large, small, still, many = (
        command(0, 400), command(100, 200), command(0, 10), command(300, 300), command(0, 0, 5000),
    )  # fmt: skip
    assert fillers(dict([largest, large, small, still])) == {largest[0], large[0]}
    assert fillers(dict([small, still])) == {small[0]}
    assert fillers(dict([still])) == set()
    assert fillers(dict([still, many])) == {many[0]}
    assert fillers({}) == set()


async def test_the_watch_says_what_is_free_and_what_is_kept(tmp_path: Path) -> None:
    watch = DiskWatch(Disk(tmp_path, statvfs=FakeDisk()), lambda *_: pytest.fail("nothing runs"))
    metrics = watch.metrics()
    assert (metrics["free_bytes"], metrics["reserve_bytes"]) == (50_000 * MB, 1024 * MB)
    assert watch.activity() == ""
