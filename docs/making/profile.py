"""`deploy/seccomp.json`: the system calls of a container with Rumi in it. `make docs` writes it."""

import errno
import json
import socket
from pathlib import Path

from rumi.sandbox.seccomp import PERSONALITIES, docker_profile, rules
from rumi.sandbox.syscalls import BY_MACHINE, EVERYWHERE

TARGET = Path(__file__).parent.parent.parent / "deploy" / "seccomp.json"

JUDGED = frozenset({"clone3", "personality", "socket"})
NAMESPACES = frozenset({"mount", "pivot_root", "sethostname", "umount2", "unshare"})
"""What bubblewrap needs beside what Rumi and any command need."""
RUMIS = frozenset({"pidfd_send_signal", "sendmmsg", "sendmsg"})
"""What Rumi needs, and no command may do."""
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)


def rendered() -> str:
    """Return the profile: what a command may call, with any arguments, and what Rumi itself needs.

    Commands have their own filter below it. This one is narrower than Docker's default, except for the calls
    that make namespaces.
    """
    judged_for_commands = {rule.name for rule in rules("x86_64")}
    names = EVERYWHERE | frozenset().union(*BY_MACHINE.values()) | judged_for_commands
    names = (names | NAMESPACES | RUMIS) - JUDGED
    calls: list[dict[str, object]] = [{"names": sorted(names), "action": "SCMP_ACT_ALLOW"}]
    calls += [_equal("socket", family) for family in FAMILIES]
    calls += [_equal("personality", value) for value in PERSONALITIES]
    # Its flags are in memory, which a filter cannot read. ENOSYS makes libc use clone instead.
    calls.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS})
    return json.dumps({**docker_profile(), "syscalls": calls}, indent=1) + "\n"


def _equal(name: str, value: int) -> dict[str, object]:
    compared = {"index": 0, "op": "SCMP_CMP_EQ", "value": int(value), "valueTwo": 0}
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [compared]}


if __name__ == "__main__":
    TARGET.write_text(rendered(), "utf-8")
