"""Recipes for which people write in a chat."""

import json
import re
import sys
from collections.abc import Iterator, Sequence

import pytest

from tests.cli.telegram_bot import Talk
from tests.recipes import tickets_mcp
from tests.recipes.led import Call, then
from tests.recipes.readers import TYPED, Readers, reading
from tests.web.pdfs import pdf

pytestmark = pytest.mark.bubblewrap

PLAYED = (6, 7, 8, 9, 10)
"""The numbers of the page's recipes that are played here."""

CSV = "month,visitors\nJan,120\nFeb,90\nMar,{}\n"

# Draws bars with the standard library alone: the office packages are no part of this test.
DRAW = """
import csv, struct, zlib
bars = [int(row["visitors"]) for row in csv.DictReader(open("visitors.csv")) if row["visitors"]]
def line(y):
    return b"\\0" + b"".join((b"\\x20\\x60\\xa0" if y < bar else b"\\xff\\xff\\xff") * 20 for bar in bars)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = struct.pack(">IIBBBBB", 20 * len(bars), max(bars), 8, 2, 0, 0, 0)
drawn = zlib.compress(b"".join(map(line, range(max(bars), 0, -1))))
with open("visitors.png", "wb") as png:
    png.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", drawn) + chunk(b"IEND", b""))
"""


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    folder = tmp_path_factory.mktemp("chats")
    program = folder / "installed" / "bin" / "tickets-mcp"
    program.parent.mkdir(parents=True)
    with open(tickets_mcp.__file__) as source:
        program.write_text(f"#!{sys.executable}\n{source.read()}")
    program.chmod(0o755)
    with reading(folder, *PLAYED, RUMI_SANDBOX__EXTRA_PROGRAMS='["python3"]') as readers:
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
def test_a_chart_is_drawn_from_data_on_the_web(readers: Readers) -> None:
    talk, recipe = readers.talks[8], readers.recipes[8]
    (request,) = recipe.said()
    assert recipe.is_played()
    readers.put("/visitors.csv", CSV.format(310), "text/csv")
    url = f"http://{readers.site.web.endpoint}/visitors.csv"
    steps: list[Sequence[Call]] = [
        [("web_fetch", {"url": url, "save": "visitors.csv"})],
        [("bash", {"command": "cat visitors.csv && python3 -", "stdin": DRAW})],
        [("send_file", {"path": "visitors.png"})],
    ]
    readers.model.on(request, then(*steps, answer="March is the best month."))
    talk.say(request)
    readers.having(talk, "March is the best month.")
    assert "Mar" in readers.model.read(request)
    pictures = readers.world.do(lambda: [message for message in talk.said if "photo" in message.content])
    assert len(pictures) == 1
    assert not any("May I" in text for text in talk.texts)

    readers.put("/visitors.csv", CSV.format(310) + f"# {readers.order()},\n", "text/csv")
    before = len(talk.texts)
    talk.say(request)
    readers.refuses(talk, before)


@pytest.mark.long
def test_tools_of_a_service_are_used(readers: Readers) -> None:
    talk, recipe = readers.talks[9], readers.recipes[9]
    assert "tickets works: tools: 2." in readers.printed[9]
    (request,) = recipe.said()
    assert recipe.is_played()
    readers.put("/tickets", json.dumps([{"id": 7, "title": "The coffee machine drips"}]), "application/json")
    readers.put("/tickets/7/close", "closed", "text/plain")
    steps: list[Sequence[Call]] = [
        [("tickets__list_tickets", {})],
        [("tickets__close_ticket", {"id": 7})],
    ]
    readers.model.on(request, then(*steps, answer=lambda done: f"Number 7 is {done[-1]}"))
    talk.say(request)
    asked = readers.having(talk, "close_ticket")
    assert readers.asked("/close") == []
    readers.press(talk, asked, "✅")
    assert "\nclosed\n" in readers.having(talk, "Number 7 is").text
    assert readers.asked("/close") == ["/tickets/7/close"]
    authorizations = {
        asked.headers["authorization"] for asked in readers.site.web.asked if "/tickets" in asked.target
    }
    assert authorizations == {f"Bearer {TYPED}"}

    readers.put("/tickets", json.dumps([{"id": 8, "title": readers.order()}]), "application/json")
    readers.model.on(request, then(steps[0], answer="One is open."))
    before = len(talk.texts)
    talk.say(request)
    readers.refuses(talk, before)


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
