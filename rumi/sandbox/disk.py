"""The disk watch: it preserves a reserve of free space on the workspaces' file system.

Each chat has its own limit, but ten chats together, or one whose files cannot be counted, could still fill
the disk that Rumi itself writes to. So while commands run, the watch polls the free space: the closer it is
to the reserve, the more often. When only the reserve is left, the watch pauses all commands for a moment and
measures the disk use of each. Then it ends the commands that grew most; the others continue.
"""

import contextlib
import logging
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never, TypeAlias

import trio

from actors import Actor
from rumi.sandbox.engine import Ending
from rumi.sandbox.use import Measure, Processes, Use, nobody, signal_all

log = logging.getLogger("rumi.sandbox")

MEGA = 1024 * 1024
MOST_RESERVED_BYTES = 1024 * MEGA
MOST_RESERVED_FILES = 10_000
RESERVED_PART = 10
"""The default reserve is a tenth of the file system, but at most `MOST_RESERVED_BYTES` and
`MOST_RESERVED_FILES`."""

LOOK_LEAST_S, LOOK_LONGEST_S = 0.02, 0.25
FASTEST_BYTES_PER_S, FASTEST_FILES_PER_S = 8e9, 400_000
"""Upper bounds of the rates at which one machine's commands write; they decide when to poll next."""
AHEAD_S = 0.04
"""Look-ahead in seconds: the watch acts if, at the rate since the last poll, the reserve will be touched
within this time. Twice the lateness of the last poll is added, because on a busy machine the next poll and
the pause will be late too."""
PAUSED_S = 1.0
"""Maximum pause of commands, in seconds; a workspace that takes longer is measured at the next pause."""
STEPS = 8
"""Once the reserve is touched, commands are paused again whenever another eighth of it is lost."""
GROWTH_BYTES, GROWTH_FILES, GROWTH_S = MEGA, 64, 1.0
"""If commands together grow by less than this within `GROWTH_S` (or twice that), they don't fill the disk."""

Statvfs: TypeAlias = Callable[[Path], os.statvfs_result]


@dataclass(frozen=True, slots=True)
class Free:
    """The reserve, and the free bytes and files for ordinary users. `files` is inf if there is no limit."""

    bytes: float
    files: float
    reserve_bytes: int
    reserve_files: int

    @property
    def low(self) -> bool:
        """Return True if less than the reserve is free."""
        return self.bytes < self.reserve_bytes or self.files < self.reserve_files

    def after(self, seconds: float, earlier: "Free", elapsed_s: float) -> "Free":
        """Estimate the free space in `seconds`, from the rate of loss since the `earlier` poll."""
        pace = seconds / elapsed_s if elapsed_s > 0 else 0
        return Free(
            self.bytes - max(earlier.bytes - self.bytes, 0) * pace,
            self.files - (max(earlier.files - self.files, 0) * pace if self.files < math.inf else 0),
            self.reserve_bytes,
            self.reserve_files,
        )


