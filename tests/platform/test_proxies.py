"""What the variables of the environment say about proxies."""

import pytest

from rumi.platform.proxies import Proxies, SetupError, proxies, trouble

PROXY = "http://proxy:3128"


def reading(none: str) -> Proxies:
    return proxies({"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": none})


@pytest.mark.parametrize(
    ("none", "direct", "through"),
    [
        ("[::1]", ["[::1]"], ["[fd00::1]", "example.com"]),
        ("::1,fd00::/8", ["fd00::7", "fdff::1"], ["fe80::1", "2001:db8::1"]),
        ("fd07:b51a:cc66:f0::/64", ["fd07:b51a:cc66:f0::3"], ["fd07:b51a:cc66:f1::3"]),
        ("[fd00::]/8", ["fd00::7"], ["fe80::1"]),
        ("[2001:db8::5]:8080", ["[2001:db8::5]:8080"], ["[2001:db8::5]:443"]),
        ("fe80::1%eth0", ["fe80::1"], ["fe80::2"]),
        ("10.0.0.0/8,172.16.0.0/12", ["10.1.2.3", "172.20.0.1"], ["11.0.0.1", "172.32.0.1"]),
        ("192.168.1.77/24", ["192.168.1.5"], ["192.168.2.5"]),
        ("10.0.0.0/8", ["::ffff:10.1.2.3"], ["::ffff:11.1.2.3"]),
        ("example.com", ["example.com", "www.example.com", "EXAMPLE.com."], ["notexample.com"]),
        (".example.com", ["www.example.com", "example.com"], ["notexample.com"]),
        ("*.example.com", ["a.b.example.com"], ["example.org"]),
        ("example.com:8080", ["example.com:8080", "a.example.com:8080"], ["example.com", "example.com:8081"]),
        ("example.com:443", ["example.com"], ["example.com:8443"]),
        ("192.0.2.1:8443", ["192.0.2.1:8443"], ["192.0.2.1"]),
        ("*", ["example.com", "192.0.2.1", "[2001:db8::1]"], []),
        ("a.example, *", ["b.example"], []),
        (" , ,,a.example ,  b.example;c.example\td.example ,", ["a.example", "b.example", "c.example",
         "d.example"], ["e.example"]),
        ('"a.example,b.example"', ["a.example", "b.example"], ["c.example"]),
        ("https://a.example/,http://b.example:80/x", ["a.example"], []),
        ("bücher.example", ["xn--bcher-kva.example", "bücher.example"], ["bucher.example"]),
        ("my_host,my-host", ["my_host", "my-host"], ["myhost"]),
        ("a.example.", ["a.example"], []),
        ("", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]"], ["example.com", "localhost.example"]),
    ],
)  # fmt: skip
def test_the_hosts_of_no_proxy_are_reached_without_one(
    none: str, direct: list[str], through: list[str]
) -> None:
    known = reading(none)
    for host in direct:
        shown = f"[{host}]" if host.count(":") > 1 and "[" not in host else host
        assert known.to_url(f"https://{shown}/v1") is None, host
    for host in through:
        shown = f"[{host}]" if host.count(":") > 1 and "[" not in host else host
        assert known.to_url(f"https://{shown}/v1") is not None, host


@pytest.mark.parametrize(
    ("none", "unreadable"),
    [
        ("a.example,<local>,b.example", ("<local>",)),
        ("10.*,192.168.*.*", ("10.*", "192.168.*.*")),
        ("10.0.0.1-10.0.0.9", ()),  # it may be the name of a host
        ("300.1.1.1,10.0.0.0/99", ("300.1.1.1", "10.0.0.0/99")),
        ("[::1,[::1]x,::g/8", ("[::1]x", "::g/8")),
        ("host:port:more", ("host:port:more",)),
        ("a..b,-a.example,a/b", ("a..b", "-a.example", "a/b")),
        ("a" * 64, ("a" * 64,)),
    ],
)
def test_what_is_no_host_is_left_out_alone_and_named(none: str, unreadable: tuple[str, ...]) -> None:
    known = reading(f"before.example,{none},after.example")
    assert known.unreadable == unreadable
    assert known.to("https", "before.example") is known.to("https", "after.example") is None
    assert known.to("https", "other.example") is not None
    assert (known.warning is None) == (not unreadable)
    if known.warning is not None:
        assert "NO_PROXY" in known.warning
        assert unreadable[0][:40] in known.warning


def test_a_warning_is_short_and_shows_no_password() -> None:
    known = reading("user:canary-1@[x]," + ",".join(f"<{number}>" for number in range(200)))
    assert known.warning is not None
    assert len(known.warning) < 200
    assert "canary" not in known.warning


