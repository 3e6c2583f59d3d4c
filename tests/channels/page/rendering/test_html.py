"""Markdown as HTML for the page, whatever a model or a stranger has written."""

import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from rumi.channels.page.rendering import html as rendering
from rumi.channels.page.rendering import mathml
from rumi.channels.page.rendering.blocks import MOST_CHARS, blocks_of, to_html
from rumi.channels.page.rendering.colours import LANGUAGES, MOST_COLOURED, colours

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    "![a](http://real.test/a.png)",
    '![" onerror=alert(1) x="](a.png" onerror=alert(1))',
    "<http://real.test/?a=b>",
    "[a]: javascript:alert(1)\n\n[a]",
    '| a |\n|:-"onclick=x|\n| <b onclick=alert(1)> |',
    "[a](/logout)",
    "&#60;script&#62;",
    "```html\n<script>\n",
    '- ```"onclick=x style=x\n  a\n',
    '# <p class="x">',
    '<details open onclick="alert(1)" style="x">\n<summary onclick="x">a<img src=x></summary>\n</details>\n',
    "$\\text{<script>alert(1)</script>}$",
    "\\[\\color{red}{x}\\href{javascript:alert(1)}{y}\\]",
    "\\(\\text{</math><img src=x onerror=alert(1)>}\\)",
    '[^"onclick=x]: a\n\nb[^"onclick=x]',
)

KNOWN = {
    *(
        "class",
        "data-colours",
        "data-lang",
        "data-note",
        "data-picture",
        "dir",
        "href",
        "open",
        "rel",
        "start",
    ),
    *("alt", "tabindex", "target"),
} | {name for names in mathml.ATTRIBUTES.values() for name in names}


def check(shown: str) -> None:
    """Check that HTML has no tag, attribute or address that acts."""
    if not shown.strip():
        return
    for element in lxml_html.fragment_fromstring(shown, create_parent="section").iterdescendants():
        assert element.tag in rendering.TAGS | mathml.TAGS
        assert set(element.attrib) <= KNOWN
        assert re.match(r"https?://", element.get("href", "http://"))
        assert element.get("dir", "auto") == "auto"


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_acts_gets_into_the_html(text: str) -> None:
    shown = to_html(text)
    assert shown
    check(shown)
    assert not re.search(
        r"<[^>]*(?:script|\bsrc\b|style=|\son\w+=|javascript:|data:)[^>]*>", re.sub(r'"[^"]*"', "", shown)
    )


@given(
    st.lists(
        st.sampled_from(
            [
                *HOSTILE,
                "\n",
                " ",
                "> ",
                "- ",
                "*",
                "`",
                "|",
                "<",
                '"',
                "a",
                "$",
                "\\(",
                "\\)",
                "\\[\n",
                "\n\\]",
                *("<details>", "</details>", "<summary>", "</summary>", "\u202e", "```\n", "[^1]", "[^1]: "),
            ]
        ),
        max_size=20,
    )
)
def test_no_mixture_of_texts_gets_other_tags_in(pieces: list[str]) -> None:
    check(to_html("".join(pieces)))


def test_a_link_names_its_host_beside_words_that_hide_it() -> None:
    assert "http://good.test</a> (evil.test)" in to_html("[http://good.test](http://evil.test/x)")
    assert "<a" in to_html("see http://real.test/a?b=1.")
    assert to_html("see http://real.test/a?b=1.").count("real.test") == 2  # the address and its text


def test_pictures_of_the_workspace_are_marked_and_others_become_links() -> None:
    shown = to_html("![a *plot*](out/my%20plot.png) ![far](http://evil.test/a.png)")
    assert '<img data-picture="out/my plot.png" alt="a plot">' in shown
    assert 'href="http://evil.test/a.png"' in shown
    assert "far</a> (evil.test)" in shown
    for text in (
        "![a](//evil.test/x.png)",
        "![a](data:image/png;base64,x)",
        "[![a](http://e.test/i)](http://a.test)",
    ):
        assert "<img" not in to_html(text)


def test_headings_nest_below_those_of_the_page_and_follow_their_text() -> None:
    assert to_html("# One") == "<h3 dir=auto>One</h3>"
    assert to_html("> #### q") == "<blockquote dir=auto><h6>q</h6></blockquote>"
    assert to_html("- [ ] a\n- [x] b") == "<ul dir=auto><li>☐ a<li>☑ b</ul>"


def test_details_hold_markdown_and_are_text_without_their_end() -> None:
    shown = to_html(
        "<details>\n<summary>More **b**</summary>\n\n- a\n\n```\n</details>\n```\n\n</details>\nafter"
    )
    assert shown.startswith("<details dir=auto><summary>More <strong>b</strong></summary><ul><li>a</ul><pre")
    assert shown.endswith("</details><p dir=auto>after</p>")
    inner = "<details><summary>B</summary>\nin\n</details>"
    assert "<p>in</p></details><p>out</p></details>" in to_html(
        f"<details><summary>A</summary>\n{inner}\nout</details>"
    )
    assert to_html("<details>\nopen\n\nb").startswith("<p dir=auto>&lt;details&gt;")


