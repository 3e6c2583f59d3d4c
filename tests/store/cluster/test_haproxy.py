"""`deploy/haproxy.cfg` as it is, but for its addresses, before three real workers: webhook and page."""

import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme

from tests.channels.page.test_talk import say
from tests.cli.program import CORE
from tests.cli.telegram_bot import Talk
from tests.cli.telegram_world import World
from tests.conftest import REQUIRED, ROOT
from tests.postgres import Server, free_port
from tests.store.cluster.homes import Database, Worker

HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIG = ROOT / "deploy/haproxy.cfg"
NAMES = ("one", "two", "three")
PEOPLE = 6

pytestmark = [pytest.mark.long, pytest.mark.bubblewrap]


def until(condition: Callable[[], object], what: Callable[[], object], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


class Proxied(Worker):
    """A worker with a page and a webhook's listener, which can start again."""

    def __init__(self, home: Path, url: str, name: str, world: World, proxy: int) -> None:
        super().__init__(home, url)
        self.name, self.page, self.listener = name, free_port(), free_port()
        self.environment |= CORE | {
            "RUMI_SERVE__WEB": f"127.0.0.1:{self.page}",
            "RUMI_PAGE__URL": f"https://{name}.rumi.example.org",
            "RUMI_TELEGRAM__WEBHOOK": f"http://127.0.0.1:{proxy}/telegram",
            "RUMI_TELEGRAM__LISTEN": f"127.0.0.1:{self.listener}",
            "RUMI_TELEGRAM__ALLOWED_USERS": ",".join(str(1001 + n) for n in range(PEOPLE + 1)),
            "TELEGRAM_TOKEN": world.api.token,
            "TELEGRAM_BASE_URL": world.telegram.root,
        }

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class House:
    """Three workers behind HAProxy: `secure` is its port with TLS, `plain` the one that Telegram uses."""

    workers: dict[str, Proxied]
    database: Database
    world: World
    secure: int
    plain: int
    authority: Path

    def logs(self) -> str:
        return "\n".join(worker.log.read_text()[-1500:] for worker in self.workers.values())

    def get(self, name: str, path: str) -> httpx.Response:
        """A request with TLS to a name, as a browser that knows the authority makes it."""
        with httpx.Client(
            verify=ssl.create_default_context(cafile=self.authority), trust_env=False
        ) as client:
            headers = {"Host": name}
            url = f"https://127.0.0.1:{self.secure}{path}"
            return client.get(url, headers=headers, extensions={"sni_hostname": name})


def adapted(workers: dict[str, Proxied], secure: int, plain: int, certificate: Path) -> str:
    """Return the configuration with this test's addresses, in place of each address that it names."""
    text = CONFIG.read_text("utf-8")
    for number, worker in enumerate(workers.values(), 1):
        text = text.replace(f"10.0.0.{number}:8443", f"127.0.0.1:{worker.listener}")
        text = text.replace(f"10.0.0.{number}:8080", f"127.0.0.1:{worker.page}")
    text = text.replace(
        "bind :443 ssl crt /etc/haproxy/certs/", f"bind 127.0.0.1:{secure} ssl crt {certificate}"
    )
    # Telegram has no certificate of ours: here it comes over a connection without TLS.
    text = text.replace("bind :80\n", f"bind 127.0.0.1:{plain}\n")
    text = text.replace("unless { ssl_fc }", "unless { ssl_fc } or { path_beg /telegram }")
    text = text.replace("bot.example.org", "127.0.0.1")
    assert not re.findall(r"10\.0\.0|/etc/|bind :", text.partition("global")[2])
    return text


@pytest.fixture(scope="module")
def house(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    if HAPROXY is None:
        assert "haproxy" not in REQUIRED, "HAProxy is not installed"
        pytest.skip("HAProxy is not installed; on Debian: apt-get install haproxy")
    folder = tmp_path_factory.mktemp("proxied")
    url, secure, plain = postgres.new_database(), free_port(), free_port()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    names = [f"{name}.rumi.example.org" for name in NAMES]
    certified = authority.issue_cert(*names, "other.example.org")
    certified.private_key_and_cert_chain_pem.write_to_path(folder / "certificate.pem")
    with World(now=lambda: time.time() - 1_600_000_000) as world:
        workers = {name: Proxied(folder / name, url, name, world, plain) for name in NAMES}
        (folder / "haproxy.cfg").write_text(adapted(workers, secure, plain, folder / "certificate.pem"))
        checked = subprocess.run(
            [HAPROXY, "-c", "-f", folder / "haproxy.cfg"], capture_output=True, text=True
        )
        assert checked.returncode == 0, checked.stderr
        assert "WARNING" not in checked.stderr, checked.stderr
        haproxy = subprocess.Popen([HAPROXY, "-db", "-f", folder / "haproxy.cfg"], stderr=subprocess.DEVNULL)
        try:
            for worker in workers.values():
                worker.start()
            for worker in workers.values():
                worker.until_listening()
            with closing(Database(url)) as database:
                database.until_shared(3)
                found = House(workers, database, world, secure, plain, folder / "authority.pem")
                for name in names:
                    until(lambda: found.get(name, "/healthz").status_code == 200, found.logs)  # noqa: B023
                until(lambda: world.do(lambda: world.api.account.webhook), found.logs)
                yield found
        finally:
            for worker in workers.values():
                worker.end()
            haproxy.terminate()
            haproxy.wait(20)


def test_a_webhook_through_the_proxy_loses_nothing_when_a_worker_is_killed(house: House) -> None:
    """A third of the people write, a worker is killed, and it starts again while the last third writes."""
    talks = [Talk(house.world) for _ in range(PEOPLE)]
    for number, talk in enumerate(talks):
        talk.say(f"$ echo answer-{number}")
        if number == PEOPLE // 3:
            house.workers["two"].kill()
        if number == 2 * PEOPLE // 3:
            house.workers["two"].start()

    def missing() -> list[int]:
        """The people whose message has no final reply yet."""
        open_rows = house.database.rows("SELECT count(*) FROM messages WHERE reply IS NULL")
        return [n for n, talk in enumerate(talks) if not talk.texts] or [-1] * int(open_rows[0][0])

    until(lambda: not missing(), lambda: f"{missing()}\n{house.logs()}")
    rows = house.database.rows(
        "SELECT chat, count(*), count(DISTINCT reply) FROM messages WHERE chat LIKE 'tg%' GROUP BY chat"
    )
    assert sorted(rows) == sorted((talk.chat, 1, 1) for talk in talks)
    undelivered = "SELECT count(*) FROM outbox WHERE delivered IS NULL AND failure IS NULL"
    until(lambda: house.database.rows(undelivered)[0][0] == 0, house.logs)
    answered = [n for n, talk in enumerate(talks) if f"answer-{n}" in "".join(talk.texts)]
    assert len(answered) >= PEOPLE * 2 // 3, [talk.texts for talk in talks]  # a turn that was cut asks
    house.workers["two"].until_listening()
    house.database.until_shared(3)


def test_names_that_are_not_rumis_get_404_and_http_leads_to_https(house: House) -> None:
    assert house.get("one.rumi.example.org", "/").status_code == 403  # without a login
    assert house.get("other.example.org", "/").status_code == 404
    with httpx.Client(trust_env=False) as client:
        answer = client.get(f"http://127.0.0.1:{house.plain}/", headers={"Host": "one.rumi.example.org"})
    assert answer.status_code == 308
    assert answer.headers["location"] == "https://one.rumi.example.org/"


@pytest.mark.browser
def test_the_page_works_through_the_proxy_and_keeps_its_login_over_a_kill(house: House) -> None:
    from playwright.sync_api import expect, sync_playwright

    one = house.workers["one"]
    link = one.run("web", "link").stdout.strip()
    assert link.startswith("https://one.rumi.example.org/login?code=")
    with sync_playwright() as playwright:
        resolve = f"--host-resolver-rules=MAP *.rumi.example.org:443 127.0.0.1:{house.secure}"
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[resolve])
        try:
            page = browser.new_context(ignore_https_errors=True).new_page()
            page.goto(link)
            assert page.url.startswith("https://one.rumi.example.org/")
            say(page, "$ echo through the proxy")
            expect(page.locator(".entry.answer.done").last).to_contain_text(
                "through the proxy", timeout=30_000
            )
            one.kill()
            one.start()
            one.until_listening()
            say(page, "$ echo after the kill")  # the page connects again by itself, with its login
            expect(page.locator(".entry.answer.done").last).to_contain_text("after the kill", timeout=40_000)
            assert page.url.startswith("https://one.rumi.example.org/")
        finally:
            browser.close()