@pytest.mark.parametrize(
    ("value", "used"),
    [
        ("http://proxy:3128", "http://proxy:3128"),
        ("proxy:3128", "http://proxy:3128"),
        ("192.0.2.1:3128", "http://192.0.2.1:3128"),
        ("proxy", "http://proxy"),
        ("http://proxy:3128/", "http://proxy:3128"),
        (" http://proxy:3128 ", "http://proxy:3128"),
        ('"http://proxy:3128"', "http://proxy:3128"),
        ("HTTP://Proxy:3128", "http://Proxy:3128"),
        ("https://proxy:443", "https://proxy:443"),
        ("socks5://proxy:1080", "socks5://proxy:1080"),
        ("socks5h://proxy", "socks5h://proxy"),
        ("socks://proxy:1080/", "socks5h://proxy:1080"),
        ("http://[2001:db8::1]:3128", "http://[2001:db8::1]:3128"),
        ("http://user:p%40ss@proxy:3128", "http://user:p%40ss@proxy:3128"),
        ("user:pass@proxy:3128", "http://user:pass@proxy:3128"),
    ],
)
def test_the_address_of_a_proxy_is_read_in_its_usual_spellings(value: str, used: str) -> None:
    proxy = proxies({"HTTPS_PROXY": value}).to("https", "example.com")
    assert proxy is not None
    assert (proxy.url, proxy.variable) == (used, "HTTPS_PROXY")
    assert "pass" not in f"{proxy!r}{proxy.shown}"
    assert "p%40ss" not in f"{proxy!r}{proxy.shown}"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("socks4://user:canary@proxy:1080", "kind socks4"),
        ("socks4a://proxy:1080", "kind socks4a"),
        ("ftp://proxy", "kind ftp"),
        ("http://user:canary@proxy:port", "not the address"),
        ("http://user:canary#1@proxy:3128", "not the address"),
        ("http://user:canary/1@proxy:3128", "not the address"),
        ("http://user:canary@", "not the address"),
        ("http://:3128", "not the address"),
        ("http://proxy:99999", "not the address"),
        ("http://proxy:0", "not the address"),
        ("http://pro xy:3128", "not the address"),
        ("http://proxy\x1b[2J:3128", "not the address"),
        ("http://[::1:3128", "not the address"),
        ("://canary", "not the address"),
        ("direct:canary", "not the address"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence_with_the_variable(value: str, says: str) -> None:
    with pytest.raises(SetupError) as caught:
        proxies({"ALL_PROXY": value})
    assert str(caught.value).startswith("The proxy of the environment cannot be used: ALL_PROXY ")
    assert says in caught.value.message
    assert caught.value.advice
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "scheme", "variable"),
    [
        ({"HTTPS_PROXY": "a:1", "ALL_PROXY": "b:1"}, "https", "HTTPS_PROXY"),
        ({"HTTPS_PROXY": "a:1", "ALL_PROXY": "b:1"}, "http", "ALL_PROXY"),
        ({"HTTPS_PROXY": "a:1", "https_proxy": "b:1"}, "https", "https_proxy"),
        ({"HTTPS_PROXY": "a:1", "https_proxy": ""}, "https", None),
        ({"HTTP_PROXY": "a:1"}, "https", None),
        ({"HTTP_PROXY": "a:1"}, "http", "HTTP_PROXY"),
        ({"HTTP_PROXY": "a:1", "REQUEST_METHOD": "GET"}, "http", None),
        ({"all_proxy": "socks5://a:1", "no_proxy": "example.com"}, "https", None),
        ({"HTTPS_PROXY": "a:1", "HTTP_PROXY": "a:1", "ALL_PROXY": "socks4://b:1"}, "http", "HTTP_PROXY"),
        ({"HTTPS_PROXY": "socks4://a:1", "NO_PROXY": "*"}, "https", None),
        ({}, "https", None),
    ],
)
def test_the_first_variable_of_a_scheme_counts(
    variables: dict[str, str], scheme: str, variable: str | None
) -> None:
    proxy = proxies(variables).to(scheme, "example.com")
    assert (None if proxy is None else proxy.variable) == variable


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("NO_PROXY", "<local>", "NO_PROXY has entries that are not hosts and are ignored: <local>."),
        ("ALL_PROXY", "socks4://me:canary@proxy", "ALL_PROXY names a proxy of the kind socks4."),
        ("NO_PROXY", "[::1],fd00::/8", ""),
    ],
)
def test_the_start_says_what_is_wrong(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.lower(), raising=False)
    monkeypatch.setenv(name, value)
    assert trouble().endswith(says)
    assert bool(trouble()) == bool(says)
    assert "canary" not in trouble()
