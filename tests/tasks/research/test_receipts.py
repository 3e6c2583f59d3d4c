"""The check of an answer: citations, quotations, places, and sentences that cite nothing."""

import json
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rumi.tasks.research.prose import cited_in
from rumi.tasks.research.receipts import Report, check
from rumi.tasks.research.sources import Source, SourceText
from rumi.texts import Language

FILES = {"src/x.py": 20, "README.md": 5, "pages/1.md": 3}
COMMIT = "3f2a9bc01d"


def source(number: int, text: str, title: str = "A title") -> SourceText:
    address = f"https://example.org/{number}"
    return SourceText(
        Source(number, "page", address, title, "2026-11-23T10:00:00+00:00", "", len(text.encode())), text
    )


READ = (
    source(
        1, "Lima is the **capital** of [Peru](https://example.org/peru_(country)). Ten million live there."
    ),
    source(
        2, "# Agua\n\nEl agua hierve a\n100 °C al nivel del mar[4], según el Dr. Pérez. No “siempre” es así."
    ),
    source(5, "Profits fell by -5 % in 2024; they don’t expect a rise — “not before 2026”, the CEO said."),
)


def checked(answer: str, language: Language = "en", asked: str = "") -> Report:
    return check(
        answer,
        READ,
        lambda path, line: 1 <= line <= FILES.get(path, 0),
        is_commit=lambda name: COMMIT.startswith(name),
        language=language,
        asked=asked,
    )


@pytest.mark.parametrize(
    ("answer", "cleaned", "removed"),
    [
        ("Lima is big [1].", "Lima is big [1].", ()),
        ("Lima is big [3].", "Lima is big.", (3,)),
        ("Lima is big [1][3].", "Lima is big [1].", (3,)),
        ("Lima is big [3][1].", "Lima is big [1].", (3,)),
        ("Lima is big [1, 2].", "Lima is big [1][2].", ()),
        ("Lima is big [1,3; 5].", "Lima is big [1][5].", (3,)),
        ("Lima is big [1-5].", "Lima is big [1][2][5].", ()),
        ("Lima is big [1–3].", "Lima is big [1][2].", (3,)),
        ("Lima is big [^1].", "Lima is big [1].", ()),
        ("Lima is big 【1†L3-L9】.", "Lima is big [1].", ()),
        ("Lima is big【7†source】.", "Lima is big.", (7,)),
        ("Lima is big [1](https://lie.test/).", "Lima is big [1].", ()),
        ("Lima is big [9](https://lie.test/).", "Lima is big.", (9,)),
        ("Lima es grande [0].", "Lima es grande.", (0,)),
        ("In [2024] and [sic] it was [x].", "In [2024] and [sic] it was [x].", ()),
        ("The call `a[9]` is code [1].", "The call `a[9]` is code [1].", ()),
        ("See:\n\n```c\nargv[9] = 0;\n```\n", "See:\n\n```c\nargv[9] = 0;\n```", ()),
        ("See:\n\n~~~\nargv[9]\n~~~\nand [9] there", "See:\n\n~~~\nargv[9]\n~~~\nand there", (9,)),
        ("An open ``` fence\n\n[9] here", "An open ``` fence\n\nhere", (9,)),
        ("So it is [1].\n\nSources:\n[1] https://lie.test", "So it is [1].", ()),
        ("Así es [1].\n\n## Fuentes\n\n- [1] Uno\n- [9] Nueve", "Así es [1].", ()),
        ("Así es [1].\n\n**Referencias:**\n1. https://lie.test\n2. b", "Así es [1].", ()),
        ("Sources:\nThe Nile has two [1].", "Sources:\nThe Nile has two [1].", ()),
        ("So it is [1].\n\n[1]: https://lie.test 'x'\n[9]: https://lie.test", "So it is [1].", ()),
        ("It is [[9]1] so", "It is [1] so", (9,)),
        ("It is [[9]3] so", "It is so", (3, 9)),
        ("", "", ()),
    ],
)  # fmt: skip
def test_citations_of_what_was_not_read_go(answer: str, cleaned: str, removed: tuple[int, ...]) -> None:
    report = checked(answer)
    assert (report.answer, report.removed) == (cleaned, removed)


