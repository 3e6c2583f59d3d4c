"""A bot's `config.md`: TOML keys between two `+++` lines, then the instructions in Markdown.

The format comes from openbot, and openbot's files can be read unchanged. Rumi adds the keys `budget`,
`report_to` and `description`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from rumi.chats.budgets.amounts import Amount, nano_of, parse_amount
from rumi.errors import UsageError
from rumi.platform.chat_ids import CHAT_ID
from rumi.texts import Text

Access: TypeAlias = Literal["read-only", "workspace-write"]
"""A bot's access to its files."""

CONFIG: Final = "config.md"
MOST_CHARS: Final = 100_000
MOST_SECS: Final = 30 * 86_400

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_FENCE: Final = re.compile(r"\+\+\+[ \t]*")
_KEYS: Final = (
    *("description", "model", "max_iterations", "sleep_secs", "stop_phrase", "sandbox", "skip_git_check"),
    *("budget", "report_to"),
)


class BotError(UsageError):
    """The bot does not exist, or cannot be created or run."""


_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Pattern of a name from `[model] aliases`. In an imported file, it names another program's model."""


@dataclass(frozen=True, slots=True)
class BotConfig:
    """Instructions and limits of a bot.

    If `max_iterations` is 0, the number of iterations is unlimited, and a `budget` is required. `sleep_secs`
    is the pause between two iterations, in seconds. Reports of runs that no chat requested are sent to the
    chat `report_to`. An empty `model` means the default model. `notes` describe the parts of an imported file
    that Rumi does not use.
    """

    name: str
    instructions: str
    description: str = ""
    model: str = ""
    max_iterations: int = 10
    sleep_secs: float = 30.0
    stop_phrase: str = "TASK COMPLETE"
    sandbox: Access = "workspace-write"
    skip_git_check: bool = False
    budget: Amount | None = None
    report_to: str = ""
    notes: tuple[str, ...] = ()


def check_name(name: str) -> str:
    """Return a bot's name unchanged if the name is valid.

    Raises:
        BotError: The name is invalid.
    """
    if _NAME.fullmatch(name) is None:
        raise BotError(
            "{name} cannot be a bot's name.",
            "It takes letters, digits, - and _, at most 40, and begins with a letter or a digit.",
            name=f"{name[:80]!r}",
        )
    return name


def read_config(name: str, text: str, *, imported: bool = False) -> BotConfig:
    """Parse the text of a `config.md`.

    If the file is `imported`, unknown keys become notes instead of errors.

    Raises:
        BotError: The configuration is invalid. The error names the key and the allowed values.
    """
    keys, instructions = _split(name, text)
    notes: list[str] = []
    for key in keys:
        if key not in _KEYS:
            if not imported:
                raise _fault(
                    name, Text("the key {key} is unknown", key=key), f"There are: {', '.join(_KEYS)}."
                )
            notes.append(Text("the key {key} is not used", key=key))
    model = _text(name, keys, "model", "")
    if model and ":" not in model and (imported or not _ALIAS.fullmatch(model)) and model != "offline":
        notes.append(f"the model {model} is not one of PROVIDER:NAME, so the usual model is used")
        model = ""
    config = BotConfig(
        name=name,
        instructions=instructions,
        description=_text(name, keys, "description", ""),
        model=model,
        max_iterations=int(_number(name, keys, "max_iterations", 10, 1_000_000, whole=True)),
        sleep_secs=_number(name, keys, "sleep_secs", 30, MOST_SECS),
        stop_phrase=_text(name, keys, "stop_phrase", "TASK COMPLETE").strip(),
        sandbox=access_of(name, _text(name, keys, "sandbox", "workspace-write")),
        skip_git_check=_flag(name, keys, "skip_git_check"),
        budget=_budget(name, keys),
        report_to=_text(name, keys, "report_to", ""),
        notes=tuple(notes),
    )
    if config.report_to and CHAT_ID.fullmatch(config.report_to) is None:
        raise _fault(
            name,
            Text("report_to = {report_to} is not a chat id", report_to=f"{config.report_to!r}"),
            "For example: cli.",
        )
    return config


def access_of(name: str, value: str) -> Access:
    """Parse the access mode of a bot.

    Raises:
        BotError: The mode is unknown, or is not allowed.
    """
    for access in get_args(Access):
        if value == access:
            return access  # type: ignore[no-any-return]
    if value == "danger-full-access":
        raise _fault(
            name,
            Text("sandbox = danger-full-access is refused"),
            "Commands of a bot never run outside of its sandbox, because what it reads may have talked it "
            "into them. Use workspace-write.",
        )
    raise _fault(
        name,
        Text("sandbox = {value} is not allowed", value=f"{value!r}"),
        f"There are: {', '.join(get_args(Access))}.",
    )


def written(name: str, description: str) -> str:
    """Return the text of a new bot's `config.md`."""
    about = " ".join(description.split())
    quoted = about.replace("\\", "\\\\").replace('"', '\\"')
    return f"""\
+++
description = "{quoted}"
max_iterations = 10
sleep_secs = 30
stop_phrase = "TASK COMPLETE"
sandbox = "workspace-write"
# model = "groq:llama-3.3-70b-versatile"
# budget = "1 USD"
# report_to = "cli"
+++

{about or f"Say here what {name} is to do."}
"""


def _split(name: str, text: str) -> tuple[Mapping[str, object], str]:
    if len(text) > MOST_CHARS:
        raise _fault(
            name,
            Text("it is longer than {most_chars} characters", most_chars=MOST_CHARS),
            Text("Shorten it."),
        )
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return {}, text.strip()
    for line_number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            try:
                return tomllib.loads("\n".join(lines[1:line_number])), "\n".join(
                    lines[line_number + 1 :]
                ).strip()
            except tomllib.TOMLDecodeError as error:
                raise _fault(
                    name,
                    Text("its keys are not TOML: {error}", error=error),
                    Text("Write them like: key = 3"),
                ) from None
    raise _fault(name, Text("its keys have no end"), Text("A second line +++ must follow them."))


def _fault(name: str, what: str, advice: str) -> BotError:
    return BotError("bots/{name}/{config}: {what}.", advice, name=name, config=CONFIG, what=what)


def _text(name: str, keys: Mapping[str, object], key: str, default: str) -> str:
    value = keys.get(key, default)
    if not isinstance(value, str):
        raise _fault(
            name, Text("{key} must be a text", key=key), f'For example: {key} = "{default or "text"}"'
        )
    return value


def _number(
    name: str, keys: Mapping[str, object], key: str, default: float, most: float, *, whole: bool = False
) -> float:
    value = keys.get(key, default)
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= most:
        raise _fault(
            name,
            Text("{key} must be a number from 0 to {most}", key=key, most=f"{most:,}"),
            f"For example: {key} = {default:g}",
        )
    return float(value)


def _flag(name: str, keys: Mapping[str, object], key: str) -> bool:
    value = keys.get(key, False)
    if not isinstance(value, bool):
        raise _fault(name, Text("{key} must be true or false", key=key), f"For example: {key} = true")
    return value


def _budget(name: str, keys: Mapping[str, object]) -> Amount | None:
    value = keys.get("budget")
    if value is None or value == "":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return Amount("usd", nano_of(float(value)))
    try:
        return parse_amount(str(value))
    except UsageError:
        raise _fault(
            name,
            Text("budget = {value} is not an amount", value=f"{value!r}"),
            'For example: budget = "2 USD"',
        ) from None
