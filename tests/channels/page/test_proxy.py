"""The page behind a proxy with TLS: `[page] url` names it, and its Host alone decides what counts."""

import json
from collections.abc import Iterator

import httpx
import pytest

from rumi.channels.page.address import public_origin
from rumi.platform.home import Home
from tests.channels.page.reverse_proxy import ReverseProxy
from tests.channels.page.served import Served
from tests.cli.program import Program

PUBLIC = "https://rumi.example.test"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("proxied") / "home", public=PUBLIC) as served:
        yield served


@pytest.fixture(scope="module")
def proxy(house: Served) -> Iterator[ReverseProxy]:
    with ReverseProxy(httpx.URL(house.url).port or 0, "rumi.example.test") as proxy:
        yield proxy


@pytest.fixture
def outside(proxy: ReverseProxy) -> Iterator[httpx.Client]:
    """A browser on the other side of the proxy. It keeps no cookies: these are named in each request."""
    with httpx.Client(base_url=proxy.url, headers={"Origin": PUBLIC}) as client:
        yield client


def path_of(link: str) -> str:
    assert link.startswith(f"{PUBLIC}/login?code=")
    return link.removeprefix(PUBLIC)


def cookie_of(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def entered(house: Served, client: httpx.Client) -> dict[str, str]:
    """Log in; return the header with the cookie."""
    link = house.do(house.page.entrance.door.renew)
    cookie = cookie_of(client.get(path_of(house.page.entrance.link_to(link))))
    client.cookies.clear()
    return {"Cookie": cookie}


def test_a_link_with_the_proxys_address_leads_in_with_a_secure_cookie(
    house: Served, outside: httpx.Client
) -> None:
    assert house.link.startswith(f"{PUBLIC}/login?code=")
    said = list(house.said)
    house.do(setattr, house.page.entrance.door, "_offered", None)
    assert outside.get("/").status_code == 403
    assert house.said == said  # who comes from elsewhere prints nothing
    came = outside.get(path_of(house.page.entrance.link_to(house.do(house.page.entrance.door.renew))))
    assert (came.status_code, came.headers["location"]) == (303, "/")
    cookie = came.headers["set-cookie"].lower()
    assert cookie.startswith("__host-rumi_443=")
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
    assert "domain" not in cookie
    outside.cookies.clear()
    own = {"Cookie": cookie_of(came)}
    page = outside.get("/", headers=own)
    assert page.status_code == 200
    assert cookie_of(page) == cookie_of(came)  # for as long again
    message = {"chat": "cli", "text": "say hello"}
    assert outside.post("/chat/send", json=message, headers=own).status_code == 200
    assert outside.post("/logout", json={}, headers=own).status_code == 204
    assert outside.get("/", headers=own).status_code == 403


@pytest.mark.parametrize(
    "origins",
    [
        ["http://rumi.example.test"],
        ["https://rumi.example.test:443"],
        ["https://rumi.example.test:8443"],
        ["https://rumi.example.test.evil.test"],
        ["https://evil.test"],
        ["http://127.0.0.1"],
        ["null"],
        [""],
        [PUBLIC, PUBLIC],
        [PUBLIC, "https://evil.test"],
        [],
    ],
)
def test_only_the_proxys_own_origin_counts_there(
    house: Served, outside: httpx.Client, origins: list[str]
) -> None:
    own = entered(house, outside)
    del outside.headers["Origin"]
    headers = [*own.items(), *(("Origin", origin) for origin in origins)]
    assert outside.post("/chat/seen", json={"chat": "cli"}, headers=headers).status_code == 403


def test_each_name_has_its_own_origin_and_cookie(house: Served, outside: httpx.Client) -> None:
    own = entered(house, outside)
    secret = own["Cookie"].partition("=")[2]
    port = httpx.URL(house.url).port
    assert outside.get("/", headers={"Cookie": f"rumi_{port}={secret}"}).status_code == 403
    with httpx.Client(base_url=house.url) as inside:
        assert inside.get("/", headers=own).status_code == 403
        assert inside.get("/", headers={"Origin": PUBLIC}).status_code == 403
        link = house.page.entrance.link_to(house.do(house.page.entrance.door.renew))
        assert inside.get(path_of(link)).status_code == 303  # loopback works beside it
        assert inside.get("/").status_code == 200
        assert inside.post("/chat/seen", json={"chat": "cli"}, headers={"Origin": PUBLIC}).status_code == 403
        for host in ("rumi.example.test:8443", "evil.rumi.example.test", "RUMI.example.test."):
            assert inside.get("/healthz", headers={"Host": host}).status_code == 403, host
        assert inside.get("/healthz", headers={"Host": "rumi.example.test:443"}).text == "ok\n"


def test_what_a_proxy_passes_on_is_not_of_this_machine(house: Served, outside: httpx.Client) -> None:
    assert httpx.get(f"{house.url}/metrics").status_code == 200
    assert outside.get("/metrics").status_code == 403
    for header in ("X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-IP"):
        assert httpx.get(f"{house.url}/metrics", headers={header: "127.0.0.1"}).status_code == 403, header
    assert outside.get("/metrics", headers=entered(house, outside)).status_code == 200
    assert outside.get("/healthz").text == "ok\n"
    forged = {"X-Forwarded-Host": "evil.test", "X-Forwarded-Proto": "http"}
    assert outside.get("/", headers=forged | entered(house, outside)).status_code == 200


def test_a_code_that_is_typed_on_the_closed_page_leads_in(house: Served, outside: httpx.Client) -> None:
    door = house.page.entrance.door
    house.do(setattr, door, "_tries", 5.0)
    closed = outside.get("/")
    assert closed.status_code == 403
    assert "rumi web link" in closed.text
    link = house.do(door.renew)
    wrong = outside.post("/login", data={"code": "BBBB-BBBB"})
    assert (wrong.status_code, "This code is wrong" in wrong.text) == (403, True)
    assert outside.post("/login", data={"code": link.shown}, headers={"Origin": "null"}).status_code == 403
    assert outside.post("/login", json={"code": link.shown}).status_code == 415
    assert outside.post("/login", content=b"code=" + b"x" * 9000).status_code in (413, 415)
    came = outside.post("/login", data={"code": link.shown.lower()})
    assert (came.status_code, came.headers["location"]) == (303, "/")
    assert outside.get("/", headers={"Cookie": cookie_of(came)}).status_code == 200
    for _ in range(6):
        last = outside.post("/login", data={"code": link.shown})
    assert (last.status_code, "Too many codes" in last.text) == (429, True)
    again = house.do(door.renew)
    typed = outside.post("/login", data={"code": house.page.entrance.link_to(again)})
    assert typed.status_code == 303  # a whole link, pasted; its secret needs no limit


def test_a_used_link_leads_who_is_logged_in_to_the_page(house: Served, outside: httpx.Client) -> None:
    door = house.page.entrance.door
    path = path_of(house.page.entrance.link_to(house.do(door.renew)))
    own = {"Cookie": cookie_of(outside.get(path))}
    outside.cookies.clear()
    again = outside.get(path, headers=own)
    assert (again.status_code, again.headers["location"]) == (303, "/")
    assert outside.get(path).status_code == 403
    # A click on another site's page brings no cookie: the page itself finds out.
    clicked = outside.get(path, headers={"Sec-Fetch-Site": "cross-site"})
    assert (clicked.status_code, 'content="0; url=/"' in clicked.text) == (200, True)
    assert "set-cookie" not in clicked.headers
    other = path_of(house.page.entrance.link_to(house.do(door.renew)))
    assert outside.get(other, headers=own).status_code == 303
    assert outside.get("/", headers=own).status_code == 403  # one login for a browser


def test_the_page_can_be_installed(outside: httpx.Client) -> None:
    answer = outside.get("/manifest.webmanifest")  # browsers ask for it without cookies
    assert answer.headers["content-type"] == "application/manifest+json"
    manifest = json.loads(answer.text)
    assert (manifest["start_url"], manifest["display"]) == ("/", "standalone")
    for icon in manifest["icons"]:
        picture = outside.get(icon["src"])
        width = int.from_bytes(picture.content[16:20], "big")
        assert (picture.headers["content-type"], f"{width}x{width}") == ("image/png", icon["sizes"])
    assert {"192x192", "512x512"} <= {icon["sizes"] for icon in manifest["icons"]}
    assert "manifest-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.long
def test_the_terminal_makes_links_and_ends_logins(house: Served, outside: httpx.Client) -> None:
    house.do(house.page.entrance.door.sessions.revoke, "all")
    with Home(house.folder).lock("rumi serve"):
        program = Program(house.folder, {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
        made = json.loads(program.run("web", "link", "--json").stdout)
        agent = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
        own = {"Cookie": cookie_of(outside.get(path_of(made["link"]), headers=agent))}
        (login,) = json.loads(program.run("web", "sessions", "--json").stdout)
        assert (login["name"], login["language"]) == ("Firefox · Linux", "en")
        assert login["id"] not in own["Cookie"]
        assert "No browser is logged in as nobody." in program.run("web", "revoke", "nobody", code=2).stderr
        assert "Logged out 1 browser." in program.run("web", "revoke", login["id"]).stdout
        assert outside.get("/", headers=own).status_code == 403


def test_the_origin_of_a_url_is_what_browsers_send() -> None:
    assert public_origin("https://Rumi.Example.test:443/") == PUBLIC
    assert public_origin("https://rumi.example.test:8443") == f"{PUBLIC}:8443"
    assert public_origin("https://münchen.example") == "https://xn--mnchen-3ya.example"