NO = " (quote not found)"


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ('He says "Lima is the capital of Peru" [1].', None),
        ('He says "lima  is\nthe CAPITAL of Peru" [1].', None),
        ('He says "Lima is the capital of Peru." [1]', None),
        ("He says “Lima is the capital of Chile” [1].", "Lima is the capital of Chile"),
        ("Dice «El agua hierve a 100 °C al nivel del mar» [2].", None),
        ("Dice «El agua hierve a 100 °C al nivel del mar» [1].", "El agua hierve a 100 °C al nivel del mar"),
        ("Dice «el agua hierve a 90 °C al nivel del mar» [2].", "el agua hierve a 90 °C al nivel del mar"),
        ("Dice «El agua hierve […] al nivel del mar» [2].", None),
        ("Dice «El agua hierve … según el Dr. Pérez» [2].", None),
        ("Dice «según el Dr. Pérez … El agua hierve» [2].", "según el Dr. Pérez … El agua hierve"),
        ('"Profits fell by 5 % in 2024" [5].', "Profits fell by 5 % in 2024"),
        ('"Profits fell by -5 % in 2024" [5].', None),
        ('"Profits fell by −5% in 2024" [5].', None),
        ('"they don\'t expect a rise" [5].', None),
        ('"they expect a rise" [5].', "they expect a rise"),
        ("„not before 2026, the CEO“ said so [5].", None),
        ('The word "capital city" is used [1].', None),
        ('"Ten million live there" is from nowhere.', None),
        ('"Eleven million live there" is from nowhere.', "Eleven million live there"),
        ('"Ten million live there" [7].', None),
        ('"The moon is a cheese" [7].', "The moon is a cheese"),
        ('"The moon is a cheese" [1][2].', "The moon is a cheese"),
        ("The code `print(\"the moon is a cheese\")` runs [1].", None),
        ('```\n"the moon is a cheese"\n```', None),
        ('It is 5" wide and 6" tall and so on [1].', None),
        ('"What is the moon made of" was asked [1].', None),
        ("«La luna es de queso manchego» [2].", "La luna es de queso manchego"),
        ("«Lima is the capital. Ten million live there» [1].", "Lima is the capital. Ten million live there"),
    ],
)  # fmt: skip
def test_quotations_stand_in_their_source_or_are_marked(answer: str, missing: str | None) -> None:
    report = checked(answer, asked="What is the moon made of?")
    assert report.missing_quotes == ((missing,) if missing else ())
    assert report.answer.count(NO) == (1 if missing else 0)
    if missing:
        assert NO in checked(report.answer).answer
        assert "(cita no encontrada)" in checked(answer, "es").answer


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("It is in src/x.py:20.", ()),
        ("It is in src/x.py:21.", ("src/x.py:21",)),
        ("It is in `src/x.py:3-40`.", ("src/x.py:40",)),
        ("It is in src/x.py#L3-L19.", ()),
        ("It is in ./README.md:6 or so.", ("README.md:6",)),
        ("It is in src/none.py:1.", ("src/none.py:1",)),
        ("It is in [the file](src/none.py:1).", ("src/none.py:1",)),
        ("It is at https://example.org/a/x.py:9 there.", ()),
        ("It is at 12:30, or localhost:80, or 3/4:5.", ()),
        ("```\nsrc/none.py:1\n```", ()),
        ("It was made in 3f2a9bc and 3f2a9bc01d.", ()),
        ("It was made in deadbeef1.", ("deadbeef1",)),
        ("It has 1234567 decades and a facade.", ()),
    ],
)
def test_lines_and_commits_exist_or_are_marked(answer: str, missing: tuple[str, ...]) -> None:
    report = checked(answer)
    assert report.missing_places == missing
    assert ("(no such line)" in report.answer) == bool(missing)


