"""The process beside a chat's sandbox that keeps its /tmp and starts each command in its own bubblewrap.

A program, not a module of Rumi: it runs as `python -I -S keeper.py KEY=VALUE…` and imports nothing of Rumi's,
so that it starts in some milliseconds and has no path to load code from. Therefore it is one file. It makes a
mount namespace that holds the root file system, the workspace, the skills' folder and the chat's /tmp, gives
up root if it had it, and then waits for requests on a socket (SOCK_SEQPACKET, file descriptors beside them):

    run   words (of the command; its sandbox is set up in advance), stdin, stdout, stderr, reply
    kill  reply
    beat  (the message ends with a number): a heartbeat of the sandbox's lease

The answer to `run` is the exit code, when no process of the command is left; the answer to `kill` is `clean`.
The keeper is outside of the sandboxes: commands see neither it nor one another. It is their subreaper, so
orphans of a bubblewrap become its own children, and "no child is left" is the kernel's proof that none runs.
It ends, with all its commands, when the socket closes or its parent dies.

A sandbox with a lease (`lease_ns`, `until_ns`) ends also when the lease does, by a timer of the kernel,
whatever its parent does. A heartbeat moves that time: it says when the lease ends (nanoseconds of
CLOCK_BOOTTIME), so one that was sent late prolongs nothing. No command has the socket. The answer to a `run`
whose command was ended so is `lease`.
"""

import _socket
import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import time

BASE = "/tmp"  # any folder would do: only this process and its children see what is mounted here
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
CLOCK_BOOTTIME, TIMER_ABSTIME = 7, 1
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

WAIT_FOR_WORDS = """
mapfile -t -d '' -u 3 words; exec 3<&-
[ "${#words[@]}" = "${words[0]}" ] || exit 125
exec -- "${words[@]:1:${#words[@]}-2}"
"""
"""Takes the command from a pipe and becomes it; for a missing program prints the usual message, with 127."""
YIELD = (
    "for ((i = 0; i < 30; i++)); do [[ -w /proc/$$/autogroup ]] || break; "
    "{ echo %s > /proc/$$/autogroup; } 2> /dev/null && break; read -t 0 -u 3 && break; sleep 0.1; done"
)
"""Runs before that, without control groups: the kernel compares nice values inside a session only, and weighs
sessions (autogroups) against each other. It accepts one change of a weight in 0.1 s, from all users together;
a command does not wait for that."""

libc = ctypes.CDLL(None, use_errno=True)


class StepError(Exception):
    """A step that failed; the process that started the keeper gets its text."""


