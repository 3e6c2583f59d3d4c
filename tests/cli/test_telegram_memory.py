"""What `rumi telegram` knows of whom: facts stay with their owner, and the end of the bot loses none."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.extracting_model import Mind, facts, mind_of, sessions_to_extract
from tests.cli.telegram_bot import Talk, TelegramBot, running, wait_for
from tests.cli.telegram_world import World

pytestmark = pytest.mark.bubblewrap


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def mind(world: World) -> Mind:
    return mind_of(world)


def prompts(bot: TelegramBot, words: str) -> list[str]:
    """What the model server received with these words of a user's, each request as one text."""
    bodies = bot.world.do(lambda: [request.body for request in bot.world.groq.requests if request.body])
    whole = ["\n".join(str(m.get("content")) for m in body["messages"]) for body in bodies]
    return [text for text in whole if words in text and '{"facts"' not in text]


@pytest.mark.long
def test_neither_of_two_users_sees_the_others_facts(tmp_path: Path, world: World, mind: Mind) -> None:
    with running(tmp_path, world) as bot:
        ann, bob = Talk(world), Talk(world, language="es")
        assert "city: Rosario" in ann.ask("keep city=Rosario")
        assert "Guardado: barrio: Belgrano" in bob.ask("keep barrio=Belgrano")
        ann.ask("say my dog is Tango")
        bob.ask("say my gato is Mishi")
        assert "Saved 1 fact" in ann.ask("/reset")
        assert "Guardé 1 hecho" in bob.ask("/reset")
        ann.ask("say ann speaks")
        bob.ask("say bob speaks")
        (shown_to_ann,), (shown_to_bob,) = prompts(bot, "ann speaks"), prompts(bot, "bob speaks")
        for fact in ("city: Rosario", "dog: Tango"):
            assert fact in shown_to_ann
            assert fact not in shown_to_bob
        for fact in ("barrio: Belgrano", "gato: Mishi"):
            assert fact in shown_to_bob
            assert fact not in shown_to_ann
        assert "Belgrano" not in ann.ask("/memory")
        assert "Tango" in ann.texts[-1]
        assert "know nothing" in ann.ask("/memory forget barrio")
        assert "Belgrano" in bob.ask("/memory")
        assert not any("Belgrano" in extraction for extraction in mind.extractions if "Tango" in extraction)


def test_a_group_has_facts_of_its_own_and_none_of_its_members(
    tmp_path: Path, world: World, mind: Mind
) -> None:
    with running(tmp_path, world) as bot:
        ann = Talk(world)
        ann.ask("keep city=Rosario")
        forum = world.do(world.api.group, -1000999, forum=True, members=(ann.person,))
        topics = [world.do(world.api.topic, forum, ann.person) for _ in range(2)]
        one, other = (Talk(world, ann.person, group=forum, topic=topic) for topic in topics)
        one.ask("@rumi_test_bot keep team=Central")
        other.ask("@rumi_test_bot say in the group")
        (shown,) = prompts(bot, "in the group")
        assert "team: Central" in shown
        assert "Rosario" not in shown
        ann.ask("say in private")
        (shown,) = prompts(bot, "in private")
        assert "team" not in shown


@pytest.mark.long
def test_the_end_of_the_bot_learns_and_what_does_not_come_about_is_done_at_the_next_start(
    tmp_path: Path, world: World, mind: Mind
) -> None:
    with running(tmp_path, world) as bot:
        home = bot.program.home
        ann, bob = Talk(world), Talk(world)
        ann.ask("say my dog is Tango")
        bot.idle()
        bot.send_signal(signal.SIGTERM)
        assert bot.end() == 0
        assert facts(home) == [(ann.chat, "dog", "Tango")]
        assert sessions_to_extract(home) == []

        bot.start()
        bob.ask("say my cat is Mishi")
        bot.idle()
        mind.hangs = True
        extractions = len(mind.extractions)
        bot.send_signal(signal.SIGTERM)
        assert bot.end() == 0
        assert len(mind.extractions) == extractions + 1
        assert len(facts(home)) == 1

        bot.start()
        wait_for(lambda: len(mind.extractions) == extractions + 2, bot.state)
        bot.kill()
        mind.hangs = False
        bot.start()
        wait_for(lambda: facts(home)[1:] == [(bob.chat, "cat", "Mishi")], bot.state)
        wait_for(lambda: sessions_to_extract(home) == [], bot.state)
        assert len(mind.extractions) == extractions + 3
