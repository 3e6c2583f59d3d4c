"""What the questions of `rumi setup` need of the wizard."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rumi.texts import Language, Text

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded


class Asks(Protocol):
    """Asks a person, and collects the answers: `keys` for config.toml, `secrets` for .env."""

    loaded: "Loaded"
    language: Language
    keys: dict[str, str]
    secrets: dict[str, str]

    def say(self, text: str) -> None:
        """Print a sentence in the chosen language."""
        ...

    def ask_line(self, question: str, default: str = "", *, hidden: bool = False) -> str:
        """Ask for a line; an empty line means the default."""
        ...

    def choose(self, question: str, choices: Sequence[tuple[str, str]], default: str) -> str:
        """Ask for one of the choices, which are pairs of a value and its description; return its value."""
        ...

    def ask_yes(self, question: str) -> bool:
        """Ask until the answer is a yes or a no; Enter is a no."""
        ...

    def keep_anyway(self) -> bool:
        """Ask whether to keep an answer that could not be tried."""
        ...

    def explain(self, error: BaseException) -> None:
        """Print an expected error; raise any other one."""
        ...


def say_whose(asks: Asks, kind: str, name: str) -> None:
    """Say where the account in the section `kind.name` can be used, if there is a bot: not there yet."""
    if asks.loaded.settings.telegram.allowed_users or "telegram.allowed_users" in asks.keys:
        asks.say(
            Text(
                "It can be used in this terminal and on the page. To use it on Telegram too, give your "
                'Telegram user a name in config.toml, [people.ana] telegram = [ID] and role = "admin", and '
                'set [{section}] people = ["local", "ana"].',
                section=f"{kind}.{name}",
            )
        )
