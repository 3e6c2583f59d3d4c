"""`rumi setup`: asks for the settings of a new installation, tests them, and writes config.toml and .env."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from rumi.cli import run_async
from rumi.cli.printing import echo, prompt
from rumi.errors import RumiError
from rumi.platform.config.providers import PROVIDERS
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts.formats import language_name
from rumi.platform.texts.language import detect_language
from rumi.platform.texts.translation import error_text
from rumi.texts import Language, Text, languages, translate

if TYPE_CHECKING:
    from rumi.models.trying import LocalServer
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.extras import ExtraName

GROQ_KEYS: Final = "https://console.groq.com/keys"

MOST_SHOWN: Final = 20
"""Maximum number of a server's models that are listed."""


@click.command()
def command() -> None:
    """Ask for what a new installation needs, and write config.toml and .env.

    It asks for the language, the model and its key, the bot's token and the users it serves, and a mailbox;
    where commands run is an advanced setting. Keys are tried out online. Enter skips a question and keeps
    what is there; comments in the files stay. Ctrl-C leaves, and nothing is written.
    """
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    root = home_from(os.environ)
    home = Home(root).make()
    loaded = load_settings(root, os.environ, {})
    wizard = _Wizard(root, loaded, detect_language(loaded.settings.language, os.environ))
    wizard.ask()
    wizard.write()
    if lock_holder := home.lock_holder():
        wizard.say(f"{lock_holder} uses it after its next start.")