def call(what: str, result: int) -> int:
    """Return the result of a call into libc; raise its errno as a StepError."""
    if result < 0:
        raise StepError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2)."""
    words = [os.fsencode(word) for word in (source, target, kind)]
    call(f"mount {target}", libc.mount(*words, ctypes.c_ulong(flags), data.encode()))


def enter_user_namespace(uid: int, gid: int, flags: int) -> None:
    """Enter a user namespace in which only the same one user exists."""
    outside = os.geteuid(), os.getegid()
    call("user namespace", libc.unshare(flags | CLONE_NEWUSER))
    maps = {"uid_map": f"{uid} {outside[0]} 1", "gid_map": f"{gid} {outside[1]} 1"}
    for name, text in {"setgroups": "deny", **maps}.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def make_base(settings: dict[str, str]) -> None:
    """Mount what commands will see in a place that their user can reach, because $RUMI_HOME may forbid it."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    folder = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    sources = {name: os.open(settings[name], folder) for name in ("rootfs", "workspace", "skills")}
    programs = {}
    for name in ("bwrap", "libcap"):
        if settings[name]:
            with open(settings[name], "rb") as file:
                programs[os.path.basename(settings[name])] = file.read()
    mount("none", BASE, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,nr_inodes=64,mode=0755")
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
        os.chmod(f"{BASE}/{name}", 0o755)


def settle(settings: dict[str, str]) -> None:
    """Become the user of the sandbox, in separate namespaces, and end with the parent."""
    uid, gid = int(settings["uid"]), int(settings["gid"])
    if os.getuid() == 0:
        call("mount namespace", libc.unshare(CLONE_NEWNS))
        make_base(settings)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # Changing the user gave this process's own /proc files to root, and with them its uid_map.
        call("dumpable", libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        enter_user_namespace(uid, gid, 0)
    else:
        enter_user_namespace(uid, gid, CLONE_NEWNS)
        make_base(settings)
    os.chdir("/")
    call("no new privileges", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    call("subreaper", libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    end_with_parent(int(settings["parent"]))  # last: a change of user would have cleared it


def end_with_parent(parent: int) -> None:
    """Ensure that this process is killed when the parent ends, also if it has ended already."""
    call("parent death signal", libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:
        os._exit(1)


def bwrap_flags(settings: dict[str, str]) -> list[str]:
    """Return bubblewrap's flags for one command: new namespaces of every kind, and only allowed paths."""
    shm = str(int(settings["tmp_bytes"]) // 4)
    flags = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    flags += ["--uid", settings["uid"], "--gid", settings["gid"], "--hostname", "rumi", "--cap-drop", "ALL"]
    flags += ["--ro-bind", f"{BASE}/rootfs", "/", "--proc", "/proc"]
    # bubblewrap's /dev is a tmpfs without a limit: it becomes read-only, and its one writable place limited.
    flags += ["--dev", "/dev", "--size", shm, "--perms", "1777", "--tmpfs", "/dev/shm"]
    flags += ["--remount-ro", "/dev"]
    flags += ["--bind", f"{BASE}/tmp", "/tmp", "--bind", f"{BASE}/workspace", "/workspace"]
    flags += ["--ro-bind", f"{BASE}/skills", "/skills"]
    flags += ["--chdir", "/workspace", "--clearenv", "--sync-fd", settings["life_fd"]]
    for name, value in (("PATH", "/usr/bin:/bin"), ("HOME", "/workspace"), ("LANG", "C.UTF-8")):
        flags += ["--setenv", name, value]
    if settings["seccomp_fd"]:
        flags += ["--seccomp", settings["seccomp_fd"]]
    return flags


def limit(settings: dict[str, str]) -> None:
    """Set second limits: they hold without control groups, for each process (processes: for the sandbox)."""
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


def start(settings: dict[str, str], fds: list[int]) -> int:
    """Start a sandbox for a command; return its bubblewrap's pid. Raises StepError if that fails."""
    own, heard = os.getpid(), os.pipe()
    script = WAIT_FOR_WORDS if settings["nice"] == "0" else YIELD % settings["nice"] + WAIT_FOR_WORDS
    argv = [settings["name"], *bwrap_flags(settings), "--", "bash", "-c", script]
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent(own)
            os.setsid()
            for member in settings["cgroup_fds"].split(",") if settings["cgroup_fds"] else []:
                os.write(int(member), b"0")
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # the host's kernel ends these processes first
            os.nice(int(settings["nice"]))
            limit(settings)
            for number, fd in enumerate([*fds[1:4], fds[0]]):
                os.dup2(fd, number)
            if settings["seccomp_fd"]:
                os.lseek(int(settings["seccomp_fd"]), 0, os.SEEK_SET)
                os.set_inheritable(int(settings["seccomp_fd"]), True)
            os.set_inheritable(int(settings["life_fd"]), True)
            os.execve(BASE + "/bwrap", argv, {"LD_LIBRARY_PATH": BASE})
        except BaseException as error:  # noqa: BLE001 - this is another process, and it ends here
            os.write(heard[1], f"{type(error).__name__}: {error}".encode())
        os._exit(126)
    os.close(heard[1])
    trouble = os.read(heard[0], 4096)  # empty once bubblewrap runs: the pipe's end closes on exec
    os.close(heard[0])
    if trouble:
        os.waitpid(pid, 0)
        raise StepError(trouble.decode())
    return pid


def children() -> list[int]:
    """Return the pids of this process's children, including zombies."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:  # a kernel without this file
        pass
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(name)}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == own:
                    found.append(int(name))
        except (OSError, ValueError):
            continue
    return found


def kill_everything(watched: int | None = None) -> int:
    """Return the watched process's exit code when this process has no child and thus no descendant.

    The end of a namespace's first process ends all processes in it, and is not visible before.
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
            for child in children():
                os.kill(child, signal.SIGKILL)  # it is our child, so this pid is still its own
            time.sleep(wait)
            wait = min(wait * 2, 0.05)


def answer(reply: int, text: str) -> None:
    """Write an answer, if the other end still listens, and close."""
    with contextlib.suppress(BrokenPipeError):
        os.write(reply, text.encode())
    os.close(reply)


class Term:
    """The time at which the sandbox ends, and a descriptor that is readable then; without a lease, never."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._length_ns = int(settings["lease_ns"] or 0)
        self.fd = call("timer", libc.timerfd_create(CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK))
        if self._length_ns:
            self.set(int(settings["until_ns"]))

    def set(self, until_ns: int) -> None:
        """Set the time, at most the length of a lease from now."""
        until_ns = max(1, min(until_ns, time.clock_gettime_ns(CLOCK_BOOTTIME) + self._length_ns))
        times = (ctypes.c_long * 4)(0, 0, *divmod(until_ns, 1_000_000_000))  # an interval, and the time
        call("timer", libc.timerfd_settime(self.fd, TIMER_ABSTIME, ctypes.byref(times), None))


def serve(settings: dict[str, str], requests: _socket.socket, term: Term) -> None:
    """Serve requests until the other end closes, or the lease ends."""
    running: tuple[int, int, int] | None = None  # pid, its pidfd, the descriptor for its exit code
    while True:
        watched = [requests.fileno(), term.fd, *([running[1]] if running else [])]
        ready, _, _ = select.select(watched, [], [])
        if term.fd in ready:
            kill_everything()
            if running:
                answer(running[2], "lease")
            return
        if running and running[1] in ready:
            pid, pidfd, reply = running
            os.close(pidfd)
            answer(reply, str(kill_everything(pid)))
            running = None
            continue
        data, ancillary, _, _ = requests.recvmsg(64, _socket.CMSG_SPACE(5 * 4), _socket.MSG_CMSG_CLOEXEC)
        fds = [
            int.from_bytes(part[i : i + 4], sys.byteorder)
            for _, _, part in ancillary
            for i in range(0, len(part), 4)
        ]
        if data == b"":
            return
        if data.startswith(b"beat "):
            term.set(int(data[5:]))
            continue
        if data == b"kill":
            kill_everything()
            if running:
                os.close(running[1])
                answer(running[2], str(128 + signal.SIGKILL))
                running = None
            answer(fds[0], "clean")
            continue
        if running:
            answer(fds.pop(), "busy")
        else:
            try:
                pid = start(settings, fds)
                running = (pid, os.pidfd_open(pid), fds.pop())
            except (StepError, OSError) as error:
                kill_everything()
                answer(fds.pop(), f"failed {error}")
        for fd in fds:
            os.close(fd)


def keep_low_numbers_free(settings: dict[str, str]) -> None:
    """Renumber the passed descriptors, not to be inherited: a command gets only 0 to 3."""
    for name in ("socket_fd", "life_fd", "seccomp_fd", "cgroup_fds"):
        moved = []
        for word in settings[name].split(",") if settings[name] else []:
            moved.append(str(fcntl.fcntl(int(word), fcntl.F_DUPFD_CLOEXEC, 10)))
            os.close(int(word))
        settings[name] = ",".join(moved)
    os.dup2(0, 3, inheritable=False)


def main() -> None:
    """Settle, report success or the error on the socket, serve, leave nothing."""
    settings = dict(word.split("=", 1) for word in sys.argv[1:])
    keep_low_numbers_free(settings)
    requests = _socket.socket(fileno=int(settings["socket_fd"]))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        settle(settings)
        term = Term(settings)
    except (StepError, OSError) as error:
        requests.send(f"failed {error}".encode())
        return
    try:
        with contextlib.suppress(ConnectionError):  # the asker was killed before it could read the answer
            requests.send(b"ready")
            serve(settings, requests, term)
    finally:
        kill_everything()


if __name__ == "__main__":
    main()
