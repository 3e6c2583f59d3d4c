"""What a body is, and how those that are no pages are read."""

import json
import zlib

import pytest

from rumi.web.messages import PageText
from rumi.web.readers.pages.kinds import kind_of, readable
from rumi.web.readers.pages.page import read_page
from tests.web.pdfs import pdf

URL = "https://site.example/feed"


def read(body: bytes, media_type: str, max_chars: int = 100_000) -> PageText:
    return read_page(body, media_type=media_type, charset="", url=URL, max_chars=max_chars)


def local_header(name: str) -> bytes:
    """How a ZIP archive begins whose first part has this name."""
    return b"PK\x03\x04" + b"\0" * 22 + len(name).to_bytes(2, "little") + b"\0\0" + name.encode()


@pytest.mark.parametrize(
    ("media_type", "body", "kind"),
    [
        ("text/html", b"<p>x", "html"),
        ("application/xhtml+xml", b"<?xml version='1.0'?><html><p>x</p></html>", "html"),
        ("text/html", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0", "binary"),
        ("text/html", b"%PDF-1.7\n", "document"),
        ("text/plain", b"just words", "text"),
        ("text/plain", b"\n<!-- x --> <!DOCTYPE html><p>x", "html"),
        ("text/plain", b"a < b and <p> is a tag", "text"),
        ("text/plain", "\ufeffwords".encode("utf-16-le"), "text"),
        ("text/plain", b"\0\1\2\3\4\5\6\7" * 20, "binary"),
        ("application/json", b'{"a": "<html>"}', "text"),
        ("application/problem+json", b"{}", "text"),
        ("application/javascript", b"<!doctype html>", "text"),
        ("application/json", b"<!doctype html><p>Not found", "html"),
        ("text/html", b"<?xml version='1.0'?>\n<rss version='2.0'><channel/></rss>", "xml"),
        ("text/html", b"\n\n<rss version='2.0'><channel/></rss>", "xml"),
        (
            "text/html",
            b"<?xml version='1.0'?><!-- made by x --><feed xmlns='http://www.w3.org/2005/Atom'>",
            "xml",
        ),
        ("text/html", b"<?xml version='1.0'?><?xml-stylesheet href='a.xsl'?><rdf:RDF xmlns='b'>", "xml"),
        ("text/html", b"<?xml version='1.0'?><!DOCTYPE rss SYSTEM 'rss.dtd'><rss>", "xml"),
        ("text/html", b"<?xml version='1.0'?><sitemapindex><sitemap>", "xml"),
        ("text/html", b"<?xml version='1.0'?><note><to>Ana</to></note>", "html"),
        ("text/html", b"<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x'><html>", "html"),
        ("text/html", b"<rssless><p>x", "html"),
        ("text/plain", b"<rss version='2.0'><channel/></rss>", "xml"),
        ("application/json", b"<feed xmlns='http://www.w3.org/2005/Atom'>", "xml"),
        ("text/html", b'{"a": "<b>", "c": [1, 2]}', "text"),
        ("text/html", b'[{"a": 1}]', "text"),
        ("text/html", b"{{ page }} <p>x", "html"),
        ("text/html", b"[edit] <p>words", "html"),
        ("text/plain", "Ёж идёт".encode("utf-16-le"), "text"),
        ("text/html", "<p>Ёж идёт".encode("utf-32-be"), "html"),
        ("text/csv", b"a,b\n1,2\n", "text"),
        ("text/markdown", b"# <b>x</b>", "text"),
        ("application/rss+xml", b"<rss/>", "xml"),
        ("text/xml", b"<?xml version='1.0'?>\n<!DOCTYPE html><html></html>", "html"),
        ("image/svg+xml", b"<svg/>", "binary"),
        ("", b"<html>", "html"),
        ("", b"<?xml version='1.0'?><feed/>", "xml"),
        ("", b"words", "text"),
        ("", b"", "text"),
        ("application/octet-stream", b"junk\n%PDF-1.4", "document"),
        ("application/octet-stream", b"PK\x03\x04\0\0\0\0\0\0", "binary"),
        ("application/pdf", b"no pdf at all", "text"),
        ("application/pdf", b"<!doctype html><p>please log in", "html"),
        ("application/pdf", b"\0\1\2\3" * 20, "binary"),
        ("video/mp4", b"words", "binary"),
        ("application/zip", b"<html>", "binary"),
        ("application/zip", local_header("photo.jpg"), "binary"),
        ("application/zip", local_header("[Content_Types].xml"), "document"),
        ("application/octet-stream", local_header("mimetype"), "document"),
        ("application/msword", local_header("anything"), "document"),
        ("application/vnd.ms-excel", b"a;b\n1;2\n", "text"),
        ("application/vnd.ms-excel", b"<html><table>", "document"),
        ("text/plain", b"{\\rtf1 x}", "document"),
        ("message/rfc822", b"From: a@b.example\r\nSubject: x\r\n\r\nx", "document"),
        ("text/plain", b"From: a@b.example\r\nMessage-ID: <x>\r\n\r\nx", "text"),
    ],
)
def test_a_body_is_what_its_server_says_unless_it_plainly_is_not(
    media_type: str, body: bytes, kind: str
) -> None:
    assert kind_of(media_type, body) == kind


@pytest.mark.parametrize(
    ("media_type", "answer"),
    [
        ("text/html", True),
        ("application/pdf", True),
        ("application/ld+json", True),
        ("text/x-python", True),
        ("application/atom+xml", True),
        ("image/png", False),
        ("image/svg+xml", False),
        ("video/mp4", False),
        ("application/zip", None),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", True),
        ("application/vnd.oasis.opendocument.text", True),
        ("message/rfc822", True),
        ("font/woff2", False),
        ("", None),
        ("application/octet-stream", None),
    ],
)
def test_whether_a_type_can_be_read_is_known_before_it_is_downloaded(
    media_type: str, answer: bool | None
) -> None:
    assert readable(media_type) is answer


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (json.dumps({"b": [1, 2], "a": "ñ"}, ensure_ascii=False).encode(), "application/json"),
        (b"a;b\n1;2", "text/csv"),
        (b"# Title\n\n* [x](y)\n", "text/markdown"),
        (b"<config><a>1</a></config>", "application/xml"),
    ],
)
def test_what_reads_already_stays_as_it_is(body: bytes, media_type: str) -> None:
    assert read(body, media_type).text == body.decode().strip("\n")


