"""The file system of the workspaces, and its reserve, which no command may take.

A chat's limit bounds that chat; ten chats, or one whose files cannot be counted, could still fill the disk
that the program itself writes to. So while commands run, the free space is looked at often: the closer it
comes to the reserve, the more often. There, all commands are paused for a moment, so that what each of them
takes can be counted while nothing grows. Those that grew are ended, the largest first; the others go on.
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
"""By default the reserve is a tenth of the file system, and at most the above."""

LOOK_LEAST_S, LOOK_LONGEST_S = 0.02, 0.25
FASTEST_BYTES_PER_S, FASTEST_FILES_PER_S = 8e9, 400_000
"""More than commands of one machine write in practice: it says when to look next."""
AHEAD_S = 0.04
"""The reserve counts as touched when it will be after this time, at the pace of the last look. Twice the last
look's lateness is added: on a busy machine the next look and the pause come as late."""
PAUSED_S = 1.0
"""The longest pause of commands; a workspace that takes longer to count is counted next time."""
STEPS = 8
"""Once it is touched, each eighth of the reserve that goes brings the next pause."""
GROWTH_BYTES, GROWTH_FILES, GROWTH_S = MEGA, 64, 1.0
"""Commands that together grew by less, in that time or in twice that, do not fill the disk."""

Statvfs: TypeAlias = Callable[[Path], os.statvfs_result]


@dataclass(frozen=True, slots=True)
class Free:
    """The free part of a file system for ordinary users, and the reserve. `files` inf: it has no limit."""

    bytes: float
    files: float
    reserve_bytes: int
    reserve_files: int

    @property
    def low(self) -> bool:
        """Return True if the reserve is touched."""
        return self.bytes < self.reserve_bytes or self.files < self.reserve_files

    def after(self, seconds: float, earlier: "Free", elapsed_s: float) -> "Free":
        """Return what will be free after so many seconds at the pace since the earlier look."""
        pace = seconds / elapsed_s if elapsed_s > 0 else 0
        return Free(
            self.bytes - max(earlier.bytes - self.bytes, 0) * pace,
            self.files - (max(earlier.files - self.files, 0) * pace if self.files < math.inf else 0),
            self.reserve_bytes,
            self.reserve_files,
        )


def free_on(folder: Path, reserve_bytes: int | None = None, statvfs: Statvfs = os.statvfs) -> Free:
    """Return what is free on the file system of a folder, or of its first parent that exists. Microseconds.

    `reserve_bytes` None is the default reserve; 0 is no reserve of bytes or files. Raises OSError.
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
    """A command that runs."""

    workspace: Path
    processes: Processes
    use: Use
    """What its workspace held at the last look."""
    end: Callable[[Ending], object]
    earlier: Use = field(init=False)
    """What it held a second or two before, if it was running then."""
    hides: bool = field(init=False, default=False)
    """Whether two looks in a row could not count all: one may have met a process that was just beginning."""
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
    """The file system as commands share it. `DiskWatch` looks at it for all of them."""

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
        """Held while the commands are paused and counted: no command begins meanwhile."""

    def look(self) -> Free:
        """Return what is free now, or what was free at the last look if the file system does not tell."""
        with contextlib.suppress(OSError):
            self._last = free_on(self._folder, self._reserve_bytes, self._statvfs)
        return self._last

    @contextlib.contextmanager
    def runs(self, command: Running) -> Iterator[None]:
        """Count the command as running during the block."""
        self.running.add(command)
        self._begun.set()
        try:
            yield
        finally:
            self.running.discard(command)
            if not self.running:
                self._begun = trio.Event()

    async def something_runs(self) -> None:
        """Return when a command runs."""
        await self._begun.wait()

    async def until_taken(self, since: Free, left_bytes: float, left_files: float, seconds: float) -> None:
        """Return when commands of any chat have taken so much since then, at the latest after `seconds`."""
        waiter = _Waiter(since.bytes - left_bytes, since.files - left_files)
        self._waiting.add(waiter)
        self._waited_for.set()
        try:
            with trio.move_on_after(seconds):
                await waiter.reached.wait()
        finally:
            self._waiting.discard(waiter)

    async def until_waited_for(self) -> None:
        """Return when a task begins to wait: the next look may have to come sooner."""
        self._waited_for = trio.Event()
        await self._waited_for.wait()

    def wake_waiters(self, free: Free) -> float:
        """Wake the tasks that wait for so little to be free; return the seconds until the next look."""
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
    """Looks at the disk while commands run, wakes their watches, and keeps the reserve."""

    def __init__(self, disk: Disk, measure: Measure) -> None:
        self._disk = disk
        self._measure = measure
        self._passed: Free | None = None
        self._ended = 0

    async def started(self) -> None:
        """Begin to look."""
        self.start_soon(self._watch)

    def activity(self) -> str:
        """Return what is free, if that is too little."""
        free = self._disk.look()
        return f"{free.bytes / MEGA:.0f} MB free, too few" if free.low else ""

    def metrics(self) -> dict[str, object]:
        """Return what is free, what is reserved, and how many commands were ended for the reserve."""
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
                # They wrote until they were paused, and those that go on write again.
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
        """Pause all commands, count what each takes, end those that grew; the others go on."""
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
            urgent = free.bytes < free.reserve_bytes / 2 or free.files < free.reserve_files / 2
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
            for command in running:  # whatever happened, nothing stays paused
                signal_all(command.processes, signal.SIGKILL if command in doomed else signal.SIGCONT)

    async def _count(self, command: Running, counted: dict[Running, Use]) -> None:
        counted[command] = await self._measure(command.workspace, command.processes)
        command.looked(counted[command])


def _pause(running: Sequence[Running]) -> set[Running]:
    """Pause commands; return those that start processes faster than they can be paused. Blocking, briefly."""
    return {command for command in running if not signal_all(command.processes, signal.SIGSTOP)}


def fillers(counted: dict[Running, Use]) -> set[Running]:
    """Return the measured commands that fill the disk: they grew most lately, or hide what they take.

    Commands that grew by less than an eighth of the largest growth go on until the next step.
    """
    bytes_by = {command: use.bytes - command.earlier.bytes for command, use in counted.items()}
    files_by = {command: use.files - command.earlier.files for command, use in counted.items()}
    found = {command for command in counted if command.hides}
    for grown, least in ((bytes_by, GROWTH_BYTES), (files_by, GROWTH_FILES)):
        bound = max(least // max(len(grown), 1), max(grown.values(), default=0) // STEPS)
        found |= {command for command, growth in grown.items() if growth >= bound}
    return found
