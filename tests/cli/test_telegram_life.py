"""How `rumi telegram` starts, what it does in trouble, how it ends, and what the next start makes of that."""

import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rumi.platform.texts.replies import goes_on_later, queued, went_on
from rumi.platform.texts.telegram import sent_again
from tests.cli.program import BOUND_S, Program
from tests.cli.telegram_bot import Gate, Talk, TelegramBot, running, wait_for
from tests.cli.telegram_world import World
from tests.cli.test_chat import processes
from tests.fakes.bot_api_faults import Broken, Fault, Flood, Reset, Silent, Truncated

pytestmark = pytest.mark.bubblewrap

NOTHING = "Nothing is running."
"""What `/stop` is answered: a reply that needs no model."""


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[TelegramBot]:
    with World() as world, running(tmp_path, world) as bot:
        yield bot


@dataclass
class Ending:
    """A bot that was told to end while it worked for two chats. It gives their commands 5 s."""

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
        wait_for(lambda: processes("sleep 8101"), bot.state)
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
    wait_for(lambda: "Ending: waiting up to 20 s" in bot.output, bot.state)
    wait_for(lambda: bot.status()["/rumi/poller"]["doing"] == "takes no more updates", bot.state)
    late = ending.short.say("say later")
    word = ending.gate.open()
    assert word in ending.short.hear(2)[1]
    assert late.update_id in world.do(lambda: world.api.pending)


def test_a_second_sigterm_cuts_the_waiting_short_and_the_next_start_reports(fresh: TelegramBot) -> None:
    talk = Talk(fresh.world)
    gate = Gate(fresh, talk)
    fresh.send_signal(signal.SIGTERM)
    wait_for(lambda: "again to end now" in fresh.output, fresh.state)
    fresh.send_signal(signal.SIGTERM)
    assert fresh.end(15) == 0
    assert not gate.held()
    gate.close()
    assert len(talk.texts) == 1
    fresh.start()
    (report,) = talk.hear(2)[1:]
    assert report.startswith("⚠️ I was restarted while working on: “sh cat gate”. Send /retry to try again.")
    assert "This was running: bash: cat gate" in report


@pytest.mark.long
def test_a_kill_is_reported_the_preview_goes_and_retry_goes_on(fresh: TelegramBot) -> None:
    world = fresh.world
    group = world.do(world.api.group, -100900)
    talk, other = Talk(world, group=group), Talk(world, language="es")
    gates = [Gate(fresh, talk), Gate(fresh, other)]
    world.until(lambda: len(talk.said) == 2, what=fresh.state)  # the second shows what is going on
    assert "cat gate" in talk.texts[1]
    preview = talk.said[1].id
    wait_for(lambda: fresh.rows("SELECT id FROM messages WHERE preview = ?", preview), fresh.state)
    fresh.kill()
    wait_for(lambda: not any(gate.held() for gate in gates), fresh.state)
    for gate in gates:
        gate.close()
    other.say("say meanwhile")
    fresh.start()
    fresh.idle()
    (report,) = talk.texts[1:]
    assert report.startswith("⚠️ I was restarted while working on: “sh cat gate”. Send /retry to try again.")
    assert talk.said[1].id != preview
    report = "⚠️ Me reinicié mientras trabajaba en: «sh cat gate». Envía /retry para intentarlo de nuevo."
    # How fast the chat reports decides whether the message is told to wait for it.
    first, second = sorted(text for text in other.texts[1:] if text != queued("es", 1, 20))
    assert first == "meanwhile"
    assert second.startswith(report)
    heard = len(other.texts)
    gate = Gate(fresh, other, "/retry")
    assert gate.open() in other.hear(heard + 1)[heard]
    fresh.idle()
    fresh.kill()
    fresh.start()
    fresh.idle()
    assert len(other.texts) == heard + 1
    assert len(talk.texts) == 2