def test_footnotes_are_marked_where_their_definition_exists() -> None:
    shown = to_html("A[^b] c[^z].\n\n[^b]: The *note*.\n")
    assert "A<sup data-note=1>1</sup> c[^z]." in shown
    assert "<div class=note data-note=1 dir=auto><sup>1</sup> <p>The <em>note</em>.</p></div>" in shown


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $6, or US$7-$8.",
        "R$ 12,29/metro), seguida (R$ 15,83/metro)",
        "**$4**, $10K flat, Phase 2 at $8K",
        "from $5, R$ 6 and $20 up to 30$.",
        "$/PR is down but $/session is up",
        "$HOME/bin:$PATH and $FOO",
        "a $$ place, not $$$, nor $$",
        "$ x $ and `$x$`",
        "\\$x$ and $x\\$",
    ],
)
def test_prices_and_variables_are_no_formulas(text: str) -> None:
    shown = to_html(text)
    assert "<math" not in shown
    assert "class=tex" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "a $x$-axis, the $n$th",
        "\\(x = \\frac{1}{2}\\)",
        "text\n\\[\na\n+ b\n= c\n\\]\ntext",
        "- $$E = mc^2$$",
        "| \\(x_1\\) |\n|-|\n",
        "> $\\$0.60$",
        "$$\n\\begin{align}a&=b\\\\&=c\\end{align}\n$$",
        "\\[ a \\\\ b \\tag{1} \\]",
    ],
)
def test_formulas_become_mathml(text: str) -> None:
    shown = to_html(text)
    assert "<math" in shown
    assert "class=tex" not in shown
    assert "style" not in shown.replace("displaystyle", "")


def test_a_formula_that_cannot_be_converted_is_shown_as_it_is() -> None:
    for tex in ("\\ce{H2O}", "\\def\\a{\\a\\a}\\a", "x" + "{" * 300 + "}" * 300, "\\sqrt " * 300 + "x"):
        assert unescape(re.sub("<[^>]*>", "", to_html(f"\\({tex}\\)"))) == f"\\({tex}\\)"


def test_code_in_a_list_has_the_colours_of_code_alone() -> None:
    shown = to_html("- a\n\n  ```py\n  def f(): pass\n  ```\n")
    assert "<code data-lang=py data-colours=3K1,1F4,4K>def f(): pass\n</code>" in shown


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_colours_never_reach_beyond_the_code(language: str) -> None:
    code = "\n\nif a < b && c: 'x' // 1\n\tend -- <!-- \\ $x #! 😀 'é'\n\n"
    runs = re.findall(r"(?:([0-9a-z]+),)?([0-9a-z]+)([A-Z])", colours(code, language))
    assert sum(int(gap or "0", 36) + int(length, 36) for gap, length, _ in runs) <= len(code) + 1
    assert {kind for *_, kind in runs} <= set("KSCMFID")


def test_only_known_languages_of_bounded_size_are_coloured() -> None:
    assert colours("def f", "no-such-language") == ""
    assert colours("x = 1 " * MOST_COLOURED, "python") == ""


def test_tags_that_are_left_out_are_those_that_a_browser_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    from nh3 import clean

    text = "- a\n  - b\n\n    c\n- d\n\n"
    text += "| a | b |\n|-|-:|\n| $x$ | `c` |\n| 2 | |\n\n> 1. x\n> 2. y\n\n|h|\n|-|\n"
    tags = rendering.TAGS | mathml.TAGS
    short = to_html(text)
    blocks_of.cache_clear()
    monkeypatch.setattr(rendering, "_OPTIONAL", re.compile("(never)^"))
    monkeypatch.setattr(rendering, "_QUOTES", re.compile("(never)^"))
    whole = to_html(text)
    blocks_of.cache_clear()
    assert len(short) < len(whole)
    # nh3 parses as browsers do, and writes all end tags.
    kept = {name: {"dir", "class"} for name in tags}
    assert clean(short, tags=tags, attributes=kept) == clean(whole, tags=tags, attributes=kept)


HUGE = {
    **{
        mark: mark * (MOST_CHARS // len(mark))
        for mark in ("$", "$a ", "*a", "[", "![", "\\(", "\\[\n", "$$\n")
    },
    **{
        mark: mark * (MOST_CHARS // len(mark))
        for mark in ("<details>\n", "> ", "`", "|", "[^a]", "\u202e\u2066a")
    },
    "nested": "".join("  " * depth + "- a\n" for depth in range(300)),
    "formulas": ("$" + "{" * 240 + "}" * 240 + "$ ") * 200,
    "code": "```py\n" + "((((((" * 8_000,
}
SMALL = 6_000
"""Characters of a hostile text that the short test reads: a rule that is not linear already shows."""


@pytest.mark.parametrize("name", ["$", "$a ", "\\(", "\\[\n", "$$\n", "<details>\n", "nested", "formulas"])
def test_a_hostile_text_takes_bounded_time_and_space(name: str) -> None:
    _check_bounds(HUGE[name][:SMALL], 3)


@pytest.mark.long
@pytest.mark.parametrize("text", HUGE.values(), ids=[repr(name) for name in HUGE])
def test_the_longest_hostile_text_takes_bounded_time_and_space(text: str) -> None:
    _check_bounds(text, 25)


def _check_bounds(text: str, most_s: float) -> None:
    begun = time.process_time()
    blocks = blocks_of(text)
    assert time.process_time() - begun < most_s  # of a slow machine; quadratic rules take minutes
    assert sum(len(block.html) for block in blocks) < 12 * len(text) + 20_000


def test_nothing_is_lost_that_is_nested_too_deep_or_too_long() -> None:
    assert "deep" in to_html(">" * 200 + " deep")
    shown = to_html("<" + "*" * MOST_CHARS)
    assert shown.startswith("<pre>&lt;***")
    assert shown.count("*") == MOST_CHARS