@dataclass
class _Wizard:
    """The user's answers: `keys` for config.toml, `secrets` for .env. Nothing is written before `write`."""

    root: "Path"
    loaded: "Loaded"
    language: Language
    keys: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    def ask(self) -> None:
        """Ask all questions."""
        self.say(
            Text(
                "This sets up Rumi in {root}. Enter skips a question and keeps the value in brackets; Ctrl-C "
                "leaves without a change.",
                root=self.root,
            )
        )
        self._show_current()
        self._ask_language()
        self._ask_model()
        self._ask_telegram()
        if self.ask_yes(Text("Advanced settings: where commands run, and which ones? (y/n)")):
            self._ask_tools()
            from rumi.cli.setup_browser import ask_browser

            ask_browser(self)
        if self.ask_yes(Text("A calendar: read it, and put events into it? (y/n)")):
            from rumi.cli.setup_calendar import ask_calendar

            if self._has_extra("calendar"):
                ask_calendar(self)
        if self.ask_yes(Text("A mailbox, which Rumi reads, and sends from after a yes? (y/n)")):
            from rumi.cli.setup_mail import ask_mail

            ask_mail(self)
            if self.ask_yes(Text("May people write to Rumi by mail, at an address of its own? (y/n)")):
                from rumi.cli.setup_mailchannel import ask_channel

                if self._has_extra("mail"):
                    ask_channel(self)
        if self.ask_yes(Text("Matrix: may people write to Rumi in rooms there? (y/n)")):
            from rumi.cli.setup_matrix import ask_matrix

            if self._has_extra("matrix"):
                ask_matrix(self)

    def _has_extra(self, name: "ExtraName") -> bool:
        """Return True if an extra is installed; otherwise print the command that installs it."""
        from rumi.platform.extras import MissingExtra, is_installed

        if is_installed(name):
            return True
        self.say(MissingExtra(name).text)
        return False

    def _show_current(self) -> None:
        """Print what is set already, and on a fresh home that one can move in from another assistant."""
        self._name_others()
        from rumi.models.settings import lacks_key, model_settings_of
        from rumi.platform.config.providers import OFFLINE

        settings, model = self.loaded.settings, self.loaded.settings.model.default
        if lacks_key(model_settings_of(self.loaded, self.language)) or model == OFFLINE:
            self.say(Text("Model: none yet, the demo answers."))
        else:
            self.say(Text("Model: {model}", model=model))
        if self._has_token():
            users = ", ".join(map(str, settings.telegram.allowed_users))
            self.say(Text("Telegram: a token is set; users: {users}", users=users or Text("none")))

    def _name_others(self) -> None:
        if (self.root / "state.db").exists():
            return
        from rumi.app.moving.finding import found_homes
        from rumi.app.moving.records import TITLES

        if found := found_homes(Path.home()):
            self.say(
                Text(
                    "You also have {programs}. Their conversations and notes can move in: rumi import {kind}",
                    programs=", ".join(TITLES[kind] for kind, _ in found),
                    kind=found[0][0],
                )
            )

    def write(self) -> None:
        """Write the answers to the files, and print the files' paths and the next command."""
        from rumi.platform.config.editing import set_keys, set_variables

        # .env first: `set_keys` refuses a reference in config.toml to a variable that is not set.
        if self.secrets and set_variables(self.root / ".env", self.secrets):
            self.say(Text("Written: {root}", root=self.root / ".env"))
        if self.keys:
            set_keys(self.root / "config.toml", self.keys)
            self.say(Text("Written: {root}", root=self.root / "config.toml"))
        if not (self.secrets or self.keys):
            self.say(Text("Nothing has changed."))
        self.say(Text("Type next: rumi"))
        if self._has_token():
            self.say(Text("The bot starts with: rumi serve"))
            if not (self.secrets.get("GROQ_API_KEY") or self.loaded.secrets.groq_api_key):
                self.say(
                    Text("Voice messages need a server: [voice] server in config.toml, see docs/voice.md.")
                )

    def say(self, text: str) -> None:
        """Print a sentence in the chosen language."""
        echo(translate(self.language, text))

    # Questions

    def ask_line(self, question: str, default: str = "", *, hidden: bool = False) -> str:
        """Ask for a line; an empty line means the default."""
        shown = f"{translate(self.language, question)}{f' [{default}]' if default else ''}"
        hide = hidden and sys.stdin.isatty()
        answer = prompt(shown, default=default, show_default=False, hide_input=hide, prompt_suffix=": ")
        return str(answer).strip()

    def ask_yes(self, question: str) -> bool:
        """Ask until the answer is a yes or a no; Enter is a no."""
        while (answer := question_texts.yes_or_no(self.ask_line(question, "n"))) is None:
            continue
        return answer

    def keep_anyway(self) -> bool:
        """Ask whether to keep an answer that could not be tried, because the network may be down."""
        return self.ask_yes(Text("Keep it all the same? (y/n)"))

    def choose(self, question: str, choices: Sequence[tuple[str, str]], default: str) -> str:
        """Ask for one of the choices, by number or name; return its name."""
        names = [name for name, _ in choices]
        self.say(question)
        for number, (name, about) in enumerate(choices, 1):
            echo(f"  {number}. {translate(self.language, about) if about else name}")
        while True:
            answer = self.ask_line(Text("Number"), str(names.index(default) + 1))
            if answer in names:
                return answer
            if answer.isdecimal() and 0 < int(answer) <= len(names):
                return names[int(answer) - 1]

    def _ask_language(self) -> None:
        before = self.loaded.settings.language
        answer = self.choose(
            "Language / idioma / língua:",
            [
                *((name, language_name(name)) for name in languages()),
                ("auto", Text("as the environment says (LANG)")),
            ],
            before if before != "auto" else self.language,
        )
        if answer != before and not (before == "auto" and answer == self.language):
            self.keys["language"] = answer
        self.language = detect_language(answer, os.environ)

    def _ask_model(self) -> None:
        from rumi.models.settings import lacks_key, model_settings_of
        from rumi.models.trying import local_servers

        found = run_async(local_servers)
        now = self.loaded.settings.model.default
        lacking = lacks_key(model_settings_of(self.loaded, self.language))
        choices = [
            ("groq", Text("Groq: needs a key, a free one is enough ({groq_keys})", groq_keys=GROQ_KEYS)),
            ("known", Text("OpenAI, Anthropic, Gemini, Mistral or another known provider: needs a key")),
            (
                "other",
                Text("another provider that speaks OpenAI chat completions: needs its address and a key"),
            ),
            *(
                (
                    server.name,
                    Text("{name} on this machine ({base_url})", name=server.name, base_url=server.base_url),
                )
                for server in found
            ),
            *(
                []
                if found
                else [
                    (
                        "local",
                        Text(
                            "a server on this machine (Ollama, llama.cpp, LM Studio, vLLM): none answers now"
                        ),
                    )
                ]
            ),
            ("offline", Text("no language model: the built-in demo")),
        ]
        if not lacking and now != "offline":
            choices.append(("keep", Text("{now}, as it is", now=now)))
        default = found[0].name if found else "groq"
        default = default if lacking else choices[-1][0]
        match self.choose(Text("Which model should answer?"), choices, default):
            case "groq":
                self._ask_provider("groq")
            case "known":
                keyed = [(name, row.title) for name, row in PROVIDERS.items() if row.key and name != "groq"]
                self._ask_provider(self.choose(Text("Which provider?"), keyed, keyed[0][0]))
            case "other":
                self._ask_server("", "")
            case "local":
                self._ask_server("local", "http://127.0.0.1:11434/v1", with_key=False)
            case "offline":
                if now != "offline":
                    self.keys["model.default"] = "offline"
            case "keep":
                pass
            case name:
                self._ask_local(next(server for server in found if server.name == name))

    def _ask_provider(self, scheme: str) -> None:
        """Ask for the API key of a known provider, and for the model unless the provider is Groq."""
        from rumi.platform.config.schema import ModelSection

        row, now = PROVIDERS[scheme], self.loaded.settings.model.default
        known = f"{scheme}:{row.first_model}" if scheme != "groq" else ModelSection().default
        model = now if now.startswith(f"{scheme}:") else known
        while True:
            key = self.ask_line(Text("{title} key (Enter: none for now)", title=row.title), hidden=True)
            if not key:
                self.say(Text("Without a key the demo answers; rumi setup asks again."))
                return
            if scheme != "groq":
                for known_model in row.models:
                    if not known_model.name.endswith("*"):
                        echo(f"  {known_model.name}")
                model = f"{scheme}:{self.ask_line('Which of its models', model.partition(':')[2])}"
            if self._tried(model, key=key):
                assert row.key is not None
                self.secrets[row.key] = key
                if model != now:
                    self.keys["model.default"] = model
                return

    def _ask_local(self, server: "LocalServer") -> None:
        """Ask for the model of a server on this machine that responds at its default port."""
        from rumi.platform.config.schema import CustomServerSection

        known = server.name in PROVIDERS
        while True:
            for model in server.models[:MOST_SHOWN]:
                echo(f"  {model}")
            name = self.ask_line(Text("Which of its models"), server.models[0] if server.models else "")
            if not name:
                continue
            if known and self._tried(f"{server.name}:{name}"):
                self.keys["model.default"] = f"{server.name}:{name}"
                return
            section = CustomServerSection.model_construct(base_url=server.base_url, model=name)
            if not known and self._tried(f"custom:{server.name}", custom={server.name: section}):
                self._use_custom(server.name, server.base_url, name)
                return

    def _use_custom(self, section: str, url: str, model: str) -> None:
        begin = f"model.custom.{section}"
        self.keys |= {f"{begin}.base_url": url, f"{begin}.model": model, "model.default": f"custom:{section}"}

    def _ask_server(self, name: str, url: str, *, with_key: bool = True) -> None:
        from rumi.models.trying import offered
        from rumi.platform.config.schema import CustomServerSection

        while True:
            url = self.ask_line(Text("Its address, such as https://host/v1 (Enter: none)"), url)
            if not url:
                return
            key = self.ask_line(Text("Its key (Enter: none)"), hidden=True) if with_key else ""
            models = run_async(offered, url, key) if _is_address(url) else None
            for model in (models or ())[:MOST_SHOWN]:
                echo(f"  {model}")
            model = self.ask_line(Text("Which of its models"), models[0] if models else "")
            section = name or _name_of(url)
            if not model or not _is_address(url):
                self.say(Text("It needs an address that begins with http and the name of a model."))
                continue
            custom = {section: CustomServerSection.model_construct(base_url=url, model=model)}
            if self._tried(f"custom:{section}", key=key, custom=custom):
                break
        variable = re.sub(r"[^A-Z0-9]+", "_", section.upper()).strip("_") + "_API_KEY"
        self._use_custom(section, url, model)
        if key:
            self.keys[f"model.custom.{section}.api_key"] = f"${variable}"
            self.secrets[variable] = key

    def _tried(self, model: str, *, key: str = "", custom: Any = None) -> bool:
        """Try the answers with one short model call; return False if the user should answer again.

        After an error, the user may keep the answer, because the network may be down. A key that the server
        refused cannot be kept.
        """
        from rumi.cli.model_keys import try_model
        from rumi.errors import single
        from rumi.models.model import ModelError

        self.say(Text("Trying it out …"))
        try:
            took_s = run_async(try_model, self.loaded, model, key, custom)
        except Exception as error:
            known = single(error)
            if not isinstance(known, RumiError):
                raise
            echo(f"✗ {error_text(self.language, known)}")
            if not isinstance(known, ModelError) or known.kind == "auth":
                return False
            return self.keep_anyway()
        self.say(Text("✓ {model} answered in {took_s} s", model=model, took_s=f"{took_s:.1f}"))
        return True

    def _has_token(self) -> bool:
        return bool(self.secrets.get("TELEGRAM_TOKEN") or self.loaded.secrets.telegram_token)

    def _ask_telegram(self) -> None:
        there = self.loaded.secrets.telegram_token is not None
        question = (
            Text("Telegram: the bot's token (Enter: as it is)")
            if there
            else Text("Telegram: the bot's token from @BotFather (Enter: none)")
        )
        while token := self.ask_line(question, hidden=True):
            if self._knows(token):
                self.secrets["TELEGRAM_TOKEN"] = token
                break
        if not self._has_token():
            return
        before = " ".join(map(str, self.loaded.settings.telegram.allowed_users))
        while True:
            answer = self.ask_line(Text("Numeric ids of the users that the bot serves (Enter: none)"), before)
            ids = re.split(r"[\s,]+", answer) if answer else []
            if all(user_id.isdecimal() and 0 < int(user_id) < 2**52 for user_id in ids):
                break
            self.say(Text("These are numbers, such as 11111111; the bot tells users who write to it theirs."))
        if answer != before:
            self.keys["telegram.allowed_users"] = f"[{', '.join(ids)}]"

    def _knows(self, token: str) -> bool:
        """Check a token by asking Telegram for the bot's name; return True if the token should be used."""
        from rumi.channels.telegram import ask_who
        from rumi.errors import ConfigError, single

        try:
            name = run_async(ask_who, token, self.loaded.secrets.telegram_base_url).username
        except Exception as error:
            known = single(error)
            if not isinstance(known, RumiError):
                raise
            echo(f"✗ {error_text(self.language, known)}")
            return not isinstance(known, ConfigError) and self.keep_anyway()
        self.say(Text("✓ Telegram knows the bot as @{name}", name=name))
        return True

    def explain(self, error: BaseException) -> None:
        """Print an expected error; raise any other one."""
        from rumi.errors import RumiError, single

        known = single(error)
        if not isinstance(known, RumiError):
            raise known
        echo(f"✗ {error_text(self.language, known)}")

    def _ask_tools(self) -> None:
        sandbox = self.loaded.settings.sandbox
        self._choose_key(
            "sandbox.backend",
            Text("Where should commands run?"),
            [
                ("auto", Text("in Docker if a daemon answers, otherwise in bubblewrap")),
                ("docker", Text("only in Docker")),
                ("bubblewrap", Text("only in bubblewrap")),
            ],
            sandbox.backend,
        )
        self._choose_key(
            "sandbox.tools",
            Text("Which programs should there be?"),
            [
                ("work", Text("Python, git and others beside the usual ones")),
                ("core", Text("only the usual ones")),
                ("office", Text("as work, and packages for charts, PDF and office documents")),
            ],
            sandbox.tools,
        )
        self._choose_key(
            "sandbox.policy",
            Text("Which commands may run there?"),
            [
                ("strict", Text("programs on a list, without loops and variables")),
                ("open", Text("every line of shell; never in groups")),
            ],
            sandbox.policy,
        )

    def _choose_key(self, key: str, question: str, choices: Sequence[tuple[str, str]], now: str) -> None:
        """Ask for the value of a configuration key; store it if it differs from `now`, the current value."""
        answer = self.choose(question, choices, now)
        if answer != now:
            self.keys[key] = answer


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _name_of(url: str) -> str:
    """Return a name for a server, such as `openrouter` for `https://openrouter.ai/api/v1`."""
    labels = (urlsplit(url).hostname or "").split(".")
    name = labels[-2] if len(labels) > 1 and not labels[-1].isdecimal() else "server"
    return re.sub(r"[^A-Za-z0-9_-]", "", name)[:64] or "server"
