"""What becomes of HTML."""

import random

import pytest

from rumi.web.messages import PageText
from rumi.web.readers.pages.page import read_page
from tests.web.saved_pages import FIXED_AFTER, SavedPage, missing, noise_in, saved_pages

URL = "https://site.example/folder/page.html"
PAGES = [*saved_pages(), *saved_pages(FIXED_AFTER)]


def read(
    html: str | bytes, url: str = URL, max_chars: int = 100_000, media_type: str = "text/html"
) -> PageText:
    body = html if isinstance(html, bytes) else html.encode()
    return read_page(body, media_type=media_type, charset="utf-8", url=url, max_chars=max_chars)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_saved_pages_keep_what_a_person_wants_and_lose_most_of_the_noise(page: SavedPage) -> None:
    text = read_page(page.body, media_type="text/html", charset="", url=page.url, max_chars=100_000)
    assert missing(page, text.text) == []
    assert len(noise_in(page, text.text)) <= 3  # it can be skipped; what was cut cannot be seen
    assert set(page.links) <= set(text.links)
    assert text.title.startswith(page.title)
    assert text.cut == text.described == ""


def test_the_score_of_the_saved_pages_can_fail() -> None:
    page = PAGES[0]
    assert missing(page, page.wanted[0]) == list(page.wanted[1:])
    assert noise_in(page, f"**{page.noise[0]}**!") == [page.noise[0]]


def test_the_words_of_a_page_become_markdown() -> None:
    html = """<title> A  &amp; B </title><main><h1>One <a href="#one">¶</a></h1><p>Two <b>three</b>,
        <em>four</em> and <code>five</code>.<br>Six<p>10<sup>3</sup> <del>seven</del> <q>eight</q></p><hr>
        <blockquote><p>nine<p>ten</blockquote><dl><dt>term<dd>what it is</dl>
        <p><img src=x alt="a cat on a wall"> <img src=y></p></main>"""
    text = read(html)
    assert text.title == "A & B"
    assert text.text == (
        "# One\n\nTwo **three**, *four* and `five`.  \nSix\n\n10^3 ~~seven~~ “eight”\n\n---\n\n"
        "> nine\n>\n> ten\n\n**term**\n\nwhat it is\n\na cat on a wall"
    )


def test_lists_stand_in_each_other() -> None:
    html = "<ul><li>a<ul><li>b<li>c</ul><li><p>d</p><p>e</p></ul><ol start=9><li>f<li>g</ol>"
    assert read(html).text == "- a\n\n  - b\n  - c\n\n- d\n\n  e\n\n9. f\n10. g"


def test_code_stays_as_it_is() -> None:
    html = '<pre class="line-numbers"><code class="language-c++">'
    html += '<span class="lineno">1</span>if (a &lt; b)\n\n    c();\n</code></pre>'
    assert read(html).text == "```c++\nif (a < b)\n\n    c();\n```"
    assert read("<pre>```\nx\n```</pre>").text == "````\n```\nx\n```\n````"


def test_tables_stay_tables() -> None:
    html = """<table><caption>Sizes</caption><tr><th rowspan=2>Name<th colspan=2>Size<tr><th>in<th>out
        <tr><td>a|b<td rowspan=2>1<td><ul><li>x<li>y</ul><tr><td>c<td>2</table>"""
    assert read(html).text == (
        "*Sizes*\n\n| Name | Size | |\n| --- | --- | --- |\n"
        "|  | in | out |\n| a\\|b | 1 | x; y |\n| c |  | 2 |"
    )


def test_tables_that_only_put_things_beside_each_other_are_none() -> None:
    html = "<table><tr><td><h2>Left</h2><p>words<td><h2>Right</h2><p>more words</table>"
    assert read(html).text == "## Left\n\nwords\n\n## Right\n\nmore words"


def test_links_are_absolute_and_cannot_be_misread() -> None:
    html = """<base href="/base/"><p><a href="a (b).html">one</a>
        <a href="//other.example/x?q=[1]|2#f">two</a> <a href="https://s.example/Yahoo!">[three]</a>
        <a href="  ../up
        .html ">four</a> <a href="https://s.example/">https://s.example/</a>"""
    text = read(html)
    assert text.links == (
        "https://site.example/base/a%20%28b%29.html",
        "https://other.example/x?q=%5B1%5D%7C2#f",
        "https://s.example/Yahoo%21",
        "https://site.example/up%20%20%20%20%20%20%20%20.html",
        "https://s.example/",
    )
    assert "[one](https://site.example/base/a%20%28b%29.html)" in text.text
    assert "[(three)](https://s.example/Yahoo%21)" in text.text
    assert text.text.endswith(" <https://s.example/>")


def test_links_that_lead_nowhere_are_words() -> None:
    html = """<p><a href="javascript:alert(1)">a</a> <a href="mailto:x@y.example">b</a> <a href="#below">c</a>
        <a href="page.html#below">d</a> <a href="http://user:secret@site.example/">e</a> <a>f</a>
        <a href="http://[::1">g</a> <a href="data:text/html,x">h</a>"""
    text = read(html)
    assert text.text == "a b c d e f g h"
    assert text.links == ()


def test_links_are_those_that_the_text_still_shows() -> None:
    html = (
        "".join(f'<p>{"word " * 20}<a href="/{n}">link {n}</a></p>' for n in range(20))
        + '<a href="/0">again</a>'
    )
    text = read(html, max_chars=700)
    assert text.links == tuple(f"https://site.example/{n}" for n in range(len(text.links)))
    assert 1 < len(text.links) < 10
    assert all(link in text.text for link in text.links)


