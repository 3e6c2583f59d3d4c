"""`rumi telegram` for benchmarks: a Telegram and a Groq in this process, Rumi in a process of its own.

As a program, `python -m bench.telegram_house` is Rumi serving its RUMI_HOME, like `rumi telegram`, and
prints a JSON line for each beginning of a turn, each tool call and each final reply, with the time at which
it was told: a reply is told as soon as it is in the outbox.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_chats import EPOCH
from tests.fakes.bot_api_rates import Limits
from tests.fakes.bot_api_updates import Updates
from tests.fakes.bot_api_world import Json
from tests.fakes.groq_server import KEY, GroqServer, Script, serve_groq
from tests.fakes.telegram_server import TelegramServer, serve_telegram

ROOT = Path(__file__).resolve().parent.parent
RUMI = (sys.executable, "-m", "rumi", "telegram")
WITNESSED = (sys.executable, "-m", "bench.telegram_house")
GIVEN_UP_S = 30.0


def now() -> float:
    """The clock of the fake Telegram: the machine's, so that two processes can compare."""
    return time.time() - EPOCH


class ClockedUpdates(Updates):
    """Knows when each update was first given to the bot."""

    def __init__(self, api: BotApi) -> None:
        super().__init__(now, api.random, api.updates.next_id)
        self.handed_at: dict[int, float] = {}

    def first(self, limit: int) -> list[Json]:
        batch = super().first(limit)
        for update in batch:
            self.handed_at.setdefault(update["update_id"], now())
        return batch


@dataclass
class Outside:
    """Everything that Rumi talks to."""

    api: BotApi
    telegram: TelegramServer
    groq: GroqServer

    @property
    def updates(self) -> ClockedUpdates:
        assert isinstance(self.api.updates, ClockedUpdates)
        return self.api.updates

    def environment(self, home: Path) -> dict[str, str]:
        """What Rumi is started with: nothing of the developer's."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {
            **kept,
            "LANG": "C.UTF-8",
            "RUMI_HOME": str(home),
            "GROQ_API_KEY": KEY,
            "GROQ_BASE_URL": self.groq.base_url,
            "TELEGRAM_TOKEN": TOKEN,
            "TELEGRAM_BASE_URL": self.telegram.root,
        }


@asynccontextmanager
async def outside(script: Script, limits: Limits | None = None) -> AsyncIterator[Outside]:
    """A Telegram, as strict as Telegram unless `limits` say otherwise, and a Groq that follows the script."""
    api = BotApi(now, limits=limits, keep_calls=1000)
    api.updates = ClockedUpdates(api)
    async with serve_telegram(api) as telegram, serve_groq(script) as groq:
        yield Outside(api, telegram, groq)


@contextmanager
def home(users: Sequence[int], **sections: Mapping[str, object]) -> Iterator[Path]:
    """A home with a configuration, gone afterwards. Commands run in bubblewrap."""
    config_sections: dict[str, Mapping[str, object]] = {
        **sections,
        "telegram": {"allowed_users": list(users)},
        "sandbox": {"backend": "bubblewrap", **sections.get("sandbox", {})},
    }
    lines = ['language = "en"']
    for name, values in config_sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as folder:
        root = Path(folder) / "home"
        root.mkdir(mode=0o700)
        (root / "config.toml").write_text("\n".join(lines) + "\n")
        yield root


@dataclass
class Process:
    """A program that runs. `said` is the file that has its standard error."""

    popen: "subprocess.Popen[bytes]"
    said: Path
    pidfd: int = field(init=False)

    def __post_init__(self) -> None:
        self.pidfd = os.pidfd_open(self.popen.pid)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.popen.poll() is not None

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end; its exit code."""
        await trio.lowlevel.wait_readable(self.pidfd)
        return self.popen.wait()

    def kill(self) -> None:
        """End it at once, if it has not ended, and release what was kept for it."""
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(OSError):
            os.close(self.pidfd)


