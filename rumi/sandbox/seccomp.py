"""The system call filter of both engines: as a JSON profile for Docker, and as BPF for bubblewrap."""

import errno
import os
import platform
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

from rumi.sandbox.engine import SandboxError
from rumi.sandbox.syscalls import BY_MACHINE, EVERYWHERE

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
IP_FAMILIES = (AF_INET, AF_INET6)
FAMILIES = 46
"""The number of socket families of Linux (AF_MAX)."""
SOCK_TYPE = 0xF
"""The bits of a socket's type; the other bits are flags."""
IP_PROTOCOLS = {1: (0, 6), 2: (0, 17)}
"""Streams by TCP and datagrams by UDP, which a program may also name as 0. Raw sockets, ICMP, SCTP, multipath
TCP and others are refused: no program needs them on loopback."""
NETLINK_KINDS, NETLINK_ROUTE = (2, 3), 0
"""Datagram and raw sockets of netlink, and its protocol that lists interfaces, addresses and routes."""
SENDS = ("sendmsg", "sendmmsg")
"""Calls that glibc's resolver, HTTP/3 and many runtimes need on a network."""
OWN_SANDBOX = ("chroot", "unshare")
"""Calls, next to clone, with which a browser puts its own processes into a narrower sandbox."""
NEW_NAMESPACES = 0x7E020000
"""The flags CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID and -NET combined."""
PERSONALITIES = (0, 0xFFFFFFFF)
"""Plain Linux, and the query of the current personality; others can disable address randomisation."""

SET_ID = 0o6000
"""S_ISUID and S_ISGID: files of the workspace are also files of the host, where these bits would work."""
MAKES_A_FILE = 0o100 | 0o20000000
"""O_CREAT and the bit of O_TMPFILE: without them the mode argument is undefined, and must not be checked."""
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
"""Calls with a mode, and the index of that argument."""
OPENS = {"open": 1, "openat": 2}
"""Calls with flags followed by a mode, and the index of the flags."""
ON_A_PROCESS = {
    "kill": 0,
    "tkill": 0,
    "tgkill": 0,
    "rt_sigqueueinfo": 0,
    "rt_tgsigqueueinfo": 0,
    "pidfd_open": 0,
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "setpgid": 1,
}
"""Calls on another process, and the index of the pid argument (of setpgid: of the group to join). The pid may
be that of any process except the first one, which can end the others in time only if no command can change
it."""
ONE_OR_GROUP = 0xFFFFFFFE
"""Masks PRIO_PROCESS (0) and PRIO_PGRP (1), but not PRIO_USER (2), which includes the first process."""
IOPRIO_WHO_PROCESS = 1
PID_BITS = 22
"""Maximum number of bits of a pid on Linux."""
XFS_REQUESTS = 0x5800
"""The type (second byte) of ioctl requests that XFS introduced and that work on every file system. Among them
are the reservation of blocks (FS_IOC_RESVSP), which is equivalent to fallocate, and hints that enlarge files.
"""

_MACHINES = {
    "x86_64": "SCMP_ARCH_X86_64",
    "aarch64": "SCMP_ARCH_AARCH64",
    "riscv64": "SCMP_ARCH_RISCV64",
    "ppc64le": "SCMP_ARCH_PPC64LE",
    "s390x": "SCMP_ARCH_S390X",
}
_DOCKERS_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


Comparison: TypeAlias = tuple[int, Literal["EQ", "NE", "MASKED_EQ"], int, int]
"""Argument index, operator, value (for MASKED_EQ: the mask), and for MASKED_EQ the expected result."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for one call: allow it if its arguments match, or refuse it with a specific errno.

    A call without a matching rule fails with EPERM.
    """

    name: str
    comparisons: tuple[Comparison, ...] = ()
    """Comparisons of different arguments; the rule applies if all of them match."""
    refused_with: int = 0


