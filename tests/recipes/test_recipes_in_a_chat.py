"""Recipes for which people write in a chat."""

import re
from collections.abc import Iterator

import pytest

from tests.cli.telegram_bot import Talk
from tests.recipes.led import then
from tests.recipes.readers import Readers, reading
from tests.web.pdfs import pdf

pytestmark = pytest.mark.bubblewrap

PLAYED = (6, 7, 10)
"""The numbers of the page's recipes that are played here."""


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    with reading(tmp_path_factory.mktemp("chats"), *PLAYED) as readers:
        yield readers


@pytest.mark.long
def test_a_group_shares_a_shopping_list(readers: Readers) -> None:
    ann, recipe, world = readers.talks[6].person, readers.recipes[6], readers.world
    recipe.place["@your_bot"] = "@rumi_test_bot"
    (begins,), (adds,) = recipe.said(), recipe.said()
    assert recipe.is_played()
    bob = world.person(language_code="en")
    group = world.do(world.api.group, -100777, members=[ann, bob])
    one, other = Talk(world, ann, group=group), Talk(world, bob, group=group)
    one.say(begins)
    shown = readers.having(one, "2 open of 2")
    readers.press(other, shown, "☐ milk")
    world.until(lambda: "1 open of 2" in shown.text, what=lambda: shown.text)
    assert re.search(rf"☑ 1\. milk — .*{re.escape(bob.first_name)}", shown.text), shown.text

    call = ("shared_list", {"name": "shopping", "do": "add", "items": ["eggs"]})
    readers.model.on("we also need eggs", then([call], answer="Eggs are on it."))
    other.say(adds)
    readers.having(one, "Eggs are on it.")
    assert "☐ 3. eggs" in readers.having(one, one.ask("/list shopping")).text


@pytest.mark.long
def test_a_reminder_is_put_off(readers: Readers) -> None:
    talk, recipe = readers.talks[7], readers.recipes[7]
    (remind,), (snooze,) = recipe.said(), recipe.said()
    assert recipe.is_played()
    said = talk.ask(remind)
    assert "take the bread out" in said
    assert "Europe/Madrid" in said
    came = readers.having(talk, "take the bread out", readers.fire(talk))
    readers.press(talk, came, "💤 10 min")
    readers.world.until(lambda: "💤 Again: " in came.text, what=lambda: came.text)
    assert len(readers.bot.rows("SELECT id FROM schedules WHERE chat = ?", talk.chat)) == 2

    readers.having(talk, "take the bread out", readers.fire(talk))
    assert "💤 Again: Friday" in talk.ask(snooze)
    assert readers.model.asked("bread") == 0


@pytest.mark.long
def test_a_document_is_asked(readers: Readers) -> None:
    talk, recipe, do = readers.talks[10], readers.recipes[10], readers.world.do
    (question,) = recipe.said()
    assert recipe.is_played()
    readers.model.on(question, then(answer="Three months to the end of a quarter."))
    send = readers.world.api.send_document
    contract = pdf([b"(Rent: 900 a month) Tj", b"(Notice: three months to the end of a quarter) Tj"])
    do(send, talk.person, "contract.pdf", contract, caption=question)
    readers.having(talk, "Three months to the end of a quarter.")
    assert "Notice: three months" in readers.model.read(question)

    letter = pdf([f"({readers.order()}) Tj".encode()])
    do(send, talk.person, "letter.pdf", letter, caption=question)
    readers.refuses(talk)
