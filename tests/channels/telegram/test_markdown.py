"""What people read of an answer's Markdown: nothing lost, nothing added, what was typed stays as it was."""

import logging
import time

import pytest

from rumi.channels.telegram.formatting import markdown as module
from rumi.channels.telegram.formatting.markdown import read
from rumi.channels.telegram.formatting.reply import format_reply
from rumi.models.model import Message, ModelRequest, ToolSpec
from rumi.models.offline import Offline
from tests.channels.telegram.readings import reading, seen

A = "https://a.io"


@pytest.mark.parametrize(
    "typed",
    [
        "a <b>bold</b> and List<int> c",
        "<div>\nhello\n</div>\n\nbelow",
        "<!-- a comment --> behind",
        "1 < 2 and 3 > 2",
        "use <br> for a break",
        "vector<std::string> and <mail@example.org>",
        r"\(a + b\) and \[ E = mc^2 \] and \frac{1}{2}, \{x\}",
        "$HOME costs $5 or $x_1$ or $$y$$",
        r"C:\Users\me\.ssh\_private\*x* and \\server\share\.x and ..\-x",
        "snake_case_name and 2*3*4 and x**2 + y**2 and a*b*c",
        "src/__init__.py and self.__dict__.get and __init__(self)",
        "https://example.org/_a_/*b*/~~c~~?x_y=_z_",
        "a || b || c and ||hidden||",
        "~5 and ~6 or ~this~",
        "see[^1]\n\n[^1]: note",
        "[note]: done\n\n[unused]: https://example.org",
        "[ ] brackets [x] alone",
        "Term\n: definition",
        "@name #tag /command",
        "#notitle and 1.no list",
        "*lonely and _lonely and `lonely",
        ">" * 100 + " deep",
    ],
)
def test_what_is_no_markup_stays_as_it_was_typed(typed: str) -> None:
    assert reading(typed) == (typed, [])


@pytest.mark.parametrize(
    ("markdown", "text", "entities"),
    [
        ("**b** *i* _i_ ~~s~~ `c`", "b i i s c", "bold italic italic strikethrough code"),
        ("***both***", "both", "bold italic"),
        ("https://a.io/\n*i* **b**", "https://a.io/\ni b", "italic bold"),
        ("**bold `code` bold**", "bold code bold", "bold code bold"),
        ("**N**ational and Hyper**T**ext", "National and HyperText", "bold bold"),
        ("*outer **inner** outer*", "outer inner outer", "italic bold"),
        ("**a\nb**", "a\nb", "bold"),
        ("# Title\ntext", "Title\ntext", "bold"),
        ("##### Fifth *level* `x`", "Fifth level x", "bold italic code"),
        ("Title\n===\ntext", "Title\ntext", "bold"),
        ("a\nb  \nc\\\nd", "a\nb\nc\nd", ""),
        ("a\n\n\n\nb", "a\n\nb", ""),
        ("above\n\n---\n\nbelow", "above\n\n———\n\nbelow", ""),
        ("&amp; &lt;b&gt; &copy; &#65;", "& <b> © A", ""),
        (r"\*stars\* 1\. \# \_ \<b\> \$5 \| \~", "*stars* 1. # _ <b> $5 | ~", ""),
        (r"\_\_init\_\_ \#\# x", "__init__ ## x", ""),
        ("> quote\n> > inner\n\nafter", "quote\ninner\n\nafter", "blockquote"),
        ("> **b** [l](https://a.io)", "b l", "blockquote bold text_link"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done", ""),
        ("1. [x] done\n2. [ ] open", "1. ☑ done\n2. ☐ open", ""),
    ],
)
def test_markup_becomes_text_and_entities(markdown: str, text: str, entities: str) -> None:
    told, found = reading(markdown)
    assert told == text
    assert [kind for kind, _, _ in found] == entities.split()


def test_a_code_block_has_its_language_and_keeps_its_text() -> None:
    text, entities = reading("so:\n```py\nif a < b:\n    print('*x* _y_ <b> $z$ \\(')\n```\ndone")
    code = "if a < b:\n    print('*x* _y_ <b> $z$ \\(')"
    assert text == f"so:\n{code}\ndone"
    assert entities == [("pre", code, "py")]


@pytest.mark.parametrize(
    ("fence", "language", "above"),
    [("mermaid", "mermaid", ""), ("{.js}", "js", ""), ("rust,ignore", "rust", "ignore\n"), ("", "", "")],
)
def test_a_fence_names_a_language_and_what_else_it_says_is_shown(
    fence: str, language: str, above: str
) -> None:
    text, entities = reading(f"```{fence}\ngraph\n```")
    assert text == f"{above}graph"
    assert entities == [("pre", "graph", language)]


def test_tabs_in_code_become_columns_because_telegram_makes_one_space_of_a_tab() -> None:
    assert reading("```make\nall:\n\tcc\ta\n```")[0] == "all:\n    cc  a"


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("- a\n- b\n  - c\n    - d\n- e", "• a\n• b\n  • c\n    • d\n• e"),
        ("* a\n\n* b\n\npara", "• a\n• b\n\npara"),
        ("1. a\n2. b\n   - c\n3. d", "1. a\n2. b\n  • c\n3. d"),
        ("10. ten\n9. nine\n8. eight", "10. ten\n9. nine\n8. eight"),
        ("1. a\n1. b\n5. c", "1. a\n1. b\n5. c"),
        ("0. a\n\ntext\n\n7. b", "0. a\n\ntext\n\n7. b"),
        ("> - a\n>   3. b\n>   1. c", "• a\n3. b\n  1. c"),
        ("1. Step:\n\n   ```\n   cmd\n   ```\n\n   Then\n2. z", "1. Step:\n\ncmd\nThen\n2. z"),
        ("- a\n  ```\n  x\n  ```\n  b", "• a\nx\nb"),
        ("- a\n  # h\n  c", "• a\nh\nc"),
        ("- a\n  > q\n\n  c", "• a\nq\nc"),
        ("- a\n  <div>\n- b", "• a\n<div>\n• b"),
        ("- a\n\n  ***\n  b", "• a\n\n———\nb"),
        ("- a\n  | x |\n  |---|\n  | 1 |", "• a\nx\n-\n1"),
    ],
)
def test_lists_keep_their_numbers_their_depth_and_the_lines_of_what_is_in_them(
    markdown: str, text: str
) -> None:
    assert reading(markdown)[0] == text


