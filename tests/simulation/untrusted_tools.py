"""Two tools: one reads what strangers wrote, the other does what has to be asked for then."""

from collections.abc import Collection, Mapping

import trio

from rumi.agent.tool import Progress, Question, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from tests.simulation.asking import Asking
from tests.simulation.ports import Life
from tests.simulation.sim_chats import SimChat

PAGE = "a page"

READ = ToolSpec("read", "Reads a page.", {})
DO = ToolSpec("do", "Does something.", {})


class Reading:
    """Reads a page, and shows its steps."""

    spec = READ
    concurrent = False

    def __init__(self, life: Life, sim_chat: SimChat) -> None:
        self._life = life
        self._sim_chat = sim_chat

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        return await self.call_reporting(arguments, lambda step: None)

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        world = self._life.world
        progress(f"{self._sim_chat.mark}# asks")
        progress(f"{self._sim_chat.mark}# reads")
        with world.waits.of(self._sim_chat.chat):
            await trio.sleep(world.random.choice((0, 0, 0.5)))
        progress(f"{self._sim_chat.mark}# has read")
        return ToolResult(True, f"{self._sim_chat.mark}# {PAGE}", tainted=True)


class Doing:
    """Does something, which cannot be undone."""

    spec = DO
    concurrent = True

    def __init__(self, life: Life, sim_chat: SimChat, asking: Asking) -> None:
        self._life = life
        self._sim_chat = sim_chat
        self._asking = asking

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return Question("send_file", {"path": str(arguments["what"])})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.lowlevel.checkpoint()
        if self._life.dead:
            raise RumiError("The process is dead.")
        self._asking.do(self._sim_chat, str(arguments["what"]))
        world = self._life.world
        with world.waits.of(self._sim_chat.chat):
            await trio.sleep(world.random.choice((0, 0, 0.5, 5)))
        return ToolResult(True, f"{self._sim_chat.mark}# did it")


def tools_of(life: Life, sim_chat: SimChat, asking: Asking) -> tuple[Tool, ...]:
    """Both, in one process, for one chat."""
    return (Reading(life, sim_chat), Doing(life, sim_chat, asking))
