"""Hostile pages, processes that die, and addresses of the inside, with a real Chromium."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from rumi.sandbox.confined.child import processes
from rumi.web.browser.messages import Password
from tests.conftest import ROOT
from tests.web.browser.site import Site, site
from tests.web.browser.world import World, browsers_of, browsing, descendants, until

pytestmark = [pytest.mark.browser, pytest.mark.bubblewrap, pytest.mark.long]


@pytest.fixture(scope="module")
def shop() -> Iterator[Site]:
    with site() as made:
        yield made


def sees(pid: int, path: str) -> bool:
    """Return True if a process sees a path; a process that has ended sees nothing."""
    return os.access(f"/proc/{pid}/root{path}", os.F_OK)


async def text(world: World, shop: Site, path: str) -> str:
    """Open a page in a turn of its own, and return what the model reads."""
    world.turn()
    return (await world.call("open", url=shop.url(path))).content


async def test_dialogs_popups_downloads_and_odd_links_are_bounded(tmp_path: Path, shop: Site) -> None:
    shop.orders.clear()
    async with browsing(tmp_path, shop, max_pages=2) as world:
        said = await text(world, shop, "/dialogs")
        assert "hello there" in said
        declined = await world.call("click", ref=world.ref("Buy"))
        assert "Really order?" in declined.content
        assert shop.orders == []
        await world.call("click", ref=world.ref("Buy"), accept="Really order?")
        assert shop.orders == [""]
        assert "and says yes to: Really order?" in world.questions[-1]
        await text(world, shop, "/popup")
        assert "four legs" in (await world.call("click", ref=world.ref("open"))).content
        await text(world, shop, "/popup")
        assert "too many are open" in (await world.call("click", ref=world.ref("open"))).content
        await text(world, shop, "/download")
        assert "was not downloaded" in (await world.call("click", ref=world.ref("the file"))).content
        await text(world, shop, "/links")
        before = world.page.url
        for label in ("a file", "inside"):
            assert "root:" not in (await world.call("click", ref=world.ref(label))).content
            assert world.page.url == before
        for url in (
            "file:///etc/passwd",
            "chrome://version",
            "javascript:alert(1)",
            "view-source:http://a.b/",
        ):
            assert not (await world.call("open", url=url)).ok, url


async def test_workers_send_nothing_after_a_click_that_nobody_approved(tmp_path: Path, shop: Site) -> None:
    shop.orders.clear()
    async with browsing(tmp_path, shop) as world:
        for path in ("/worker", "/shared", "/service"):
            await text(world, shop, path)
            if path == "/service":
                while "ready" not in (await world.call("read")).content:
                    pass
            result = await world.call("click", ref=world.ref("Read in"))
            assert "POST request" in result.content, path
            await trio.sleep(0.3)
        assert shop.orders == []


async def test_a_profile_keeps_the_login_until_it_is_forgotten(tmp_path: Path, shop: Site) -> None:
    passwords = {"shop": Password(f"127.0.0.1:{shop.port}", "hunter22")}
    async with browsing(tmp_path, shop, passwords=passwords) as world:
        await text(world, shop, "/login")
        fields = [{"ref": world.ref("Password"), "password": "shop"}]
        await world.call("fill", fields=fields, submit="enter")
        assert "submit “Enter”" in world.questions[-1]
        assert shop.logins[-1]["password"] == ["hunter22"]
    async with browsing(tmp_path, shop) as world:
        assert "sid=s3" in await text(world, shop, "/whoami")
        assert "nobody" in await text(World(world.browsers, owner="tg-5", chat="tg-5"), shop, "/whoami")
        assert await world.browsers.forget("local") == 1
        assert not (tmp_path / "browser" / "local").exists()
        assert "nobody" in await text(world, shop, "/whoami")


class Names:
    """A resolver whose answers change: the first is public, the next ones are inside."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def addresses(self, host: str) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        answers = {
            "inside.example": ["10.0.0.1"],
            "metadata.example": ["169.254.169.254"],
            "rebinding.example": ["93.184.216.34"] if len(self.asked) < 2 else ["127.0.0.1"],
            "shop.example": ["127.0.0.1"],
        }
        return answers.get(host, ["192.168.1.1"])