@pytest.mark.parametrize(
    ("markdown", "text", "links"),
    [
        ("[site](https://a.io/x_y)", "site", [("site", "https://a.io/x_y")]),
        ('[site](https://a.io "title")', "site", [("site", "https://a.io")]),
        ("<https://a.io>", "https://a.io", [("https://a.io", "https://a.io")]),
        ("**[site](https://a.io)**", "site", [("site", "https://a.io")]),
        ("[`code`](https://a.io)", "code", [("code", "https://a.io")]),
        ("[](https://a.io)", "https://a.io", [("https://a.io", "https://a.io")]),
        ("![alt](https://a.io/i.png)", "alt", [("alt", "https://a.io/i.png")]),
        ("![](https://a.io/i.png)", "https://a.io/i.png", [("https://a.io/i.png", "https://a.io/i.png")]),
        ("[![alt](https://i.io)](https://l.io)", "alt", [("alt", "https://l.io")]),
        ("[t][1] [1]\n\n[1]: https://a.io", "t [1]\n\n[1]: https://a.io", [("t", A), ("[1]", A)]),
        ("[x](javascript:alert(1))", "x (javascript:alert(1))", []),
        ("[x](/relative) [y](#part)", "x (/relative) y (#part)", []),
        ('[x](y "why") ![p](q)', 'x (y "why") p (q)', []),
        ("[report.pdf](report.pdf)", "report.pdf", []),
        ("[here](http://localhost:8000)", "here (http://localhost:8000)", []),
        ("[you](tg://user?id=1)", "you (tg://user?id=1)", []),
        ("![e](tg://emoji?id=5368324170671202286)", "e (tg://emoji?id=5368324170671202286)", []),
        ("[mail](mailto:a@b.io)", "mail (mailto:a@b.io)", []),
        ("[none]()", "none", []),
    ],
)
def test_a_link_leads_to_a_page_or_says_where_it_would_have_led(
    markdown: str, text: str, links: list[tuple[str, str]]
) -> None:
    told, found = reading(markdown)
    assert told == text
    assert [(words, address) for kind, words, address in found if kind == "text_link"] == links


def test_a_narrow_table_is_aligned_as_wide_characters_need_it() -> None:
    text, entities = reading(
        "| a | n |\n|---|--:|\n| 漢字 | 1 |\n| **b** `c` | 22 |\n| x\\|y | [l](https://a.io) |"
    )
    assert text == (
        "a    |                n\n-----+-----------------\n漢字 |                1\n"
        "b c  |               22\nx|y  | l (https://a.io)"
    )
    assert [kind for kind, _, _ in entities] == ["pre"]


def test_a_wide_table_becomes_a_record_for_each_row() -> None:
    long = "a description that goes on and on, wider than a telephone"
    text, entities = reading(f"| Name | What |\n|---|---|\n| a<br>b | {long} |\n| `<br>` | |\n| <br> | c |")
    assert text == f"Name: a b\nWhat: {long}\n\nName: <br>\n\nName: <br>\nWhat: c"
    assert [words for _, words, _ in entities] == ["Name: a b", "Name: <br>", "Name: <br>"]


def test_a_border_too_many_in_a_row_loses_no_words() -> None:
    text, _ = reading("| a | b |\n|---|---|\n| 1 | x || `y` |\n| 2 | z | **w**")
    assert text == "a | b\n--+----------\n1 | x || `y`\n2 | z | **w**"


