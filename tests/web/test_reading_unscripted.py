"""Parts of a page that browsers show although they are no ordinary elements."""

import json

import pytest

from rumi.web.messages import PageText
from rumi.web.readers.pages.page import read_page

URL = "http://a.test/folder/page"
BODY = "The harbour was built in nineteen hundred and four. " * 3 + "It has two lights and a small crane."
WORDS = "<p>The harbour has two lights, a crane, and a small museum about its history.</p>"


def read(html: str) -> PageText:
    return read_page(html.encode(), media_type="text/html", charset="", url=URL, max_chars=100_000)


# Structured data.


def in_json_ld(data: object, *, kind: str = "application/ld+json") -> str:
    return f"<script type='{kind}'>{json.dumps(data)}</script>"


@pytest.mark.parametrize(
    "data",
    [
        {"@type": "NewsArticle", "articleBody": BODY},
        [{"@type": "WebSite", "name": "x"}, {"@type": "NewsArticle", "articleBody": BODY}],
        {"@graph": [{"@type": "BlogPosting", "articleBody": BODY}]},
        {"mainEntity": {"mainEntityOfPage": {"articleBody": [BODY[:60], BODY[60:]]}}},
        {"articleBody": f"<p>{BODY}</p><p>&amp; more</p>"},
        {"articleBody": f"&lt;p&gt;{BODY}&lt;/p&gt;"},
    ],
)
@pytest.mark.parametrize("shown", ["", "<div id=app></div>", "<p>The harbour was built… Subscribe.</p>"])
def test_an_article_that_only_scripts_would_show_is_read(data: object, shown: str) -> None:
    text = read(
        f"<html><head><title>Harbour</title>{in_json_ld(data)}</head><body>{shown}</body></html>"
    ).text
    assert "It has two lights and a small crane." in " ".join(text.split())
    assert "<p>" not in text


@pytest.mark.parametrize(
    "script",
    [
        f"<script type='application/ld+json'>\n{{'articleBody': '{BODY}'}}</script>",
        "<script type='application/ld+json'>[[[[</script>",
        f"<script type='application/ld+json'>{'[' * 100_000}</script>",
        in_json_ld({"articleBody": 5, "name": [None, {"articleBody": {"a": "b"}}]}),
        in_json_ld({"articleBody": "short"}),
        in_json_ld({"articleBody": BODY}, kind="application/json"),
    ],
)
def test_other_structured_data_changes_nothing(script: str) -> None:
    assert read(f"{script}{WORDS}") == read(WORDS)


def test_data_with_line_ends_in_strings_is_read() -> None:
    script = (
        f'<script type="application/ld+json; charset=utf-8">{{"articleBody": "{BODY}\nAnd\tmore."}};</script>'
    )
    assert "And more." in read(script).text


def test_an_article_that_the_page_shows_is_not_shown_twice() -> None:
    shown = BODY.replace("two lights", "<a href='/lights'>two <b>lights</b></a>")
    text = read(f"{in_json_ld({'articleBody': BODY})}<article><h1>Harbour</h1><p>{shown}</p></article>").text
    assert text.count("small crane") == 1


# Shadow roots.


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<my-card><template shadowrootmode=open><p>Inside.</p></template></my-card>", "Inside."),
        ("<div><template shadowrootmode='closed'><p>Inside.</p></template></div>", "Inside."),
        (
            "<div><template shadowroot=open><style>p{top:0}</style><p>Inside.</p></template></div>",
            "Inside.",
        ),
        (
            "<x-a><template shadowrootmode=open><x-b><template shadowrootmode=open><p>Inside.</p></template>"
            "</x-b></template></x-a>",
            "Inside.",
        ),
        (
            "<x-a><template shadowrootmode=open><h2><slot name=head>None</slot></h2>"
            "<p>Then: <slot></slot></p></template><i>two</i><span slot=head>One</span></x-a>",
            "## One\n\nThen: *two*",
        ),
        ("<x-a><template shadowrootmode=open><p><slot>Its own.</slot></p></template></x-a>", "Its own."),
        (
            "<x-a><template shadowrootmode=open><p>Inside.</p></template><p>Beside.</p></x-a>",
            "Inside.\n\nBeside.",
        ),
    ],
)
def test_a_declared_shadow_root_is_shown(html: str, text: str) -> None:
    assert read(html).text.strip() == text


@pytest.mark.parametrize("attribute", ["", "shadowrootmode=none", "shadowrootmode", "id=open"])
def test_another_template_is_not_shown(attribute: str) -> None:
    assert "SECRET" not in read(f"<div><template {attribute}><p>SECRET</p></template></div>{WORDS}").text


def test_a_host_has_one_shadow_root() -> None:
    roots = "<template shadowrootmode=open><p>One.</p></template>" + (
        "<template shadowrootmode=open><p>SECRET</p></template>" * 10_000
    )
    assert read(f"<x-a>{roots}</x-a>").text == "One."


