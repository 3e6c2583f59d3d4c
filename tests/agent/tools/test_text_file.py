"""The text of files: what an edit keeps, and what a diff says."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.agent.tools.edits import Edit, Edited, apply_edits
from rumi.agent.tools.text_file import DIFF_CHARS, TextFile, decoded, difference

TEXTS = st.lists(st.sampled_from(["a", "b", "é", " ", "\n", "\r\n", "\r", "ab\r\n"]), max_size=40).map(
    "".join
)
ENCODINGS = st.sampled_from(
    [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("cp1252", b""), ("utf-16-le", b"\xff\xfe")]
)


def replace_all(text: str, old: str, new: str) -> Edited:
    return apply_edits("f", TextFile(text), (Edit(old, new, every=True),), 4_000_000)


@given(TEXTS, ENCODINGS, st.data())
def test_an_edit_changes_what_it_names_and_keeps_every_other_byte(
    text: str, encoding: tuple[str, bytes], data: st.DataObject
) -> None:
    name, mark = encoding
    content = mark + text.encode(name)
    file = decoded(content)
    assert file is not None
    assert file.encoded(file.text) == content
    units = re.findall("\r\n|.", file.text, re.DOTALL)
    start = data.draw(st.integers(0, len(units)))
    end = data.draw(st.integers(start, len(units)))
    plain = ["\n" if unit == "\r\n" else unit for unit in units]
    old, new = "".join(plain[start:end]), data.draw(TEXTS).replace("\r\n", "\n").replace("\r", "")
    edited = file.replaced([start], old, new)
    before, after = "".join(units[:start]), "".join(units[end:])
    assert edited.startswith(before)
    assert edited.endswith(after)
    middle = edited[len(before) : len(edited) - len(after)]
    assert middle.replace("\r\n", "\n") == new or "\r" in old
    if "\n" not in text:
        assert "\r\n" not in edited or "\r" in text
    if text.count("\n") == text.count("\r\n") > 0 and "\r" not in text.replace("\r\n", ""):
        assert edited.count("\n") == edited.count("\r\n")


@given(TEXTS, st.text(alphabet="ab\n", min_size=1, max_size=2), TEXTS)
def test_replacing_all_is_what_python_would_do_with_plain_line_ends(text: str, old: str, new: str) -> None:
    text, new = text.replace("\r", ""), new.replace("\r\n", "\n")
    edited = replace_all(text, old, new)
    expected = text.replace(old, new)
    if edited.difference is None:
        assert expected == text
    elif old not in text:
        assert " " in text, "only spaces at line ends are ignored"
    else:
        assert edited.content.decode() == expected


@given(TEXTS, TEXTS)
def test_a_diff_is_one_that_patch_can_apply(old: str, new: str) -> None:
    old, new = old.replace("\r", ""), new.replace("\r", "")
    found = difference("f", old, new)
    lines = found.diff.split("\n")[2:]
    assert (found.added, found.removed) == tuple(sum(x.startswith(m) for x in lines) for m in "+-")
    if old == new:
        assert found.diff == ""
        return
    done = patched(old, found.diff)
    assert done == new


def patched(old: str, diff: str) -> str:
    """Apply a unified diff, as `patch` does."""
    source = [line for line in re.split(r"(?<=\n)", old) if line]
    made: list[str] = []
    at, last = 0, ""
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            first, count = map(int, re.findall(r"\d+", line)[:2])
            begin = first - 1 if count else first
            made += source[at:begin]
            at = begin
        elif line.startswith("\\"):
            if last != "-":
                made[-1] = made[-1].removesuffix("\n")
        else:
            if line[0] in "- ":
                assert source[at].removesuffix("\n") == line[1:]
                at += 1
            if line[0] in "+ ":
                made.append(f"{line[1:]}\n")
        last = line[0]
    return "".join(made + source[at:])


def test_long_texts_with_few_changes_are_compared_line_by_line() -> None:
    lines = [f"line {n}\n" for n in range(3000)]
    changed = [*lines]
    changed[10], changed[11], changed[2900] = "ten\n", "eleven\n", "late\n"
    found = difference("f", "".join(lines), "".join(changed))
    assert (found.counts, found.where) == ("+3 −3", "11-12, 2901")
    assert len(found.diff.split("\n")) == 2 + (1 + 6 + 4) + (1 + 6 + 2)


def test_a_diff_is_bounded_and_says_what_is_left_out() -> None:
    found = difference("f", "", "x" * 1000 + "\n" + "line\n" * 50_000)
    assert len(found.diff) <= DIFF_CHARS + 40
    assert found.added == 50_001
    assert re.search(r"… 48\d{3} more lines$", found.diff)


@pytest.mark.parametrize(
    "content",
    [
        b"a\0b",
        b"\x89PNG\r\n\x1a\n\xff",
        b"\xff\xfea\0\0\0",
        b"\x01\xe9",
        b"\xc3\xa9 \x02 \xc3\xa9 \xff",
        b"\xff\xd8\xff\xe0\x10",
    ],
)
def test_bytes_that_are_no_text_are_not_taken_for_text(content: bytes) -> None:
    assert decoded(content) is None


HOME = "明天早上师傅会来修理\n厨房里的热水器\n费用是八十元\n你好，世界\n"
PRICES = "Имя;Цена\r\nСтол;1200\r\nСтул;300\r\nШкаф;900\r\n"


@pytest.mark.parametrize(
    ("text", "codec", "mark", "encoding"),
    [
        (PRICES, "cp1251", b"", "cp1251"),
        (PRICES, "koi8-r", b"", "koi8-r"),
        (PRICES, "utf-16-le", b"", "utf-16-le"),
        (PRICES, "utf-16-be", b"", "utf-16-be"),
        (PRICES, "utf-16-le", b"\xff\xfe", "utf-16-le"),
        (PRICES, "utf-32-be", b"", "utf-32-be"),
        ("Größe;Preis\nTür;12\nMöbel;30\n", "cp1252", b"", "cp1252"),
        ("品名、価格\n机、千円です\n椅子、三百円です\n", "cp932", b"", "cp932"),
        ("名称，价格\n桌子，一千二百元\n椅子，三百元\n", "gbk", b"", "gb18030"),
        ("품명, 가격\n책상, 천이백 원\n의자, 삼백 원입니다\n", "cp949", b"", "cp949"),
        ("Nazwa;Cena\nŁóżko;1200\nKrzesło;300 złotych\n", "cp1250", b"", "cp1250"),
    ],
)
def test_an_edit_keeps_the_encoding_in_which_the_file_was_read(
    text: str, codec: str, mark: bytes, encoding: str
) -> None:
    content = mark + text.encode(codec)
    file = decoded(content)
    assert file is not None
    assert (file.plain, file.encoding, file.mark) == (text.replace("\r\n", "\n"), encoding, mark)
    last = text.splitlines()[-1]
    edited = apply_edits("f", file, (Edit(last, f"{last}!"),), 1000)
    assert edited.content == mark + text.replace(last, f"{last}!").encode(codec)


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        (b"caf\xc3\xa9 \xff caf\xc3\xa9 three\n", "three", "four", b"caf\xc3\xa9 \xff caf\xc3\xa9 four\n"),
        (b"\xef\xbb\xbf\xff one", "� one", "� two", b"\xef\xbb\xbf\xff two"),
        (
            PRICES.encode("cp1251") + b"\x98",
            "300",
            "20",
            PRICES.replace("300", "20").encode("cp1251") + b"\x98",
        ),
        (HOME.encode("gbk") + b"\xff 1", "1", "2", HOME.encode("gbk") + b"\xff 2"),
    ],
)
def test_an_edit_keeps_broken_bytes_beside_it(content: bytes, old: str, new: str, after: bytes) -> None:
    file = decoded(content)
    assert file is not None
    assert "\ufffd" in file.plain
    assert any("broken bytes" in note for note in file.about)
    edited = apply_edits("f", file, (Edit(old, new),), 1000)
    assert edited.content == after
    assert edited.difference is not None
    assert edited.difference.diff.encode()


def test_a_text_that_would_not_stay_the_same_is_read_and_not_edited() -> None:
    file = decoded("明日の朝、修理の人が来て".encode("iso2022_jp") + b"\x1b$B\x1b(B")
    assert file is not None
    assert file.plain == "明日の朝、修理の人が来て"
    refused = apply_edits("f", file, (Edit("明日", "今日"),), 1000)
    assert refused.difference is None
    assert "Convert it to UTF-8 first" in refused.why_not


def test_an_edit_of_a_million_places_takes_seconds_at_most() -> None:
    began = time.process_time()
    edited = replace_all("a" * 1_000_000, "a", "b")
    assert (edited.content, edited.count) == (b"b" * 1_000_000, 1_000_000)
    assert time.process_time() - began < 5


def test_an_edit_that_would_fill_the_memory_is_refused() -> None:
    edited = replace_all("a" * 100_000, "a", "b" * 1000)
    assert edited.difference is None
    assert "Use sed or awk" in edited.why_not
