"""`rumi telegram` as its users meet it: files, voice, groups, topics, languages, long answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.telegram_bot import ADMIN, Talk, TelegramBot, running
from tests.cli.telegram_world import World
from tests.fakes.bot_api_faults import Error

pytestmark = pytest.mark.bubblewrap


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TelegramBot]:
    world = World(said="say what was heard")
    with world, running(tmp_path_factory.mktemp("talk"), world) as bot:
        yield bot


# Files


def test_a_document_lies_in_the_workspace_and_its_caption_is_worked_on(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    api, do = bot.world.api, bot.world.do
    do(api.send_document, talk.person, "notes.txt", b"buy milk", caption="sh cat notes.txt")
    assert "buy milk" in talk.hear(1)[0]
    assert (bot.workspace(talk.chat) / "notes.txt").read_bytes() == b"buy milk"
    assert "exit code 0" in talk.ask("sh mv notes.txt done.txt")  # it is the sandbox's to change
    assert "/workspace/notes.txt (text/plain, 8 bytes)" in talk.ask("history")


def test_a_document_without_a_caption_is_announced_to_the_model(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    bot.world.do(bot.world.api.send_document, talk.person, "paper.pdf", b"%PDF")
    (heard,) = talk.hear(1)
    assert "[The user sent a file: /workspace/paper.pdf (application/pdf, 4 bytes)]" in heard


def test_a_photo_comes_in_its_largest_size(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    bot.world.do(bot.world.api.send_photo, talk.person, b"jpeg" * 100, caption="sh ls")
    assert "photo-" in talk.hear(1)[0]
    (photo,) = bot.workspace(talk.chat).iterdir()
    assert photo.read_bytes() == b"jpeg" * 100


def test_what_is_too_large_is_refused_at_once_and_nothing_is_fetched(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    bot.world.do(bot.world.api.send_document, talk.person, "film.mkv", b"", size=30_000_000)
    assert talk.hear(1) == ["The file film.mkv is too large: I can take up to 20 MB."]
    assert not bot.workspace(talk.chat).exists()


def test_a_file_that_cannot_be_fetched_is_told_and_retry_fetches_it(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    api, do = bot.world.api, bot.world.do
    do(api.faults.next, Error(404, "Not Found"), "download")
    do(api.send_document, talk.person, "late.txt", b"at last", caption="sh cat late.txt")
    (told,) = talk.hear(1)
    assert told.startswith("❌ I could not get what you sent: ")
    assert told.endswith(". Send /retry to try again.")
    assert "at last" in talk.ask("/retry")


def test_the_model_sends_a_file_back(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    talk.ask('sh sh -c "echo result > out.csv"')
    talk.say("send out.csv")
    texts = talk.hear(3)
    assert texts[2] == "sent out.csv (7 bytes) to the user"
    (document,) = [message.document for message in talk.said if message.document]
    assert (document.name, document.content) == ("out.csv", b"result\n")
    assert "not in /workspace" in Talk(bot.world).ask("send /etc/passwd")


def test_an_album_is_one_turn_with_all_its_files(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    files = [(f"{number}.txt", str(number).encode()) for number in range(4)]
    bot.world.do(bot.world.api.send_album, talk.person, files, caption="sh ls")
    bot.idle()
    (answer,) = talk.texts
    assert answer.split("output:")[1].split() == [name for name, _ in files]


def test_a_voice_message_is_worked_on_as_if_it_were_written(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    bot.world.do(bot.world.api.send_voice, talk.person, b"OggS")
    assert talk.hear(1) == ["what was heard"]


def test_without_a_key_the_offline_model_works_on_files_and_voice_is_answered(tmp_path: Path) -> None:
    offline = {"RUMI_MODEL__DEFAULT": "offline", "GROQ_API_KEY": ""}
    with World() as world, running(tmp_path, world, **offline):
        talk = Talk(world)
        world.do(world.api.send_document, talk.person, "notes.txt", b"buy milk", caption="read notes.txt")
        assert "buy milk" in talk.hear(1)[0]
        world.do(world.api.send_voice, talk.person, b"OggS")
        words = "I cannot listen to voice messages: there is no [voice] server, and no GROQ_API_KEY."
        assert talk.hear(2)[1] == f"{words} Please write to me."
        assert world.groq.requests == []


# People


def test_a_stranger_is_told_their_number_once_and_nothing_of_theirs_is_kept(bot: TelegramBot) -> None:
    stranger = bot.world.do(bot.world.api.user, 99, language_code="es")
    talk = Talk(bot.world, stranger)
    words = "No te conozco todavía. Tu id es 99; pídele al dueño que lo agregue a allowed_users."
    assert talk.ask("my secret garden") == words
    talk.say("hello?")
    bot.idle()
    assert talk.texts == [words]
    assert b"secret garden" not in (bot.program.home / "state.db").read_bytes()
    assert not bot.workspace(talk.chat).exists()


@pytest.mark.parametrize(
    ("code", "nothing"),
    [
        ("es-419", "No hay ninguna operación en curso."),
        ("es-ar", "No hay ninguna operación en curso."),
        ("pt-br", "Nada está em andamento."),
        ("en", "Nothing is running."),
        ("fr", "Nothing is running."),
        (None, "Nothing is running."),
    ],
)
def test_each_user_reads_their_own_language(bot: TelegramBot, code: str | None, nothing: str) -> None:
    talk = Talk(bot.world, language=code)
    assert talk.ask("/stop") == nothing


def test_the_commands_are_offered_in_both_languages(bot: TelegramBot) -> None:
    commands = bot.world.api.account.commands
    bot.world.until(lambda: all((("default",), language) in commands for language in ("", "en", "es", "pt")))
    offered = bot.world.do(lambda: dict(commands))
    names = [*("help", "stop", "new", "retry", "undo", "status", "memory", "skills", "reset", "start")]
    for language in ("", "en", "es"):
        assert [one["command"] for one in offered[("default",), language]] == names
    assert (
        offered[("default",), "es"][1]["description"]
        == "detiene lo que estoy haciendo; /stop all también descarta lo que espera y detiene otros chats"
    )


def test_what_cannot_be_worked_on_is_answered(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    api, do = bot.world.api, bot.world.do
    do(lambda: api.send(talk.person, hologram={"file_id": "H"}))
    do(lambda: api.send(talk.person, sticker={}))
    assert talk.hear(2) == [
        "I cannot do anything with this kind of message. Send me text, a photo, a file or a voice message.",
        "I cannot do anything with a sticker. Send me text, a photo, a file or a voice message.",
    ]


# Groups


def test_a_group_is_answered_where_the_bot_is_meant(bot: TelegramBot) -> None:
    world, api = bot.world, bot.world.api
    group = world.do(api.group, -100777)
    first, second = Talk(world, group=group), Talk(world, group=group)
    first.say("say nothing of this")
    first.say("/stop@another_bot")
    asked = first.say("@rumi_test_bot say one")
    first.hear(1)
    bot.idle()
    (answer,) = first.said
    assert (answer.text, answer.reply_to) == ("one", asked)
    second.say("say two", reply_to=answer)
    assert first.hear(2)[1] == "two"
    assert first.ask("/stop@rumi_test_bot") == "Nothing is running."
    bot.idle()
    assert len(first.texts) == 3


def test_a_group_shares_a_workspace_and_a_private_chat_does_not(bot: TelegramBot) -> None:
    world = bot.world
    group = world.do(world.api.group, -100778)
    one, other = Talk(world, group=group), Talk(world, group=group)
    one.ask("@rumi_test_bot sh touch shared.txt")
    bot.idle()
    assert "shared.txt" in other.ask("@rumi_test_bot sh ls")
    assert "shared.txt" not in Talk(world, one.person).ask("sh ls")


def test_a_stranger_in_a_group_is_not_heard(bot: TelegramBot) -> None:
    world = bot.world
    group = world.do(world.api.group, -100779)
    stranger = Talk(world, world.do(world.api.user, 98), group=group)
    stranger.say("say hello all")
    asked = stranger.say("@rumi_test_bot say hello")
    stranger.hear(1)
    stranger.say("/stop@rumi_test_bot")
    bot.idle()
    (told,) = stranger.said
    assert told.text == "I don't know you yet. Your id is 98; ask the owner to add it to allowed_users."
    assert told.reply_to == asked


def test_each_topic_has_its_own_history_and_workspace(bot: TelegramBot) -> None:
    world = bot.world
    person = world.person()
    forum = world.do(world.api.group, -100780, forum=True)
    topics = [world.do(world.api.topic, forum, person, name) for name in ("Work", "Play")]
    work, play = (Talk(world, person, group=forum, topic=topic) for topic in topics)
    work.ask("@rumi_test_bot sh touch work.txt")
    bot.idle()
    assert "work.txt" not in play.ask("@rumi_test_bot sh ls")
    assert work.ask("@rumi_test_bot history") == "sh touch work.txt"
    assert (bot.workspace(work.chat) / "work.txt").exists()
    assert len(play.texts) == 1


def test_an_admin_sees_the_tree_in_private_only(bot: TelegramBot) -> None:
    world = bot.world
    admin = world.do(world.api.user, ADMIN)
    private = Talk(world, admin)
    assert "poller" in private.ask("/status")
    assert "poller" not in Talk(world).ask("/status")
    group = world.do(world.api.group, -100781)
    shown = Talk(world, admin, group=group).ask("/status@rumi_test_bot")
    assert shown.startswith("Chat tg-100781: idle.")
    assert "poller" not in shown


# Answers


def test_a_long_answer_arrives_whole_and_in_order(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    lines = [f"line {number} {'x' * 60}" for number in range(130)]
    code = "\n".join(lines)
    talk.say(f"say Look:\n\n```python\n{code}\n```\n\nThat **was** it.")
    bot.idle()
    parts = talk.said
    assert len(parts) == 3
    words = "\n".join(part.text for part in parts)
    assert [line for line in words.splitlines() if line.startswith("line")] == lines
    assert words.endswith("That was it.")
    for part in parts:
        assert len(part.text) <= 4096
        (block,) = [entity for entity in part.entities if entity["type"] == "pre"]
        assert block["language"] == "python"
        assert part.text[block["offset"] :].startswith("line ")


@pytest.mark.long
def test_an_answer_is_seen_growing_and_then_stands_there_complete(bot: TelegramBot) -> None:
    world = bot.world
    talk, group = Talk(world), Talk(world, group=world.do(world.api.group, -100782))
    talk.say("drip 300 growing,")
    group.say("@rumi_test_bot drip 300 growing,")
    bot.idle()
    whole = "growing," * 300
    assert talk.texts == group.texts == [whole]
    drafts = world.do(lambda: [draft.text for draft in talk.room.drafts])
    assert len(drafts[0]) < len(drafts[-1]) < len(whole)
    assert all(whole.startswith(draft) for draft in drafts)
    assert group.said[0].edits  # the message in which it grew is the one that is left


def test_formatting_that_telegram_refuses_goes_and_the_words_stay(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    refusal = Error(400, "Bad Request: can't parse entities: unexpected end")
    bot.world.do(bot.world.api.faults.next, refusal, "sendMessage", talk.person.id)
    assert talk.ask("say some **bold** words") == "some bold words"
    assert talk.said[0].entities == []