@pytest.mark.parametrize(
    ("answer", "unverified"),
    [
        ("Lima is the capital [1]. It is large.", ["It is large."]),
        ("Lima is the capital. [1] It is large. [2]", []),
        ("Lima is the capital.[1][2] It is large [1]!", []),
        ("# A heading about something\n\nIt is large [1].", []),
        ("**A heading about something**\n\nIt is large [1].", []),
        ("Is it the capital of Peru? Yes.", []),
        ("¿Es la capital del Perú? Sí.", []),
        ("These are the reasons:\n\n- It is very large [1].\n- It is very old.", ["It is very old."]),
        ("These are the reasons [1]:\n\n- It is very large.\n- It is very old.", []),
        ("It was Dr. Smith of the U.S. Army, e.g. in 1.5 ways [1].", []),
        ("Vive en EE. UU. desde p. ej. 1990, según el Sr. Pérez [2].", []),
        ("J. R. R. Tolkien wrote No. 5 and Fig. 2 of it [1].", []),
        ("It costs 3.50 dollars. Nobody pays 1.000,50 euros [1].", ["It costs 3.50 dollars."]),
        ("It is at 1.2. Version 1.3 is the newest [1].", ["It is at 1.2."]),
        ("It has many (birds, fish, etc.) and plants [1].", []),
        ("Hay muchos animales, etc. También hay plantas [2].", ["Hay muchos animales, etc."]),
        ("| City | People |\n|---|---|\n| Lima is here | 10 million [1] |\n| Quito is here | 2 million |",
         ["Quito is here · 2 million"]),
        ("| City | People [1] |\n|---|---|\n| Lima is here | 10 million |", []),
        ("City | People\n--- | ---\nLima is here | 10 million", ["Lima is here · 10 million"]),
        ("I found nothing about its age. No encontré la edad de la ciudad.", []),
        ("The sources do not say how old it is.", []),
        ("Las fuentes no dicen qué edad tiene.", []),
        ("En resumen, la ciudad tiene mucha gente [2].", []),
        ("En resumen, la ciudad tiene mucha gente.", ["En resumen, la ciudad tiene mucha gente."]),
        ("What I could not find: its age. See https://example.org/ for more.", []),
        ("There is no information about its age. Tampoco hay datos sobre su edad.", []),
        ("Las páginas web son muchas.", ["Las páginas web son muchas."]),
        ("The source is a lake. Our galaxy is large.", ["The source is a lake.", "Our galaxy is large."]),
        ("He said “It is so. It stays so here” of it [1].", []),
        ("The function is in src/x.py:3. It was changed in 3f2a9bc by Ana.", []),
        ("The function is in src/x.py:99.", ["The function is in src/x.py:99 (no such line)."]),
        ("Run `a. B c. D` in a shell [1].", []),
        ("```\nIt is large. It is old.\n```", []),
        ("> It is a quoted line of text [1].\n> It is another one here.", ["It is another one here."]),
        ("1. It is the first of them [1].\n2) It is the second.", ["It is the second."]),
        ("- [ ] It is to be done.\n- [x] It is done now [1].", ["It is to be done."]),
        ("首都はリマです。人口は多い。[1]", ["首都はリマです。"]),
        ("Yes.\n\n---\n\nIn short.", []),
        ("It grew [1]… and it fell later.", []),
        ("The river is long [9].", ["The river is long."]),
        ("Dr. Smith came. Prof. Jones left [1].", ["Dr. Smith came."]),
        ("It is large.\n\n⚠️ The answer is cut off: it is too long. Ask me to go on.", ["It is large."]),
    ],
)  # fmt: skip
def test_sentences_without_a_citation_are_listed(answer: str, unverified: list[str]) -> None:
    assert list(checked(answer).unverified) == unverified


def test_what_cites_a_source_is_a_claim_however_it_begins() -> None:
    report = checked("I read that Lima is large [1]. No source says how old it is [2].")
    assert [claim.sources for claim in report.claims] == [(1,), (2,)]


def test_claims_have_the_numbers_that_they_cite() -> None:
    report = checked("Lima is the capital [1][5]. It is in src/x.py:2-9 as well. It is large.")
    assert [(claim.sentence, claim.sources, claim.places) for claim in report.claims] == [
        ("Lima is the capital.", (1, 5), ()),
        ("It is in src/x.py:2-9 as well.", (), ("src/x.py:2", "src/x.py:9")),
    ]
    assert report.cited == (1, 5)


def test_people_read_the_sources_that_the_program_listed() -> None:
    report = checked('Lima is the capital [1][9]. It is large. He said "the moon is a cheese" [1].')
    assert report.text("en") == (
        'Lima is the capital [1]. It is large. He said "the moon is a cheese" (quote not found) [1].\n\n'
        "Sources:\n\n- [1] A title — https://example.org/1 (read on 2026-11-23)\n\n"
        "2 sources were read and not cited.\n\n"
        "Citations removed, because no source of that number was read: 9.\n\n"
        "Without a source:\n\n- It is large."
    )
    spanish = report.text("es")
    for said in (
        "Fuentes:",
        "(leída el 2026-11-23)",
        "También se leyeron 2",
        "Citas quitadas",
        "Sin fuente:",
    ):
        assert said in spanish


