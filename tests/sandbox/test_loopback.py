"""The network of a sandbox: a loopback of the chat's own, and nothing else, in both engines."""

import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, Container, Engine, SandboxLimits
from rumi.sandbox.workspace import prepare_workspace
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.sandbox.desk import ENGINES, image_of

SELECTION = Selection("work")
LIMITS = SandboxLimits(memory_bytes=256 << 20)
WAIT = "for i in $(seq 100); do curl -s {} > /dev/null && break; sleep 0.1; done"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose root file system is made once."""
    return tmp_path_factory.mktemp("loopback")


@pytest.fixture(scope="module")
def work_image() -> Iterator[str]:
    with image_of("loopback", SELECTION) as name:
        yield name


@pytest.fixture(params=ENGINES)
def image(request: pytest.FixtureRequest) -> str:
    """Docker's image; empty for bubblewrap."""
    return str(request.getfixturevalue("work_image")) if request.param == "docker" else ""


@pytest.fixture
async def engine(image: str, home: Path) -> AsyncIterator[Engine]:
    installation = secrets.token_hex(6)
    engine: Engine = (
        DockerEngine(installation, LIMITS, image=image, home=home)
        if image
        else BubblewrapEngine(home, installation, LIMITS, selection=SELECTION)
    )
    async with cleaned_up(engine):
        yield engine


async def box(engine: Engine, home: Path, chat: str = "") -> Container:
    """A container of a chat, by default of a new one."""
    chat = chat or secrets.token_hex(4)
    return await engine.create(chat, prepare_workspace(home, chat, *engine.user))


async def run(container: Container, *argv: str) -> tuple[int, str]:
    said = bytearray()
    code = await container.execute(Command(argv), said.extend, said.extend)
    return code, said.decode()


async def sh(container: Container, script: str) -> str:
    code, said = await run(container, "bash", "-c", script)
    assert code == 0, said
    return said


async def python(container: Container, script: str) -> str:
    code, said = await run(container, "python3", "-c", script)
    assert code == 0, said
    return said


@contextmanager
def listening(family: int, address: object) -> Iterator[socket.socket]:
    """A server on this machine."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        yield server


TRIED = """
import socket
for family, address in {addresses!r}:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(3)
        try:
            client.connect(address)
            print("reached", address)
        except OSError as error:
            print(type(error).__name__, error.errno)
