"""Rich Text Format, as old and new programs write it."""

import pytest

from tests.web.readers.documents.builders import lines, read


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rb"plain \b bold\b0  text", ["plain bold text"]),
        (rb"one\par two\line three", ["one", "two", "three"]),
        (rb"caf\'e9 \'80", ["café €"]),
        (rb"\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2", ["Привет"]),
        (
            rb"\ansicpg1252{\fonttbl{\f0 A;}{\f1\fcharset204 B;}}\f1 \'cf\'f0\'e8\'e2\'e5\'f2\f0  caf\'e9",
            ["Привет café"],
        ),
        (rb"{\fonttbl{\f0\fcharset128 A;}}\f0\'82\'b1\'82\'f1", ["こん"]),
        (rb"\deff3{\fonttbl{\f3\fcharset238 A;}}\'b9\'e6", ["ąć"]),
        (rb"\u8364? \u-10179?\u-8704? \u8364\'80 ok", ["€ 😀 € ok"]),
        (rb"\uc2\u8364 ab c", ["€ c"]),
        (rb"\uc0\u241 o", ["ño"]),
        (rb"\ldblquote a\rdblquote\~\endash\emdash\bullet\{\}\\", ["“a”\xa0–—•{}\\"]),
        (rb"x{\footnote {\*\ftnsep -}a note}y", ["x [footnote: a note] y"]),
        (rb"x{\*\annotation \chatn why?}y", ["x [comment: why?] y"]),
        (
            rb"{\header Letterhead\par}text{\footer Small print}",
            ["Header: Letterhead", "Footer: Small print", "text"],
        ),
        (rb"{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt boxed\par}}}after", ["[text box] boxed", "after"]),
        (rb"{\field{\*\fldinst HYPERLINK x}{\fldrslt the shop}}", ["the shop"]),
        (rb"{\*\unknown gone}{\stylesheet{\s0 Normal;}}{\info{\title T}}kept", ["kept"]),
        (
            rb"\trowd\cellx1\cellx2\intbl a\cell b\par b2\cell\row\trowd\intbl c\cell d\cell\row\pard end",
            ["| a | b b2 |", "| c | d |", "end"],
        ),
        (rb"\trowd\intbl {x\cell y\cell}\row", ["| x | y |"]),
        (b"{\\pict\\pngblip\\bin5 }}}}}}kept", ["kept"]),
        (b"a\\\r\nb", ["a", "b"]),
        (rb"\htmlrtf hidden\htmlrtf0 shown{\*\htmltag <p>}", ["shown"]),
    ],
)
def test_a_text_is_decoded(body: bytes, expected: list[str]) -> None:
    assert lines(rb"{\rtf1\ansi " + body + b"}") == expected


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        (rb"{\*\shppict{\pict ffd8}}{\nonshppict{\pict ffd8}}a", "1 picture"),
        (rb"a{\deleted gone}", "1 tracked deletion"),
        (rb"a{\v secret}", "1 hidden passage"),
        (rb"{\object{\*\objdata 00}{\result a}}", "1 embedded object"),
    ],
)
def test_what_is_not_in_the_text_is_counted(body: bytes, lost: str) -> None:
    document = read(rb"{\rtf1 " + body + b"}")
    assert (document.text.strip(), document.lost) == ("a", f"not in this text: {lost}")


def test_a_file_that_ends_early_or_goes_on_is_read() -> None:
    assert read(rb"{\rtf1 begun {\b and").text == "begun and"
    assert read(rb"{\rtf1 begun").lost == "the end of the file is missing"
    assert read(b"\r\n" + rb"{\rtf1 whole}\0\0garbage}}").text == "whole"
