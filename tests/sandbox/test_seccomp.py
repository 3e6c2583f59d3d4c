"""The filter of system calls, judged by running its own program as the kernel would."""

import errno
import json
import platform
import struct
import sys

import pytest

from rumi.sandbox.engine import SandboxError
from rumi.sandbox.seccomp import bpf_program, docker_profile
from rumi.sandbox.syscalls import BY_MACHINE, DENIED_ON_PURPOSE, EVERYWHERE

X86_64, I386 = 0xC000003E, 0x40000003
ALLOW, KILL = 0x7FFF0000, 0x00000000
ERRNO = 0x00050000
here = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")


def judged(number: int, *arguments: int, architecture: int = X86_64, network: bool = False) -> int:
    """What the filter returns for a call: classic BPF over `struct seccomp_data`."""
    words = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("<iIQ6Q", number, architecture, 0, *words)
    program = list(struct.iter_unpack("<HBBI", bpf_program(network=network)))
    accumulator, at = 0, 0
    for _ in range(len(program)):
        code, jump_true, jump_false, k = program[at]
        at += 1
        match code:
            case 0x20:  # load a word
                accumulator = int(struct.unpack_from("<I", data, k)[0])
            case 0x54:  # and
                accumulator &= k
            case 0x05:  # jump
                at += k
            case 0x15:  # equal
                at += jump_true if accumulator == k else jump_false
            case 0x25:  # greater
                at += jump_true if accumulator > k else jump_false
            case 0x35:  # greater or equal
                at += jump_true if accumulator >= k else jump_false
            case 0x06:  # return
                return int(k)
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")
    raise AssertionError("the program does not end")


@here
@pytest.mark.parametrize(
    ("number", "name"),
    [
        (425, "io_uring_setup"),
        (426, "io_uring_enter"),
        (427, "io_uring_register"),
        (206, "io_setup"),
        (248, "add_key"),
        (249, "request_key"),
        (250, "keyctl"),
        (101, "ptrace"),
        (310, "process_vm_readv"),
        (311, "process_vm_writev"),
        (321, "bpf"),
        (298, "perf_event_open"),
        (323, "userfaultfd"),
        (165, "mount"),
        (272, "unshare"),
        (308, "setns"),
        (29, "shmget"),
        (240, "mq_open"),
        (447, "memfd_secret"),
        (46, "sendmsg"),
        (307, "sendmmsg"),
        (444, "landlock_create_ruleset"),
        (274, "get_robust_list"),
        (424, "pidfd_send_signal"),
        (448, "process_mrelease"),
        (438, "pidfd_getfd"),
        (440, "process_madvise"),
        (312, "kcmp"),
        (256, "migrate_pages"),
        (279, "move_pages"),
        (9999, "one that is yet to come"),
    ],
)
def test_a_call_without_need_is_refused(number: int, name: str) -> None:
    assert judged(number) == ERRNO | errno.EPERM


@here
def test_ordinary_calls_are_allowed() -> None:
    for number in (0, 1, 2, 9, 39, 59, 61, 62, 157, 217, 257, 262, 302, 318, 332, 334, 439):
        assert judged(number) == ALLOW, number


@here
def test_sockets_are_unix_ones_tcp_and_udp_and_no_others() -> None:
    refused, flags = ERRNO | errno.EPERM, 0o2004000  # SOCK_CLOEXEC, SOCK_NONBLOCK
    assert judged(41, 1, 1, 0) == judged(41, 1, 5 | flags, 0) == ALLOW
    for family in (2, 10):
        for kind, protocol in ((1, 0), (1, 6), (2, 0), (2, 17)):
            assert judged(41, family, kind, protocol) == judged(41, family, kind | flags, protocol) == ALLOW
        for kind in (0, 3, 4, 5, 6, 10, 3 | flags):  # raw, seqpacket, packet…
            assert judged(41, family, kind, 0) == refused, kind
        for kind, protocol in ((1, 132), (1, 262), (1, 17), (2, 1), (2, 58), (2, 136), (3, 255), (2, 6)):
            assert judged(41, family, kind, protocol) == refused, (kind, protocol)
            assert judged(41, family, kind, 1 << 32 | protocol) == refused, (kind, protocol)
    for family in (0, 3, 11, 16, 17, 31, 38, 40, 44, 45):
        assert judged(41, family, 1, 0) == ERRNO | errno.EAFNOSUPPORT, family
    # The kernel looks at the lower half alone; that a Unix socket is refused here harms nobody.
    for family in (1 << 32, (1 << 32) | 1, (1 << 32) | 2, (1 << 32) | 40, 46, 1000):
        assert judged(41, family, 1, 0) == refused, family


@here
def test_a_network_adds_name_resolution_and_the_list_of_interfaces_only() -> None:
    for number in (46, 307):  # sendmsg, sendmmsg
        assert (judged(number), judged(number, network=True)) == (ERRNO | errno.EPERM, ALLOW)
    for kind in (2, 3, 3 | 0o2000000):
        assert judged(41, 16, kind, 0, network=True) == ALLOW
    for kind, protocol in ((3, 9), (3, 15), (2, 12), (1, 0)):  # audit, uevents, netfilter
        assert judged(41, 16, kind, protocol, network=True) == ERRNO | errno.EPERM, (kind, protocol)
    for family in (17, 31, 38, 40):  # packet, bluetooth, alg, vsock
        assert judged(41, family, 3, 0, network=True) == ERRNO | errno.EAFNOSUPPORT, family
    for number in (101, 165, 272, 308, 321, 425):
        assert judged(number, network=True) == ERRNO | errno.EPERM, number


