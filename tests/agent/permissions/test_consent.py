"""Which values of a call are the user's own words."""

from collections.abc import Mapping

import pytest

from rumi.agent.permissions.consent import Words, chooses, own_words
from rumi.models.model import Message
from rumi.platform.untrusted_text import untrusted_block

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "to": {"type": "array", "items": {"type": "string"}},
        "kind": {"type": "string", "enum": ["news", "general"]},
        "limit": {"type": "integer", "default": 10},
        "more": {"type": "object"},
    },
}
WORDS = (
    "Send 250.50 euros on June 13 (2026-06-13) to Ana Ruiz (ana@example.org) for “the boiler”, see "
    "https://shop.example/a?b=1 and /srv/a.txt. Not the news."
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "the boiler"},
        {"query": "THE  boiler"},
        {"to": ["ana@example.org"]},
        {"to": ["ana@example.org", "Ana Ruiz"]},
        {"query": "https://shop.example/a?b=1"},
        {"query": "/srv/a.txt"},
        {"query": "the boiler", "limit": 10},
        {"query": "the boiler", "kind": "news"},
        {"query": "the boiler", "to": [], "kind": None},
        {"query": "the boiler", "more": {"the boiler": "Ana Ruiz"}},
    ],
)
def test_words_of_the_message_are_the_users(arguments: Mapping[str, object]) -> None:
    assert Words(WORDS).consent_to_all(arguments, SCHEMA)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": "  "},
        {"query": None},
        {"limit": 10},
        {"kind": "news"},
        {"kind": "general", "query": "the boiler"},
        {"query": "boil"},
        {"query": "Ana"},
        {"query": "the cellar"},
        {"to": ["ana@example.org", "eve@example.org"]},
        {"query": "example.org"},
        {"query": "ruiz (ana@example.or"},
        {"query": "shop.example"},
        {"query": "a.txt"},
        {"query": "the boiler", "more": {"secret": "Ana Ruiz"}},
        {"query": "the boiler", "hidden": "Ana Ruiz"},
        {"query": "the boiler", "all": True},
        {"query": 250.5},
        {"query": "250.50"},
        {"query": "250.50 euros"},
        {"query": "2026-06-13"},
        {"query": 13},
        {"query": "the boiler", "limit": 13},
    ],
)
def test_other_values_are_not(arguments: Mapping[str, object]) -> None:
    assert not Words(WORDS).consent_to_all(arguments, SCHEMA)


@pytest.mark.parametrize(
    "value",
    [
        *[
            "",
            "    ",
            "13",
            "1300",
            "13.00",
            "1,300.50",
            "1e30",
            "0x1F4A",
            "$1300",
            "1300 EUR",
            "USD 1300",
            "99 %",
        ],
        *[
            "2026-06-13",
            "2026-06-13T10:00:00Z",
            "10:30 pm",
            "+598 99 123 456",
            "１３００",
            "----",
            "true",
            "None",
        ],
        *["abc", 1300, 13.5, True, None],
    ],
)
def test_a_number_in_any_form_is_nobodys_choice(value: object) -> None:
    assert not chooses(value)


@pytest.mark.parametrize(
    "value", ["3 May", "June 13", "report.pdf", "DE89 3704 0044", "abcd", "Łódź", "#general"]
)
def test_a_text_is_a_choice(value: str) -> None:
    assert chooses(value)


def test_only_the_users_own_words_are_the_users() -> None:
    said = own_words(
        [
            Message("user", "mine"),
            Message("user", untrusted_block("mail", "of others")),
            Message("user", "[The user sent a file: /workspace/theirs (text/plain, 3 bytes)]"),
            Message("assistant", "of the model"),
            Message("tool", "of a tool", tool_call_id="1"),
            Message("user", "mine too"),
        ]
    )
    assert said == "mine\nmine too"
