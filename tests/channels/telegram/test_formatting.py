"""Replies in parts that Telegram takes: nothing lost, nothing torn that belongs together."""

import re
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rumi.channels.telegram.formatting.reply import (
    LIMIT_ENTITIES,
    NOTHING,
    MessagePart,
    format_preview,
    format_reply,
)
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, units
from tests.channels.telegram.readings import seen

WORD = "word "


def bare(text: str) -> str:
    """Without white space, and without what stands before code that begins a part."""
    return "".join(text.replace("\u200b", "").split())


def whole(parts: tuple[MessagePart, ...]) -> str:
    return bare("".join(part.text for part in parts))


def test_a_reply_that_fits_is_one_part() -> None:
    text = "x" * LIMIT_UNITS
    assert format_reply(text) == (MessagePart(text),)


def test_a_reply_of_one_unit_more_is_two() -> None:
    parts = format_reply("x" * (LIMIT_UNITS + 1))
    assert [len(part.text) for part in parts] == [LIMIT_UNITS, 1]


def test_emoji_count_two_units_each() -> None:
    parts = format_reply("😀" * LIMIT_UNITS)
    assert [len(part.text) for part in parts] == [LIMIT_UNITS // 2] * 2


def test_white_space_beyond_the_limit_makes_no_part() -> None:
    assert len(format_reply("x" * LIMIT_UNITS + "\n\n" + " " * 100 + "\u200b" * 5)) == 1


def test_a_part_without_its_formatting_has_the_same_words() -> None:
    (part,) = format_reply("**bold** and `code`")
    assert len(part.entities) == 2
    assert part.plain() == MessagePart("bold and code")


def test_paragraphs_are_parted_before_lines_and_lines_before_words() -> None:
    paragraph = (WORD * 200).strip()
    parts = format_reply("\n\n".join([paragraph] * 10))
    assert [part.text for part in parts] == [
        "\n\n".join([paragraph] * 4),
        "\n\n".join([paragraph] * 4),
        "\n\n".join([paragraph] * 2),
    ]
    line = (WORD * 100).strip()
    assert [part.text for part in format_reply("\n".join([line] * 10))] == [
        "\n".join([line] * 8),
        "\n".join([line] * 2),
    ]
    assert [part.text for part in format_reply(WORD * 1000)] == [(WORD * 819).strip(), (WORD * 181).strip()]


def test_a_word_is_parted_only_if_no_part_has_room_for_it() -> None:
    first, second = format_reply("short " * 300 + "x" * 3000)
    assert (first.text, second.text) == (("short " * 300).strip(), "x" * 3000)
    first, second = format_reply("short " + "x" * 5000)
    assert len(first.text) == LIMIT_UNITS


@pytest.mark.parametrize("joined", ["e\u0301", "👨‍👩‍👧‍👦", "👍🏽", "🇦🇷", "❤️", "1️⃣", "각", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"])
@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_what_is_shown_as_one_character_is_never_parted(joined: str, before: str) -> None:
    parts = format_reply(before + joined * 3000)
    assert all(set(part.text.removeprefix(before).split(joined)) == {""} for part in parts)
    assert "".join(part.text for part in parts) == before + joined * 3000


def test_more_combining_marks_than_a_message_has_room_for_are_parted_all_the_same() -> None:
    assert whole(format_reply("e" + "\u0301" * 10_000)) == "e" + "\u0301" * 10_000


@pytest.mark.parametrize(
    ("markup", "kind"),
    [
        ("**{}**", "bold"),
        ("*{}*", "italic"),
        ("~~{}~~", "strikethrough"),
        ("`{}`", "code"),
        ("[{}](https://a.io)", "text_link"),
    ],
)
def test_what_stands_out_is_moved_whole_to_the_next_part(markup: str, kind: str) -> None:
    inside = ("many words " * 150).strip()
    first, second = format_reply(WORD * 600 + markup.format(inside) + " end")
    assert first == MessagePart((WORD * 600).strip())
    assert second.text == inside + " end"
    assert [(entity, words) for entity, words, _ in seen(second)] == [(kind, inside)]


def test_an_emphasis_that_no_part_has_room_for_goes_on_in_the_next() -> None:
    parts = format_reply(f"**{WORD * 2000}x**")
    assert all(seen(part) == [("bold", part.text, "")] for part in parts)
    parts = format_reply(f"[{WORD * 2000}x](https://a.io)")
    assert all(seen(part) == [("text_link", part.text, "https://a.io")] for part in parts)


def test_a_code_block_that_is_parted_goes_on_in_the_same_language() -> None:
    code = "\n".join(f"def f{number}():\n    return {number}\n" for number in range(400))
    parts = format_reply(f"intro\n\n```py\n{code}```\n\noutro")
    assert len(parts) == 3
    blocks = [
        words for part in parts for kind, words, language in seen(part) if (kind, language) == ("pre", "py")
    ]
    assert len(blocks) == len(parts)
    assert all(block.startswith("def") for block in blocks)
    assert "\n\n".join(blocks) == code.strip()
    assert parts[0].text.startswith("intro\n\ndef f0")
    assert parts[-1].text.endswith("\n\noutro")


def test_indentation_at_the_start_of_a_part_is_kept_though_telegram_trims_messages() -> None:
    (calendar,) = format_reply("```\n    October\nMo Tu We\n```")
    assert seen(calendar) == [("pre", "    October\nMo Tu We", "")]
    code = "\n".join(f"    line {number}" for number in range(1000))
    parts = format_reply(f"```\n{code}\n```")
    assert len(parts) > 1
    assert "\n".join(words for part in parts for _, words, _ in seen(part)) == code


def test_a_quote_that_is_parted_goes_on_as_a_quote() -> None:
    parts = format_reply("> " + WORD * 2000)
    assert len(parts) == 3
    assert all(seen(part) == [("blockquote", part.text, "")] for part in parts)


def test_a_code_block_that_fits_is_not_parted_if_enough_stands_before_it() -> None:
    code = "\n".join(["x = 1"] * 500)
    first, second = format_reply(f"{WORD * 300}\n\n```\n{code}\n```")
    assert first == MessagePart((WORD * 300).strip())
    assert seen(second) == [("pre", code, "")]


def test_a_few_words_do_not_stand_alone_above_a_code_block() -> None:
    code = "\n".join(["x = 1"] * 682)
    first, second = format_reply(f"Do this:\n\n```\n{code}\n```")
    assert len(first.text) > LIMIT_UNITS // 2
    assert set(second.text.split("\n")) == {"x = 1"}


def test_indented_code_without_line_ends_still_fits() -> None:
    parts = format_reply("```\n    " + "x" * 9000 + "\n```")
    assert [len(part.text) for part in parts] == [LIMIT_UNITS, LIMIT_UNITS, 9000 + 4 + 1 - 2 * LIMIT_UNITS]
    assert next(words for part in parts for _, words, _ in seen(part)) == "    " + "x" * (LIMIT_UNITS - 5)


def test_a_title_is_not_left_alone_above_what_it_is_the_title_of() -> None:
    code = "\n".join(["x = 1"] * 682)
    first, _ = format_reply(f"# Title\n\n```\n{code}\n```")
    assert len(first.text) > LIMIT_UNITS // 2
    first, second = format_reply(f"{WORD * 600}\n\n## Title\n\n{'other ' * 300}")
    assert first == MessagePart((WORD * 600).strip())
    assert seen(second) == [("bold", "Title", "")]


def test_of_more_entities_than_telegram_takes_the_links_stay_and_the_least_styles_go() -> None:
    (part,) = format_reply("*i* **b** `c` " * 40 + "[l](https://a.io) " * 30)
    kinds = Counter(kind for kind, _, _ in seen(part))
    assert kinds == {"text_link": 30, "code": 40, "bold": 30}


def test_more_links_than_telegram_takes_in_a_message_make_more_messages() -> None:
    parts = format_reply("[l](https://a.io) " * 250)
    assert [len(part.entities) for part in parts] == [LIMIT_ENTITIES, LIMIT_ENTITIES, 50]


def test_a_preview_of_a_short_answer_is_all_of_it() -> None:
    assert format_preview("**bold** and `co", 100) == format_reply("**bold** and `co")[0]


def test_a_preview_of_a_long_answer_is_its_end_from_the_start_of_a_line() -> None:
    part = format_preview("\n".join(f"line {number}" for number in range(1000)), 100)
    assert part.text == NOTHING + "\n" + "\n".join(f"line {number}" for number in range(989, 1000))


def test_a_preview_within_a_code_block_goes_on_as_code() -> None:
    part = format_preview("so:\n```py\n" + "\n".join(["if x:\n    y"] * 1000), 100)
    assert part.text.startswith(f"{NOTHING}\n")
    assert seen(part, 100) == [("pre", part.text.removeprefix(f"{NOTHING}\n"), "py")]


def test_a_preview_of_nothing_is_an_ellipsis() -> None:
    assert format_preview("", 10) == format_preview(" \n", 10) == MessagePart(NOTHING)
    assert format_preview("x" * 100, 2) == MessagePart(NOTHING)
    assert format_preview("x" * 100, 4) == MessagePart(f"{NOTHING}\nxx")


def test_a_preview_of_a_very_long_answer_costs_no_more_and_looks_the_same() -> None:
    growing = "".join(f"**{number}** `x`\n\n" for number in range(20_000))
    started = time.process_time()
    part = format_preview(growing)
    assert time.process_time() - started < 1
    assert part == format_preview(growing[-30_000:])
    code = "x = [\n" * 20_000
    assert format_preview(f"a\n~~~\nb\n~~~\n```py\n{code}") == format_preview(f"```py\n{code[-30_000:]}")
    assert format_preview("x" * 100_000).text == f"{NOTHING}\n{'x' * (LIMIT_UNITS - 2)}"


def test_a_preview_of_much_markup_and_few_words_still_says_that_it_is_an_end() -> None:
    assert format_preview(f"[first]({'x' * 50_000})\n\nlast").text == f"{NOTHING}\nlast"


def test_every_step_of_a_growing_answer_can_be_shown() -> None:
    answer = (
        "# Title\n\nText **bold *both* b** `code` [link](https://a.io/x_y) ![p](https://a.io/p)\n\n"
        "1. one\n   ```py\n   x = '😀'\n   ```\n2. two\n\n|a|b|\n|---|---|\n| 1 | 2 |\n\n> quote\n> b\n\n"
        "[1]: https://a.io\n"
    )
    for length in range(len(answer) + 1):
        seen(format_preview(answer[:length], 60), 60)


PIECES = st.sampled_from(
    [
        *"abc12 \n\n\t*_`~#>|-+.!()[]{}<>&;:=$\\/^'",
        *("**", "__", "~~", "```", "~~~", "||", "\n\n", "\n# ", "\n- ", "\n1. ", "\n  - ", "\n> ", "\n    "),
        *("\n```py\n", "](", "![", "\n| a | b |\n|---|--:|\n| c |", "- [ ] ", "[^1]", "\n[a]: "),
        *("<b>", "</div>", "<!--", "\n---\n", "\u200b", "\u202e", "\ud800", "\0", "&amp;", "\xa0"),
        *("é", "e\u0301", "漢字", "😀", "👨‍👩‍👧", "🇦🇷", "العربية"),
        *("bold", "C:\\a\\_b", "2*3*4", "https", "://", "long" * 30),
    ]
)  # fmt: skip
MARKDOWN = st.lists(PIECES, max_size=80).map("".join) | st.text(
    st.characters(exclude_characters="\x1b"), max_size=200
)
REPEATED = st.tuples(MARKDOWN, st.integers(1, 150)).map(lambda drawn: drawn[0] * drawn[1])
SLOW = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SLOW
@given(MARKDOWN | REPEATED)
def test_telegram_takes_every_part_as_it_is_and_they_are_always_the_same(markdown: str) -> None:
    parts = format_reply(markdown)
    assert parts
    for part in parts:
        seen(part)
    assert format_reply(markdown) == parts


@SLOW
@given(MARKDOWN | REPEATED)
@example("~~~ a b\nc")
@example("[a](b 'c')")
@example("[a]: b\n[a]: c\n\n[a]: d")
def test_no_letter_or_digit_is_lost(markdown: str) -> None:
    parts = format_reply(markdown)
    shown = Counter("".join(part.text for part in parts))
    for part in parts:
        for kind, _, detail in seen(part):
            shown.update(detail if kind in ("pre", "text_link") else "")
    plain = re.sub(r"&#?\w+;|(```|~~~)[^\n]*", "", markdown)  # an empty code block has no language
    missing = Counter(char for char in plain if char.isalnum()) - shown
    assert not missing


@SLOW
@given(st.text(alphabet="ab \n😀e\u0301漢", max_size=300), st.integers(1, 60))
def test_plain_text_comes_through_to_the_letter(text: str, times: int) -> None:
    text = text * times
    parts = format_reply(text)
    assert whole(parts) == bare(text) or (not bare(text) and parts == (MessagePart(NOTHING),))


@SLOW
@given(MARKDOWN | REPEATED, st.integers(2, 200))
def test_telegram_takes_every_preview_as_it_is(markdown: str, limit: int) -> None:
    part = format_preview(markdown, limit)
    seen(part, limit)
    if units(format_reply(markdown)[0].text) <= limit and len(format_reply(markdown)) == 1:
        assert part == format_reply(markdown)[0]
