"""Parts of tools for tests."""

from collections.abc import Collection, Mapping

from rumi.tools import Question


class Unasked:
    """A tool that needs nothing made ready, runs alone and asks nobody."""

    concurrent = False

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], given: Collection[str]) -> Question | None:
        return None
