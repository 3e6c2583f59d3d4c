"""A program: `rumi fetch --check` on its standard input, and the DNS server that the system asks."""

import subprocess
import sys

from tests.cli.program import RUMI
from tests.fakes.dns_server import DnsServer, always, never

NAMES = {
    "public.example": always("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"),
    "mixed.example": always("93.184.216.34", "10.0.0.1"),
    "mixed-in-ipv6.example": always("93.184.216.34", "fd00::1"),
    "mapped.example": always("2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"),
    "inside.example": always("127.0.0.1"),
    "metadata.example": always("169.254.169.254"),
    "silent.example": never(),
}


def main() -> None:
    with DnsServer(NAMES, port=53):
        sys.exit(subprocess.run([RUMI, "fetch", "--check"], check=False).returncode)


if __name__ == "__main__":
    main()