"""


async def test_a_server_is_reached_by_name_and_by_both_versions(engine: Engine, home: Path) -> None:
    container = await box(engine, home)
    serve = "import http.server as h, sys; h.test(h.SimpleHTTPRequestHandler, port=8000, bind=sys.argv[1])"
    await sh(container, "echo hello > index.html")
    for bind, address in (("127.0.0.1", "localhost"), ("::1", "[::1]"), ("0.0.0.0", "127.0.0.2")):
        url = f"http://{address}:8000/"
        script = f"python3 -c '{serve}' {bind} > log 2>&1 & {WAIT.format(url)}; curl -s {url}"
        assert await sh(container, script) == "hello\n", await sh(container, "cat log")


async def test_a_program_may_listen_at_any_port_and_by_udp(engine: Engine, home: Path) -> None:
    said = await python(
        await box(engine, home),
        "import socket\n"
        "low = socket.create_server(('localhost', 80))\n"
        "one, two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))\n"
        "one.bind(('127.0.0.1', 0))\n"
        "two.sendto(b'datagram', one.getsockname())\n"
        "print(one.recv(100).decode(), low.getsockname()[1])",
    )
    assert said == "datagram 80\n"


async def test_the_commands_of_a_chat_share_a_network_that_no_other_has(engine: Engine, home: Path) -> None:
    one, two = await box(engine, home), await box(engine, home)
    networks = [await sh(container, "readlink /proc/self/ns/net") for container in (one, one, two)]
    assert networks[0] == networks[1]
    assert len({*networks, f"{Path('/proc/self/ns/net').readlink()}\n"}) == 3


async def test_no_server_of_the_host_is_reached(engine: Engine, home: Path) -> None:
    name, container = f"\0rumi-{secrets.token_hex(6)}", await box(engine, home)
    with (
        listening(socket.AF_INET, ("0.0.0.0", 0)) as one,
        listening(socket.AF_INET6, ("::1", 0)) as two,
        listening(socket.AF_UNIX, name),
    ):
        port = one.getsockname()[1]
        addresses = [
            (int(socket.AF_INET), ("127.0.0.1", port)),
            *((int(socket.AF_INET), (address, port)) for address in ("172.17.0.1", "192.0.2.1")),
            (int(socket.AF_INET6), ("::1", two.getsockname()[1])),
            (int(socket.AF_UNIX), name),
        ]
        said = await python(container, TRIED.format(addresses=addresses))
    refused, unreachable = "ConnectionRefusedError 111", "OSError 101"
    assert said.splitlines() == [refused, unreachable, unreachable, refused, refused]


async def test_no_server_of_another_chat_is_reached(engine: Engine, home: Path) -> None:
    mine = secrets.token_hex(4)
    one, two = await box(engine, home, mine), await box(engine, home)
    serve = (
        "import socket, time\n"
        "servers = socket.create_server(('127.0.0.1', 8000)), socket.socket(socket.AF_UNIX)\n"
        "servers[1].bind('\\0mine'); servers[1].listen(); open('up', 'w').close(); time.sleep(60)"
    )
    addresses = [(int(socket.AF_INET), ("127.0.0.1", 8000)), (int(socket.AF_UNIX), "\0mine")]
    look = TRIED.format(addresses=addresses)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, one, "python3", "-c", serve)
        with trio.fail_after(30):
            while not (prepare_workspace(home, mine, *engine.user) / "up").exists():  # noqa: ASYNC110  # set by the command
                await trio.sleep(0.05)
        assert await python(two, look) == "ConnectionRefusedError 111\n" * 2
        await one.kill_all()
    assert await python(one, look) == "ConnectionRefusedError 111\n" * 2, "a kill leaves no server"


async def test_no_command_changes_the_network(engine: Engine, home: Path) -> None:
    said = await python(
        await box(engine, home),
        "import fcntl, socket, struct\n"
        "device = socket.socket()\n"
        "address = struct.pack('16sHH4s8x', b'lo', 2, 0, socket.inet_aton('10.0.0.1'))\n"
        "route = bytes(8) + struct.pack('HH4s8x', 2, 0, bytes(4)) * 3 + bytes(64)\n"
        "for what, data in ((0x8914, struct.pack('16sH22x', b'lo', 0)), (0x8916, address), (0x890B, route),\n"
        "                   (0x8922, struct.pack('16si20x', b'lo', 100))):\n"
        "    try: print(hex(what), fcntl.ioctl(device, what, data))\n"
        "    except OSError as error: print(error.errno)\n"
        "for name in ('ip_forward', 'tcp_rmem', 'ip_unprivileged_port_start'):\n"
        "    try: print(open(f'/proc/sys/net/ipv4/{name}', 'w').write('1'))\n"
        "    except OSError as error: print(error.errno)\n",
    )
    *calls, one, two, three = said.splitlines()
    assert set(calls) <= {"1", "25"}, said  # EPERM, ENOTTY
    assert {one, two, three} <= {"13", "30"}, said  # EACCES, EROFS


async def test_a_name_of_elsewhere_is_unknown_at_once(engine: Engine, home: Path) -> None:
    said = await sh(
        await box(engine, home),
        "curl -sS -m 20 http://example.org/; echo $?; curl -sS http://8.8.8.8/; echo $?",
    )
    assert "Could not resolve host" in said
    assert [line for line in said.splitlines() if line.isdigit()] == ["6", "7"]


FULL = """
import os, socket
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
for _ in range(30):
    if not os.fork():
        kept = []
        try:
            while len(kept) < 500:
                kept.append(socket.create_connection(server.getsockname(), timeout=1))
                kept[-1].setblocking(False)
                try:
                    while kept[-1].send(bytes(1 << 20)):
                        pass
                except BlockingIOError:
                    pass
        except OSError:
            pass
        os._exit(0) if len(kept) >= 500 else __import__("time").sleep(30)
__import__("time").sleep(4)
print([line.split()[-1] for line in open("/proc/net/sockstat") if line.startswith("TCP:")][0])
"""


@pytest.mark.long
@pytest.mark.bounds("memory")
async def test_the_buffers_of_sockets_are_bounded(engine: Engine, home: Path) -> None:
    code, said = await run(await box(engine, home), "python3", "-c", FULL)
    pages = int(said) if code == 0 else 0  # or the memory's limit ended it
    assert pages * 4096 < LIMITS.memory_bytes
