"""The owner's note for a group: it is in the group's prompts, is said once, and changes with the settings."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import GroupSection
from tests.chats.house import house


class Listening:
    """A model that remembers the texts of its last request; `sections` are the settings of groups."""

    def __init__(self, **notes: str) -> None:
        self.sections = {name: GroupSection(note=note) for name, note in notes.items()}
        self.texts: list[str] = []

    async def __call__(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        self.texts = [message.content for message in request.messages]
        return Reply("ok")

    def group_of(self, chat: str) -> GroupSection:
        return Groups(self.sections).of(chat)

    def count(self, text: str) -> int:
        return sum(said.count(text) for said in self.texts)


@pytest.mark.parametrize(
    ("chat", "notes"), [("tg-100", 1), ("tg-100_5", 1), ("tg-200", 0), ("tg11", 0), ("cli", 0)]
)
async def test_a_note_is_for_its_group_and_said_once(
    tmp_path: Path, autojump_clock: MockClock, chat: str, notes: int
) -> None:
    model = Listening(**{"-100": "Be short.", "-300": "Another group."})
    async with house(tmp_path, model, group_of=model.group_of) as home:
        for _ in range(3):
            await home.ask("hello", chat=chat)
            assert model.count("Be short.") == notes
            assert ("Be short." in model.texts[0]) == bool(notes)
            assert not model.count("Another group.")


async def test_a_changed_note_is_said_as_a_change_and_a_removed_one_holds_no_more(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    model = Listening(**{"-100": "Be short."})
    async with house(tmp_path, model, group_of=model.group_of) as home:
        await home.ask("hello", chat="tg-100")
        begins = model.texts[0]
        model.sections = {"-100": GroupSection(note="Be long.")}
        await home.ask("hello", chat="tg-100")
        await home.ask("hello", chat="tg-100")
        assert (model.texts[0], model.count("Be long.")) == (begins, 1)
    model.sections = {}
    async with house(tmp_path, model, group_of=model.group_of) as home:
        for _ in range(2):
            await home.ask("hello", chat="tg-100")
            assert model.count("The note for this group is gone") == 1
        await home.ask("/reset", chat="tg-100")
        await home.ask("hello", chat="tg-100")
        assert not model.count("group")


async def test_a_group_without_a_note_has_no_word_of_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    model = Listening(**{"-100": "  "})
    async with house(tmp_path, model, group_of=model.group_of) as home:
        await home.ask("hello", chat="tg-100")
        assert not model.count("<group>")