def test_a_title_is_no_markdown() -> None:
    read = [source(1, "x", title="[click](https://lie.test) `x`")]
    shown = check("It is so and so [1].", read, lambda path, line: True).text("en")
    assert r"\[click\](https://lie.test) \`x\`" in shown


def test_the_json_has_all_parts() -> None:
    made = json.loads(json.dumps(checked('Lima is big [1][9]. Or not at all. "A b c d e" [1].').to_json()))
    assert made["answer"] == 'Lima is big [1]. Or not at all. "A b c d e" (quote not found) [1].'
    assert [(cited_source["number"], cited_source["cited"]) for cited_source in made["sources"]] == [
        (1, True),
        (2, False),
        (5, False),
    ]
    assert made["claims"][0] == {"sentence": "Lima is big.", "sources": [1], "places": []}
    assert made["unverified"] == ["Or not at all."]
    assert (made["removed_citations"], made["missing_quotes"]) == ([9], ["A b c d e"])


PIECES = st.sampled_from(
    [
        *(
            "[1]",
            "[2",
            "]",
            "[3]",
            "[[",
            "[9]",
            "[1, 9]",
            "[1-5]",
            "[^2]",
            "【1†a】",
            "【9】",
            "(u)",
            "[1]:",
            "\n",
        ),
        *(
            "\n\n",
            " ",
            "`",
            "``",
            "```",
            "~~~\n",
            '"',
            "“",
            "”",
            "«",
            "»",
            "„",
            "a b c d e",
            "Lima is the",
            "capital",
        ),
        *(
            " (quote not found)",
            "(no such line)",
            "src/x.py:9",
            "src/x.py:99",
            "README.md:7",
            "deadbeef1",
            "3f2a9bc",
        ),
        *(
            "Sources:\n",
            "- x\n",
            "# ",
            "| a | b |\n",
            "|---|---|\n",
            ". ",
            "? ",
            "Dr. ",
            "…",
            "**",
            "> ",
            "1. ",
            "x",
        ),
    ]
)
ANSWERS = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.text(alphabet=st.sampled_from(string.printable + "“”«»【】†…°ñé。"), max_size=200),
    st.text(max_size=100),
)


@given(ANSWERS)
@example("# `~~~\n| a | b |\n[2[3]`")
def test_any_text_is_checked_and_a_second_check_changes_nothing(answer: str) -> None:
    report = checked(answer)
    assert set(cited_in(report.answer)) <= {1, 2, 5}
    assert {number for claim in report.claims for number in claim.sources} <= {1, 2, 5}
    again = checked(report.answer)
    assert again.answer == report.answer
    assert again.removed == ()
    assert (again.claims, again.unverified) == (report.claims, report.unverified)
    report.text("es")
    json.dumps(report.to_json())


@pytest.mark.parametrize(
    "hostile",
    [
        *("[" * 100_000, "[1](" * 30_000, "[[9]" * 25_000 + "]" * 25_000, '"a ' * 50_000, "“a" * 60_000),
        *(
            "`" * 100_000,
            " ".join("`" * n for n in range(1, 400)),
            "." * 100_000,
            ". " * 60_000,
            " " * 100_000,
        ),
        *("a/" * 60_000, "a.py:1 " * 15_000, "|" * 100_000, "|-" * 60_000, "\n" * 100_000, "- " * 60_000),
        *("Sources:\n- x\n" * 8_000, "> " * 60_000, "Dr. " * 30_000, "abcdef1" * 20_000, "#" * 100_000),
        *("It is [1]:\n\n" + "- a thing of it\n" * 10_000, '"a b c d e" ' * 10_000, "[1]: x\n" * 15_000),
        *("a" * 150_000, "1" * 150_000, "*" * 150_000, "【1†" * 40_000, "x [1]" * 30_000, "\u0301" * 100_000),
    ],
    ids=lambda text: f"{text[:6]!r}",
)
def test_hostile_answers_take_a_bounded_time(hostile: str) -> None:
    began = time.process_time()
    checked(hostile).text("en")
    assert time.process_time() - began < 10
