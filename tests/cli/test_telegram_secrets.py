"""The bot's token and the model's key are in nothing that `rumi telegram` prints, logs, stores or says."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.telegram_bot import Talk, TelegramBot, running, wait_for
from tests.cli.telegram_model import CANARY
from tests.cli.telegram_world import World
from tests.fakes.bot_api_faults import Broken, Error, Fault, Reset, Truncated

pytestmark = pytest.mark.bubblewrap

CANARIES = ("TokenCanary", "KeyCanary")
TOKEN = "7000000001:AA-TokenCanary_TokenCanary_TokenCanary"


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TelegramBot]:
    with World(token=TOKEN, key=CANARY) as world:
        with running(tmp_path_factory.mktemp("secrets"), world, "--debug") as bot:
            yield bot


def written(bot: TelegramBot) -> dict[str, str]:
    """All that anybody can read of it, by where it is."""
    found = {str(path): path for path in bot.program.home.rglob("*") if "rootfs" not in path.parts}
    texts = {name: path.read_bytes().decode("latin-1") for name, path in found.items() if path.is_file()}
    chats = bot.world.do(lambda: list(bot.world.api.chats.values()))
    for chat in chats:
        texts[f"chat {chat.id}"] = repr([getattr(event, "text", "") for event in chat.events])
    return {**texts, "printed": bot.output}


def check(texts: dict[str, str]) -> None:
    assert texts
    for where, text in texts.items():
        for canary in CANARIES:
            at = text.find(canary)
            assert at < 0, f"{where}: {text[max(0, at - 300) : at + 100]}"


def test_whatever_telegram_answers(bot: TelegramBot) -> None:
    world, faults = bot.world, bot.world.api.faults
    kinds: tuple[Fault, ...] = (
        Reset(),
        Broken(502),
        Truncated(),
        Error(500, f"the request to /bot{TOKEN}/sendMessage failed"),
        Error(400, f"Bad Request: https://api.telegram.org/bot{TOKEN}/ is no place"),
        Error(418, f"{TOKEN} {TOKEN}"),
    )
    talks = [Talk(world) for _ in kinds]

    def all_write() -> None:
        for talk, fault in zip(talks, kinds, strict=True):
            for method in ("sendMessage", "sendChatAction", "sendMessageDraft"):
                faults.next(fault, method, talk.person.id)
            faults.next(fault, "getFile")
            faults.next(fault, "download")
            world.api.send_document(talk.person, "a.txt", b"letters", caption="drip 1 letters")

    world.do(faults.next, kinds[-1], "getUpdates")
    world.do(all_write)
    wait_for(lambda: bot.stored == len(kinds), bot.state)
    bot.idle()
    met = {one.method for one in faults.injected}
    assert met >= {"sendMessage", "sendChatAction", "getFile", "download", "getUpdates"}
    world.do(faults.clear)


def test_whatever_the_model_answers(bot: TelegramBot) -> None:
    world, talk, other = bot.world, Talk(bot.world), Talk(bot.world)
    assert talk.ask("say hello") == "hello"
    assert "❌" in talk.ask("fail")
    world.do(setattr, world.groq, "key", "gsk_another")
    assert "❌ The model did not answer" in other.ask("say hello")
    world.do(world.api.send_voice, other.person, b"OggS")
    assert "❌ I could not get what you sent" in other.hear(2)[1]
    world.do(setattr, world.groq, "key", CANARY)


def test_the_sandbox_has_nothing_of_the_programs_environment(bot: TelegramBot) -> None:
    environment = Talk(bot.world).ask("sh env")
    assert "PATH=" in environment
    assert "TELEGRAM" not in environment


def test_other_commands_show_none(bot: TelegramBot) -> None:
    for words in (("status", "--json"), ("config", "show"), ("doctor",)):
        done = bot.program.run(*words, code=None)
        check({" ".join(words): done.stdout + done.stderr})
        assert done.stdout


@pytest.mark.parametrize("address", ["http://{0}@127.0.0.1:9/bot{0}", "127.0.0.1/bot{0}"])
def test_wrong_addresses_with_the_token_in_them(bot: TelegramBot, tmp_path: Path, address: str) -> None:
    program = Program(tmp_path / "home", {**bot.program.env, "TELEGRAM_BASE_URL": address.format(TOKEN)})
    other = TelegramBot(program, bot.world)
    try:
        other.start("--debug", says="Telegram does not answer yet")
        wait_for(lambda: "cannot be reached" in other.program.run("status").stdout, other.state)
        check({"status": other.program.run("status", "--json").stdout})
        other.send_signal(signal.SIGTERM)
        other.end()
    except AssertionError:
        assert "TELEGRAM_BASE_URL is not the address of a server" in other.output
    finally:
        other.kill()
    check(written(other))


def test_nothing_of_all_that_was_printed_logged_stored_or_said(bot: TelegramBot) -> None:
    bot.send_signal(signal.SIGTERM)
    assert bot.end() == 0
    texts = written(bot)
    check(texts)
    for part in ("state.db", "audit.jsonl", "rumi.jsonl", "printed", "a.txt", "chat "):
        assert any(part in where for where in texts), part
    for canary in (TOKEN, CANARY):
        with pytest.raises(AssertionError):
            check({**texts, "planted": f"/bot{canary}/"})
