"""Machines with and without a network, by the routes that their kernels have."""

from pathlib import Path

import pytest

from rumi.platform.network_state import is_offline

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
DEFAULT = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
POINT_TO_POINT = "wg0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"
HALF = "tun0\t00000000\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n"
BRIDGE = "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
ZERO = "0" * 32
REST = "00000400 00000003 00000000 00000003"
DEFAULT_6 = f"{ZERO} 00 {ZERO} 00 fd00{'0' * 27}1 {REST}     eth0\n"
UNREACHABLE_6 = f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200       lo\n"
LINK_6 = f"fe80{'0' * 28} 40 {ZERO} 00 {ZERO} {REST}     eth0\n"


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "offline"),
    [
        (HEAD, None, True),
        (HEAD, "", True),
        (HEAD, UNREACHABLE_6, True),
        (HEAD + BRIDGE, LINK_6 + UNREACHABLE_6, True),
        (HEAD + DEFAULT, None, False),
        (HEAD + DEFAULT + BRIDGE, UNREACHABLE_6, False),
        (HEAD + POINT_TO_POINT, "", False),
        (HEAD + HALF, "", False),
        (HEAD, DEFAULT_6 + UNREACHABLE_6, False),
        (None, None, False),
        (HEAD + "nonsense\n", "nonsense\n", True),
    ],
)
def test_a_machine_without_a_route_out_is_offline(
    tmp_path: Path, ipv4: str | None, ipv6: str | None, offline: bool
) -> None:
    for name, text in (("route", ipv4), ("ipv6_route", ipv6)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert is_offline(tmp_path) is offline