@pytest.mark.long
def test_a_disk_that_refuses_to_write_ends_nothing_and_loses_nothing(fresh: TelegramBot) -> None:
    talk = Talk(fresh.world)
    talk.ask("say hello")
    fresh.idle()
    resource.prlimit(fresh.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))  # none grows
    talk.say("say what was not stored")
    assert talk.hear(2)[1].startswith("⚠️ I cannot store messages right now.")
    assert fresh.process.poll() is None
    resource.prlimit(fresh.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert talk.hear(3)[2] == "what was not stored"


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
        ({"TELEGRAM_TOKEN": ""}, "TELEGRAM_TOKEN is missing. Get one from @BotFather and put"),
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
    *steps, line = done.stderr.splitlines()  # a step that takes long, on a busy machine, is told before
    assert line.startswith("rumi: ")
    assert says in line
    assert not [step for step in steps if step.startswith("rumi: ") or "Traceback" in step]


def test_a_watcher_of_it_may_leave(stopped: TelegramBot) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would stay ignored, and rightly
    watched = stopped.program.start("telegram")
    signal.signal(signal.SIGHUP, before)
    stopped.started.append(watched)
    assert watched.stderr is not None
    # A step that takes long, as on a busy machine, has a line of its own before.
    assert any("Serving @" in line for line in iter(watched.stderr.readline, ""))
    watched.stderr.close()
    assert Talk(stopped.world).ask("say hello") == "hello"
    watched.send_signal(signal.SIGHUP)
    watched.communicate(timeout=BOUND_S)
    assert watched.returncode == 0


def test_telegram_may_be_away_at_the_start_and_nobody_allowed(stopped: TelegramBot) -> None:
    world = stopped.world
    stopped.program.env |= {"RUMI_TELEGRAM__ALLOWED_USERS": "[]", "RUMI_TELEGRAM__ADMINS": "[]"}
    world.leave(world.telegram)
    stopped.start(says="Telegram does not answer yet; I keep trying.")
    wait_for(lambda: "Nobody may talk to it yet" in stopped.output, stopped.state)
    wait_for(lambda: "cannot be reached" in stopped.status()["/rumi/poller"]["doing"], stopped.state)
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
    assert "TokenCanary" not in revoked.state()


# Trouble


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TelegramBot]:
    no_others = {"RUMI_MODEL__FALLBACKS": "[]"}
    with World() as world, running(tmp_path_factory.mktemp("trouble"), world, **no_others) as bot:
        yield bot


@dataclass
class Waiting:
    """People whose turns wait for a model that is away."""

    english: Talk
    spanish: Talk


@pytest.fixture(scope="module")
def waiting(bot: TelegramBot) -> Waiting:
    """It is tried for some seconds before that is told."""
    waiting = Waiting(Talk(bot.world), Talk(bot.world, language="es"))
    bot.world.leave(bot.world.groq)
    waiting.english.say("say finally")
    waiting.spanish.say("say por fin")
    return waiting


def poller(bot: TelegramBot) -> str:
    return str(bot.status()["/rumi/poller"]["doing"])


@pytest.mark.usefixtures("waiting")  # begins here
@pytest.mark.parametrize("fault", [Broken(502), Reset(), Truncated()])
def test_a_server_that_fails_is_asked_again(bot: TelegramBot, fault: Fault) -> None:
    world, talk = bot.world, Talk(bot.world)
    world.do(world.api.faults.next, fault, "sendMessage", talk.person.id)
    world.do(world.api.faults.next, fault, "getUpdates")
    talk.say("/stop")
    talk.hear(1)
    world.until(lambda: not world.api.pending, what=bot.state)
    wait_for(lambda: bot.unsent == 0, bot.state)
    # Of an answer that is cut in half nobody knows what was done: so it may be said twice, but not never.
    # What is said without knowing whether it was said before is marked.
    again = f"{sent_again('en')}\n\n{NOTHING}"
    assert talk.texts == {Broken: [NOTHING], Reset: [again], Truncated: [NOTHING, again]}[type(fault)]


def test_another_program_with_the_same_token_is_told_and_nothing_is_lost(bot: TelegramBot) -> None:
    world, talk = bot.world, Talk(bot.world)
    world.do(world.api.handle, "getUpdates", {"timeout": 0})
    wait_for(lambda: "another program polls with this bot's token" in poller(bot), bot.state)
    assert talk.ask("/stop") == NOTHING


def test_a_model_that_is_away_is_told_and_retry_goes_on_when_it_is_back(
    bot: TelegramBot, waiting: Waiting
) -> None:
    (told,) = waiting.english.hear(1)
    assert told.startswith("❌ The model did not answer: ")
    assert told.endswith(". Send /retry to try again.")
    assert waiting.spanish.hear(1)[0].startswith("❌ El modelo no responde: ")
    bot.world.come(bot.world.groq)
    assert waiting.english.ask("/retry") == "finally"
    assert waiting.english.ask("/retry") == "There is nothing to retry."