def test_thousands_of_shadow_roots_are_read() -> None:
    text = read("<x-a><template shadowrootmode=open><slot></slot></template>a </x-a>" * 3000 + WORDS).text
    assert "museum" in text


# Frames.


@pytest.mark.parametrize(
    ("html", "link"),
    [
        (
            "<iframe src='/map' title='Map of the harbour'></iframe>",
            "[Map of the harbour](http://a.test/map)",
        ),
        (
            "<iframe src=inner.html name=content>No frames</iframe>",
            "[content](http://a.test/folder/inner.html)",
        ),
        ("<iframe src=//b.test/x></iframe>", "[frame](http://b.test/x)"),
        ("<object data=/plan.pdf type=application/pdf>x</object>", "[frame](http://a.test/plan.pdf)"),
        ("<embed src='/plan.PDF?a=b'>", "[frame](http://a.test/plan.PDF?a=b)"),
        ("<iframe srcdoc='<p>The words inside.</p>'></iframe>", "The words inside."),
    ],
)
def test_a_frame_is_shown_with_its_address(html: str, link: str) -> None:
    page = read(f"<body>{WORDS}<div>{html}</div>{WORDS}</body>")
    assert link in page.text
    if link.startswith("["):
        assert page.links == (link.partition("(")[2].rstrip(")"),)


def test_the_frames_of_a_frameset_are_shown() -> None:
    page = read(
        "<html><title>Harbour</title><frameset cols='20%,*'><frame src=menu.html name=menu>"
        "<frameset><frame src=/main.html name=main></frameset><noframes>No frames.</noframes></frameset>"
    )
    assert page.links == ("http://a.test/folder/menu.html", "http://a.test/main.html")
    assert (page.title, page.described) == ("Harbour", "")


@pytest.mark.parametrize(
    "html",
    [
        "<iframe src=/pixel width=1 height=1></iframe>",
        "<iframe src=/pixel height=0></iframe>",
        "<iframe src=/pixel style='display:none'></iframe>",
        "<iframe src=/pixel hidden></iframe>",
        "<iframe src='javascript:alert(1)'></iframe>",
        "<iframe src=about:blank></iframe>",
        "<iframe></iframe>",
        "<noscript><iframe src=/pixel height=0 width=0></iframe></noscript>",
        "<embed src=/film.swf>",
    ],
)
def test_an_unseen_frame_is_not_shown(html: str) -> None:
    assert read(f"{WORDS}{html}") == read(WORDS)


def test_the_number_of_frames_is_bounded() -> None:
    page = read(WORDS + "".join(f"<iframe src=/{number}></iframe>" for number in range(1000)))
    assert len(page.links) <= 30


# For readers without scripts.

TIDES = "High water is at six in the morning, and again shortly after half past six in the evening every day."


@pytest.mark.parametrize(
    "html",
    [
        f"<div id=root></div><noscript><p>{TIDES}</p></noscript>",
        f"{WORDS}<noscript><p>{TIDES}</p></noscript>",
        f"<noscript><noscript>{TIDES}</noscript></noscript>",
        f"<frameset><frame src=a.html><noframes><p>{TIDES}</p></noframes></frameset>",
    ],
)
def test_text_for_readers_without_scripts_is_shown(html: str) -> None:
    assert TIDES in read(html).text


@pytest.mark.parametrize(
    "html",
    [
        "<noscript>You need to enable JavaScript to run this app.</noscript>",
        "<noscript><img src=/lazy.jpg alt='A light'></noscript>",
        "<noscript>Short.</noscript>",
        f"<noscript>{TIDES[:80]} Please enable Java script.</noscript>",
    ],
)
def test_a_message_about_scripts_is_not_shown_beside_a_text(html: str) -> None:
    assert read(f"{WORDS}{html}") == read(WORDS)


def test_a_message_about_scripts_is_shown_if_there_is_nothing_else() -> None:
    page = read("<div id=root></div><noscript>You need to enable JavaScript to run this app.</noscript>")
    assert page.text == "You need to enable JavaScript to run this app."


@pytest.mark.parametrize(
    "script",
    [
        '//<![CDATA[\n{"articleBody": "BODY"}\n//]]>',
        '<![CDATA[{"articleBody": "BODY"}]]>',
        '<!--\n{"articleBody": "BODY"}\n//-->',
        '/*<![CDATA[*/ {"articleBody": "BODY"} /*]]>*/',
        '[{"@type": "Article", "articleBody": "BODY",},]',
        '{"articleBody": "BODY"};',
    ],
)
def test_structured_data_in_marks_or_with_a_last_comma_is_read(script: str) -> None:
    body = "The bridge opens on Friday, says https://a.test//news."
    page = f"<script type='application/ld+json'>{script.replace('BODY', body)}</script><p>Subscribe</p>"
    assert body in read(page).text.replace("<", "").replace(">", "")