def _any_pid_but_1(index: int) -> tuple[Comparison, ...]:
    """Return comparisons, one per bit of a pid, of which at least one matches for any pid except 1.

    A single "not equal to 1" would also compare the upper half of the register, which the kernel ignores, and
    so could be bypassed.
    """
    bits = range(PID_BITS + 1)
    return tuple((index, "MASKED_EQ", 1 << bit, 0 if bit == 0 else 1 << bit) for bit in bits)


def rules(machine: str, *, network: bool = False, namespaces: bool = False) -> tuple[Rule, ...]:
    """Return the rules for calls whose arguments matter, or that fail with an errno other than EPERM.

    With `network`, the rules allow in addition what programs need to resolve names and to list interfaces;
    with `namespaces`, what a program needs to sandbox its own processes.
    """
    flags = 1 if machine == "s390x" else 0  # on that machine, clone takes the stack first
    families = (AF_UNIX, *IP_FAMILIES, *((AF_NETLINK,) if network else ()))
    return (
        *(Rule(name) for name in SENDS if network),
        *(Rule(name) for name in OWN_SANDBOX if namespaces),
        *(
            Rule(
                "socket",
                ((0, "EQ", AF_NETLINK, 0), (1, "MASKED_EQ", SOCK_TYPE, kind), (2, "EQ", NETLINK_ROUTE, 0)),
            )
            for kind in NETLINK_KINDS
            if network
        ),
        # An allowlist: a comparison for equality cannot be bypassed through the upper half of the register,
        # which the kernel ignores, but which "anything but vsock" would take for another family.
        Rule("socket", ((0, "EQ", AF_UNIX, 0),)),
        *(
            Rule("socket", ((0, "EQ", family, 0), (1, "MASKED_EQ", SOCK_TYPE, kind), (2, "EQ", protocol, 0)))
            for family in IP_FAMILIES
            for kind, protocols in IP_PROTOCOLS.items()
            for protocol in protocols
        ),
        # Not EPERM: programs then do without that family.
        *(
            Rule("socket", ((0, "EQ", family, 0),), errno.EAFNOSUPPORT)
            for family in range(FAMILIES)
            if family not in families
        ),
        *(Rule("personality", ((0, "EQ", value, 0),)) for value in PERSONALITIES),
        Rule("clone", () if namespaces else ((flags, "MASKED_EQ", NEW_NAMESPACES, 0),)),
        # Its flags are in memory, which a filter cannot read. ENOSYS makes libc use clone instead.
        Rule("clone3", (), errno.ENOSYS),
        # Likewise: libc then uses openat, which is restricted below.
        Rule("openat2", (), errno.ENOSYS),
        # Not EPERM: with this errno posix_fallocate and programs write instead, which the watch can follow.
        Rule("fallocate", (), errno.EOPNOTSUPP),
        *(Rule(name, ((mode, "MASKED_EQ", SET_ID, 0),)) for name, mode in MODES.items()),
        *(Rule(name, ((argument + 1, "MASKED_EQ", SET_ID, 0),)) for name, argument in OPENS.items()),
        *(Rule(name, ((argument, "MASKED_EQ", MAKES_A_FILE, 0),)) for name, argument in OPENS.items()),
        *(
            Rule(name, (differs,))
            for name, index in ON_A_PROCESS.items()
            for differs in _any_pid_but_1(index)
        ),
        *(Rule("setpriority", (differs, (0, "MASKED_EQ", ONE_OR_GROUP, 0))) for differs in _any_pid_but_1(1)),
        *(
            Rule("ioprio_set", (differs, (0, "MASKED_EQ", 0xFFFFFFFF, IOPRIO_WHO_PROCESS)))
            for differs in _any_pid_but_1(1)
        ),
        # A filter cannot compare a byte for inequality, so one rule allows each bit that differs.
        *(
            Rule("ioctl", ((1, "MASKED_EQ", bit, ~XFS_REQUESTS & bit),))
            for bit in (1 << n for n in range(8, 16))
        ),
    )