def test_a_path_in_a_table_keeps_its_backslashes() -> None:
    assert reading("| a |\n|---|\n| C:\\x\\_y |")[0] == "a\n-------\nC:\\x\\_y"


def test_a_table_without_rows_still_shows_its_header() -> None:
    header = "a header that is far wider than what a telephone shows"
    assert header in reading(f"| {header} | b |\n|---|---|")[0]


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("a\0b\x07c\x7f\x9dd", "abcd"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("a\r\nb\rc\u2028d\x0be", "a\nb\nc\nd\ne"),
        ("rm \u202egnp.x\u202c \u2066y\u2069", "rm gnp.x y"),
        ("\ud83d\ude00 \ud800 x", "😀 � x"),
        ("&#27;[31m &#8238;x &#0;", "[31m x �"),
        ("A\u030angstro\u0308m \ufeffx", "Ångstro\u0308m x"),
        ("`a\tb` c\td", "a b c d"),
    ],
)
def test_characters_that_telegram_refuses_or_drops_are_gone_before(typed: str, text: str) -> None:
    assert reading(typed)[0] == text


@pytest.mark.parametrize(
    "typed", ["", " \n\t ", "\u200b\u2060", "\u00a0", "#", "> ", "```\n```", "\x00", "**"]
)
def test_a_reply_without_anything_to_see_is_an_ellipsis_or_what_was_typed(typed: str) -> None:
    assert reading(typed) == ("**" if typed == "**" else "…", [])


def test_the_end_of_a_text_closes_what_is_open() -> None:
    assert reading("so:\n```py\nx = 1") == ("so:\nx = 1", [("pre", "x = 1", "py")])


async def test_the_offline_models_output_reads_as_it_was_printed() -> None:
    output = "exit code 0 (3 ms)\noutput:\na*b <c> _d_ ``` $x `y`\n| a |\n|---|"
    messages = (
        Message("user", "run echo 'a*b <c> _d_'"),
        Message("assistant", "", ()),
        Message("tool", output, tool_call_id="1"),
    )
    bash = ToolSpec("bash", "bash", {"type": "object"})
    reply = await Offline().reply(ModelRequest(messages, (bash,)), lambda event: None)
    printed = output.partition("output:\n")[2]
    assert reading(reply.text) == (printed, [("pre", printed, "")])


def test_where_the_parser_fails_the_words_get_through(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(source: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "parsed", fail)
    with caplog.at_level(logging.WARNING):
        assert reading("**a**\tb") == ("**a** b", [])
    assert "cannot be formatted" in caplog.text


MEGABYTE = 1_000_000
DEEP = 10_000


@pytest.mark.long
@pytest.mark.parametrize(
    "hostile",
    [
        "word " * (MEGABYTE // 5),
        "x" * MEGABYTE,
        "**b** `c` [l](https://a.io)\n\n" * DEEP,
        ">" * DEEP + "x",
        "> " * DEEP + "x",
        "[" * DEEP + "x" + "](y)" * DEEP,
        "![" * DEEP + "x" + "](https://a.io)" * DEEP,
        "*a **b " * DEEP,
        "*a_ " * DEEP,
        "[a](" * DEEP,
        "~a~ " * DEEP,
        "<" * DEEP,
        "\n".join("  " * depth + "- x" for depth in range(500)),
        "\n\n".join(["[a]: https://a.io"] * 500),
        "|" + "a|" * 4000 + "\n|" + "-|" * 4000 + "\n" + "|b\n" * 4000,
        ("|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "|b\n" * 300 + "\n") * 100,
        "|" + "header" * 3000 + "|b|\n|-|-|\n" + "|1|2|\n" * 3000,
        "|" + "header|" * 300 + "\n|" + "-|" * 300 + "\n" + "|b|c|\n" * 3000,
        "| a | b |\n|---|---|\n| " + "x " * 100_000 + "| 1 |\n" + "| 1 | 2 |\n" * 10_000,
        "e\u0301" * DEEP + "\u0301" * DEEP,
        "👨‍👩‍👧" * DEEP,
        "`" * DEEP,
        "1. " * DEEP,
    ],
    ids=lambda text: f"{text[:8]!r}",
)
def test_hostile_texts_take_neither_long_nor_much(hostile: str) -> None:
    started = time.process_time()
    parts = format_reply(hostile)
    assert time.process_time() - started < 10  # a second or two, with room for a busy machine
    for part in parts:
        seen(part)
    assert sum(len(part.text) for part in parts) < 2000 + 4 * len(hostile)


def test_the_same_markdown_is_read_the_same_way_again() -> None:
    markdown = "# T\n\n[a][1] **b** `c`\n\n[1]: https://a.io\n\n3. x\n1. y"
    assert read(markdown) == read(markdown)
