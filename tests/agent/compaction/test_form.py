"""The form of summaries: their size, what is no summary, and how a long one is shortened."""

import pytest

from rumi.agent.compaction.form import LEAST_TOKENS, MOST_TOKENS, bounded, fits, limit_of, problem_of
from rumi.models.model import text_tokens
from tests.fakes.summaries import summary_of

LIMIT = 1_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("We spoke about many things, and all of them were done well in the end.", "lacks ## Goal"),
        ("## Goal\nto pay the bill of May\n## Done\nthe bill was found and read", "lacks ## Open"),
        ("I'm sorry, but I can't help with that.", "refuses"),
        ("I can’t summarize this conversation.", "refuses"),
        ("Lo siento, no puedo resumir esto.", "refuses"),
        (summary_of("x").replace("it was looked", "I cannot share what was looked"), "refuses"),
        ("The conversation is empty, so there is nothing to write.", "is empty"),
        ("## Goal\nThe transcript appears to be empty.\n## Done\nnone\n## Open\nnone", "is empty"),
        ("## Goal\nNo conversation was provided.\n## Done\nnone\n## Open\nnone", "is empty"),
        ("## Goal\nLa conversación está vacía.\n## Done\nnada\n## Open\nnada", "is empty"),
        ("## Goal\nA conversa está vazia.\n## Done\nnada\n## Open\nnada", "is empty"),
        ("## Goal\nnone\n## Done\nn/a\n## Open\n-", "too short"),
        ("## Goal\nhelp\n## Done\nhelped\n## Open\nnone", "too short"),
        (summary_of("so it was " * 2_000), "too long"),
    ],
)  # fmt: skip
def test_what_is_no_summary_is_named(text: str, problem: str) -> None:
    assert problem in problem_of(text, LIMIT, 20_000)


@pytest.mark.parametrize(
    "text",
    [
        summary_of("to pay the bill " * 10),
        summary_of("to find why the history of git is empty, and to fill it again " * 3),
        summary_of("I'm sorry is what the user wants the letter to begin with, in bold " * 3),
        "**Goal**\nto pay the bill of May " + "and of June " * 20 + "\n**Done**\nnone\n**Open**\nall of it",
    ],
)
def test_a_summary_is_accepted(text: str) -> None:
    assert problem_of(text, LIMIT, 20_000) == ""


def test_a_short_conversation_needs_no_long_summary() -> None:
    short = "## Goal\nto know the time in Lima\n## Done\nit was told: noon\n## Open\nnone"
    assert problem_of(short, 400, 900) == ""
    assert problem_of(short, MOST_TOKENS, 90_000) != ""


def test_the_size_of_a_summary_follows_the_room_of_the_model() -> None:
    sizes = [limit_of(int(context * 0.75)) for context in (4_096, 8_192, 32_768, 131_072, 1_000_000)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[2], sizes[-1]) == (LEAST_TOKENS, 1_536, MOST_TOKENS)


@pytest.mark.parametrize(
    "headings",
    [
        "## Goal|## Open|## Decisions|## Done|## Findings",
        "**Goal**|**Open**|**Decisions**|**Done**|**Findings**",
        "# Goal:|# Open:|# Decisions:|# Done:|# Findings:",
    ],
)
def test_sections_are_kept_by_their_importance_and_stay_in_order(headings: str) -> None:
    goal, todo, decisions, done, findings = headings.split("|")
    body = "\n" + "word " * 180
    whole = "\n".join(heading + body for heading in (goal, done, decisions, findings, todo))
    kept = [line for line in bounded(whole, LIMIT).splitlines() if line in headings.split("|")]
    assert kept == [goal, decisions, todo]


def test_an_open_section_that_is_too_long_alone_and_one_without_headings_lose_their_middle() -> None:
    for text in ("## Goal\nx\n## Open\n" + "word " * 900 + "the end", "word " * 900 + "the end", "漢" * 9000):
        short = bounded(text, LIMIT)
        assert fits(short, LIMIT)
        assert short.endswith(text[-7:])
        assert text_tokens(short) > LIMIT / 3
