"""The keeper of a chat's sandbox: holds its /tmp, starts each command, and ends everything with Rumi.

This is a program, not a module of Rumi: it runs as `python -I -S keeper.py KEY=VALUE…` and imports nothing of
Rumi, so that it starts in some milliseconds and has no path from which to load code. Therefore it is a single
file. It runs as two processes:

- The outer process waits until Rumi or the inner process ends. Then it kills the inner process, waits for its
  end, and removes the control group.
- The inner process, the keeper proper, is the first process of a pid namespace. When it ends, for any
  reason, the kernel kills all its descendants, even a child of bubblewrap that has not registered its
  parent yet. It creates a mount namespace with the root file system, the workspace, the folder of skills
  and the chat's /tmp, gives up root if it runs as root, creates a network namespace with a loopback device
  alone, and then serves requests on a socket (SOCK_SEQPACKET, with file descriptors attached):

      join  descriptors of the control group, to which a process writes `0` to join it
      run   (the message ends with a number) words (of the command; its sandbox is set up in advance), stdin,
            stdout, stderr, reply
      end   (the message ends with the number of a command) reply
      kill  reply
      beat  (the message ends with a number): a heartbeat of the sandbox's lease

The answer to `run` is the exit code, sent when no process of the command is left; the answer to `end` and
`kill` is `clean`. Up to `MOST` commands run at the same time. The keeper is outside of the sandboxes:
commands see neither the keeper nor one another. Orphaned processes of a sandbox become children of the
keeper, so "no child is left" (for one command: none but the first processes of the others) is the kernel's
proof that no process runs.

If a sandbox has a lease (`lease_ns`, `until_ns`), a kernel timer ends the sandbox when the lease expires,
regardless of what its parent does. A heartbeat sets the timer to the expiry time that it contains
(nanoseconds of CLOCK_BOOTTIME), so a late heartbeat does not prolong the lease. No command has access to the
socket. If the lease ends a command, the answer to its `run` is `lease`.
"""

import _socket
import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import struct
import sys
import time

BASE = "/tmp"  # any folder would do: only this process and its children see what is mounted here
INIT = "/usr/lib/rumi/init"  # the first process of each sandbox: see runner/init.c
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
CLOCK_BOOTTIME, TIMER_ABSTIME = 7, 1
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
INTERFACE = "16sH22x"  # struct ifreq: a name and flags
REMOVAL_S = 2.0
MOST = 16  # commands at the same time, and a sandbox that waits for its command

WAIT_FOR_WORDS = """
mapfile -t -d '' -u 3 words; exec 3<&-
[ "${#words[@]}" = "${words[0]}" ] || exit 125
( exec %s>&-; exec -- "${words[@]:1:${#words[@]}-2}" )
exit $?
"""
"""Script of a sandbox's first process if the host has no compiler. A shell, which commands cannot read, takes
the command from a pipe and runs it. For a missing program it prints the usual message and exits with 127."""
libc = ctypes.CDLL(None, use_errno=True)


class StepError(Exception):
    """A failed step; its text is sent to the process that started the keeper."""


