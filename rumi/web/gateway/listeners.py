"""The addresses inside a sandbox at which Rumi accepts connections."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rumi.web.outbound import LOOPBACK, Host

NAME_SERVER: Final = "udp:127.0.0.1:53"
"""Where the sandbox's DNS server listens. glibc asks it where there is no /etc/resolv.conf."""

_PROXY_PORT: Final = 3128


@dataclass(frozen=True, slots=True)
class SandboxListener:
    """An address of the sandbox at which Rumi accepts connections.

    What connects there reaches `host`; None means the HTTP proxy.
    """

    address: str
    port: int
    host: Host | None = None

    def __str__(self) -> str:
        return str(Host(self.address, self.port))


def listeners_for(hosts: Iterable[Host]) -> tuple[SandboxListener, ...]:
    """Return where Rumi listens inside a sandbox; the first one is the proxy.

    Each allowed name has an address of loopback, so that a program that knows no proxies reaches it as well.
    So has each allowed address of loopback: programs use no proxy for these.
    """
    direct = []
    names: dict[str, str] = {}
    for host in hosts:
        if host.is_loopback:
            direct.append(SandboxListener(host.name, host.port, host))
        elif not host.is_ip:
            names.setdefault(host.name, f"127.1.0.{len(names) + 1}")
            direct.append(SandboxListener(names[host.name], host.port, host))
    taken = {listener.port for listener in direct if listener.address == LOOPBACK}
    port = next(port for port in range(_PROXY_PORT, 65536) if port not in taken)
    return (SandboxListener(LOOPBACK, port), *direct)


def names_of(listeners: Iterable[SandboxListener]) -> dict[str, str]:
    """Return the addresses of the allowed names in the sandbox."""
    names = {one.host.name: one.address for one in listeners if one.host and not one.host.is_ip}
    return {"localhost": LOOPBACK, **names}


def etc_hosts(listeners: Iterable[SandboxListener]) -> bytes:
    """Return the sandbox's /etc/hosts: each allowed name leads to its listener."""
    return "".join(f"{address} {name}\n" for name, address in names_of(listeners).items()).encode()


def variables_for(proxy: SandboxListener) -> dict[str, str]:
    """Return the variables by which programs find the sandbox's proxy."""
    url = f"http://{proxy}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    # A server may call programs that it started itself: they are on the sandbox's own loopback.
    none = "localhost,127.0.0.1,::1"
    return {
        **{spelled: url for name in names for spelled in (name, name.upper())},
        "no_proxy": none,
        "NO_PROXY": none,
        "NODE_USE_ENV_PROXY": "1",
        "GLOBAL_AGENT_HTTP_PROXY": url,
        "GLOBAL_AGENT_HTTPS_PROXY": url,
        "GLOBAL_AGENT_NO_PROXY": none,
    }
