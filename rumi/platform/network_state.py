"""Detection of a machine without a network, so that its errors are not taken for those of a server."""

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/net")
_NOWHERE: Final = "00000000"


def is_offline(proc: Path = _PROC) -> bool:
    """Return True if this machine has no route to other networks; False if that is not known.

    Reads the kernel's routes and sends nothing.
    """
    try:
        ipv4 = [line.split() for line in (proc / "route").read_text().splitlines()[1:]]
    except OSError:
        return False
    try:
        ipv6 = [line.split() for line in (proc / "ipv6_route").read_text().splitlines()]
    except OSError:  # a kernel without IPv6
        ipv6 = []
    # A default route, or one over a gateway. Bridges of containers have other routes, even without a network.
    if any(row[0] != "lo" and (row[1] == _NOWHERE or row[2] != _NOWHERE) for row in ipv4 if len(row) > 2):
        return False
    routes = (row for row in ipv6 if len(row) > 9 and row[-1] != "lo")
    return not any(row[1] == "00" or row[4].strip("0") for row in routes)
