"""Rumi, loaded once: each command runs in a process of its own that is a fork of it.

Loading takes most of a short command's time. A forked command has its own descriptors, environment and
folder, and is a child of the test, as a started one is. `Forked` is the test's end; the module as a program
is the other.
"""

import array
import atexit
import ctypes
import gc
import importlib
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
CLONE_PARENT = 0x8000
LOADED = (
    "rumi.app.app",
    "rumi.channels.telegram",
    "rumi.channels.terminal.run",
    "rumi.channels.attach.client",
)
INHERITED = (signal.SIGHUP, signal.SIGINT)
"""Signals that a started program ignores if the one that starts it does, as under nohup."""
MOST = 1 << 17
"""Bytes of a command with its environment."""


class Forked(subprocess.Popen[str]):
    """A `Popen` whose command `rumi …` is not executed but forked; `open_files` is its soft limit."""

    def __init__(self, *given: Any, open_files: int = 0, **named: Any) -> None:
        self._open_files = open_files
        super().__init__(*given, **named)

    def _execute_child(self, *given: Any) -> None:
        args, folder, env, pipes = given[0], given[5], given[6], given[10:16]
        stdin, _, _, stdout, _, stderr = pipes
        loaded = loaded_rumi(env.get("LANG", ""))
        command = {"argv": args, "env": env, "folder": folder or os.getcwd()}
        command["open_files"] = self._open_files
        command["ignored"] = [
            signal_number for signal_number in INHERITED if signal.getsignal(signal_number) == signal.SIG_IGN
        ]
        words = json.dumps(command).encode("utf-8", "surrogateescape")
        descriptors = array.array("i", (stdin, stdout, stderr))
        loaded.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        self.pid = int(loaded.recv(20))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


PROCESSES: list[int] = []
"""The processes that are forked, of this one."""


@cache
def loaded_rumi(language: str) -> socket.socket:
    """Start this module as a program: streams and locale are made when Python starts."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**environment, "LANG": language},
            pass_fds=[theirs.fileno()],
        )
    PROCESSES.append(process.pid)

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours


def fork_to_parent() -> int:
    """`os.fork`, but the new process is a child of this one's parent."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(ctypes.CDLL(None).syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    (python.PyOS_AfterFork_Parent if pid else python.PyOS_AfterFork_Child)()
    return pid


def serve(control: socket.socket) -> None:
    """Fork each command that comes; return in the fork, or exit when the test has ended."""
    while True:
        words, ancillary, _, _ = control.recvmsg(MOST, socket.CMSG_SPACE(12))
        if not words:
            os._exit(0)
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        pid = fork_to_parent()
        if pid:
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(str(pid).encode())
            continue
        control.close()
        become(json.loads(words), descriptors)
        return


def become(command: dict[str, Any], descriptors: "array.array[int]") -> None:
    """Make this process look as if the command had been started."""
    for stream, descriptor in enumerate(descriptors):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(command["env"])
    os.chdir(command["folder"])
    sys.argv = command["argv"]
    for signal_number in INHERITED:
        as_usual = signal.default_int_handler if signal_number == signal.SIGINT else signal.SIG_DFL
        signal.signal(signal_number, signal.SIG_IGN if signal_number in command["ignored"] else as_usual)
    if command["open_files"]:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (command["open_files"], hard))
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old = getattr(sys, name)
        new = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        if number:
            new.reconfigure(line_buffering=new.isatty() or number == 2)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)
    from rumi.cli import group, main

    for module in (*(name.module for name in group.OLD_NAMES.values()), *LOADED):
        importlib.import_module(module)
    for module, _ in group.COMMANDS.values():
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
    code: int | str | None = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 0)  # taking all modules apart costs more than the command
