"""What is cut is seen by nobody: what a page holds is kept, unless it surely is no part of it."""

import random
import re

import pytest
from lxml import etree

from rumi.web.readers.pages.hrefs import Hrefs
from rumi.web.readers.pages.markdown import render
from rumi.web.readers.pages.page import read_page

URL = "https://site.example/"
TAGS = (
    "div p section ul ol li dl dt dd table tr td th tbody thead caption a b em span code pre"
    " blockquote h2 sup q details summary figure figcaption form fieldset legend label ruby rt"
    " address header center font math"
)


def read(html: str) -> str:
    text = read_page(html.encode(), media_type="text/html", charset="utf-8", url=URL, max_chars=1_000_000)
    assert text.cut == ""
    return text.text


def nested(chance: random.Random, depth: int = 0) -> str:
    """Elements in each other in any order, also where they have no business, with numbered words."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        if depth > 5 or chance.random() < 0.35:
            parts.append(f"w{chance.getrandbits(64)}w ")
        else:
            tag = chance.choice(TAGS.split())
            parts.append(f"<{tag}{' href=/x' if tag == 'a' else ''}>{nested(chance, depth + 1)}</{tag}>")
    return "".join(parts)


@pytest.mark.parametrize("seed", range(5))
def test_no_word_is_lost_on_the_way_to_markdown(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        root = etree.HTML(f"<body>{nested(chance)}</body>")
        words = re.findall(r"w\d+w", "".join(root.itertext()))
        assert words
        assert set(words) <= set(re.findall(r"w\d+w", render(root, Hrefs(URL))))


@pytest.mark.parametrize("depth", [100, 300, 900])
def test_what_is_nested_deeply_keeps_its_words(depth: int) -> None:
    assert "words below" in read("<p>above<p>" + "<div>" * depth + "words below" + "</div>" * depth)
    assert "words below" in read("<ul><li>x" * depth + "words below")


def test_what_is_nested_too_deeply_is_said_to_be_missing() -> None:
    deep = "<div>" * 5000 + "words below" + "</div>" * 5000
    for before, said in (("<p>above", "cut"), ("", "described")):
        page = read_page(
            f"{before}{deep}".encode(), media_type="text/html", charset="", url=URL, max_chars=99
        )
        assert "nested too deeply" in getattr(page, said)


def paragraphs(count: int) -> str:
    return "".join(f"<p>Section {n} stands in <a href=/part/{n}>part {n}</a> of it." for n in range(count))


@pytest.mark.parametrize("head", ["<tr><th>Number<th>Name<th>Year", ""])
@pytest.mark.parametrize(
    "around", ["{0}{1}", "<div>{0}</div><div class=table-wrap>{1}</div>", "<main>{0}{1}</main>"]
)
def test_a_few_paragraphs_before_a_long_table_are_kept(around: str, head: str) -> None:
    table = f"<table>{head}{''.join(f'<tr><td>{n}<td>name of {n}<td>2{n:03}' for n in range(1200))}</table>"
    text = read(f"<body>{around.format(paragraphs(16), table)}</body>")
    for n in range(16):
        assert f"Section {n} stands in [part {n}](https://site.example/part/{n}) of it." in text
    assert "name of 0 " in text
    assert "name of 1199 " in text


ARTICLE = f"<article>{'<p>' + 'Words of the article. ' * 60}</article>"
LINKS = "<ul>" + "".join(f"<li><a href=/{n}>place number {n}</a>" for n in range(5)) + "</ul>"


@pytest.mark.parametrize(
    "part",
    [
        "<nav>{}</nav>",
        "<div class=sidebar>{}</div>",
        "<aside>{}</aside>",
        "<section class=related>{}</section>",
        "<div class='widget promo'>{}</div>",
        "<div role=navigation>{}</div>",
        "<footer>{}</footer>",
        "{}",
    ],
)
def test_links_in_the_main_part_are_kept_whatever_they_are_called(part: str) -> None:
    for main in ("<main>{}</main>", "<div role=main>{}</div>", "<div id=content>{}</div>"):
        inside = read("<body>" + main.format("<p>Words before. " * 9 + part.format(LINKS)) + "</body>")
        assert "place number 0" in inside
        assert "place number 4" in inside


@pytest.mark.parametrize("part", ["<nav>{}</nav>", "<div class=sidebar>{}</div>", "<footer>{}</footer>"])
def test_links_around_the_main_part_are_left_out(part: str) -> None:
    assert "place number" not in read(f"<body>{part.format(LINKS)}<main>{ARTICLE}</main></body>")
    assert "place number" not in read(f"<body>{part.format(LINKS)}{ARTICLE}</body>")


def test_prose_is_kept_whatever_its_box_is_called() -> None:
    box = (
        "<div class='sidebar widget'><p>" + "The office is open on Tuesdays, in the basement. " * 6 + "</div>"
    )
    assert "in the basement" in read(f"<body>{ARTICLE}{box}</body>")


@pytest.mark.parametrize(
    "topic", ["pagination", "modal", "cookies", "login", "toc", "tags", "navigation", "footer"]
)
@pytest.mark.parametrize(
    "html",
    [
        "<main>{1}<section id={0}><h2>About</h2><p>It is so.</section></main>",
        "<article>{1}<div class=section id={0}><h2 id={0}>About</h2><p>It is so.</div></article>",
        "<body>{1}<section id={0}><h2>About</h2><p>It is so.</section>",
        "<body>{1}<h2 id={0}>About</h2><p>It is so.",
    ],
)
def test_a_part_of_a_text_may_be_about_what_noise_is_called(topic: str, html: str) -> None:
    text = read(html.format(topic, "<p>Words before. " * 30))
    assert "## About\n\nIt is so." in text


def test_a_hint_that_names_navigation_is_no_navigation() -> None:
    hint = "<div role=note class='hatnote navigation-not-searchable'>For the village see elsewhere.</div>"
    assert "For the village" in read(f"<body>{hint}{ARTICLE}</body>")


def test_what_stands_outside_of_a_small_main_element_is_kept() -> None:
    text = read(f"<body><main><h1>Title</h1><p>A word of welcome.</main><div>{ARTICLE}</div></body>")
    assert "A word of welcome." in text
    assert "Words of the article." in text


def test_a_question_that_folds_its_answer_is_kept() -> None:
    html = (
        "<main><h3><button aria-expanded=true>Is it open?</button></h3><p>Yes.</p><button>Buy</button></main>"
    )
    assert read(html) == "### Is it open?\n\nYes."


def test_formulas_read_as_their_makers_wrote_them() -> None:
    tex = "<annotation encoding=application/x-tex>E=mc^2</annotation>"
    assert read(f"<p>So <math><semantics><mi>E</mi>{tex}</semantics></math> holds") == "So E=mc^2 holds"
    assert read("<p>So <math alttext='a_1'><mi>a</mi></math> and <math><mi>b</mi></math>") == "So a_1 and b"
    assert read("<p>So <img aria-hidden=true alt='x^2' src=y>.") == "So x^2 ."


def test_lists_of_terms_keep_what_stands_anywhere_in_them() -> None:
    html = "<dl><div><div><dt>a<dd>b</div></div><dt>c<dd><p>d<p>e<dd>f</dl>"
    assert read(html).split() == ["**a**", "b", "**c**", "d", "e", "f"]


def test_how_a_character_is_read_stands_in_brackets() -> None:
    assert read("<p><ruby>硝子<rp>（</rp><rt>がらす</rt><rp>）</rp></ruby>の扉") == "硝子(がらす)の扉"


def test_figures_are_kept_whatever_their_box_is_called() -> None:
    box = "<div class=widget><span>Median answer time</span> <span>182 ms</span></div>"
    assert "Median answer time 182 ms" in read(f"<body><h1>Status</h1>{box}{box}<p>All is well.")