def docker_profile() -> dict[str, object]:
    """Return the filter in Docker's format, for all supported machine types; the daemon picks its own type.

    The profile names no 32-bit architectures, so their calls kill the process.
    """
    calls: list[dict[str, object]] = [{"names": sorted(EVERYWHERE), "action": "SCMP_ACT_ALLOW"}]
    for machine, names in BY_MACHINE.items():
        if names:
            only = {"arches": [_DOCKERS_NAMES.get(machine, machine)]}
            calls.append({"names": sorted(names), "action": "SCMP_ACT_ALLOW", "includes": only})
    calls.extend(_docker_rules(rules("x86_64"), {"excludes": {"arches": ["s390", "s390x"]}}))
    calls.extend(_docker_rules(rules("s390x"), {"includes": {"arches": ["s390", "s390x"]}}))
    architectures = [{"architecture": name, "subArchitectures": []} for name in _MACHINES.values()]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.EPERM,
        "archMap": architectures,
        "syscalls": calls,
    }


def _docker_rules(all_rules: Iterable[Rule], where: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield the rules as entries of Docker's profile; rules that differ only in name share one.

    This keeps the profile small: each request that creates a container contains all of it.
    """
    names: dict[Rule, list[str]] = {}
    for rule in all_rules:
        names.setdefault(replace(rule, name=""), []).append(rule.name)
    for rule, called in names.items():
        yield _docker_rule(rule, called, where)


def _docker_rule(rule: Rule, names: list[str], where: dict[str, object]) -> dict[str, object]:
    entry: dict[str, object] = {"names": names, "action": "SCMP_ACT_ALLOW", **where}
    if rule.refused_with:
        entry |= {"action": "SCMP_ACT_ERRNO", "errnoRet": rule.refused_with}
    if rule.comparisons:
        entry["args"] = [
            {"index": index, "op": f"SCMP_CMP_{how}", "value": value, "valueTwo": rest}
            for index, how, value, rest in rule.comparisons
        ]
    return entry


@cache
def bpf_program(*, network: bool = False, namespaces: bool = False) -> bytes:
    """Return the filter for this machine in the kernel's format: an array of `struct sock_filter`.

    Commands have no network; servers of tools may have one (`network`), and a browser sandboxes its own
    processes (`namespaces`). Calls of another architecture kill the process. The first call blocks for some
    milliseconds.

    Raises:
        SandboxError: libseccomp is not installed, or does not know this machine.
    """
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise SandboxError(
            "The library libseccomp is missing, so dangerous system calls of commands cannot be blocked.",
            "Install it (Debian and Ubuntu: apt install libseccomp2; Fedora: dnf install libseccomp).",
        ) from error
    machine = platform.machine()
    if machine not in BY_MACHINE:
        raise SandboxError(
            "There is no system call filter for machines of the kind {machine}.",
            "Use Docker.",
            machine=machine,
        )
    program = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    comparisons = {"EQ": pyseccomp.EQ, "NE": pyseccomp.NE, "MASKED_EQ": pyseccomp.MASKED_EQ}
    for name in sorted(EVERYWHERE | BY_MACHINE[machine]):
        _add(pyseccomp, program, pyseccomp.ALLOW, name)
    for rule in rules(machine, network=network, namespaces=namespaces):
        action = pyseccomp.ERRNO(rule.refused_with) if rule.refused_with else pyseccomp.ALLOW
        arguments = [
            pyseccomp.Arg(index, comparisons[how], value, rest)
            for index, how, value, rest in rule.comparisons
        ]
        _add(pyseccomp, program, action, rule.name, *arguments)
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        return os.pread(file.fileno(), 1 << 20, 0)


def _add(pyseccomp: object, program: object, action: int, name: str, *arguments: object) -> None:
    """Add a rule; skip a call that is newer than this libseccomp, because the default then refuses it."""
    try:
        program.add_rule(action, name, *arguments)  # type: ignore[attr-defined]
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number not in (None, errno.EINVAL, errno.EDOM, errno.EFAULT):
            raise