def test_addresses_in_plain_text_are_links() -> None:
    text = read(b"See https://a.example/x, and (http://b.example/y_(z)).", "text/plain")
    assert text.links == ("https://a.example/x", "http://b.example/y_(z)")


def test_what_cannot_be_read_is_described_in_one_line() -> None:
    text = read(b"\x89PNG\r\n\x1a\n" + b"\0" * 2000, "image/png")
    assert text == PageText(described="Not a text: image/png, 2,008 bytes, looks like a PNG image.")
    odd = read(b"\0" * 10, "application/x-\x1b[31m\nodd")
    assert "\n" not in odd.described
    assert "\x1b" not in odd.described


def test_an_rss_feed_reads_as_headings_links_and_dates() -> None:
    feed = b"""<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>Boats</title>
        <link>https://site.example/</link><description>News of boats</description>
        <item><title>A new mast</title><link>/mast</link><pubDate>Mon, 02 Mar 2026 08:00:00 GMT</pubDate>
        <description>
        &lt;p&gt;It is &lt;b&gt;tall&lt;/b&gt;.&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;</description></item>
        <item><title><![CDATA[Sails & ropes]]></title><guid>https://site.example/sails</guid></item></channel></rss>"""
    text = read(feed, "application/rss+xml")
    assert text.title == "Boats"
    assert text.text == (
        "News of boats\n\n## [A new mast](https://site.example/mast)\n\nMon, 02 Mar 2026 08:00:00 GMT\n\n"
        "It is **tall**.\n\n## [Sails & ropes](https://site.example/sails)"
    )
    assert text.links == ("https://site.example/mast", "https://site.example/sails")


