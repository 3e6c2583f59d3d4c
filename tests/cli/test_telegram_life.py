"""How `rumi telegram` starts, and ends, in order and out of it, and what the next start makes of it."""

import re
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.telegram_bot import Gate, Talk, TelegramBot, running, wait_for
from tests.cli.telegram_world import World
from tests.cli.test_chat import processes
from tests.fakes.bot_api_faults import Silent

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[TelegramBot]:
    with World() as world, running(tmp_path, world) as bot:
        yield bot


@dataclass
class Ending:
    """A bot that was told to end while it worked for two chats. It gives them 20 s."""

    bot: TelegramBot
    short: Talk
    gate: Gate
    long: Talk


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ending]:
    with World() as world, running(tmp_path_factory.mktemp("ending"), world) as bot:
        short, long = Talk(world), Talk(world, language="es")
        gate = Gate(bot, short)
        # Neither the poll that would confirm the next message is answered, nor what confirms it at the end.
        world.do(world.api.faults.next, Silent(), "getUpdates", times=2)
        long.say("sh sleep 8101")
        wait_for(lambda: processes("sleep 8101"), bot.tell)
        bot.send_signal(signal.SIGTERM)
        yield Ending(bot, short, gate, long)


@pytest.fixture(scope="module")
def revoked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TelegramBot]:
    """A bot whose token Telegram does not know any more. It asks again for some seconds."""
    token = "7000000001:AA-TokenCanary_TokenCanary_TokenCanary"
    with World(token=token) as world, running(tmp_path_factory.mktemp("revoked"), world, "--debug") as bot:
        talk = Talk(world)
        talk.ask("say hello")
        world.do(setattr, world.api, "token", f"7000000001:{'B' * 35}")
        talk.say("say more")  # which ends the poll that waits
        yield bot


@pytest.mark.usefixtures("revoked")  # begins here, too
def test_told_to_end_it_takes_nothing_more_and_lets_short_turns_finish(ending: Ending) -> None:
    bot, world = ending.bot, ending.bot.world
    wait_for(lambda: "Ending: waiting up to 20 s" in bot.output, bot.tell)
    wait_for(lambda: bot.status()["/rumi/poller"]["doing"] == "takes no more updates", bot.tell)
    late = ending.short.say("say later")
    word = ending.gate.open()
    assert word in ending.short.hear(2)[1]
    assert late.update_id in world.do(lambda: world.api.pending)


