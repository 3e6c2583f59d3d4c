"""Reading URLs: what is refused, and that the host is always the one that the WHATWG parse gives."""

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchRefused
from rumi.web.url import MAX_URL_BYTES, host_of, join_target, normal, parse_target
from tests.fakes.dns_server import DnsServer
from tests.fakes.resolving import AskingResolver

HOSTS = {
    "http://example.com": "example.com",
    "HTTP://EXAMPLE.COM/": "example.com",
    "https://example.com.": "example.com.",
    " https://example.com/ ": "example.com",
    "http:example.com": "example.com",
    "http:/example.com": "example.com",
    "http:////example.com": "example.com",
    "http://ex%61mple.com": "example.com",
    "http://EX%41MPLE.com": "example.com",
    "http://ｅｘａｍｐｌｅ.com": "example.com",
    "http://example。com": "example.com",
    "http://exa\u00admple.com": "example.com",
    "http://niño.es": "xn--nio-8ma.es",
    "http://faß.de": "xn--fa-hia.de",
    "http://☃.net": "xn--n3h.net",
    "http://XN--nio-8ma.es": "xn--nio-8ma.es",
    "http://a..b/": "a..b",
    "http://_a_.b/": "_a_.b",
    "http://a!$&'()*+,;=b/": "a!$&'()*+,;=b",
    "http://127.1": "127.0.0.1",
    "http://127.0.1": "127.0.0.1",
    "http://127.0.0.1.": "127.0.0.1",
    "http://0177.0.0.1": "127.0.0.1",
    "http://0x7f.1": "127.0.0.1",
    "http://0x7F000001": "127.0.0.1",
    "http://017700000001": "127.0.0.1",
    "http://2130706433": "127.0.0.1",
    "http://%31%32%37.0.0.1": "127.0.0.1",
    "http://①②⑦.0.0.1": "127.0.0.1",
    "http://127。0。0。1": "127.0.0.1",
    "http://0": "0.0.0.0",
    "http://0x": "0.0.0.0",
    "http://1.2.3": "1.2.0.3",
    "http://[::1]": "::1",
    "http://[0:0::1]": "::1",
    "http://[::127.0.0.1]": "::7f00:1",
    "http://[::ffff:169.254.169.254]": "::ffff:a9fe:a9fe",
    "http://[2606:4700::0:1111]": "2606:4700::1111",
    "http://example.com?@127.0.0.1/": "example.com",
    "http://example.com#@127.0.0.1/": "example.com",
    "http://example.com/@127.0.0.1": "example.com",
    "http://example.com/?a\\b": "example.com",
    "http://example.com/#\\": "example.com",
    "http://example.com:80/": "example.com",
    "http://example.com:/": "example.com",
    "http://example.com:00443/": "example.com",
    "http://example.com/a b": "example.com",
}

# No browser looks up such a name in vain: labels that decode to nothing cannot be registered.
UNDECODABLE = ("http://xn--/", "http://xn--a/")

