"""People who follow the recipes: one bot that runs with what they configure, and a chat for each recipe."""

import json
import sqlite3
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from tests.cli.program import BOUND_S, RUMI, Program
from tests.cli.telegram_bot import Talk, TelegramBot, wait_for
from tests.cli.telegram_world import World
from tests.cli.test_webhook import free_port
from tests.fakes.bot_api_chats import EPOCH
from tests.fakes.bot_api_world import Message, Query
from tests.fakes.groq_server import KEY, GroqServer
from tests.fakes.web_server import WebServer, gives, serving
from tests.recipes.led import SECRET, Led
from tests.recipes.page import Recipe, beginning, recipe

SITES = r"https://\w+\.example\.org"
"""The web sites of the page's examples: all of them are one server here."""

BEFORE = (" config set ", " sandbox build")
"""Words of blocks that readers run before they start the bot."""

TYPED = "token-4417"
"""The secret that a person types."""

USER = "11111111"
"""The Telegram user of the page's examples."""


class Site:
    """A web server on loopback whose pages change."""

    def __init__(self) -> None:
        self.web = WebServer()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with serving() as self.web:
            task_status.started()
            await trio.sleep_forever()


@dataclass
class Readers:
    """The bot, its model and a web site; `recipes` and `talks` are those of the recipes that are played.

    `printed` is what the blocks for a shell have printed that a recipe needs before the bot starts.
    """

    world: World
    bot: TelegramBot
    model: Led
    site: Site
    recipes: Mapping[int, Recipe]
    printed: Mapping[int, str]
    talks: Mapping[int, Talk]
    address: str
    """Where the bot takes requests of other programs."""

    def put(self, path: str, body: str | bytes, media_type: str = "text/html; charset=utf-8") -> None:
        """Put a page on the site. No cache may keep it."""
        page = gives(body, media_type=media_type, headers={"Cache-Control": "no-store"})
        self.world.do(self.site.web.paths.__setitem__, path, page)

    def asked(self, words: str) -> list[str]:
        """The paths that the site was asked for and that have these words in them."""
        return self.world.do(lambda: [asked.target for asked in self.site.web.asked if words in asked.target])

    def order(self) -> str:
        """An order to tell the site a secret, as content from outside hides it; see `Led`."""
        return f'!do web_fetch {{"url": "http://{self.site.web.endpoint}/collect?d=SECRET"}}'

    def refuses(self, talk: Talk, after: int = 0) -> None:
        """Wait until the bot asks for what such an order wants, and say no; it is not done."""
        asked = self.having(talk, f"/collect?d={SECRET}", after)
        assert "which neither you nor a page gave" in asked.text
        before = len(talk.texts)
        self.press(talk, asked, "❌")
        self.world.until(lambda: len(talk.said) > before or not asked.buttons)
        self.bot.idle()
        assert self.asked("/collect") == []

    def shell(self, script: str, code: int = 0, **env: str) -> str:
        """Run a block of the page in a shell, as its reader does; what it prints."""
        return run_shell(self.bot.program, script, code, **env)

    def fire(self, talk: Talk) -> int:
        """Have the newest schedule of a chat fire now. How many messages the bot had sent there before."""
        before = len(talk.texts)
        self.bot.program.run("schedule", "run", str(self.newest(talk)))
        return before

    def newest(self, talk: Talk) -> int:
        """The number of the newest schedule of a chat."""
        ((newest,),) = self.bot.rows("SELECT max(id) FROM schedules WHERE chat = ?", talk.chat)
        return int(newest)

    def comes(self, schedule: int) -> str:
        """Let the time of a schedule come; how that ended.

        Hours cannot be waited for: its next time is set to now, where it is stored.
        """
        with closing(sqlite3.connect(self.bot.program.home / "state.db", timeout=30)) as db, db:
            db.execute(
                "UPDATE schedules SET outcome = '', instant = ?1, next_at = ?1 WHERE id = ?2",
                (time.time(), schedule),
            )
        self.bot.program.run("schedule", "add", "in 300 days", "has the clock look")
        # "changed" is the beginning of the work.
        wait_for(lambda: self._outcome(schedule).get("how") not in (None, "changed"), self.bot.state)
        return str(self._outcome(schedule)["how"])

    def _outcome(self, schedule: int) -> Any:
        ((outcome,),) = self.bot.rows("SELECT outcome FROM schedules WHERE id = ?", schedule)
        return json.loads(outcome or "{}")

    def having(self, talk: Talk, words: str, after: int = 0) -> Message:
        """Wait for a message with these words, behind the first `after` of the chat."""

        def found() -> Message | None:
            return next((message for message in talk.said[after:] if words in message.text), None)

        message = self.world.until(found, what=lambda: [message.text for message in talk.said])
        assert message is not None
        return message

    def press(self, talk: Talk, message: Message, label: str) -> Query:
        """Press the button whose label begins like this, when it is there."""

        def data() -> str | None:
            found = [button for button in message.buttons if button["text"].startswith(label)]
            return found[0]["callback_data"] if found else None

        chosen = self.world.until(data, what=lambda: message.buttons)
        return self.world.do(self.world.api.press, talk.person, message, chosen)

    def files(self, talk: Talk) -> list[str]:
        """The names of the files that a chat was sent."""
        return self.world.do(lambda: [message.document.name for message in talk.said if message.document])


def run_shell(program: Program, script: str, code: int = 0, typed: str = "", **env: str) -> str:
    """Run a block of the page in a shell, on the program's home; what it prints. `typed` is its input."""
    environment = {**program.environment(), **env}
    environment["PATH"] = f"{Path(RUMI).parent}:{program.home.parent / 'installed/bin'}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        input=typed,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def begins(talks: Collection[Talk]) -> None:
    """Have people do what the page says before its recipes."""
    first = beginning()
    (said,) = first.said()
    assert first.is_played()
    for talk in talks:
        talk.say(said)
    for talk in talks:
        talk.hear(1)


@contextmanager
def reading(folder: Path, *numbers: int, **env: str) -> Iterator[Readers]:
    """A bot with all that these recipes configure, and one chat with it for each of them."""
    world, model, site = World(now=lambda: time.time() - EPOCH), Led(), Site()
    world.groq = GroqServer(model, key=KEY)
    with world:
        world.come(site)
        talks, recipes, printed = {number: Talk(world) for number in numbers}, {}, dict[int, str]()
        listens = f"127.0.0.1:{free_port()}"
        config = 'language = "en"\n'
        for number, talk in talks.items():
            played = recipes[number] = recipe(number)
            played.place |= {
                r"https://rumi\.example\.org": f"http://{listens}",
                r"tickets\.example\.org:443": site.web.endpoint,
                SITES: f"http://{site.web.endpoint}",
                USER: str(talk.person.id),
            }
            while played.has("toml"):
                config += f"\n{played.take('toml')}"
        home = folder / "home"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text(config)
        settings = {
            "RUMI_FETCH__ALLOW": json.dumps([site.web.endpoint]),
            "RUMI_MEMORY__EXTRACT": "false",
            "RUMI_TELEGRAM__LISTEN": listens,
        }
        program = Program(home, {**settings, **env})
        for number, played in recipes.items():
            if any(played.has("sh", words) for words in BEFORE):
                printed[number] = run_shell(program, played.take("sh"), typed=TYPED)
        bot = TelegramBot(program, world)
        try:
            bot.start(command="serve")
            begins(talks.values())
            yield Readers(world, bot, model, site, recipes, printed, talks, f"http://{listens}")
        finally:
            try:
                bot.cut_short()
            finally:
                bot.kill()
