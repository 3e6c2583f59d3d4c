"""Learning from a session that another worker serves by now."""

from pathlib import Path
from typing import Any

from trio.testing import MockClock

from actors import Actor, ChildSpec, Refused, Supervisor, answers
from rumi.chats.fact_extractor import ExtractNow, FactExtractor
from rumi.memory.extractor import extract
from rumi.store.journal.extraction import find_due_sessions, mark_extracted, read_unextracted
from rumi.store.journal.records import DueSessions, SessionExcerpt
from rumi.store.journal.store import NotOwner
from rumi.store.steps import Run
from tests.chats.house import house
from tests.chats.test_fact_extractor import Mind


class TakenOver(Actor[Any]):
    """A journal in which a session is due, until another worker serves its chat."""

    def __init__(self) -> None:
        self._due: tuple[tuple[str, int], ...] = (("a", 1),)

    @answers(Run)
    async def answer(self, request: Run[Any]) -> Any:
        if request.step is find_due_sessions:
            return DueSessions(self._due, float("inf"))
        if request.step is read_unextracted:
            return SessionExcerpt(1, ())
        assert request.step is mark_extracted
        self._due = ()
        raise Refused(NotOwner("another worker serves this chat by now"))


async def test_a_refused_lesson_ends_nothing_else(tmp_path: Path, autojump_clock: MockClock) -> None:
    root = Supervisor("rumi", max_restarts=0)
    async with house(tmp_path, Mind(), remembers=True) as home:
        journal = root.add(ChildSpec("journal", TakenOver))
        context = home.services.context
        learning = root.add(ChildSpec("learning", lambda: FactExtractor(journal, context, extract)))
        async with root.running():
            assert await learning.ask(ExtractNow()) == 0
            assert await learning.ask(ExtractNow()) == 0