REFUSED = {
    "not a valid URL": [
        "", " ", "x", "example.com", "//example.com", "/etc/passwd", "http:", "http://", "http:///",
        "http://?", "http://#", "http://:80", "http://[", "http://]", "http://[]", "http://[::1",
        "http://::1/", "http://[::1]x/", "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/",
        "http://[1::2::3]/", "http://[::1.2.3]/", "http://[127.0.0.1]/", "http://256.256.256.256/",
        "http://1.2.3.4.5/", "http://0x100000000/", "http://4294967296/", "http://08.0.0.1/", "http://a b/",
        "http://a%20b/", "http://a%00b/", "http://a%/", "http://a<b/", "http://a>b/", "http://a^b/",
        "http://a|b/", "http://%zz/", "http://a%2fb/", "http://a%3ab/", "http://a%40b/",
        "http://example.com:99999/", "http://example.com:x/", "http://example.com:80x/",
        "http://example.com: 80/", "http://\ufdd0zyx.com/", "http://\u202e/", "http://example.com:-1/",
        "http://\ud800/", "http://example.com/\udfff", *UNDECODABLE,
    ],
    "Only http and https": [
        "file:///etc/passwd", "ftp://example.com/", "ws://example.com/", "wss://example.com/",
        "gopher://example.com/", "data:text/plain,x", "javascript:alert(1)", "mailto:a@example.com",
        "about:blank", "blob:https://example.com/1", "view-source:http://example.com/",
        "httpx://example.com/", "unix:/run/docker.sock", "dict://127.0.0.1:11211/",
    ],
    "user info": [
        "http://a@example.com/", "http://a:b@example.com/", "http://:b@example.com/",
        "http://@example.com/", "http://:@example.com/", "http://example.com@127.0.0.1/",
        "http://127.0.0.1@example.com/", "http://example.com:80@127.0.0.1/", "http://a@b@example.com/",
        "http:a@example.com/", "http:/a@example.com", "http://%40@example.com/", "  http://a@example.com",
    ],
    "backslash": [
        "http://example.com\\@127.0.0.1/", "http:\\\\example.com\\", "http://example.com\\",
        "http://example.com/a\\b", "http://127.0.0.1\\.example.com/", "\\\\example.com",
        "http://example.com\\?a",
    ],
    "control characters": [
        "http://exam\tple.com/", "http://exam\nple.com/", "http://example.com/\r\nHost: x",
        "http://example.com/\0", "http://example.com/?a\x7f", "http://example.com/#\x1b[2J",
        "\x01http://example.com/", "http://example.com/\x9b", "java\tscript:x", "h\nttp://example.com",
    ],
    "too long": [
        "http://example.com/" + "a" * MAX_URL_BYTES, "http://example.com/" + "ñ" * (MAX_URL_BYTES // 3),
    ],
}  # fmt: skip

PARTS = st.sampled_from([*"\\/:@?#[]%.-_ \t\n\0x0１①。é", "http", "https", "://", "//", "127.0.0.1", "0177",
                         "example.com", "::1", "::ffff:", "%2e", "%40", "xn--", "8080", "80",
                         "\u200d", "\u00ad", "\u2044", "ß"])  # fmt: skip
URLS = st.one_of(
    st.lists(PARTS, max_size=12).map("".join),
    st.lists(PARTS, max_size=8).map(lambda parts: "http://" + "".join(parts)),
    st.text(max_size=40).map(lambda text: "https://" + text),
    st.text(max_size=40),
)


@pytest.mark.parametrize(("url", "host"), HOSTS.items())
def test_a_valid_url_has_the_host_that_the_whatwg_parse_gives(url: str, host: str) -> None:
    target = parse_target(url)
    assert target.host == host
    assert ada_url.URL(url).hostname in (host, f"[{host}]")


@pytest.mark.parametrize(("why", "url"), [(why, url) for why, urls in REFUSED.items() for url in urls])
def test_what_is_invalid_or_can_be_read_in_two_ways_is_refused(why: str, url: str) -> None:
    with pytest.raises(FetchRefused, match=why):
        parse_target(url)
    assert normal(url) is None


def test_a_target_has_what_a_connection_and_a_request_need() -> None:
    target = parse_target("HTTPS://Example.COM:8443/a b/../ñ?q=ñ&r='#part")
    assert (target.scheme, target.host, target.port, target.is_ip) == ("https", "example.com", 8443, False)
    assert target.path_and_query == "/%C3%B1?q=%C3%B1&r=%27"
    assert target.authority == "example.com:8443"
    assert target.page == "https://example.com:8443/%C3%B1?q=%C3%B1&r=%27"
    assert target.href == "https://example.com:8443/%C3%B1?q=%C3%B1&r=%27#part"


def test_an_ipv6_address_has_brackets_in_the_authority_only() -> None:
    target = parse_target("http://[2606:4700::1]:80/")
    assert (target.host, target.authority, target.is_ip) == ("2606:4700::1", "[2606:4700::1]", True)


@pytest.mark.parametrize(("url", "port"), [("http://a/", 80), ("https://a/", 443),
                                           ("http://a:443/", 443), ("https://a:80/", 80),
                                           ("http://a:0/", 0),
                                           ("http://a:65535/", 65535)])  # fmt: skip
def test_the_port_is_the_schemes_own_where_there_is_none(url: str, port: int) -> None:
    assert parse_target(url).port == port


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b", "https://example.com/b#here"),
        ("c?d", "https://example.com/a/c?d#here"),
        ("#there", "https://example.com/a/x?y#there"),
        ("", "https://example.com/a/x?y#here"),
        ("//other.org", "https://other.org/#here"),
        ("http://other.org/#", "http://other.org/#"),
        ("https:b", "https://example.com/a/b#here"),
        ("http:b", "http://b/#here"),
    ],
)
def test_a_location_is_read_from_where_it_was_said(location: str, leads_to: str) -> None:
    assert join_target(parse_target("https://example.com/a/x?y#here"), location).href == leads_to


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "javascript:1", "//a@b/", "//a:b@c", "\\\\127.0.0.1", "/\\127.0.0.1", "//[::1",
     "/a\r\nX: y",
     "//a:99999/", "//" + "a" * MAX_URL_BYTES],
)  # fmt: skip
def test_a_location_that_leads_out_of_the_web_is_refused(location: str) -> None:
    with pytest.raises(FetchRefused):
        join_target(parse_target("https://example.com/"), location)


@given(URLS)
@example("http://example.com\\@127.0.0.1/")
@example("http://[::ffff:1.2.3.4]:80:80/")
def test_whatever_is_written_the_host_is_exactly_that_of_the_whatwg_parse(url: str) -> None:
    try:
        parsed = ada_url.URL(url)
    except ValueError:
        assert host_of(url) == ""
        with pytest.raises(FetchRefused):
            parse_target(url)
        return
    if not host_of(url):  # labels that decode to nothing, which only the newest parsers let pass
        assert "xn--" in parsed.hostname or not parsed.hostname
    else:
        assert host_of(url) == parsed.hostname
    try:
        target = parse_target(url)
    except FetchRefused:
        return
    assert parsed.hostname in (target.host, f"[{target.host}]")
    assert parsed.href == target.href
    assert target.page.startswith(f"{target.scheme}://{target.authority}{target.path_and_query}")
    assert target.href.isascii()
    assert target.path_and_query.isprintable()
    assert parse_target(target.href) == target


async def test_the_judge_gives_every_url_that_parses_the_whatwg_host() -> None:
    with DnsServer() as dns:
        guard = AddressGuard(AskingResolver(dns))
        for url in [*HOSTS, *(url for urls in REFUSED.values() for url in urls)]:
            try:
                host = ada_url.URL(url).hostname
            except ValueError:
                host = ""
            if host not in UNASKED and url not in UNDECODABLE:
                assert (await guard.judge(url)).host == host


UNASKED = ("a..b", "_a_.b", "a!$&'()*+,;=b")  # names that the test's own resolver cannot put into a question