async def test_no_page_reaches_an_address_of_the_inside(tmp_path: Path, shop: Site) -> None:
    names = Names()
    async with browsing(tmp_path, shop, resolver=names) as world:
        for url in ("http://127.0.0.1/", "http://localhost/", "http://192.168.1.1/", "http://[::1]/"):
            world.turn()
            assert "not public" in (await world.call("open", url=url)).content, url
        for host in ("inside.example", "metadata.example"):
            for scheme in ("http", "https"):
                world.turn()
                found = await world.call("open", url=f"{scheme}://{host}/")
                assert "not public" in found.content, (scheme, host)
        assert "in" not in (await text(world, shop, "/local")).rpartition("title: N")[2].split()
        # A name that is allowed reaches the checked address, and is resolved by Rumi alone.
        world.turn()
        assert "Chairs" in (await world.call("open", url=shop.url("/shop", "shop.example"))).content
        assert names.asked.count("shop.example") >= 1


async def test_huge_endless_and_silent_pages_are_bounded(tmp_path: Path, shop: Site) -> None:
    async with browsing(tmp_path, shop, timeout_s=6) as world:
        huge = await text(world, shop, "/huge")
        assert "elements. Only its text" in huge
        assert len(huge) < 20_000
        assert "goes on: browser_read with from=" in huge
        assert "word" in (await world.call("read", **{"from": 5000})).content
        assert "too many redirects" in await text(world, shop, "/loop")
        assert "the beginning" in await text(world, shop, "/never")
        assert "did not answer in time" in await text(world, shop, "/silent")


async def test_a_crashed_or_greedy_browser_ends_alone_and_the_next_step_starts_another(
    tmp_path: Path, shop: Site
) -> None:
    async with browsing(tmp_path, shop, max_bytes=700 << 20) as world:
        other = World(world.browsers, owner="tg1", chat="tg1")
        await text(world, shop, "/shop")
        await text(other, shop, "/more")
        assert (tmp_path / "browser" / "local").stat().st_mode & 0o077 == 0
        await text(world, shop, "/hog")
        await until(lambda: world.browsers.snapshot("local", "cli") is None, 30)
        assert "four legs" in (await other.call("read")).content
        assert "Chairs" in await text(world, shop, "/shop")
        for pid in browsers_of(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await until(lambda: world.browsers.snapshot("tg1", "tg1") is None)
        assert "Chairs" in await text(world, shop, "/shop")


async def test_a_page_sees_no_files_of_the_machine(tmp_path: Path, shop: Site) -> None:
    async with browsing(tmp_path, shop) as world:
        await text(world, shop, "/shop")
        pids = [pid for pid in browsers_of(os.getpid()) if pid in processes()]
        assert any(sees(pid, "/usr/bin") for pid in pids)
        for pid in pids:
            assert not any(sees(pid, path) for path in (str(tmp_path), "/root", "/etc/shadow", "/sys"))
            status = Path(f"/proc/{pid}/status").read_text()
            assert "NoNewPrivs:\t1" in status
            assert "Seccomp:\t2" in status
        # The processes that read pages are in Chromium's own sandbox too: a namespace below the outer one.
        pids = [pid for pid in pids if os.access(f"/proc/{pid}/ns/user", os.R_OK)]
        spaces = {os.readlink(f"/proc/{pid}/ns/user") for pid in pids}
        assert len(spaces) >= 2


KILLED = """
import sys, trio
from pathlib import Path
from tests.web.browser.site import site
from tests.web.browser.world import browsing

async def main():
    with site() as shop:
        async with browsing(Path(sys.argv[1]), shop) as world:
            print("starting", flush=True)
            await world.call("open", url=shop.url("/shop"))
            print("open", flush=True)
            await world.call("open", url=shop.url("/silent"))

trio.run(main)
"""


@pytest.mark.parametrize("moment", ["starting", "open"])
def test_nothing_of_the_browser_outlives_a_killed_rumi(tmp_path: Path, moment: str) -> None:
    rumi = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    with rumi:
        assert rumi.stdout is not None
        while rumi.stdout.readline() != f"{moment}\n":
            pass
        trio.run(until, lambda: browsers_of(rumi.pid))
        all_of_it = descendants(rumi.pid)
        os.kill(rumi.pid, signal.SIGKILL)
    trio.run(until, lambda: not any(Path(f"/proc/{pid}").exists() for pid in all_of_it))


async def test_a_page_that_spins_is_closed(
    tmp_path: Path, shop: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.web.browser.cdp.ANSWER_S", 2.0)
    async with browsing(tmp_path, shop) as world:
        await text(world, shop, "/busy")
        result = await world.call("click", ref=world.ref("spin"))
        assert "does not answer" in result.content
        assert "Chairs" in await text(world, shop, "/shop")
