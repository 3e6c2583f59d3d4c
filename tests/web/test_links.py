"""Which addresses stand in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.web.links import links_in, urls_in_words
from rumi.web.url import normal


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("", ()),
        ("nothing here, not even example.com", ()),
        ("https://example.com", ("https://example.com/",)),
        ("See https://example.com/a. Then http://b.org!", ("https://example.com/a", "http://b.org/")),
        ("HTTPS://Example.COM/A?b=c#d", ("https://example.com/A?b=c#d",)),
        ("¿Qué dice https://niño.es/año?", ("https://xn--nio-8ma.es/a%C3%B1o",)),
        ("(https://example.com/a)", ("https://example.com/a",)),
        ("«https://example.com/a»", ("https://example.com/a",)),
        ('"https://example.com/a"', ("https://example.com/a",)),
        ("<https://example.com/a>", ("https://example.com/a",)),
        ("**https://example.com/a**", ("https://example.com/a",)),
        ("`https://example.com/a`", ("https://example.com/a",)),
        ("[a](https://example.com/a)", ("https://example.com/a",)),
        ('[a](https://example.com/a "A title")', ("https://example.com/a",)),
        ("[M](https://example.com/Mercury_(planet))", ("https://example.com/Mercury_(planet)",)),
        ("[https://a.org](https://b.org/x)", ("https://a.org/", "https://b.org/x")),
        ("![i](https://example.com/i.png)|[j](https://example.com/j)|",
         ("https://example.com/i.png", "https://example.com/j")),
        ("[1]: https://example.com/a\n[2]: https://example.com/b",
         ("https://example.com/a", "https://example.com/b")),
        (r"https://example.com/a\_b\(c\)", ("https://example.com/a_b(c)",)),
        (r'{"a": "https:\/\/example.com\/a?b=1\u0026c=2"}', ("https://example.com/a?b=1&c=2",)),
        (r'{"a": "See https://a.org/b\nand \"https://a.org/c\".", "d": "\u003chttps://a.org/e\u003e"}',
         ("https://a.org/b", "https://a.org/c", "https://a.org/e")),
        ("http://[2606:4700::1]/", ("http://[2606:4700::1]/",)),
        ("https://web.example/2020/https://example.com/", ("https://web.example/2020/https://example.com/",)),
        ("https://a.org https://a.org/ HTTPS://A.ORG", ("https://a.org/",)),
        ("http://user@example.com/ ftp://example.com file:///etc http://[", ()),
        ("看https://example.com/一。好", ("https://example.com/%E4%B8%80",)),
    ],
)  # fmt: skip
def test_a_text_shows_these_addresses(text: str, links: tuple[str, ...]) -> None:
    assert links_in(text) == links


@given(st.text(alphabet="htps:/[](){}<>\\ .a?#@\n", max_size=200))
def test_every_link_is_one_that_would_be_written_the_same_again(text: str) -> None:
    for link in links_in("https://" + text + " https://"):
        assert normal(link) == link


@pytest.mark.long
@pytest.mark.parametrize(
    "piece", ["https://a(", "https://a](https://a", "https://a{[(", "https://", "((((", "\\"]
)
def test_a_long_text_made_to_be_hard_is_read_all_the_same(piece: str) -> None:
    """Were the time quadratic, this would not end within the run."""
    links_in(piece * (1_000_000 // len(piece)))


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ("look at example.org", ["https://example.org/", "http://example.org/"]),
        ("Example.ORG/A?b=c, please", ["https://example.org/A?b=c", "http://example.org/A?b=c"]),
        ("(see www.example.co.uk.)", ["https://www.example.co.uk/", "http://www.example.co.uk/"]),
        ("https://example.org/a", ["https://example.org/a"]),
        ("mail me@example.org or visit x.org", ["https://x.org/", "http://x.org/"]),
        ("no address here. None at all... 3.5 and v1.2", []),
    ],
)
def test_a_person_gives_addresses_without_a_scheme_too(said: str, given: list[str]) -> None:
    assert list(urls_in_words(said)) == given


def test_looking_for_bare_addresses_takes_time_in_proportion() -> None:
    assert urls_in_words("a." * 100_000 + "!") == ()
    assert urls_in_words("a-" * 100_000) == ()