def test_a_second_sigterm_cuts_the_waiting_short_and_the_next_start_reports(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    gate = Gate(bot, talk)
    bot.send_signal(signal.SIGTERM)
    wait_for(lambda: "cuts it short" in bot.output, bot.tell)
    bot.send_signal(signal.SIGTERM)
    assert bot.end(15) == 0
    gate.close()
    assert not processes("cat gate")
    assert len(talk.texts) == 1
    bot.start()
    (report,) = talk.hear(2)[1:]
    assert report == "⚠️ I was restarted while working on: “sh cat gate”. Send /retry to try again."


def test_a_kill_is_reported_in_place_of_the_preview_and_retry_goes_on(bot: TelegramBot) -> None:
    world = bot.world
    group = world.do(world.api.group, -100900)
    talk, other = Talk(world, group=group), Talk(world, language="es")
    gates = [Gate(bot, talk), Gate(bot, other)]
    world.until(lambda: len(talk.said) == 2, what=bot.tell)  # the second shows what is going on
    assert "cat gate" in talk.texts[1]
    preview = talk.said[1].id
    wait_for(lambda: bot.rows("SELECT id FROM messages WHERE preview = ?", preview), bot.tell)
    bot.kill()
    for gate in gates:
        gate.close()
    wait_for(lambda: not processes("cat gate"), bot.tell)
    other.say("say meanwhile")
    bot.start()
    bot.idle()
    report = "⚠️ I was restarted while working on: “sh cat gate”. Send /retry to try again."
    assert [(message.id, message.text) for message in talk.said[1:]] == [(preview, report)]
    report = "⚠️ Me reinicié mientras trabajaba en: «sh cat gate». Mandá /retry para intentarlo de nuevo."
    assert sorted(other.texts[1:]) == sorted(["meanwhile", report])
    gate = Gate(bot, other, "/retry")
    assert gate.open() in other.hear(4)[3]
    bot.idle()
    bot.kill()
    bot.start()
    bot.idle()
    assert len(other.texts) == 4
    assert len(talk.texts) == 2


def test_a_full_disk_ends_it_with_a_sentence_and_nothing_is_lost(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    talk.ask("say hello")
    resource.prlimit(bot.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))  # no file gets any larger
    talk.say("say what was not stored")
    assert bot.end() == 1
    last = bot.output.splitlines()[-1]
    assert last.startswith("rumi: ")
    assert re.search("state.db cannot be (written|used): .* Check the disk's free space", last)
    bot.start()
    assert talk.hear(2)[1] == "what was not stored"


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[TelegramBot]:
    """A bot that could be started."""
    with World() as world:
        bot = TelegramBot(Program(tmp_path / "home"), world)
        yield bot
        bot.kill()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"TELEGRAM_TOKEN": ""}, "There is no TELEGRAM_TOKEN. Get one from @BotFather and put"),
        ({"TELEGRAM_TOKEN": f"7000000001:{'A' * 35}"}, "Telegram does not accept the bot's token."),
        ({"GROQ_API_KEY": ""}, "groq:openai/gpt-oss-120b needs GROQ_API_KEY."),
        (
            {"RUMI_SANDBOX__BACKEND": "auto", "DOCKER_HOST": "unix:///nonexistent/docker.sock"},
            "No Docker daemon answers, and many users need one: bubblewrap bounds less.",
        ),
    ],
)
def test_what_is_missing_at_the_start_is_exit_2_and_one_sentence(
    stopped: TelegramBot, change: dict[str, str], says: str
) -> None:
    stopped.program.env |= change
    done = stopped.program.run("telegram", code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("rumi: ")
    assert says in line


def test_whoever_watches_it_may_leave(stopped: TelegramBot) -> None:
    watched = stopped.program.start("telegram")
    stopped.started.append(watched)
    assert watched.stderr is not None
    assert "Serving @" in watched.stderr.readline()
    watched.stderr.close()
    assert Talk(stopped.world).ask("say hello") == "hello"
    watched.send_signal(signal.SIGHUP)
    watched.communicate(timeout=30)
    assert watched.returncode == 0


def test_telegram_may_be_away_at_the_start_and_nobody_allowed(stopped: TelegramBot) -> None:
    world = stopped.world
    stopped.program.env |= {"RUMI_TELEGRAM__ALLOWED_USERS": "[]", "RUMI_TELEGRAM__ADMINS": "[]"}
    world.leave(world.telegram)
    stopped.start(says="Telegram does not answer yet; I keep trying.")
    wait_for(lambda: "Nobody may talk to it yet" in stopped.output, stopped.tell)
    wait_for(lambda: "cannot be reached" in stopped.status()["/rumi/poller"]["doing"], stopped.tell)
    second = stopped.program.run("telegram", code=2)
    assert f"(process {stopped.process.pid})" in second.stderr
    talk = Talk(world)
    talk.say("let me in")
    world.come(world.telegram)
    assert talk.hear(1)[0].startswith(f"I don't know you yet. Your id is {talk.person.id};")
    stopped.send_signal(signal.SIGINT)
    assert stopped.end() == 0


def test_a_token_that_is_revoked_ends_it_with_a_sentence_and_is_shown_nowhere(revoked: TelegramBot) -> None:
    assert revoked.end() == 2
    line = revoked.output.splitlines()[-1]
    assert line.startswith("rumi: Telegram does not accept the bot's token. Set TELEGRAM_TOKEN")
    assert "Traceback" in revoked.output
    assert "TokenCanary" not in revoked.tell()


def test_at_the_end_of_its_patience_it_reports_what_is_left_and_ends_in_order(ending: Ending) -> None:
    bot, world = ending.bot, ending.bot.world
    assert bot.end(40) == 0
    report = "⚠️ Me reinicié mientras trabajaba en: «sh sleep 8101». Mandá /retry para intentarlo de nuevo."
    assert ending.long.texts == [report]
    assert bot.open == bot.unsent == 0
    assert not processes("sleep 8101")
    assert len(world.do(lambda: world.api.pending)) == 2  # one that it knows, one that it does not
    bot.start()
    bot.idle()
    assert ending.short.texts[2:] == ["later"]
    assert ending.long.texts == [report]