ON_A_PROCESS: dict[str, tuple[int, tuple[int, ...]]] = {
    "kill": (62, ()),
    "tkill": (200, ()),
    "tgkill": (234, ()),
    "rt_sigqueueinfo": (129, ()),
    "rt_tgsigqueueinfo": (297, ()),
    "pidfd_open": (434, ()),
    "prlimit64": (302, ()),
    "sched_setaffinity": (203, ()),
    "sched_setattr": (314, ()),
    "sched_setparam": (142, ()),
    "sched_setscheduler": (144, ()),
    "setpgid": (109, (0,)),
    "setpriority": (141, (0,)),
    "setpriority of a group": (141, (1,)),
    "ioprio_set": (251, (1,)),
}
"""The numbers of the calls, and the arguments before that of the process."""


@here
@pytest.mark.parametrize(("number", "before"), ON_A_PROCESS.values(), ids=ON_A_PROCESS)
def test_no_call_may_name_the_first_process(number: int, before: tuple[int, ...]) -> None:
    for pid in (0, 2, 3, 5, 7, 4096, 4194303, 0xFFFFFFFF, 2**64 - 1, 2**64 - 5, 0xFFFFFFFB):
        assert judged(number, *before, pid) == ALLOW, pid
    for pid in (1, 1 | 1 << 32, 1 | 0xFFFFFFFF << 32):
        assert judged(number, *before, pid) == ERRNO | errno.EPERM, pid


@here
@pytest.mark.parametrize(
    ("number", "which"),
    [(141, 2), (141, 2 | 1 << 32), (251, 2), (251, 3), (251, 0)],
    ids=["PRIO_USER", "PRIO_USER with more bits", "a group's disk", "a user's disk", "nobody's disk"],
)
def test_no_priority_is_set_for_all_that_include_the_first_process(number: int, which: int) -> None:
    for who in (0, 1, 2, 1000):
        assert judged(number, which, who) == ERRNO | errno.EPERM


@here
def test_threads_and_processes_can_be_made_and_namespaces_cannot() -> None:
    assert judged(56, 17) == ALLOW
    assert judged(56, 0x3D0F00) == ALLOW
    for bit in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert judged(56, bit | 17) == ERRNO | errno.EPERM, hex(bit)
    assert judged(435) == ERRNO | errno.ENOSYS


@here
def test_no_block_is_reserved_without_being_written() -> None:
    assert judged(285, 3, 0, 0, 1 << 40) == ERRNO | errno.EOPNOTSUPP
    for request in (
        0x40305828,
        0x4030582A,
        0x40305839,
        0x401C5820,
    ):  # RESVSP, RESVSP64, ZERO_RANGE, FSSETXATTR
        assert judged(16, 3, request) == ERRNO | errno.EPERM, hex(request)
        assert judged(16, 3, request | 1 << 40) == ERRNO | errno.EPERM, "the kernel reads the lower half"
    for request in (0x5401, 0x541B, 0x40049409, 0x80086601):  # TCGETS, FIONREAD, FICLONE, FS_IOC_GETFLAGS
        assert judged(16, 3, request) == ALLOW, hex(request)


@here
@pytest.mark.parametrize(
    ("number", "before"),
    [(90, (1,)), (91, (1,)), (268, (3, 1)), (452, (3, 1)), (85, (1,)), (133, (1,)), (259, (3, 1))],
    ids=["chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "mknod", "mknodat"],
)
def test_no_mode_sets_an_id(number: int, before: tuple[int, ...]) -> None:
    for mode in (0o644, 0o1777, 0o100755, 0o010600):
        assert judged(number, *before, mode) == ALLOW, oct(mode)
    for mode in (0o4755, 0o2755, 0o6000, 0o102755, (1 << 40) | 0o4755):
        assert judged(number, *before, mode) == ERRNO | errno.EPERM, oct(mode)


@here
def test_no_file_is_made_with_an_id_set() -> None:
    create, unnamed, directory = 0o100, 0o20200000, 0o200000
    for number, before in ((2, (1,)), (257, (3, 1))):
        for flags in (create | 1, unnamed | 1, create | 0o1000 | 2):
            assert judged(number, *before, flags, 0o644) == ALLOW
            assert judged(number, *before, flags, 0o4755) == ERRNO | errno.EPERM
            assert judged(number, *before, flags, 0o2755) == ERRNO | errno.EPERM
        # Where nothing is made, the mode is what was left in the register.
        for flags in (0, 1, directory, 0o1000000):
            assert judged(number, *before, flags, 0xFFFFFFFF) == ALLOW
    assert judged(437) == ERRNO | errno.ENOSYS  # openat2


@here
def test_address_randomisation_cannot_be_switched_off() -> None:
    assert judged(135, 0) == ALLOW
    assert judged(135, 0xFFFFFFFF) == ALLOW
    assert judged(135, 0x0040000) == ERRNO | errno.EPERM


@here
def test_calls_of_other_architectures_end_the_process() -> None:
    assert judged(20, architecture=I386) == KILL
    assert judged(0x40000000 | 1) == KILL  # x32


def test_what_is_denied_on_purpose_is_nowhere_allowed() -> None:
    allowed = EVERYWHERE.union(*BY_MACHINE.values())
    assert not allowed & DENIED_ON_PURPOSE
    profile = docker_profile()
    calls = profile["syscalls"]
    assert isinstance(calls, list)
    granted = {name for rule in calls if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert not granted & DENIED_ON_PURPOSE


def test_dockers_profile_refuses_by_default_and_names_no_second_architecture() -> None:
    profile = json.loads(json.dumps(docker_profile()))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert all(entry["subArchitectures"] == [] for entry in profile["archMap"])


def test_without_libseccomp_there_is_a_sentence_and_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    bpf_program.cache_clear()
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(SandboxError, match="apt install libseccomp2"):
        bpf_program()
    bpf_program.cache_clear()