def test_an_atom_feed_reads_too() -> None:
    feed = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>Notes</title><entry><title>One</title>
        <link rel="self" href="/self"/><link href="/one"/><updated>2026-03-01T10:00:00Z</updated>
        <content type="xhtml">
        <div xmlns="http://www.w3.org/1999/xhtml"><p>Words <em>here</em></p></div></content>
        </entry></feed>"""
    text = read(feed, "application/atom+xml")
    assert text.title == "Notes"
    assert text.text == "## [One](https://site.example/one)\n\n2026-03-01T10:00:00Z\n\nWords *here*"


def test_the_entities_of_xml_reach_no_file() -> None:
    feed = b"""<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>
        <rss><channel><title>T</title><item><title>before &x; after</title></item></channel></rss>"""
    assert "root:" not in read(feed, "application/rss+xml").text


def test_a_pdf_reads_page_by_page() -> None:
    text = read(
        pdf([b"(Hello from one) Tj", b"(and two, see https://a.example/x) Tj"], title="A paper"),
        "application/pdf",
    )
    assert text.title == "A paper"
    assert text.text == (
        "## Page 1 of 2\n\nHello from one\n\n## Page 2 of 2\n\nand two, see https://a.example/x"
    )
    assert text.links == ("https://a.example/x",)


def test_a_long_pdf_is_read_as_far_as_somebody_will_see() -> None:
    body = pdf([b"(" + b"word " * 100 + b") Tj"] * 30)
    text = read(body, "application/pdf", max_chars=1200)
    assert len(text.text) <= 1200
    assert "pages 4 to 30 of 30 were not read" in text.cut


def test_a_pdf_without_text_is_described() -> None:
    assert read(pdf([b""]), "application/pdf").described == (
        f"A document, {len(pdf([b'']))} bytes, that cannot be read: it has no text; its pages may be images,"
        " as of a scan; send pictures of the pages instead."
    )


def test_a_broken_pdf_and_an_encrypted_one_are_described() -> None:
    assert read(pdf([b"(x) Tj"])[:120], "application/pdf").described.endswith(
        "cannot be read: its pages are broken."
    )
    encrypted = pdf([zlib.compress(b"x")], encrypted=True)
    assert read(encrypted, "application/pdf").described.endswith("it is encrypted and needs a password.")


def test_pages_of_a_pdf_that_have_no_text_are_named() -> None:
    text = read(pdf([b"(one) Tj", b"", b"(three) Tj", b""]), "application/pdf")
    assert text.text == "## Page 1 of 4\n\none\n\n## Page 3 of 4\n\nthree"
    assert text.cut == "pages without text, which may be images: 2, 4"


def test_a_pdf_that_lost_its_end_is_read_or_described() -> None:
    whole = pdf([b"(one) Tj", b"(two) Tj"])
    for size in range(0, len(whole), 97):
        text = read(b"%PDF-" + whole[5:size], "application/pdf")
        assert text.text or text.described


def test_what_is_left_out_of_a_long_feed_is_said() -> None:
    item = b"<item><title>t</title><description>" + b"word " * 1000 + b"</description></item>"
    text = read(b"<rss><channel>" + item * 1003 + b"</channel></rss>", "text/xml", max_chars=10_000_000)
    assert text.text.endswith("… (3 more were left out)")
    assert "characters were left out at the end)" in text.text
    places = b"<urlset>" + b"<url><loc>https://a.example/x</loc></url>" * 1001 + b"</urlset>"
    assert read(places, "text/xml").text.endswith("… (1 more were left out)")


@pytest.mark.parametrize("max_chars", range(100, 120))
def test_an_address_is_never_cut_in_its_midst(max_chars: int) -> None:
    body = b'{"a":"' + b"x" * 60 + b'","url":"https://a.example/path/of/some/length","b":1}'
    text = read(body, "application/json", max_chars=max_chars)
    assert text.links in ((), ("https://a.example/path/of/some/length",))


def test_a_text_of_one_long_line_is_cut_and_says_so() -> None:
    text = read(b"y" * 300_000, "text/plain", max_chars=1000)
    assert 900 < len(text.text) <= 1000
    assert "of 300,000 characters were left out" in text.cut


def test_a_page_under_a_wrong_label_says_so_and_one_with_few_broken_bytes_does_not() -> None:
    body = "<p>Завтра утром придёт мастер и починит котёл на кухне."
    wrong = read_page(body.encode("cp1251"), media_type="text/html", charset="utf-8", url=URL, max_chars=999)
    assert wrong.cut == "it is not in the encoding that it declares: 41 characters cannot be read"
    few = read_page(body.encode() * 9 + b"\xff", media_type="text/html", charset="", url=URL, max_chars=9999)
    assert "котёл" in few.text
    assert few.cut == ""


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ("<title>Tom & Eva</title>", "## Tom & Eva"),
        ("<title>Q&nbsp;and&nbsp;A &copy; &hellip;</title>", "## Q and A © …"),
        (
            "<title>x</title><link>https://a.test/?a=1&b=2&amp;c=3</link>",
            "## [x](https://a.test/?a=1&b=2&c=3)",
        ),
        ("<title><![CDATA[Tom & Eva]]></title>", "## Tom & Eva"),
        ("<title>AT&T; R&D;</title>", "## AT&T; R&D;"),
        ("<title>a &lt; b &#38; c</title>", "## a < b & c"),
    ],
)
def test_ampersands_that_begin_no_reference_cost_no_text_of_a_feed(item: str, shown: str) -> None:
    items = f"<item>{item}</item><item><title>last</title></item>"
    feed = f"<rss><channel><title>News</title>{items}</channel></rss>"
    text = read(feed.encode(), "text/html").text
    assert " ".join(text.split()) == f"{shown} ## last"