def start(
    command: Sequence[str], env: Mapping[str, str], said: Path, *, read: bool = False, write: bool = False
) -> Process:
    """Start a program from the root of the repository; the caller kills it.

    `read`: its output is a pipe, `write`: its input is one.
    """
    with said.open("ab") as errors:
        popen = subprocess.Popen(
            command,
            env=env,
            cwd=ROOT,
            stdin=subprocess.PIPE if write else subprocess.DEVNULL,
            stdout=subprocess.PIPE if read else subprocess.DEVNULL,
            stderr=errors,
        )
    return Process(popen, said)


@contextmanager
def running(
    command: Sequence[str], env: Mapping[str, str], said: Path, *, read: bool = False, write: bool = False
) -> Iterator[Process]:
    """A program until the block ends: SIGTERM where nobody has waited for its end, and SIGKILL behind it."""
    process = start(command, env, said, read=read, write=write)
    try:
        yield process
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if process.popen.poll() is None:
                process.signal(signal.SIGTERM)
                process.signal(signal.SIGTERM)  # the second one cuts the waiting short
                process.popen.wait(GIVEN_UP_S)
        process.kill()


async def lines_of(process: Process) -> AsyncIterator[Any]:
    """The JSON lines that a program prints, until it ends."""
    assert process.popen.stdout is not None
    left = b""
    async with trio.lowlevel.FdStream(os.dup(process.popen.stdout.fileno())) as stream:
        async for data in stream:
            *whole, left = (left + data).split(b"\n")
            for line in whole:
                yield json.loads(line)


async def until(condition: Callable[[], object], what: str, within_s: float, every_s: float = 0.05) -> None:
    """Wait until something holds; `TimeoutError` if it does not come to that."""
    with trio.move_on_after(within_s):
        while not condition():
            await trio.sleep(every_s)
        return
    raise TimeoutError(f"not within {within_s:.0f} s: {what}")


class Machine:
    """How much of this machine others use while a benchmark runs."""

    def __init__(self) -> None:
        self._busy_s, self._all_s = _machine_s()
        self._own_s = _own_s()

    def others(self) -> float:
        """The share of all processors that went to other programs. What we started must have ended."""
        busy_s, all_s = _machine_s()
        ours_s = _own_s() - self._own_s
        return max(0.0, busy_s - self._busy_s - ours_s) / max(0.01, all_s - self._all_s)


def _machine_s() -> tuple[float, float]:
    """Seconds of all processors together since the machine started: busy ones, and all."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(numbers) - numbers[3] - numbers[4]) / ticks, sum(numbers) / ticks


def _own_s() -> float:
    """This process's seconds, and those of its children that have ended, with theirs."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


# --- Rumi, witnessed


def _witnessed() -> None:
    """The program itself, with somebody who listens to all chats."""
    import rumi.app.app
    from rumi.cli import main

    real = rumi.app.app.open_app

    @asynccontextmanager
    async def open_app(*args: Any, **options: Any) -> AsyncIterator[Any]:
        async with real(*args, **options) as app, trio.open_nursery() as nursery:
            nursery.start_soon(_publish_turns, app)
            yield app
            nursery.cancel_scope.cancel()

    rumi.app.app.open_app = open_app
    sys.argv[1:] = ["telegram"]
    main()


async def _publish_turns(app: Any) -> None:
    from rumi.agent.events import ToolStarted
    from rumi.chats.events import Replied, TurnStarted

    with app.services.hub.listening() as events:
        while True:
            event = await events.receive()
            line: dict[str, object] = {"time": event.time - EPOCH, "chat": event.chat}
            match event.what:
                case TurnStarted():
                    line["what"] = "turn"
                case ToolStarted():
                    line["what"] = "tool"
                case Replied(_, messages, text):
                    line |= {"what": "reply", "messages": list(messages), "text": text}
                case _:
                    continue
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    _witnessed()
