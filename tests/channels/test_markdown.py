"""Markdown as HTML for the page, whatever a model or a stranger has written."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.channels.markdown import _LANGUAGES, MOST_CHARS, MOST_COLOURED, growing_html, to_html

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "![a](http://real.test/a.png)",
    "<http://real.test/?a=b>",
    "[a]: javascript:alert(1)\n\n[a]",
    '| a |\n|:-"onclick=x|\n| <b onclick=alert(1)> |',
    "[a](/logout)",
    "&#60;script&#62;",
    "```html\n<script>\n",
    '# <p class="x">',
)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_acts_gets_into_the_html(text: str) -> None:
    tags = re.findall(r"<([^<>]*)>", to_html(text))
    assert tags
    assert not [tag for tag in tags if re.search(r"script|img|style|\bon\w+=|javascript:|data:|form", tag)]
    assert not re.search(r'href="(?!http)', to_html(text))


@given(
    st.lists(st.sampled_from([*HOSTILE, "\n", " ", "> ", "- ", "*", "`", "|", "<", '"', "a"]), max_size=20)
)
def test_no_mixture_of_texts_gets_other_tags_in(pieces: list[str]) -> None:
    found = set(re.findall(r"</?([a-z0-9]+)", to_html("".join(pieces))))
    assert found <= {
        *("a", "blockquote", "br", "code", "div", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"),
        *("table", "tbody", "td", "th", "thead", "tr", "span"),
    }


def test_a_link_names_its_host_beside_words_that_hide_it() -> None:
    assert "http://good.test</a> (evil.test)" in to_html("[http://good.test](http://evil.test/x)")
    assert "<a" in to_html("see http://real.test/a?b=1.")
    assert to_html("see http://real.test/a?b=1.").count("real.test") == 2  # the address and its text


@given(st.lists(st.sampled_from(["word ", "\n", "\n\n", "- a\n", "1. b\n", "```\n", "> q\n", "# t\n"])))
def test_what_is_final_of_a_growing_text_stays_as_it_is(pieces: list[str]) -> None:
    told, html = 0, ""
    for end in range(len(pieces) + 1):
        text = "".join(pieces[:end])
        final, more, _ = growing_html(text[told:])
        told, html = told + final, html + more
        assert told <= len(text)
    text = "".join(pieces)
    assert html + growing_html(text[told:])[2] == to_html(text)


def test_a_text_that_is_far_too_long_is_shown_as_it_is() -> None:
    assert to_html("<" + "*" * MOST_CHARS).startswith("<pre>&lt;***")


def test_code_is_coloured_and_says_what_it_said() -> None:
    code = 'def f(x):  # <b>\n    return "a & b" * 2\n'
    shown = to_html(f"```python\n{code}```")
    assert '<span class="k">def</span>' in shown
    assert '<span class="f">f</span>' in shown
    assert '<span class="c"># &lt;b&gt;</span>' in shown
    assert set(re.findall(r'class="(\w+)"', shown)) == {"k", "f", "c", "s", "m"}
    assert unescape(re.sub("<[^>]*>", "", shown)).strip() == code.strip()
    assert "<span" not in to_html("```no-such-language\ndef f\n```")
    assert "<span" not in to_html(f"```python\n{'x = 1 ' * MOST_COLOURED}\n```")


@pytest.mark.parametrize("language", sorted(_LANGUAGES))
def test_each_language_is_known_and_loses_nothing(language: str) -> None:
    code = "\n\nif a < b && c: 'x' // 1\n\tend -- <!-- \\ $x #!\n\n"
    shown = to_html(f"```{language}\n{code}```")
    assert unescape(re.sub("<[^>]*>", "", shown)) == f"{code}\n"