def free_on(folder: Path, reserve_bytes: int | None = None, statvfs: Statvfs = os.statvfs) -> Free:
    """Return the free space of the file system of a folder, or of its first existing parent.

    `reserve_bytes` None means the default reserve; 0 means no reserve of bytes or files. Blocks for
    microseconds.

    Raises:
        OSError: The file system cannot be queried.
    """
    metrics = statvfs(
        next(ancestor for ancestor in (folder, *folder.absolute().parents) if ancestor.exists())
    )
    if reserve_bytes is None:
        reserve_bytes = min(MOST_RESERVED_BYTES, metrics.f_blocks * metrics.f_frsize // RESERVED_PART)
    return Free(
        metrics.f_bavail * metrics.f_frsize,
        metrics.f_favail if metrics.f_files else math.inf,
        reserve_bytes,
        min(MOST_RESERVED_FILES, metrics.f_files // RESERVED_PART) if reserve_bytes else 0,
    )


@dataclass(slots=True, eq=False)
class Running:
    """A running command, as the disk watch sees it."""

    workspace: Path
    processes: Processes
    use: Use
    """The disk use of the command's workspace at the last measurement."""
    end: Callable[[Ending], object]
    earlier: Use = field(init=False)
    """The disk use one or two seconds before the last measurement, or at the start of the command."""
    hides: bool = field(init=False, default=False)
    """True if two successive measurements could not count everything. A single incomplete one may be due to a
    process that was just starting."""
    _later: tuple[Use, float] = field(init=False)

    def __post_init__(self) -> None:
        self.earlier, self._later = self.use, (self.use, trio.current_time())

    def looked(self, use: Use) -> None:
        """Store a measurement of the workspace."""
        later, at = self._later
        if trio.current_time() - at >= GROWTH_S:
            self.earlier, self._later = later, (use, trio.current_time())
        self.hides = self.use.hidden and use.hidden
        self.use = use


@dataclass(slots=True, eq=False)
class _Waiter:
    bytes: float
    files: float
    reached: trio.Event = field(default_factory=trio.Event)


class Disk:
    """The file system that all commands share, and the running commands. `DiskWatch` polls its free space."""

    def __init__(
        self, folder: Path, reserve_bytes: int | None = None, *, statvfs: Statvfs = os.statvfs
    ) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._statvfs = statvfs
        self._last = Free(math.inf, math.inf, 0, 0)
        self._waiting = set[_Waiter]()
        self._begun = trio.Event()
        self._waited_for = trio.Event()
        self.running = set[Running]()
        self.pausing = trio.Lock()
        """Held while the commands are paused and measured, so that no command starts in the meantime."""

    def look(self) -> Free:
        """Return the current free space; the last known one if the file system does not report it."""
        with contextlib.suppress(OSError):
            self._last = free_on(self._folder, self._reserve_bytes, self._statvfs)
        return self._last

    @contextlib.contextmanager
    def runs(self, command: Running) -> Iterator[None]:
        """Register the command as running during the block."""
        self.running.add(command)
        self._begun.set()
        try:
            yield
        finally:
            self.running.discard(command)
            if not self.running:
                self._begun = trio.Event()

    async def something_runs(self) -> None:
        """Wait until a command runs."""
        await self._begun.wait()

    async def until_taken(self, since: Free, left_bytes: float, left_files: float, seconds: float) -> None:
        """Wait for at most `seconds` until chats have used `left_bytes` or `left_files` since `since`."""
        waiter = _Waiter(since.bytes - left_bytes, since.files - left_files)
        self._waiting.add(waiter)
        self._waited_for.set()
        try:
            with trio.move_on_after(seconds):
                await waiter.reached.wait()
        finally:
            self._waiting.discard(waiter)

    async def until_waited_for(self) -> None:
        """Wait until a task starts to wait in `until_taken`, because the next poll may then be due sooner."""
        self._waited_for = trio.Event()
        await self._waited_for.wait()

    def wake_waiters(self, free: Free) -> float:
        """Wake the tasks whose limit is reached; return the seconds until the next poll."""
        files = free.files if free.files < math.inf else 0  # inf - inf is not a number
        bytes_left, files_left = free.bytes - free.reserve_bytes, free.files - free.reserve_files
        for waiter in self._waiting:
            if free.bytes <= waiter.bytes or files < waiter.files < math.inf:
                waiter.reached.set()
            else:
                bytes_left = min(bytes_left, free.bytes - waiter.bytes)
                files_left = min(files_left, files - waiter.files if waiter.files < math.inf else math.inf)
        soon = min(bytes_left / FASTEST_BYTES_PER_S, files_left / FASTEST_FILES_PER_S)
        return min(max(soon, LOOK_LEAST_S), LOOK_LONGEST_S)


class DiskWatch(Actor[Never]):
    """Actor that polls the disk while commands run, wakes waiting tasks, and preserves the reserve."""

    def __init__(self, disk: Disk, measure: Measure) -> None:
        self._disk = disk
        self._measure = measure
        self._passed: Free | None = None
        self._ended = 0

    async def started(self) -> None:
        """Start the polling task."""
        self.start_soon(self._watch)

    def activity(self) -> str:
        """Return the free space as text if it is less than the reserve, otherwise ""."""
        free = self._disk.look()
        return f"{free.bytes / MEGA:.0f} MB free, too few" if free.low else ""

    def metrics(self) -> dict[str, object]:
        """Return the free and reserved space, and the number of commands ended to preserve the reserve."""
        free = self._disk.look()
        files = None if free.files == math.inf else free.files
        return {
            "free_bytes": free.bytes,
            "reserve_bytes": free.reserve_bytes,
            "free_files": files,
            "reserve_files": free.reserve_files,
            "running": len(self._disk.running),
            "ended": self._ended,
        }

    async def _watch(self) -> None:
        last, at, late = self._disk.look(), trio.current_time(), 0.0
        while True:
            await self._disk.something_runs()
            free, now = self._disk.look(), trio.current_time()
            pause = self._disk.wake_waiters(free)
            if self._must_act(free, free.after(AHEAD_S + 2 * late, last, now - at)):
                async with self._disk.pausing:
                    await self._end_growing_commands(free)
                # Poll again: the commands wrote until they were paused, and those that continue write again.
                free, now = self._disk.look(), trio.current_time()
                pause = self._disk.wake_waiters(free)
            last, at = free, now
            due = trio.current_time() + pause
            with trio.move_on_at(due) as slept:
                await self._disk.until_waited_for()
            if slept.cancelled_caught:
                late = trio.current_time() - due

    def _must_act(self, free: Free, soon: Free) -> bool:
        if not soon.low:
            self._passed = None
            return False
        if (passed := self._passed) is None:
            return True
        bytes_step = max(free.reserve_bytes // STEPS, GROWTH_BYTES)
        files_step = max(free.reserve_files // STEPS, GROWTH_FILES)
        return free.bytes <= passed.bytes - bytes_step or free.files <= passed.files - files_step

    async def _end_growing_commands(self, free: Free) -> None:
        """Pause all commands, measure each, end those that grew, and resume the others."""
        self._passed = free
        running = tuple(self._disk.running)
        doomed = set[Running]()
        try:
            visible = [command for command in running if command.processes is not nobody]
            restless = await trio.to_thread.run_sync(_pause, visible) if visible else set()
            counted = dict[Running, Use]()
            with trio.move_on_after(PAUSED_S):
                async with trio.open_nursery() as nursery:
                    for command in running:
                        nursery.start_soon(self._count, command, counted)
            # With half of the reserve gone, commands that could not be measured in time are ended as well:
            # waiting for the next pause could let them use up the rest.
            urgent = free.bytes < free.reserve_bytes / 2 or free.files < free.reserve_files / 2
            # Processes that multiply faster than they can be paused write during the measurement, so their
            # command is ended without a comparison.
            doomed = fillers(counted) | restless
            if urgent:
                doomed |= {command for command in running if command not in counted}
            for command in doomed:
                self._ended += 1
                command.end("disk_full")
            if doomed:
                chats = ", ".join(sorted(command.workspace.name for command in doomed))
                log.warning("The disk has %.0f MB left: ended the commands of %s", free.bytes / MEGA, chats)
        finally:
            for command in running:  # even after an error or a cancellation, no process may stay paused
                signal_all(command.processes, signal.SIGKILL if command in doomed else signal.SIGCONT)

    async def _count(self, command: Running, counted: dict[Running, Use]) -> None:
        counted[command] = await self._measure(command.workspace, command.processes)
        command.looked(counted[command])


def _pause(running: Sequence[Running]) -> set[Running]:
    """Pause commands; return those that start processes faster than they can be paused. Blocks briefly."""
    return {command for command in running if not signal_all(command.processes, signal.SIGSTOP)}


def fillers(counted: dict[Running, Use]) -> set[Running]:
    """Return those of the paused and measured commands that fill the disk, and are to be ended.

    These are the commands that grew most since their last measurement, and those whose workspace may use more
    space than could be counted. Commands that grew by less than an eighth of the largest growth are left out:
    they run again until the next measurement.
    """
    bytes_by = {command: use.bytes - command.earlier.bytes for command, use in counted.items()}
    files_by = {command: use.files - command.earlier.files for command, use in counted.items()}
    found = {command for command in counted if command.hides}
    for grown, least in ((bytes_by, GROWTH_BYTES), (files_by, GROWTH_FILES)):
        bound = max(least // max(len(grown), 1), max(grown.values(), default=0) // STEPS)
        found |= {command for command, growth in grown.items() if growth >= bound}
    return found
