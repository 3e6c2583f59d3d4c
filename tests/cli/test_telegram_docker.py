"""`rumi telegram` on Docker: its containers end with it, and a daemon that goes away ends nothing."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.cli.conftest import containers
from tests.cli.telegram_bot import Gate, Talk, TelegramBot, running, wait_for
from tests.cli.telegram_world import World
from tests.fakes.relay import Relay

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture(scope="module")
def relay(world: World, tmp_path_factory: pytest.TempPathFactory) -> Relay:
    daemon = os.environ.get("DOCKER_HOST", "").removeprefix("unix://") or "/var/run/docker.sock"
    relay = Relay(tmp_path_factory.mktemp("relay") / "docker.sock", daemon)
    world.come(relay)
    return relay


@pytest.fixture(scope="module")
def bot(
    world: World, relay: Relay, docker_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TelegramBot]:
    docker = {
        "RUMI_SANDBOX__BACKEND": "docker",
        "RUMI_SANDBOX__IMAGE": docker_image,
        "DOCKER_HOST": f"unix://{relay.path}",
    }
    with running(tmp_path_factory.mktemp("docker"), world, **docker) as bot:
        yield bot
    del bot.program.env["DOCKER_HOST"]  # the relay may be away
    bot.program.run("sandbox", "clean", code=None)


@pytest.fixture(scope="module")
def installation(bot: TelegramBot) -> str:
    return (bot.program.home / "installation").read_text().strip()


def test_each_chat_has_a_container_of_its_own(bot: TelegramBot, installation: str) -> None:
    talks = [Talk(bot.world) for _ in range(3)]
    for talk in talks:
        talk.say("mark " + talk.chat)
    for talk in talks:
        assert talk.hear(1) == [f"marked {talk.chat}"]
    assert sorted(containers(installation)) == [f"rumi-runner-{talk.chat}-{installation}" for talk in talks]
    for talk in talks:
        assert (bot.workspace(talk.chat) / "mark.txt").read_text() == talk.chat


@pytest.mark.long
def test_a_daemon_that_goes_away_is_told_and_used_again_when_it_is_back(
    bot: TelegramBot, relay: Relay, installation: str
) -> None:
    world = bot.world
    talk, fresh = Talk(world), Talk(world)
    gate = Gate(bot, talk)
    world.leave(relay)
    try:
        away = f"No Docker daemon answers at unix://{relay.path}."
        assert away in fresh.ask("sh echo hello")
        # A container that is connected needs no daemon.
        gate.close()
        talk.hear(2)
        assert "hello" in talk.ask("sh echo hello")
        assert fresh.ask("say I need no sandbox") == "I need no sandbox"
    finally:
        world.come(relay)
    for person in (talk, fresh):
        assert "hello" in person.ask("sh echo hello")
    names = {f"rumi-runner-{person.chat}-{installation}" for person in (talk, fresh)}
    assert names <= set(containers(installation))


def test_containers_of_a_killed_process_go_by_themselves_and_its_own_with_it(
    bot: TelegramBot, installation: str
) -> None:
    talk = Talk(bot.world)
    gate = Gate(bot, talk)
    bot.kill()
    gate.close()
    wait_for(lambda: not containers(installation), bot.state)
    bot.start()
    (report,) = talk.hear(2)[1:]
    assert report.startswith("⚠️ I was restarted while working on: “sh cat gate”. Send /retry to try again.")
    talk.say("sh sleep 8301")
    wait_for(lambda: containers(installation) == [f"rumi-runner-{talk.chat}-{installation}"], bot.state)
    bot.send_signal(signal.SIGTERM)
    wait_for(lambda: "again to end now" in bot.output, bot.state)
    for _ in range(5):  # a person who leans on Ctrl-C
        bot.send_signal(signal.SIGINT)
    assert bot.end() == 0
    assert containers(installation) == []
