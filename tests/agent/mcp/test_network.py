"""The network of a sandboxed server, with real sockets."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.failures import ServerFailed
from rumi.agent.mcp.process import environment_of
from rumi.agent.mcp.servers import try_once
from tests.agent.mcp.world import fake

pytestmark = pytest.mark.bubblewrap

REACH = """
import ctypes, json, os, pwd, socket, ssl, sys
tcp, udp = int(sys.argv[1]), int(sys.argv[2])
seen = {}
def attempt(name, what):
    try: seen[name] = what()
    except OSError as error: seen[name] = error.strerror or str(error)
def over_tcp():
    with socket.create_connection(("127.0.0.1", tcp), 5) as s: return s.recv(9).decode()
def over_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", udp)); s.settimeout(5); s.sendmsg([b"a"]); return s.recv(9).decode()
attempt("tcp", over_tcp)
attempt("udp", over_udp)
attempt("name", lambda: socket.getaddrinfo("localhost", 80, socket.AF_INET)[0][4][0])
attempt("interfaces", lambda: len(socket.if_nameindex()) > 0)
attempt("resolv.conf", lambda: open("/etc/resolv.conf").read())
attempt("nsswitch", lambda: os.path.exists("/etc/nsswitch.conf"))
seen["certificates"] = len(ssl.create_default_context().get_ca_certs())
seen["user"] = pwd.getpwuid(os.getuid()).pw_dir
seen["users"] = len(open("/etc/passwd").read().split())
print(json.dumps(seen), file=sys.stderr)
"""


@contextmanager
def listeners() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP and a UDP socket on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        yield tcp, udp


async def reached(tmp_path: Path, *, network: bool) -> dict[str, object]:
    """What a server in the sandbox reaches."""

    def answer(tcp: socket.socket, udp: socket.socket) -> None:
        tcp.settimeout(5)
        udp.settimeout(5)
        try:
            with tcp.accept()[0] as one:
                one.sendall(b"by tcp")
            udp.sendto(b"by udp", udp.recvfrom(9)[1])
        except TimeoutError:
            return

    with listeners() as (tcp, udp):
        words = ("-c", REACH, str(tcp.getsockname()[1]), str(udp.getsockname()[1]))
        async with trio.open_nursery() as nursery:
            if network:
                nursery.start_soon(trio.to_thread.run_sync, answer, tcp, udp)
            with pytest.raises(ServerFailed) as failed:
                await try_once(
                    fake(command=sys.executable, args=words, network=network), tmp_path, accept=False
                )
    found: dict[str, object] = json.loads(failed.value.lines[-1])
    return found


async def test_a_server_with_a_network_reaches_tcp_udp_and_names(tmp_path: Path) -> None:
    seen = await reached(tmp_path, network=True)
    assert (seen["tcp"], seen["udp"], seen["name"]) == ("by tcp", "by udp", "127.0.0.1")
    assert seen["interfaces"] is True
    assert seen["resolv.conf"] == Path("/etc/resolv.conf").read_text()
    assert seen["nsswitch"] == Path("/etc/nsswitch.conf").exists()
    assert seen["certificates"]


async def test_a_server_without_a_network_reaches_nothing(tmp_path: Path) -> None:
    seen = await reached(tmp_path, network=False)
    assert seen["tcp"] == "Connection refused"
    assert "by udp" not in str(seen)
    assert seen["resolv.conf"] == "No such file or directory"


async def test_a_server_finds_its_user_and_no_other(tmp_path: Path) -> None:
    seen = await reached(tmp_path, network=False)
    assert (seen["user"], seen["users"]) == ("/home/mcp", 1)


def test_a_proxy_is_inherited_with_a_network_and_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("http_proxy", "http://me:secret@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ssl/own.pem")
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/with@sign")
    with_network, without = environment_of(fake(network=True)), environment_of(fake())
    assert with_network["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert (with_network["NO_PROXY"], with_network["SSL_CERT_FILE"]) == ("localhost", "/etc/ssl/own.pem")
    assert "secret" not in str(with_network)
    assert not {"HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"} & without.keys()
    assert "/with@sign" in without["PATH"]
    assert environment_of(fake(env={"PYTHONHASHSEED": "7"}))["PYTHONHASHSEED"] == "7"


async def test_certificates_of_the_environment_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.pem"
    own.write_text("the certificate")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    script = "import os,sys; print(open(os.environ['SSL_CERT_FILE']).read(), file=sys.stderr)"
    with pytest.raises(ServerFailed) as failed:
        await try_once(
            fake(command=sys.executable, args=("-c", script), network=True), tmp_path / "home", accept=False
        )
    assert failed.value.lines == ("the certificate",)
