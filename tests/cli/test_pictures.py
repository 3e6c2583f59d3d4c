"""Pictures and documents from the terminal and from Telegram, in whole programs, with a model that sees."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.telegram_bot import Talk, TelegramBot, running
from tests.cli.telegram_world import World
from tests.fakes.vision import MODEL, sees
from tests.web.readers import files

pytestmark = pytest.mark.bubblewrap

PHOTO = files.turned_photo(3000, 2000)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        world.do(setattr, world.groq, "_choose", sees)
        yield world


@pytest.fixture
def seeing(bubblewrap: Program, world: World) -> Program:
    """A program whose model sees."""
    bubblewrap.env |= {
        "GROQ_API_KEY": world.groq.key or "",
        "GROQ_BASE_URL": world.groq.base_url,
        "RUMI_MODEL__DEFAULT": f"groq:{MODEL}",
        "RUMI_MODEL__FALLBACKS": "[]",
        "RUMI_MEMORY__EXTRACT": "false",
    }
    return bubblewrap


def test_a_picture_from_the_terminal_reaches_the_model_scaled(seeing: Program, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    given = ("-f", str(tmp_path / "photo.jpg"))
    assert seeing.run("chat", "-c", "-p", "what is this", *given).stdout == "I see JPEG 894x1341.\n"
    workspace = seeing.home / "workspace" / "cli"
    assert (workspace / "photo.jpg").read_bytes() == PHOTO
    assert seeing.run("chat", "-c", "-p", "and again").stdout == "I see JPEG 894x1341.\n", "from its file"
    with sqlite3.connect(seeing.home / "state.db") as db:
        rows = db.execute("SELECT message, tainted FROM history WHERE message LIKE '%.pictures%'").fetchall()
    assert [(len(message) < 1000, tainted) for message, tainted in rows] == [(True, 1)]
    assert "image" in rows[0][0]
    for kept in (workspace / ".pictures").iterdir():
        kept.unlink()
    said = seeing.run("chat", "-c", "-p", "once more").stdout
    assert said.startswith("I see nothing.")
    assert "missing or has changed" in said


@pytest.mark.long
def test_several_files_of_all_kinds_go_with_one_message(seeing: Program, tmp_path: Path) -> None:
    seeing.env["RUMI_MODEL__DEFAULT"] = "offline"
    made = {
        "a.png": files.picture(30, 20),
        "b.pdf": files.pdf("hola pdf"),
        "c.xlsx": files.sheet(("rent", 500)),
        "d.docx": files.word("hola word"),
        "e.pptx": files.slides("hola slide"),
        "f.odt": files.open_document("hola odt"),
        "g.txt": b"hola text",
        "h.png": files.huge_png(30_000, 30_000),
    }
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    given = [word for name in made for word in ("-f", str(tmp_path / name))]
    said = seeing.run("chat", "-p", "what", *given).stdout
    for wanted in ("30 x 20 pixels", "hola pdf", "| rent | 500 |", "hola word", "hola slide", "hola odt"):
        assert wanted in said
    assert "hola text" in said
    assert "its 30000 x 30000 pixels are more than" in said


@pytest.mark.long
def test_the_model_looks_at_files_of_its_workspace(seeing: Program, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    seeing.run("chat", "-p", "keep it", "-f", str(tmp_path / "photo.jpg"))
    assert seeing.run("chat", "-p", "look photo.jpg").stdout == "I see JPEG 894x1341.\n"
    seeing.env["RUMI_MODEL__DEFAULT"] = "offline"
    assert "A JPEG picture of 3000 x 2000 pixels" in seeing.run("chat", "-p", "look at photo.jpg").stdout
    rows = [(f"row {n}", n) for n in range(1, 301)]
    (tmp_path / "long.xlsx").write_bytes(files.sheet(*rows))
    said = seeing.run("chat", "-p", "mirá long.xlsx", "-f", str(tmp_path / "long.xlsx")).stdout
    assert "200\t| row 199 | 199 |" in said
    assert "101 more lines from offset=201" in said


def test_a_model_without_pictures_says_so_and_which_one_takes_them(seeing: Program, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    seeing.env["RUMI_MODEL__DEFAULT"] = "groq:openai/gpt-oss-120b"
    given = ("-p", "what", "-f", str(tmp_path / "photo.jpg"))
    said = seeing.run("chat", *given).stdout
    assert said.startswith("I see nothing.")
    assert "groq:openai/gpt-oss-120b does not take pictures. Configure one that does" in said
    (seeing.home / "config.toml").write_text(
        '[model.custom.vision]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\npictures = true\n'
    )
    assert "Use /model custom:vision and send it again." in seeing.run("chat", *given).stdout


def test_a_file_that_is_shown_stands_with_its_path(seeing: Program, tmp_path: Path) -> None:
    seeing.env["RUMI_MODEL__DEFAULT"] = "offline"
    chart = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    done = seeing.run("chat", "-p", f"write chart.svg: {chart}; then show chart.svg")
    assert f"→ {seeing.home}/workspace/cli/chart.svg" in done.stderr
    events = seeing.events("-p", "show chart.svg")
    assert [event["shows"] for event in events if event["event"] == "tool_result"] == [["chart.svg"]]


def test_without_a_prompt_files_go_with_the_first_message(seeing: Program, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    given = ("-f", str(tmp_path / "photo.jpg"))
    said = seeing.run("chat", *given, text="what is this\nand @nothing\n").stdout
    assert said == "I see JPEG 894x1341.\n" * 2


def test_a_file_that_is_too_large_is_refused_and_nothing_of_it_is_left(
    seeing: Program, tmp_path: Path
) -> None:
    seeing.env |= {"RUMI_MODEL__DEFAULT": "offline", "RUMI_SESSION__FILE_MB": "1"}
    (tmp_path / "large.bin").write_bytes(bytes(9_000_000))
    refused = seeing.run("chat", "-p", "keep it", "-f", str(tmp_path / "large.bin"), code=2)
    assert "is larger than 1 MB ([session] file_mb)" in refused.stderr
    workspace = seeing.home / "workspace" / "cli"
    assert not workspace.exists() or not list(workspace.iterdir())


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[TelegramBot]:
    folder = tmp_path_factory.mktemp("seeing")
    with running(folder, world, RUMI_MODEL__DEFAULT=f"groq:{MODEL}", RUMI_MODEL__FALLBACKS="[]") as bot:
        yield bot


def test_a_photo_and_an_album_from_telegram_reach_the_model(bot: TelegramBot) -> None:
    talk, api, do = Talk(bot.world), bot.world.api, bot.world.do
    do(api.send_photo, talk.person, PHOTO, caption="what is this")
    assert talk.hear(1) == ["I see JPEG 894x1341."]
    album = [("a.png", files.picture(30, 20)), ("b.webp", files.picture(20, 30, "WEBP"))]
    do(api.send_album, talk.person, album, caption="and these")
    assert talk.hear(2)[1:] == ["I see JPEG 894x1341, PNG 30x20, JPEG 20x30."]


def test_a_document_and_a_sheet_from_telegram_reach_the_model_as_text(bot: TelegramBot) -> None:
    talk, api, do = Talk(bot.world), bot.world.api, bot.world.do
    for name, content, wanted in (
        ("bill.pdf", files.pdf("hola pdf"), "hola pdf"),
        ("rent.xlsx", files.sheet(("rent", 500)), "| rent | 500 |"),
    ):
        do(api.send_document, talk.person, name, content, caption="what is in it")
        talk.hear(len(talk.texts) + 1)
        body = bot.world.do(lambda: bot.world.groq.requests[-1].body)
        assert wanted in str(body["messages"]), name
        assert name in str(body["messages"])


@pytest.mark.long
def test_a_chart_goes_to_telegram_as_a_picture_and_a_drawing_as_a_file(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    workspace = bot.workspace(talk.chat)
    talk.ask("hello")
    workspace.mkdir(exist_ok=True)
    thin = files.picture(5000, 20)
    for name, content in (("c.png", files.picture(30, 20)), ("d.svg", b"<svg/>"), ("e.png", thin)):
        (workspace / name).write_bytes(content)
        talk.say(f"send {name}")
        talk.hear(len(talk.texts) + 2)  # the file, and the answer
    sent = [message for message in talk.said if message.document is not None]
    assert [(message.document and message.document.name, "photo" in message.content) for message in sent] == [
        ("c.png", True),
        ("d.svg", False),
        ("e.png", False),
    ]
