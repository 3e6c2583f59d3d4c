"""A launcher that runs a program in a PID namespace, which always ends together with Rumi.

This file is a program, not a module: `python -I -S namespaced.py PARENT GATEWAY LISTENERS PROGRAM…`.
bubblewrap alone is not enough: the first process of its namespace has the server's uid, so the server could
prevent that process from ending; and bubblewrap leaves a process behind if it is killed while it starts. The
first process of the launcher's namespace is outside of bubblewrap's namespace. When that first process ends,
the kernel kills all other processes in the launcher's namespace.

With `GATEWAY`, the number of an inherited socket, the launcher also creates a network namespace that has
only `lo`. It opens a listening socket at each of the addresses `LISTENERS`, such as
`127.0.0.1:3128,[::1]:8123,udp:127.0.0.1:53`, and passes these sockets to Rumi over `GATEWAY`. Rumi accepts
the connections, so the sandbox needs no process that forwards them, and none can remain. Without a gateway,
`GATEWAY` is -1.
"""

import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import sys

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
SIOCSIFFLAGS, IFF_UP, INTERFACE = 0x8914, 1, "16sH14x"
BACKLOG = 64
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def call(result: int) -> None:
    """Raise an OSError with the current errno if a libc call has failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def enter_namespaces(*, network: bool) -> None:
    """Enter a new mount namespace, and create a PID namespace for the children.

    With `network`, also enter a new network namespace.
    """
    uid, gid = os.geteuid(), os.getegid()
    own = (CLONE_NEWUSER if uid else 0) | (CLONE_NEWNET if network else 0)
    call(libc.unshare(CLONE_NEWNS | CLONE_NEWPID | own))
    for name, text in {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}.items():
        if uid:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def open_gateway(gateway: int, listeners: str) -> None:
    """Listen at addresses of the new network namespace, and pass the sockets to Rumi.

    The message has the position of each address for which there is a socket: a kernel may have no IPv6.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack(INTERFACE, b"lo", IFF_UP))
    opened = {}
    for position, where in enumerate(listeners.split(",")):
        host, _, port = where.rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        try:
            if host.startswith("udp:"):
                opened[position] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                opened[position].bind((host.removeprefix("udp:"), int(port)))
                continue
            opened[position] = socket.create_server(
                (host.strip("[]"), int(port)), family=family, backlog=BACKLOG
            )
        except OSError as error:
            os.write(2, f"{where}: {error}\n".encode() if family == socket.AF_INET else b"")
    with socket.socket(fileno=gateway) as parent:
        socket.send_fds(parent, [bytes(opened)], [one.fileno() for one in opened.values()])
    for one in opened.values():
        one.close()


def be_first(words: list[str]) -> int:
    """As the namespace's first process, run the program as a child; return the child's exit code."""
    call(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    call(libc.mount(b"none", b"/", b"", ctypes.c_ulong(MS_REC | MS_PRIVATE), b""))
    call(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC), b""))
    program = os.fork()
    if program == 0:
        os.execv(words[0], words)
    forget_streams()
    # As the namespace's first process, this one also inherits orphans and must reap them.
    while True:
        pid, status = os.wait()
        if pid == program:
            return exit_code(status)


def forget_streams() -> None:
    """Replace this process's standard streams, so that the server's pipes close when the server exits."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def exit_code(status: int) -> int:
    """Return the exit code of a wait status, as a shell reports it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main() -> int:
    """Run the program until it exits or the parent process ends; return its exit code."""
    parent, gateway, listeners, *words = sys.argv[1:]
    asker = os.pidfd_open(int(parent))
    if os.getppid() != int(parent):
        return 1  # the parent has ended before pidfd_open, and another process may have its pid now
    enter_namespaces(network=gateway != "-1")
    if gateway != "-1":
        open_gateway(int(gateway), listeners)
    first = os.fork()
    if first == 0:
        code = 1
        try:
            code = be_first(words)
        except BaseException as error:  # noqa: BLE001 - this is another process, and it ends here
            os.write(2, f"{error}\n".encode())
        os._exit(code)
    forget_streams()
    poll = select.poll()
    for handle in (asker, os.pidfd_open(first)):
        poll.register(handle, select.POLLIN)
    poll.poll()
    os.kill(first, signal.SIGKILL)  # an unreaped child of this process, so the pid cannot be reused yet
    return exit_code(os.waitpid(first, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
