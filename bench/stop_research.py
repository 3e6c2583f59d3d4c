"""How long `/stop` takes on Telegram for a turn that waits for researchers, beside one for a plain turn.

    python -m bench.stop_research [STOPS]

The turn waits for a researcher with a sandbox and three delegates, each with a page that does not come, and
for two researchers whose clones have stopped in the middle. In between, in the same house, a turn
that runs `sleep 600` and one that waits for the model are stopped.

Exits with 1 where a reply is missing, or where a connection, a sandbox or a file of a researcher is left.
"""

import sys
import tempfile
from pathlib import Path

import trio

from bench import telegram_house as house
from bench.rounds import row, spread
from bench.stop_telegram import Bench, Model, Stop, ways
from bench.telegram_house import until
from rumi.sandbox.processes import descendants
from tests.fakes.bot_api_world import Person
from tests.fakes.groq_server import Behaviour, Body, last_user_text
from tests.fakes.stalling import CLONES, LEAVES, Stalling, stalling

STOPS = 40
GONE_S = 10.0


class Researching(Model):
    """Sends researchers to what never comes; otherwise like other benchmarks' model."""

    def __init__(self, world: Stalling) -> None:
        super().__init__()
        self._world = world

    def __call__(self, body: Body) -> Behaviour:
        if last_user_text(body).split()[0] in ("three", "split", "leaf"):
            return self._world.think(body)
        return super().__call__(body)


class Researchers(Bench):
    """A house in which one person after another has something researched. `gone_s`: until all was gone."""

    def __init__(
        self, out: house.Outside, model: Model, process: house.Process, people: list[Person]
    ) -> None:
        super().__init__(out, model, process, people)
        self.gone_s: list[float] = []

    async def stop_plain(self) -> list[Stop]:
        """Stop a turn that runs a command, and one that waits for the model."""
        commands, hangs = self.people[:1], self.people[1:2]
        await self.begin(commands, [])
        stops = await self._stop(commands, commands)
        await self.begin([], hangs)
        return stops + await self._stop(hangs, [])

    async def stop_research(self, person: Person, world: Stalling, root: Path) -> list[Stop]:
        """Stop a turn that waits for researchers, and look whether all of it is gone."""
        self.out.api.say(person, "three")
        await until(lambda: world.in_flight, "pages and clones are under way", 60)
        stops = await self._stop([person], [])
        began = house.now()
        try:
            await until(lambda: world.idle and not self._left(root), "", GONE_S, 0.01)
        except TimeoutError:
            self.wrong.append(f"{GONE_S:.0f} s after a /stop there was {self._left(root) or 'a connection'}")
        self.gone_s.append(house.now() - began)
        return stops

    def _left(self, root: Path) -> list[str]:
        """What researchers have left: sandboxes, files, clones."""
        found = [str(path) for path in (root / "workspace").glob("task.*")]
        cache = root / "cache" / "repositories"
        found += [str(path) for path in cache.rglob("*") if path.is_file() and path.name != "lock"]
        for pid in descendants(self.pid):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            found += ["a sandbox"] if f"{root}/workspace/task." in words else []
        return found


async def main() -> int:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else STOPS
    plain: list[Stop] = []
    research: list[Stop] = []
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as folder:
        async with stalling(Path(folder)) as world:
            model, machine = Researching(world), house.Machine()
            settings: dict[str, dict[str, object]] = {
                "fetch": {
                    "allow": [world.pages.endpoint, world.repositories.endpoint],
                    "timeout_s": 600,
                },
                "model": {"timeout_s": 600},
                "sandbox": {"timeout_s": 600},
            }
            with house.home(range(1, 4), **settings) as root:
                async with house.outside(model) as out:
                    people = [out.api.user(user) for user in range(1, 4)]
                    env = out.environment(root) | {"SSL_CERT_FILE": str(world.trusted)}
                    errors = root.parent / "rumi.err"
                    with house.running(house.WITNESSED, env, errors, read=True) as process:
                        bench = Researchers(out, model, process, people)
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(bench.seen.watch, process)
                            await until(lambda: out.api.updates.poll, "Rumi polls", 60)
                            for _ in range(number):
                                plain += await bench.stop_plain()
                                research += await bench.stop_research(people[2], world, root)
                            nursery.cancel_scope.cancel()
    print(f"{number} turns with {1 + CLONES} researchers and {LEAVES} delegates, {2 * number} plain ones")
    ways("/stop of a plain turn", [plain], "250 ms")
    ways("/stop of a turn with researchers", [research], "250 ms")
    row("until every sandbox and file was gone", spread(bench.gone_s, "ms", 1000))
    row("of this machine, other programs had", f"{machine.others():.0%}")
    row("wrong", str(len(bench.wrong)), "0")
    for sentence in bench.wrong[:20]:
        print(f"  {sentence}")
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(trio.run(main))