@pytest.mark.parametrize(
    "hidden",
    [
        "<div style='display: none'>SECRET</div>",
        "<div style='VISIBILITY:hidden'>SECRET</div>",
        "<p style='opacity:0'>SECRET</p>",
        "<p style='font-size:0px'>SECRET</p>",
        "<p style='position:absolute;left:-5000px'>SECRET</p>",
        "<p style='height:0;overflow:hidden'>SECRET</p>",
        "<p hidden>SECRET</p>",
        "<p aria-hidden=true>SECRET</p>",
        "<p class=sr-only>SECRET</p>",
        "<style>.x, .why { display:none }</style><p class='big why'>SECRET</p>",
        "<style>#why{visibility:hidden}</style><p id=why>SECRET</p>",
        "<!-- SECRET -->",
        "<script>SECRET</script><noscript>SECRET</noscript><template>SECRET</template>",
        "<svg><title>SECRET</title><text>SECRET</text></svg>",
        "<textarea>SECRET</textarea><select><option>SECRET</select><input value=SECRET>",
        "<a href='/x' title=SECRET></a>",
        "<dialog>SECRET</dialog>",
        "<iframe src=/frame>SECRET</iframe>",
    ],
)
def test_what_is_hidden_reaches_nobody(hidden: str) -> None:
    text = read(f"<body><p>Before {hidden} and after.</p><p>The end of it.</p>")
    assert "SECRET" not in text.text + text.title
    assert "and after." in text.text


def test_no_control_or_bidi_characters_come_out() -> None:
    unseen = "\x01\x1b\x7f\x85\u200b\u200e\u202e\u2066\ufeff\U000e0041\U000e01ef"
    entities = "".join(f"&#{ord(character)};" for character in unseen)
    text = read(f"<title>T{unseen}</title><p>a{unseen}b{entities}c</p><pre>d{entities}e</pre>")
    shown = text.title + text.text
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []
    assert "e" in text.text
    plain = read(f"a{unseen}b\r\nc\rd", media_type="text/plain").text
    assert plain == "a\nb\nc\nd"


def test_an_emoji_of_several_characters_stays_whole() -> None:
    assert read("<p>\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f").text.startswith(
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f"
    )


def test_a_page_that_is_all_navigation_is_read_whole() -> None:
    text = read("<nav><a href=/a>First shelf</a> <a href=/b>Second shelf</a></nav>")
    assert text.links == ("https://site.example/a", "https://site.example/b")


def test_a_page_without_text_says_so() -> None:
    text = read("<title>App</title><div id=root></div><script>start()</script>")
    assert text == PageText("App", described="A page without text; scripts may make it when it is shown.")
    assert read(b"").described


def test_a_text_is_cut_where_a_paragraph_ends() -> None:
    text = read("".join(f"<p>{n} {'word ' * 30}</p>" for n in range(10)), max_chars=500)
    assert len(text.text) <= 500
    assert text.text.endswith("word")
    assert text.cut.endswith("characters were left out at the end")
    whole = read("".join(f"<p>{n} {'word ' * 30}</p>" for n in range(10))).text
    assert f"{len(whole) - len(text.text):,} of {len(whole):,}" in text.cut


@pytest.mark.parametrize("max_chars", [0, 1, 7, 8, 9, 20, 100])
def test_a_text_is_never_longer_than_asked_for(max_chars: int) -> None:
    assert len(read("<pre>" + "x\n" * 500, max_chars=max_chars).text) <= max_chars
    assert len(read("x" * 500, max_chars=max_chars, media_type="text/plain").text) <= max_chars


def test_a_block_of_code_that_is_cut_is_closed() -> None:
    text = read("<pre>" + "line\n" * 500, max_chars=100)
    assert text.text.endswith("\n```")


@pytest.mark.parametrize(
    "reference", ["&#55296;", "&#xD800;", "&#0;", "&#x1F;", "&#xFFFE;", "&#x110000;", "&#" + "9" * 5000 + ";"]
)
def test_references_to_no_character_are_left_out(reference: str) -> None:
    html = f"<title>T{reference}</title><p class='{reference}'>a{reference}<span hidden>x</span>{reference}b"
    text = read(html)
    assert (text.title, text.text.replace("\ufffd", "")) == ("T", "ab")
    feed = f"<rss><title>T{reference}</title><item><title>a{reference}b</title></item></rss>"
    assert read(feed, media_type="application/rss+xml").text == "## ab"


def test_numbers_of_any_length_are_taken() -> None:
    digits = "9" * 6000
    assert read(f"<ol start={digits}><li>a</ol><table><tr><th colspan={digits}>b<tr><td>c</table>").text


SPOILERS = [
    b"<",
    b">",
    b"&",
    b'"',
    b"<table>",
    b"<td>",
    b"</div>",
    b"<a href='",
    b"\0",
    b"\xff",
    b"<!--",
    b"<pre>",
    b"<svg>",
]
SPOILERS += [
    b"&#55296;",
    b" colspan=9 ",
    b"<base href='http://[::1'>",
    b"<main>",
    b"<?x",
    b"<![CDATA[",
    b"<dl><dd>",
    b"<h1>",
]


@pytest.mark.parametrize("seed", range(10))
def test_no_spoiled_page_makes_it_fail(seed: int) -> None:
    chance = random.Random(seed)
    for page in PAGES * 2:
        body = bytearray(page.body)
        for _ in range(chance.randint(1, 30)):
            at = chance.randrange(len(body))
            if chance.random() < 0.6:
                body[at:at] = chance.choice(SPOILERS)
            else:
                del body[at : at + chance.randint(1, 60)]
        text = read(bytes(body), page.url, max_chars=5000)
        assert text.text or text.described
        assert len(text.text) <= 5000