@pytest.mark.long
def test_what_was_worked_on_while_telegram_was_away_arrives_when_it_is_back(bot: TelegramBot) -> None:
    world, talk = bot.world, Talk(bot.world)
    talk.say("drip 1 hello")  # takes a second
    world.until(lambda: talk.room.actions)
    world.leave(world.telegram)
    wait_for(lambda: "Telegram cannot be reached" in poller(bot), bot.state)
    wait_for(lambda: bot.unsent == 1, bot.state)
    assert bot.status()["/rumi/sender"]["doing"].startswith("1 reply waits in 1 chat")
    talk.say("say and this")
    world.come(world.telegram)
    assert talk.hear(2) == ["hello", "and this"]
    wait_for(lambda: "polling" in poller(bot), bot.state)


def test_a_reply_for_somebody_who_blocked_the_bot_is_given_up_and_they_may_come_back(
    bot: TelegramBot,
) -> None:
    world, talk, other = bot.world, Talk(bot.world), Talk(bot.world)
    talk.say("sh sleep 8201")
    world.until(lambda: talk.room.actions)
    world.do(world.api.block, talk.person)
    assert other.ask("say hello") == "hello"
    bot.program.run("stop", talk.chat)
    wait_for(lambda: bot.unsent == 0, bot.state)
    ((why,),) = bot.rows("SELECT failure FROM outbox WHERE chat = ?", talk.chat)
    assert "bot was blocked by the user" in why
    world.do(world.api.unblock, talk.person)
    assert talk.ask("say again") == "again"


def test_a_flooded_chat_waits_as_long_as_telegram_says_and_no_other_does(bot: TelegramBot) -> None:
    world, hour, second, other = bot.world, Talk(bot.world), Talk(bot.world), Talk(bot.world)
    for talk, wait_s in ((hour, 3600), (second, 1)):
        world.do(world.api.faults.next, Flood(wait_s), "sendMessage", talk.person.id)
        talk.say("/stop")
    assert other.ask("/stop") == NOTHING
    assert second.hear(1) == [NOTHING]
    (asked,) = [one.time for one in world.api.faults.injected if one.chat == second.person.id]
    assert second.said[0].time - asked >= 1
    assert f"{hour.chat} waits" in bot.status()["/rumi/sender"]["doing"]
    assert hour.texts == []
    assert world.api.rates.refused == []


# The end of what began first


def test_at_the_end_of_its_patience_it_reports_what_is_left_and_ends_in_order(ending: Ending) -> None:
    bot, world = ending.bot, ending.bot.world
    assert bot.end(40) == 0
    assert ending.long.texts == [goes_on_later("es")]
    assert (bot.open, bot.unsent) == (1, 0)
    assert not processes("sleep 8101")
    assert len(world.do(lambda: world.api.pending)) == 2  # one that it knows, one that it does not
    bot.start()
    bot.idle()
    assert ending.short.texts[2:] == ["later"]
    assert ending.long.texts[1].endswith(went_on("es"))


@pytest.mark.long
def test_twenty_commands_end_within_seconds_and_their_chats_go_on_after_the_restart(
    fresh: TelegramBot,
) -> None:
    talks = [Talk(fresh.world) for _ in range(20)]
    for number, talk in enumerate(talks):
        talk.say(f"sh sleep 86{number:02}")
    for number, _ in enumerate(talks):
        wait_for(lambda number=number: processes(f"sleep 86{number:02}"), fresh.state)
    began = time.monotonic()
    fresh.send_signal(signal.SIGTERM)
    assert fresh.end(30) == 0
    assert time.monotonic() - began < 10  # 5 of them for the commands
    assert [talk.texts for talk in talks] == [[goes_on_later("en")]] * 20
    assert not [number for number in range(20) if processes(f"sleep 86{number:02}")]
    fresh.start()
    fresh.idle()
    for talk in talks:
        _, reply = talk.texts
        assert "interrupted: Rumi was restarted" in reply
        assert reply.endswith(went_on("en"))
    assert fresh.rows("SELECT DISTINCT reason, resumed FROM messages") == [("complete", 1)]