def call(what: str, result: int) -> int:
    """Return the result of a libc call; raise StepError with its errno if the call failed."""
    if result < 0:
        raise StepError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2)."""
    words = [os.fsencode(word) for word in (source, target, kind)]
    call(f"mount {target}", libc.mount(*words, ctypes.c_ulong(flags), data.encode()))


def enter_user_namespace(uid: int, gid: int, flags: int) -> None:
    """Enter a user namespace that contains only the current user, under the ids `uid` and `gid`."""
    host_ids = os.geteuid(), os.getegid()
    call("user namespace", libc.unshare(flags | CLONE_NEWUSER))
    maps = {"uid_map": f"{uid} {host_ids[0]} 1", "gid_map": f"{gid} {host_ids[1]} 1"}
    for name, text in {"setgroups": "deny", **maps}.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def join_holder(pid: str) -> None:
    """Enter the namespaces of the process that holds the chat's mount; it is a child of this one's parent."""
    kinds = ("mnt",) if os.geteuid() == 0 else ("user", "mnt")
    spaces = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for space in spaces:
        call("namespaces of the folder", libc.setns(space, 0))
        os.close(space)


def make_base(settings: dict[str, str]) -> None:
    """Mount the commands' folders and programs below `BASE`, because commands must not reach the home."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)  # bubblewrap looks its child up there
    # Opened before BASE is mounted over, because the originals may be below it.
    folder = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    sources = {name: os.open(settings[name], folder) for name in ("rootfs", "workspace", "skills")}
    programs = {}
    for name in ("bwrap", "libcap", "init"):
        if settings[name]:
            with open(settings[name], "rb") as file:
                programs["init" if name == "init" else os.path.basename(settings[name])] = file.read()
    mount("none", BASE, "tmpfs", MS_NOSUID | MS_NODEV, "size=8m,nr_inodes=64,mode=0755")
    for name, source in sources.items():
        os.mkdir(f"{BASE}/{name}")
        mount(f"/proc/self/fd/{source}", f"{BASE}/{name}", "", MS_BIND | MS_REC)
        os.close(source)
    os.mkdir(f"{BASE}/tmp")
    inodes = max(1024, int(settings["tmp_bytes"]) // 8192)
    bounds = f"size={settings['tmp_bytes']},nr_inodes={inodes},mode=1777"
    mount("none", f"{BASE}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, bounds)
    for name, content in programs.items():
        with open(f"{BASE}/{name}", "wb") as file:
            file.write(content)
        # The first process is executable but not readable: the kernel then denies processes of the same user
        # access to it.
        os.chmod(f"{BASE}/{name}", 0o111 if name == "init" else 0o755)


def start_loopback() -> None:
    """Bring up `lo`, the only device of the new network namespace. The kernel gives it 127.0.0.1 and ::1."""
    device = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(device.fileno(), SIOCSIFFLAGS, struct.pack(INTERFACE, b"lo", IFF_UP))
    device.close()
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as file:
        file.write("0")  # as in a container of Docker: any port, because all of them are the chat's own


def settle(settings: dict[str, str], outer: int) -> None:
    """Create the namespaces, become the sandbox's user, and make this process end with the outer one.

    `outer` is a pipe whose other end only the outer process has.
    """
    uid, gid = int(settings["uid"]), int(settings["gid"])
    call("mount namespace", libc.unshare(CLONE_NEWNS))
    make_base(settings)
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # After the change of the user, root owns this process's /proc files, including its uid_map.
        call("dumpable", libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        enter_user_namespace(uid, gid, 0)
    # In the user namespace, so that it owns the network: commands are in a namespace below, without rights.
    call("network namespace", libc.unshare(CLONE_NEWNET))
    start_loopback()
    os.chdir("/")
    call("no new privileges", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    end_with_parent()  # last, because a change of the user clears it
    if select.select([outer], [], [], 0)[0]:
        os._exit(1)  # the outer process had ended before


def end_with_parent() -> None:
    """Have the kernel kill this process when the parent ends. Callers check that the parent still runs."""
    call("parent death signal", libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def bwrap_flags(settings: dict[str, str]) -> list[str]:
    """Return bubblewrap's flags for a command: new namespaces and only the allowed paths.

    Only the network namespace is the keeper's, because the container's commands share their loopback.
    """
    shm = str(int(settings["tmp_bytes"]) // 4)
    flags = ["--unshare-all", "--share-net", "--unshare-user", "--disable-userns", "--die-with-parent"]
    flags.append("--new-session")
    flags += ["--uid", settings["uid"], "--gid", settings["gid"], "--hostname", "rumi", "--cap-drop", "ALL"]
    flags += ["--ro-bind", f"{BASE}/rootfs", "/", "--proc", "/proc"]
    # bubblewrap's /dev is a tmpfs without a size limit: make it read-only, and limit its writable /dev/shm.
    flags += ["--dev", "/dev", "--size", shm, "--perms", "1777", "--tmpfs", "/dev/shm"]
    flags += ["--remount-ro", "/dev"]
    flags += ["--bind", f"{BASE}/tmp", "/tmp", "--bind", f"{BASE}/workspace", "/workspace"]
    flags += ["--ro-bind", f"{BASE}/skills", "/skills"]
    flags += ["--chdir", "/workspace", "--clearenv", "--sync-fd", settings["life_fd"]]
    for variable in ("PATH=/usr/bin:/bin", *settings["environment"].split("\n")):
        flags += ["--setenv", *variable.split("=", 1)]
    if settings["seccomp_fd"]:
        flags += ["--seccomp", settings["seccomp_fd"]]
    return flags


def limit(settings: dict[str, str]) -> None:
    """Set the resource limits that need no control groups. They limit each process (NPROC: the sandbox)."""
    bounds = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 1024)]
    bounds.append((resource.RLIMIT_FSIZE, int(settings["file_bytes"])))
    if settings["process_bytes"]:
        bounds.append((resource.RLIMIT_AS, int(settings["process_bytes"])))
    if settings["processes"]:
        bounds.append((resource.RLIMIT_NPROC, int(settings["processes"])))
    for kind, bound in bounds:
        _, hard = resource.getrlimit(kind)
        most = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (most, most))


def first_process(settings: dict[str, str]) -> list[str]:
    """Return bubblewrap's arguments for the first process, which waits for its command and then runs it."""
    words = ["--as-pid-1", "--ro-bind", f"{BASE}/init", INIT]
    if not settings["compiled"]:
        return [*words, "--", INIT, "-c", WAIT_FOR_WORDS % settings["life_fd"], "bash"]
    # Without control groups: the kernel compares nice values only within a session, and weighs sessions.
    weight = [] if settings["nice"] == "0" else [settings["nice"]]
    return [*words, "--argv0", settings["name"], "--", INIT, "once", *weight]


def start(settings: dict[str, str], members: list[int], fds: list[int]) -> int:
    """Start a sandbox for a command; return the pid of its bubblewrap. Raise StepError if that fails."""
    heard = os.pipe()
    argv = [settings["name"], *bwrap_flags(settings), *first_process(settings)]
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent()  # the kernel also ends this process with the namespace's first one
            os.setsid()
            for member in members:
                os.write(member, b"0")
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # if memory is short, the host's kernel kills these processes first
            os.nice(int(settings["nice"]))
            limit(settings)
            for number, fd in enumerate([*fds[1:4], fds[0]]):
                os.dup2(fd, number)
            if settings["seccomp_fd"]:
                # Opened again: sandboxes that start at the same time must not share a position in the file.
                program = os.open(f"/proc/self/fd/{settings['seccomp_fd']}", os.O_RDONLY)
                os.dup2(program, int(settings["seccomp_fd"]))
            os.set_inheritable(int(settings["life_fd"]), True)
            os.execve(BASE + "/bwrap", argv, {"LD_LIBRARY_PATH": BASE})
        except BaseException as error:  # noqa: BLE001 - this is another process, and it ends here
            os.write(heard[1], f"{type(error).__name__}: {error}".encode())
        os._exit(126)
    os.close(heard[1])
    trouble = os.read(heard[0], 4096)  # empty once bubblewrap runs, because exec closes the pipe
    os.close(heard[0])
    if trouble:
        os.waitpid(pid, 0)
        raise StepError(trouble.decode())
    return pid


def kill_everything(watched: int | None = None) -> int:
    """Kill all descendants; when none is left, return the exit code of the process with the watched pid.

    No child means no descendant: the kernel reports the end of a namespace's first process only after all
    processes of that namespace have ended.
    """
    code, wait = 128 + signal.SIGKILL, 0.0002
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid and pid == watched:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code
        if not pid:
            with contextlib.suppress(ProcessLookupError):  # all have ended and are reaped in the next round
                os.kill(-1, signal.SIGKILL)  # all other processes of this namespace
            time.sleep(wait)
            wait = min(wait * 2, 0.05)


def children() -> list[int]:
    """Return the pids of this process's children, which include those whose parents have ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
    return found


def end_one(watched: int, kept: set[int]) -> int:
    """Kill one sandbox; when nothing of it is left, return its exit code. Children in `kept` continue.

    The kernel kills the namespace's first process with bubblewrap, and reports its end only after that of all
    processes in the namespace.
    """
    code, wait = 128 + signal.SIGKILL, 0.0002
    while doomed := [pid for pid in children() if pid not in kept]:
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended == watched:
                    code = os.waitstatus_to_exitcode(status)
                    code = code if code >= 0 else 128 - code
        time.sleep(wait)
        wait = min(wait * 2, 0.05)
    return code


def answer(reply: int, text: str) -> None:
    """Write an answer, unless the other end is closed, and close the descriptor."""
    with contextlib.suppress(BrokenPipeError):
        os.write(reply, text.encode())
    os.close(reply)


class Term:
    """Timer whose descriptor becomes readable when the lease expires; without a lease, it never does."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._length_ns = int(settings["lease_ns"] or 0)
        self.fd = call("timer", libc.timerfd_create(CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK))
        if self._length_ns:
            self.set(int(settings["until_ns"]))

    def set(self, until_ns: int) -> None:
        """Set the expiry time, but at most one lease length from now."""
        until_ns = max(1, min(until_ns, time.clock_gettime_ns(CLOCK_BOOTTIME) + self._length_ns))
        times = (ctypes.c_long * 4)(0, 0, *divmod(until_ns, 1_000_000_000))  # an interval, and the time
        call("timer", libc.timerfd_settime(self.fd, TIMER_ABSTIME, ctypes.byref(times), None))


class Commands:
    """The running commands, by their numbers."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._running: dict[
            int, tuple[int, int, int]
        ] = {}  # pid, its pidfd, the descriptor for its exit code
        self.members: list[int] = []  # of the control group

    def pidfds(self) -> list[int]:
        """Return the descriptors that become readable when a command ends."""
        return [pidfd for _, pidfd, _ in self._running.values()]

    def run(self, number: int, fds: list[int]) -> None:
        """Start a command, or answer why it cannot be started."""
        reply = fds[-1]
        if number in self._running or len(self._running) >= MOST:
            answer(reply, "busy")
            return
        try:
            pid = start(self._settings, self.members, fds)
            self._running[number] = (pid, os.pidfd_open(pid), reply)
        except (StepError, OSError) as error:
            end_one(0, {pid for pid, _, _ in self._running.values()})
            answer(reply, f"failed {error}")

    def answer_ended(self, readable: list[int]) -> None:
        """Answer the commands that have ended by themselves."""
        for number in [number for number, (_, pidfd, _) in self._running.items() if pidfd in readable]:
            self.end(number)

    def end(self, number: int) -> None:
        """End a command, and answer its exit code when no process of it is left. Idempotent."""
        if number not in self._running:
            return
        pid, pidfd, reply = self._running.pop(number)
        kept = {pid for pid, _, _ in self._running.values()}
        code = end_one(pid, kept) if kept else kill_everything(pid)
        os.close(pidfd)
        answer(reply, str(code))

    def end_all(self, text: str) -> None:
        """End all commands and every other child, and answer each command with `text`."""
        kill_everything()
        for _, pidfd, reply in self._running.values():
            os.close(pidfd)
            answer(reply, text)
        self._running.clear()


def serve(settings: dict[str, str], requests: _socket.socket, term: Term) -> None:
    """Serve requests until the other end of the socket closes or the lease expires."""
    commands = Commands(settings)
    while True:
        ready, _, _ = select.select([requests.fileno(), term.fd, *commands.pidfds()], [], [])
        if term.fd in ready:
            commands.end_all("lease")
            return
        commands.answer_ended(ready)
        if requests.fileno() not in ready:
            continue
        data, ancillary, _, _ = requests.recvmsg(64, _socket.CMSG_SPACE(5 * 4), _socket.MSG_CMSG_CLOEXEC)
        fds = [
            int.from_bytes(part[i : i + 4], sys.byteorder)
            for _, _, part in ancillary
            for i in range(0, len(part), 4)
        ]
        if data == b"":
            return
        what, _, number = data.partition(b" ")
        if what == b"beat":
            term.set(int(number))
        elif what == b"join":
            commands.members = fds
        elif what == b"kill":
            commands.end_all(str(128 + signal.SIGKILL))
            answer(fds[0], "clean")
        elif what == b"end":
            commands.end(int(number))
            answer(fds[0], "clean")
        else:
            commands.run(int(number), fds)
            for fd in fds[:-1]:
                os.close(fd)


def keep_low_numbers_free(settings: dict[str, str]) -> None:
    """Renumber the passed descriptors and make them non-inheritable, so that a command gets only 0 to 3."""
    for name in ("socket_fd", "life_fd", "seccomp_fd"):
        if settings[name]:
            fd = int(settings[name])
            settings[name] = str(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10))
            os.close(fd)
    os.dup2(0, 3, inheritable=False)


def keep(settings: dict[str, str], requests: _socket.socket, outer: int) -> None:
    """Run the inner process: set it up, report success or the error on the socket, and serve requests."""
    number = os.read(outer, 20).decode()
    try:
        settle(settings, outer)
        term = Term(settings)
    except (StepError, OSError) as error:
        requests.send(f"failed {error}".encode())
        return
    with contextlib.suppress(ConnectionError):  # Rumi was killed before it could read the answer
        requests.send(f"ready {number}".encode())
        serve(settings, requests, term)


def watch(asker: int, requests: _socket.socket, inner: int) -> None:
    """Run the outer process: end the inner one when Rumi ends; return when no descendant is left.

    `asker` is a pidfd of Rumi. Only Rumi has the other end of `requests`, which closes when Rumi ends.
    """
    poll = select.poll()
    poll.register(requests.fileno(), 0)  # no event but the hang-up
    poll.register(asker, select.POLLIN)
    poll.register(os.pidfd_open(inner), select.POLLIN)
    poll.poll()
    os.kill(inner, signal.SIGKILL)  # our child and not reaped, so the pid is still its own
    os.waitpid(inner, 0)


def remove_groups(folders: list[str]) -> None:
    """Remove the control group, which has no process any more, and its parent group if that is empty."""
    until = time.monotonic() + REMOVAL_S
    for folder in folders:
        while os.path.isdir(folder) and time.monotonic() < until:
            try:
                os.rmdir(folder)
            except OSError:
                time.sleep(0.005)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(folder))


def live(settings: dict[str, str]) -> None:
    """Fork into the outer and the inner process; the inner one is the first process of a pid namespace."""
    requests = _socket.socket(fileno=int(settings["socket_fd"]))
    try:
        asker = os.pidfd_open(int(settings["parent"]))
        if os.getppid() != int(settings["parent"]):
            return  # Rumi has ended, and another process may have its pid
        if settings["holder"]:
            join_holder(settings["holder"])
        if os.getuid() == 0 or settings["holder"]:
            call("process namespace", libc.unshare(CLONE_NEWPID))
        else:
            enter_user_namespace(int(settings["uid"]), int(settings["gid"]), CLONE_NEWPID)
        # The inner process has pid 1 in its namespace, so it learns from the outer one its pid on the host.
        number, tell = os.pipe()
        inner = os.fork()
    except (StepError, OSError) as error:
        with contextlib.suppress(OSError):
            requests.send(f"failed {error}".encode())
        return
    if inner == 0:
        os.close(tell)
        try:
            keep(settings, requests, number)
        except BaseException:  # noqa: BLE001 - this is the other process, and it ends here
            sys.excepthook(*sys.exc_info())
        os._exit(0)
    os.write(tell, str(inner).encode())
    watch(asker, requests, inner)


def main() -> None:
    """Run the keeper, then remove the control group. This also happens if Rumi has ended already."""
    settings = dict(word.split("=", 1) for word in sys.argv[1:])
    keep_low_numbers_free(settings)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        live(settings)
    finally:
        remove_groups(settings["groups"].split("\n") if settings["groups"] else [])


if __name__ == "__main__":
    main()
