"""Links behind words, code and mentions in a text, whose places Telegram counts in UTF-16."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.receiving.entities import part_shown, read_entities, shown
from rumi.web.links import links_in, urls_in_words

ME = Me(7_000_000_001, "rumi_bot")
POST = "https://example.org/post?id=7"


def at(text: str, part: str, kind: str = "text_link", **more: Any) -> dict[str, Any]:
    """An entity over a part of a text, as Telegram counts."""
    before, found, _ = text.partition(part)
    assert found
    offset, length = (len(one.encode("utf-16-le", "surrogatepass")) // 2 for one in (before, part))
    return {"type": kind, "offset": offset, "length": length, **more}


@pytest.mark.parametrize(
    ("text", "anchor", "seen"),
    [
        ("please read this article", "this article", f"please read this article ({POST})"),
        ("this article, please", "this article", f"this article ({POST}), please"),
        ("👩‍👩‍👧 𝒮 read this 😀!", "this", f"👩‍👩‍👧 𝒮 read this ({POST}) 😀!"),
        ("cafe\u0301 crème 😀", "crème 😀", f"cafe\u0301 crème 😀 ({POST})"),
        ("🇪🇸🇵🇹 news", "🇪🇸🇵🇹", f"🇪🇸🇵🇹 ({POST}) news"),
        ("read this \n\nbye", "this \n\n", f"read this ({POST}) \n\nbye"),
        ("\ud83d and this", "this", f"\ud83d and this ({POST})"),
        ("\u200bhello", "\u200b", f"\u200b ({POST})hello"),
    ],
)
def test_a_link_behind_words_stands_after_them(text: str, anchor: str, seen: str) -> None:
    found = shown(text, [at(text, anchor, url=POST)])
    assert found == seen
    assert links_in(found) == urls_in_words(found) == (POST,)


def test_several_links_stand_where_they_belong() -> None:
    text = "😀 one and two, both bold"
    links = [
        at(text, "one", url="http://a.example/"),
        at(text, "two", url="http://b.example/x"),
        at(text, "one and two", "bold"),
        at(text, "and two", url="http://c.example/"),
        at(text, "one", url="http://a.example/"),
    ]
    seen = "😀 one (http://a.example/) and two (http://b.example/x) (http://c.example/), both bold"
    assert shown(text, links) == shown(text, links[::-1]) == seen


@pytest.mark.parametrize(
    ("anchor", "url"),
    [
        ("https://example.org/post?id=7", POST),
        ("example.org/post?id=7", POST),
        ("EXAMPLE.org", "https://example.org/"),
        ("http://example.org", "https://example.org"),
    ],
)
def test_words_that_are_the_link_are_not_doubled(anchor: str, url: str) -> None:
    assert shown(f"see {anchor} now", [at(f"see {anchor} now", anchor, url=url)]) == f"see {anchor} now"


def test_words_that_look_like_another_link_show_where_they_lead() -> None:
    text = "see https://bank.example/"
    link = at(text, "https://bank.example/", url="https://evil.example/")
    assert shown(text, [link]) == "see https://bank.example/ (https://evil.example/)"


def test_brackets_in_a_link_stay_a_part_of_it() -> None:
    balanced = "https://en.example/Mercury_(planet)"
    found = shown("this", [at("this", "this", url=balanced)])
    assert (found, links_in(found)) == (f"this ({balanced})", (balanced,))
    found = shown("this", [at("this", "this", url="https://en.example/a)b")])
    assert links_in(found) == ("https://en.example/a%29b",)


@pytest.mark.parametrize(
    "entity",
    [
        {"type": "text_link", "offset": 0, "length": 5},
        {"type": "text_link", "offset": 0, "length": 5, "url": 5},
        {"type": "text_link", "offset": 0, "length": 5, "url": "http://a.example/ b"},
        {"type": "text_link", "offset": 0, "length": 5, "url": "http://a.example/" + "x" * 3000},
        {"type": "text_link", "offset": -1, "length": 5, "url": POST},
        {"type": "text_link", "offset": 0, "length": 99, "url": POST},
        {"type": "text_link", "offset": 10**18, "length": 1, "url": POST},
        {"type": "text_link", "offset": 1, "length": 3, "url": POST},
        {"type": "text_link", "offset": 0, "length": 1, "url": POST},
        {"type": "text_link", "offset": True, "length": 3, "url": POST},
        {"type": "text_link", "length": 3, "url": POST},
        {"type": ["text_link"], "offset": 0, "length": 2, "url": POST},
        {"type": "text_mention", "offset": 0, "length": 2, "user": "?"},
        "?",
        None,
    ],
    ids=str,
)
def test_an_odd_entity_costs_nothing_but_itself(entity: Any) -> None:
    text = "😀 this and that"
    assert shown(text, [entity, at(text, "that", url=POST)]) == f"{text} ({POST})"
    assert shown(text, entity) == text


def test_all_links_of_a_text_are_bounded() -> None:
    text = "x" * 4096
    links = [
        {"type": "text_link", "offset": n, "length": 1, "url": f"http://a.example/{n}{'y' * 1900}"}
        for n in range(100)
    ]
    assert len(shown(text, links)) < 4096 + 17_000


def test_several_lines_of_code_are_fenced_and_all_else_is_plain() -> None:
    text = "look:\nx = 1\ny = 2\nand print(x) bold 🎉 @ana hidden"
    entities = [
        at(text, "x = 1\ny = 2", "pre", language="python"),
        at(text, "print(x)", "code"),
        at(text, "bold", "bold"),
        at(text, "🎉", "custom_emoji", custom_emoji_id="5"),
        at(text, "@ana", "mention"),
        at(text, "hidden", "spoiler"),
    ]
    seen = "look:\n```python\nx = 1\ny = 2\n```\nand print(x) bold 🎉 @ana hidden"
    assert shown(text, entities) == seen
    assert shown("a b", [at("a b", "b", "pre", language="python")]) == "a b"
    code = "```\nx"
    assert shown(code, [at(code, code, "pre", language="`\n")]) == "````\n```\nx\n````"


def test_a_mention_goes_and_links_around_it_stay() -> None:
    for text, anchor, seen in [
        ("@rumi_bot read this", "this", f"read this ({POST})"),
        ("read this @rumi_bot", "this", f"read this ({POST})"),
        ("read this, @rumi_bot, now", "now", f"read this, , now ({POST})"),
        ("😀 @rumi_bot 😀 this 😀", "this", f"😀 😀 this ({POST}) 😀"),
        ("this@rumi_bot", "this", f"this ({POST})"),
    ]:
        entities = [at(text, "@rumi_bot", "mention"), at(text, anchor, url=POST)]
        assert read_entities(text, entities, ME) == (seen, True), text
        assert read_entities(text, entities[::-1], ME) == (seen, True), text


def test_a_name_without_a_username_stays_a_name() -> None:
    text = "ask Bo about it"
    mention = at(text, "Bo", "text_mention", user={"id": 77, "is_bot": False, "first_name": "Bo"})
    assert read_entities(text, [mention], ME) == (text, False)


def test_a_preview_counts_where_the_text_has_no_link_to_it() -> None:
    assert shown("read this", None, {"url": POST}) == f"read this\n{POST}"
    assert shown(f"read {POST}", None, {"url": POST}) == f"read {POST}"
    assert shown("see example.org", None, {"url": "https://example.org/"}) == "see example.org"
    assert shown("read this", [at("read this", "this", url=POST)], {"url": POST}) == f"read this ({POST})"
    for odd in ({"url": POST, "is_disabled": True}, {"url": 5}, {}, "?", None):
        assert shown("read this", None, odd) == "read this"


def test_a_part_has_the_links_that_are_in_it() -> None:
    text = "😀 one, two, three"
    entities = [at(text, "one", url="http://a.example/"), at(text, "two", url=POST)]
    assert part_shown(text, entities, 3, 6) == "one (http://a.example/)"
    assert part_shown(text, entities, 8, 18) == f"two ({POST}), three"
    assert part_shown(text, entities, 7, 9) == " t"


_KINDS = ["text_link", "mention", "text_mention", "pre", "bold", "url", None]


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="a😀\n@\ud83d \u0301)", max_size=12),
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(_KINDS),
                "offset": st.integers(-1, 15),
                "length": st.integers(-1, 15),
                "url": st.sampled_from([POST, "x", "(", "", None]),
                "user": st.sampled_from([{"id": ME.id}, None]),
            }
        ),
        max_size=5,
    ),
)
def test_whatever_the_entities_say_the_words_stay_in_order(text: str, entities: list[dict[str, Any]]) -> None:
    found = shown(text, entities)
    rest = iter(found)
    assert all(character in rest for character in text)
    read_entities(text, entities, ME)
