"""The schema of config.toml: every section and key, with its default and its allowed values."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from rumi.platform.chat_ids import BOT_NAME, CHAT_ID, DEFAULT_CHAT, GROUP_KEY, LOCAL
from rumi.platform.config.fitting import fitted
from rumi.platform.config.providers import CHOICES, OFFLINE, PROVIDERS, SCHEMES
from rumi.platform.config.sources import key_source
from rumi.platform.texts.language import LanguageSetting

# The upper limits are far beyond any use (30 years, a petabyte in MB), and keep arithmetic within 64 bits.
Positive: TypeAlias = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000_000)]
Money: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Tokens: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
Price: TypeAlias = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]

DAY_S = 86_400.0

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MEMORY = re.compile(r"([0-9]{1,15})([bkmg]?)", re.IGNORECASE)
_LEAST_MEMORY = 6 * 1024**2
_PROVIDER_AND_NAME = re.compile(rf"({'|'.join(SCHEMES)}):\S+")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MCP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,23}")
SECRET_VARIABLE = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
SECRET_HEADER = re.compile(r"key|token|secret|passw|auth|cookie", re.IGNORECASE)
PYTHON_PACKAGES = ("pytest", "numpy", "pandas", "matplotlib", "requests", "openpyxl")
_VERSION = r"(?:===?|[<>~!]=|[<>])[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
_PACKAGE = re.compile(
    rf"[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,62}}[A-Za-z0-9])?(?:\[[A-Za-z0-9,._-]{{1,64}}\])?"
    rf"(?:{_VERSION}(?:,{_VERSION}){{0,3}})?"
)
"""PEP 508 without URLs, markers and spaces."""
_ARCHIVES = (".whl", ".zip", ".tar", ".tgz", ".gz", ".bz2", ".tbz", ".xz", ".txz", ".tlz", ".lz", ".lzma")
"""Ends of names that pip takes for a file."""
MOST_NOTE_CHARS = 2000
MOST_PROMPT_CHARS = 8000
_TRIGGER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
IMAGE_SIZE = re.compile(r"[1-9][0-9]{1,3}x[1-9][0-9]{1,3}")
_DOMAIN = re.compile(r"(?!.{254})[a-z0-9](?:[a-z0-9-]{0,62}\.)+[a-z0-9-]{2,63}")
_MOST_PATTERN_CHARS = 200
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DISTRIBUTION = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# Of ASCII, a name has only letters, digits, `-`, `_` and single dots: people copy it into a shell.
_SITE = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9-]+\.)*[a-z0-9-]+(?::[0-9]{1,5})?")
_HOST_PORT = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|(?!\.|.*\.\.)[^\s\x00-,/:-@\[-^`{-\x7f]{1,253}):([0-9]{1,5})"
)
MOST_HOSTS = 64
"""Maximum number of hosts that a server of tools may reach one by one."""


def memory_bytes(size: str) -> int:
    """Convert a size such as `512m`, `1g`, `300000k` or `536870912` to bytes; units are powers of 1024.

    Raises:
        ValueError: The text is not a size, or the size is less than 6m (Docker's minimum).
    """
    matched = _MEMORY.fullmatch(size)
    if matched is None:
        raise ValueError("a size such as 512m, 1g, 300000k or a number of bytes")
    count = int(matched[1]) * _UNITS[matched[2].lower()]
    if count < _LEAST_MEMORY:
        raise ValueError("a size of at least 6m")
    return count


def references(text: str) -> tuple[str, ...]:
    """Return the names of the variables that a text mentions as `$NAME` or `${NAME}`."""
    return tuple(matched[1] or matched[2] for matched in _VARIABLE.finditer(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Replace each `$NAME` or `${NAME}` in a text with the variable's value.

    Raises:
        KeyError: A variable has no value.
    """
    return _VARIABLE.sub(lambda matched: values[matched[1] or matched[2]], text)


def _checked(check: Callable[[str], object]) -> AfterValidator:
    def validate(value: str) -> str:
        check(value)
        return value

    return AfterValidator(validate)


def _check_quiet(text: str) -> None:
    hour = r"(?:[01]?\d|2[0-3]):[0-5]\d"
    found = re.fullmatch(rf"({hour})-({hour})", text)
    if text and (found is None or found[1].zfill(5) == found[2].zfill(5)):
        raise ValueError("must be two times of day, like 23:00-08:00")


def _check_store(url: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        parts, password = urlsplit(""), None
    if password or re.search(r"[?&]password=", url):
        raise ValueError("must have no password: put it into STORE_PASSWORD, in the environment or in .env")
    if parts.scheme not in ("postgresql", "postgres") or len(parts.path) < 2:
        raise ValueError(
            "must be the URL of a PostgreSQL database, like postgresql://USER@HOST:5432/DATABASE"
        )


def _check_model(name: str) -> None:
    if name != OFFLINE and not _PROVIDER_AND_NAME.fullmatch(name):
        raise ValueError(CHOICES)


def _check_model_or_alias(name: str) -> None:
    """Check the syntax of a model's name. A word may be an alias; `ConfigLayers` checks that it exists."""
    if not _SERVER_NAME.fullmatch(name):
        _check_model(name)


def _check_alias(name: str) -> None:
    if not _SERVER_NAME.fullmatch(name) or name == OFFLINE:
        raise ValueError(f"a name of at most 64 letters, digits, `_` and `-`, other than {OFFLINE}")


def _check_plugin(name: str) -> None:
    if not _DISTRIBUTION.fullmatch(name):
        raise ValueError("the name of a distribution in lower case, with `-` and without `_` and `.`")


def _check_provider(name: str) -> None:
    if name not in PROVIDERS:
        raise ValueError(", ".join(PROVIDERS))


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if (
        not fine
        or any(c.isspace() for c in url)
        or parts.username is not None
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            "an http or https address without user, query or fragment, such as http://host:8080/v1"
        )


def _check_page_url(url: str) -> None:
    _check_url(url)
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise ValueError("an https address, such as https://rumi.example.org")
    if parts.path not in ("", "/"):
        raise ValueError("an address without a path, such as https://rumi.example.org: the page is at /")


def _check_endpoint(endpoint: str) -> None:
    host, colon, port = endpoint.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
        fine = bracketed == (address.version == 6) and "%" not in host
    except ValueError:
        fine = False
    if not (fine and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("an exact ip:port, such as 127.0.0.1:8080 or [::1]:8080")


def is_host_port(text: str) -> bool:
    """Return True if a text is one host and its port, such as `api.example.org:443` or `[::1]:8080`."""
    matched = _HOST_PORT.fullmatch(text)
    return matched is not None and 0 < int(matched[1]) < 65536


def _check_host(where: str) -> None:
    if not is_host_port(where):
        raise ValueError("one host and its port, such as api.example.org:443, without https:// and without *")


def _check_site(host: str) -> None:
    if not _SITE.fullmatch(host):
        raise ValueError("a host as the browser shows it, such as shop.example, without https:// and path")


def _check_listen(where: str) -> None:
    host, _, port = where.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("HOST:PORT, such as 127.0.0.1:8443")


def _check_word(text: str) -> None:
    if not text or any(c.isspace() for c in text):
        raise ValueError("a name without spaces")


def _check_spoken(language: str) -> None:
    if not re.fullmatch(r"[a-z]{2,3}|auto", language):
        raise ValueError("the code of a language, such as en, es or pt, or auto for whisper.cpp's server")


def _check_size(size: str) -> None:
    if not IMAGE_SIZE.fullmatch(size):
        raise ValueError("WIDTHxHEIGHT in pixels, such as 1024x1024")


def _check_program(name: str) -> None:
    if not _PROGRAM.fullmatch(name):
        raise ValueError("the name of a program of this machine, without a folder")


def _check_package(requirement: str) -> None:
    if not _PACKAGE.fullmatch(requirement) or requirement.lower().endswith(_ARCHIVES):
        raise ValueError("the name of a Python package, with a version if it matters: numpy>=2,<3")


def _check_path(text: str) -> None:
    if not text.strip() or "\0" in text:
        raise ValueError("the path of a folder")


def _check_absolute(text: str) -> None:
    if not text.startswith("/") or "\0" in text or text.rstrip("/") == "":
        raise ValueError("the absolute path of a folder")


def _check_server_name(name: str) -> None:
    if not _SERVER_NAME.fullmatch(name):
        raise ValueError("a name of at most 64 letters, digits, `_` and `-`")


def _check_group(name: str) -> None:
    if not GROUP_KEY.fullmatch(name):
        raise ValueError("a group's number on Telegram, such as -1001234567890, or its chat id in /status")


def _check_trigger(name: str) -> None:
    # `rumi schedule trigger list` and `rumi schedule trigger test` are commands.
    if not _TRIGGER_NAME.fullmatch(name) or name in ("list", "test", "fire"):
        raise ValueError(
            "a name of at most 32 small letters, digits and `-`, not at its ends, and not list, test or fire"
        )


def _check_chat(chat: str) -> None:
    if not CHAT_ID.fullmatch(chat):
        raise ValueError("the id of a chat, such as cli or tg11111111: rumi chats list shows them")


def _check_prompt(text: str) -> None:
    if not text.strip() or len(text) > MOST_PROMPT_CHARS:
        raise ValueError(
            f"a text of 1 to {MOST_PROMPT_CHARS} characters, which says what to do with an event"
        )


def _check_note(text: str) -> None:
    if len(text) > MOST_NOTE_CHARS:
        raise ValueError(f"a text of at most {MOST_NOTE_CHARS} characters: each prompt of the group has it")


def _check_mcp_name(name: str) -> None:
    # Models see tools as SERVER__tool. Without `__` in the server's name, the first `__` always ends it.
    if not _MCP_NAME.fullmatch(name) or "__" in name or name.endswith("_"):
        raise ValueError("a name of at most 24 letters, digits, `-` and single `_`, not at its end")


def _check_argument(text: str) -> None:
    if any(c in text for c in "\0\r\n"):
        raise ValueError("a text on one line")


def _check_command(text: str) -> None:
    _check_argument(text)
    if text and not text.strip():
        raise ValueError("the name or the path of a program")


def _check_variable(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) or name.startswith("LD_"):
        raise ValueError("the name of a variable")


def _check_header(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", name):
        raise ValueError("the name of a header")


def _check_mcp_url(url: str) -> None:
    plain, _, query = url.partition("?")
    if any(SECRET_VARIABLE.search(name) for name in re.findall(r"([^=&]+)=", query)):
        raise ValueError("an address without a secret, which belongs into `headers` as $VAR")
    if url:
        _check_url(plain)


def _check_calendar_url(url: str) -> None:
    """Check the address of a calendar, or the reference to one: private addresses are secrets."""
    if url.startswith(("$", "!")):
        key_source(url)
        return
    try:
        parts = urlsplit(url.replace("webcal://", "https://", 1))
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or any(c.isspace() for c in url) or parts.username is not None or parts.fragment:
        raise ValueError("an http or https address without a user, such as https://dav.example.org/ana/home/")


def _check_mail_address(address: str) -> None:
    local, at, domain = address.rpartition("@")
    if not at or not local or "." not in domain.strip(".") or re.search(r"[\s<>,;\"]", address):
        raise ValueError("the address of a mailbox, such as ana@example.org")


_MATRIX_USER = re.compile(r"@[!-9;-~]{1,200}:[A-Za-z0-9.:\[\]-]{1,200}")
_MATRIX_ROOM = re.compile(r"[!#][!-~]{1,240}")


def _check_matrix_user(user: str) -> None:
    if not _MATRIX_USER.fullmatch(user):
        raise ValueError("the id of a Matrix user, such as @ana:example.org")


def _check_matrix_room(room: str) -> None:
    if not _MATRIX_ROOM.fullmatch(room):
        raise ValueError(
            "the id or the address of a Matrix room, such as !abc:example.org or #team:example.org"
        )


def _check_bot_name(name: str) -> None:
    if not BOT_NAME.fullmatch(name):
        raise ValueError("a name of up to 16 small letters and digits, a letter first")


def _check_redirect_uri(uri: str) -> None:
    if uri:
        _check_url(uri)
        parts = urlsplit(uri)
        if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
            raise ValueError("an http address of this machine, such as http://localhost:8765/callback")


def _check_reference(value: str) -> None:
    if value and not references(value):
        raise ValueError("a reference such as $MY_SECRET")


def _check_domain(domain: str) -> None:
    if not _DOMAIN.fullmatch(domain):
        raise ValueError("a domain in lower case, such as example.org")


def _check_pattern(pattern: str) -> None:
    if not pattern.strip() or len(pattern) > _MOST_PATTERN_CHARS or "\n" in pattern:
        raise ValueError(
            f"a text of at most {_MOST_PATTERN_CHARS} characters, in which * stands for any text"
        )


def _bytes_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _user_id(value: Any) -> Any:
    """Convert an id in quotes; say how to find an id where something else is given."""
    if isinstance(value, str):
        text = value.strip().strip("\"'")
        if not re.fullmatch(r"-?[0-9]{1,20}", text):
            raise ValueError(
                "a person's number on Telegram, such as 11111111, and no name, because names may change. "
                "Write to the bot: it tells you your number"
            )
        value = int(text)
    if type(value) is int and value < 0:
        raise ValueError("the number of a person; a negative number is a group's: list its people")
    return value


ModelName: TypeAlias = Annotated[str, _checked(_check_model_or_alias)]
"""`PROVIDER:NAME`, `offline`, or one of `[model] aliases`."""
TrueModelName: TypeAlias = Annotated[str, _checked(_check_model)]
KeyReference: TypeAlias = Annotated[str, _checked(key_source)]
# Telegram guarantees at most 52 bits.
UserId: TypeAlias = Annotated[int, BeforeValidator(_user_id), Field(gt=0, lt=2**52)]


class Section(BaseModel):
    """Base class of all sections: immutable; refuses unknown keys.

    Values are converted only if one meaning is possible: see `fitted`.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True
    )

    # One validator of the section, not one of each field: that would make each start slower by a tenth.
    @model_validator(mode="before")
    @classmethod
    def _fit(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        fields = cls.model_fields
        return {
            name: fitted(fields[name].annotation, value) if name in fields else value
            for name, value in values.items()
        }


class CustomServerSection(Section):
    """`[model.custom.NAME]`: a server that implements OpenAI's chat completions API.

    `api_key` is a reference to the server's key (`$VAR`, `!command`), or None. `pictures` says whether the
    model accepts pictures.
    """

    base_url: Annotated[str, _checked(_check_url)]
    api_key: KeyReference | None = None
    model: Annotated[str, _checked(_check_word)]
    pictures: bool = False


class ModelSection(Section):
    """`[model]`: the models, and the parameters of calls to them. None stands for the server's default.

    Without `first_token_timeout_s`, the time limit for the first token is `timeout_s` for Groq; for other
    servers it is 300 s, or `timeout_s` if that is longer. `aliases` are additional names of models. `keys`
    say where to find API keys that are not in a provider's default variable: `$VAR`, `${VAR}`, the name of a
    set variable, or `!command`.
    """

    default: ModelName = "groq:openai/gpt-oss-120b"
    fallbacks: tuple[ModelName, ...] = ("groq:openai/gpt-oss-20b",)
    timeout_s: Positive = 60
    first_token_timeout_s: Positive | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_output_tokens: Count | None = None
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    context_tokens: Count | None = None
    max_concurrent: Annotated[int, Field(ge=1, le=10_000)] | None = None
    aliases: dict[Annotated[str, _checked(_check_alias)], TrueModelName] = {}
    keys: dict[Annotated[str, _checked(_check_provider)], KeyReference] = {}
    custom: dict[Annotated[str, _checked(_check_server_name)], CustomServerSection] = {}


class AgentSection(Section):
    """`[agent]`: the limits on one turn, which is the work on one message.

    A key that ends with the name of a channel applies to turns of messages from that channel. The key without
    a channel applies to all other turns; see `GENERAL`. With `check_before_end`, a model that changed
    something and looked at nothing since is asked to check it before its answer is sent.
    """

    max_turns: Count = 30
    max_turns_telegram: Count = 30
    max_turns_terminal: Count = 100
    max_turns_page: Count = 100
    repeated_call: Count = 2
    consecutive_errors: Count = 3
    turn_timeout_s: Positive = 1800
    turn_timeout_s_telegram: Positive = 1800
    turn_timeout_s_terminal: Positive = 3600
    turn_timeout_s_page: Positive = 3600
    confirm_timeout_s: Positive = 600
    check_before_end: bool = True

    def max_turns_of(self, channel: str) -> int:
        """Return the maximum number of model calls of a turn whose message came through a channel."""
        return int(getattr(self, f"max_turns_{channel}", self.max_turns))

    def timeout_s_of(self, channel: str) -> float:
        """Return the maximum duration, in seconds, of a turn whose message came through a channel."""
        return float(getattr(self, f"turn_timeout_s_{channel}", self.turn_timeout_s))


GENERAL: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("agent", f"{name}_{channel}"): ("agent", name)
    for name in ("max_turns", "turn_timeout_s")
    for channel in ("telegram", "terminal", "page")
}
"""Maps specific keys to more general keys. A key that is not set takes the value of its general key."""


class _LimitsSection(Section):
    """`[limits]`: how often a turn that reaches a limit of `[agent]` goes on without its user.

    The key `continue` is a keyword of Python: read it as `continuations`.
    """

    @property
    def continuations(self) -> int:
        """How many more times a turn may use up its model calls and its time."""
        return int(getattr(self, "continue"))


if TYPE_CHECKING:
    LimitsSection = _LimitsSection
else:
    LimitsSection = create_model(
        "LimitsSection", __base__=_LimitsSection, **{"continue": (Annotated[int, Field(ge=0, le=100)], 0)}
    )


class SandboxSection(Section):
    """`[sandbox]`: the program that runs sandboxes, and the limits on each chat's sandbox.

    A command may take `timeout_s` seconds; the model may give it up to `max_timeout_s`. A turn may have
    `background_commands` running at once.
    """

    backend: Literal["auto", "docker", "bubblewrap"] = "auto"
    image: Annotated[str, _checked(_check_word)] = "rumi-runner:latest"
    tools: Literal["work", "core", "office"] = "work"
    extra_programs: tuple[Annotated[str, _checked(_check_program)], ...] = ()
    python_packages: tuple[Annotated[str, _checked(_check_package)], ...] = PYTHON_PACKAGES
    policy: Literal["strict", "open"] = "strict"
    memory: Annotated[str, BeforeValidator(_bytes_as_text), _checked(memory_bytes)] = "512m"
    cpus: Annotated[float, Field(ge=0.01, le=1024, allow_inf_nan=False)] = 1.0
    pids: Annotated[int, Field(ge=2, le=4_194_304)] = 128
    tmp_mb: Count = 64
    timeout_s: Positive = 30
    max_timeout_s: Positive = 600
    background_commands: Annotated[int, Field(ge=0, le=8)] = 4
    output_limit: Count = 50_000
    workspace_mb: Count = 512
    workspace_files: Count = 50_000
    reserve_mb: Annotated[int, Field(ge=0)] | None = None
    idle_ttl_s: Positive = 3600

    @property
    def memory_bytes(self) -> int:
        """Return the memory limit in bytes."""
        return memory_bytes(self.memory)


class SessionSection(Section):
    """`[session]`: the idle time after which a session ends, and the limits on messages and files.

    Without `history_messages`, a prompt has as many messages as the model's token budget allows.
    `handed_chars` limits the part of a message that its sender did not write: forwards, quotes, piped data.
    `file_mb` limits the size of a file uploaded from the web page or a terminal, or downloaded from the web.
    A picture for a model has at most `picture_px` pixels on its longer side and at most `picture_kb`
    kilobytes, and a prompt has at most `pictures` pictures. Messages, replies and history of ended sessions
    are deleted after `keep_days` days; 0 retains them forever. A daemon that was started by an attached
    client ends `linger_s` seconds after its last client has left; with 0, the client's command waits until
    the daemon has ended.
    """

    ttl_s: Positive = 3600
    history_messages: Count | None = None
    handed_chars: Count = 50_000
    file_mb: Annotated[int, Field(ge=1, le=100_000)] = 50
    picture_px: Annotated[int, Field(ge=64, le=4096)] = 1568
    picture_kb: Annotated[int, Field(ge=16, le=4000)] = 600
    pictures: Annotated[int, Field(ge=1, le=100)] = 5
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    linger_s: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 10

    @property
    def retention_s(self) -> float:
        """The time for which history is retained, in seconds; 0 retains it forever."""
        return self.keep_days * DAY_S


class ChatSection(Section):
    """`[chat]`: the handling of messages that come together, or while a turn of the same chat runs.

    Messages of a person that come within `together_s` seconds are one message, as long as nothing was done
    about the first; 0 disables this. While a turn runs, further messages wait with `queue`, up to
    `max_queued`, and messages that came together get one turn. With `steer`, a message of the same person
    reaches the model before its next step. With `reject`, Rumi answers that the chat is busy.

    `titles` says how a chat of the terminal or the page that nobody has named gets a title: from the first
    `words` that were said, from the `model` after its first answer, or not at all.
    """

    when_busy: Literal["queue", "steer", "reject"] = "queue"
    max_queued: Annotated[int, Field(ge=1, le=100)] = 20
    together_s: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 0.5
    titles: Literal["words", "model", "off"] = "words"

    @property
    def queue_length(self) -> int:
        """The maximum number of messages that wait; 0 if each of them is rejected."""
        return 0 if self.when_busy == "reject" else self.max_queued


class TasksSection(Section):
    """`[tasks]`: the limits on one task, and on the number of tasks that run at once.

    At most `max_running` tasks run at once, at most `per_owner` of them for one owner. Without `max_usd`,
    only tokens limit a task's model calls. A task is deleted `keep_days` days after its end; 0 retains it
    forever.
    """

    max_running: Count = 10
    per_owner: Count = 5
    max_turns: Count = 100
    timeout_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 3600
    max_tokens: Count = 2_000_000
    max_usd: Money | None = None
    sandbox_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 1800
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = 30

    @property
    def retention_s(self) -> float:
        """The time for which an ended task is retained, in seconds; 0 retains it forever."""
        return self.keep_days * DAY_S


class PriceSection(Section):
    """`[prices."PROVIDER:NAME"]`: the prices of a model in USD per million tokens.

    `cached` is the price of prompt tokens that the server reads from its cache; its default is `input`.
    """

    input: Price
    output: Price
    cached: Price | None = None


class BudgetSection(Section):
    """`[budget]`: limits on model calls per day and per month, in USD and in tokens; None means no limit.

    Keys with `total` limit all calls together; the other keys limit the calls of each owner, chat, task, bot
    or person. If a call is limited, `reply_tokens` tokens are reserved for the reply, which cannot be longer
    than that.
    """

    total_usd_per_day: Money | None = None
    total_usd_per_month: Money | None = None
    total_tokens_per_day: Tokens | None = None
    total_tokens_per_month: Tokens | None = None
    owner_usd_per_day: Money | None = None
    owner_usd_per_month: Money | None = None
    owner_tokens_per_day: Tokens | None = None
    owner_tokens_per_month: Tokens | None = None
    chat_usd_per_day: Money | None = None
    chat_usd_per_month: Money | None = None
    chat_tokens_per_day: Tokens | None = None
    chat_tokens_per_month: Tokens | None = None
    task_usd_per_day: Money | None = None
    task_usd_per_month: Money | None = None
    task_tokens_per_day: Tokens | None = None
    task_tokens_per_month: Tokens | None = None
    bot_usd_per_day: Money | None = None
    bot_usd_per_month: Money | None = None
    bot_tokens_per_day: Tokens | None = None
    bot_tokens_per_month: Tokens | None = None
    person_usd_per_day: Money | None = None
    person_usd_per_month: Money | None = None
    person_tokens_per_day: Tokens | None = None
    person_tokens_per_month: Tokens | None = None
    reply_tokens: Annotated[int, Field(ge=256, le=131_072)] = 4096


class VoiceSection(Section):
    """`[voice]`: the servers that turn recordings into text, and answers into speech.

    `server` is the address of a server with OpenAI's transcription API, or of whisper.cpp's `/inference`.
    Without it, Groq transcribes if its key is set. `language` is the language that people speak (ISO 639-1);
    without it, the server detects the language. `speech_server` is the address of a server with OpenAI's
    speech API, or of Piper's server if `speech_api` is `piper`. `answer` says which answers are also spoken,
    in chats that have not chosen with `/voice`; of a long answer, about `speech_chars` characters are spoken.
    Keys are references: `$VAR`, `${VAR}`, the name of a set variable, or `!command`.
    """

    server: Annotated[str, _checked(_check_url)] | None = None
    model: Annotated[str, _checked(_check_word)] | None = None
    api_key: KeyReference | None = None
    language: Annotated[str, _checked(_check_spoken)] | None = None
    timeout_s: Positive = 120
    speech_server: Annotated[str, _checked(_check_url)] | None = None
    speech_api: Literal["openai", "piper"] = "openai"
    speech_model: Annotated[str, _checked(_check_word)] = "tts-1"
    speech_api_key: KeyReference | None = None
    voice: Annotated[str, _checked(_check_word)] | None = None
    speech_timeout_s: Positive = 120
    speech_chars: Annotated[int, Field(ge=50, le=4000)] = 1500
    answer: Literal["never", "to_voice", "always"] = "to_voice"


class ImagesSection(Section):
    """`[images]`: the server that makes images to order, with OpenAI's API. Without `server`, there is none.

    `size` is the size of an image for which the model asks no other, such as `1024x1024`.
    """

    server: Annotated[str, _checked(_check_url)] | None = None
    model: Annotated[str, _checked(_check_word)] | None = None
    api_key: KeyReference | None = None
    size: Annotated[str, _checked(_check_size)] | None = None
    timeout_s: Positive = 300


class BrowserPasswordSection(Section):
    """`[browser.passwords.NAME]`: a password that is typed only into password fields of exactly one host.

    `host` is a name, with `:PORT` if that is not the usual one. `value` is a reference: `$VAR`, `${VAR}`, the
    name of a set variable, or `!command`. It is typed only in browsers of the `people`, of which `local` is
    the owner of the home, as is an empty list; never in that of a group.
    """

    host: Annotated[str, _checked(_check_site)]
    value: KeyReference
    people: tuple[Annotated[str, _checked(_check_server_name)], ...] = ()


class BrowserSection(Section):
    """`[browser]`: the browser that models can use, if it is `enabled`. It has one profile for each owner.

    `program` is the path or the name of a Chromium or Chrome; if it is empty, the installed one is found. A
    browser ends after `idle_s` seconds without a step. A step waits at most `timeout_s` seconds for a server.
    A browser with all its pages uses at most `max_mb` megabytes of memory, and has at most `max_pages` pages.
    """

    enabled: bool = False
    program: str = ""
    idle_s: Positive = 300
    timeout_s: Positive = 30
    max_mb: Annotated[int, Field(ge=256, le=65_536)] = 1024
    max_pages: Annotated[int, Field(ge=1, le=50)] = 5
    passwords: dict[Annotated[str, _checked(_check_server_name)], BrowserPasswordSection] = {}


class ResearchSection(Section):
    """`[research]`: the default model for research tasks; None selects the model that chats use."""

    model: ModelName | None = None


class SchedulesSection(Section):
    """`[schedules]`: the maximum number of schedules per owner, and the hours in which no schedule fires.

    `quiet` is a range of hours, such as `23:00-08:00`, in the owner's local time. A schedule that is due in
    this range fires at the end of the range.
    """

    max_per_owner: Annotated[int, Field(ge=1, le=10_000)] = 100
    quiet: Annotated[str, _checked(_check_quiet)] = ""


class BotsSection(Section):
    """`[bots]`: limits on bots, and the owners who may run bots, such as `local` and `tg11111111`.

    An empty list of owners allows everyone. A bot makes at most `max_turns` model calls in an iteration and
    `max_calls_per_day` in a day, and waits `question_days` days for a person's answer.
    """

    allowed: tuple[str, ...] = ()
    max_turns: Count = 60
    max_calls_per_day: Count = 500
    question_days: Annotated[int, Field(ge=1, le=365)] = 7

    @property
    def question_s(self) -> float:
        """The maximum time to wait for a person's answer, in seconds."""
        return self.question_days * DAY_S


class FetchSection(Section):
    """`[fetch]`: limits on fetched pages. `allow` lists the `ip:port` pairs that the address guard accepts.

    If `reader` is `tabstack`, Rumi sends the URLs of pages to Tabstack, which fetches the pages.
    """

    reader: Literal["own", "tabstack"] = "own"

    timeout_s: Positive = 10
    max_bytes: Count = 1_000_000
    max_redirects: Annotated[int, Field(ge=0, le=20)] = 5
    allow: tuple[Annotated[str, _checked(_check_endpoint)], ...] = ()


class SearchSection(Section):
    """`[search]`: the provider of web searches; `auto` selects the first provider that has a key."""

    provider: Literal["auto", "tavily", "kagi", "ddgs"] = "auto"


class MemorySection(Section):
    """`[memory]`: the settings of the memory, which stores facts about the user."""

    extract: bool = True
    max_facts: Count = 50


class RecordSection(Section):
    """`[record]`: how many turns of each chat are recorded, and how large recordings may become.

    Without `turns`, nothing is recorded. `max_mb` limits one recording, `chat_mb` those of a chat, and
    `total_mb` all of them; the oldest are deleted first.
    """

    turns: Annotated[int, Field(ge=0, le=1000)] = 20
    max_mb: Count = 16
    chat_mb: Count = 32
    total_mb: Count = 256


class UndoSection(Section):
    """`[undo]`: the number of turns that can be undone, and the limits on snapshots of a chat's files."""

    turns: Annotated[int, Field(ge=0, le=100)] = 5
    max_mb: Count = 256
    max_files: Count = 20_000

    @property
    def max_bytes(self) -> int:
        """The maximum size of all snapshots of a chat, in bytes."""
        return self.max_mb * 1024 * 1024


class StoreSection(Section):
    """`[store]`: the PostgreSQL database that several workers share.

    Without a `url`, Rumi uses files in the home. The password is in the variable STORE_PASSWORD. `workspaces`
    is an existing folder for the chats' files; None stands for the folder in the home. `lease_s` is the time
    after which a worker stops serving chats if the database does not answer. A worker that shuts down lets
    running turns continue for `drain_s` seconds, and tool calls for `drain_s` of `[serve]`. `address` is the
    address at which other workers reach this worker.
    """

    url: Annotated[str, _checked(_check_store)] = ""
    workspaces: Annotated[str, _checked(_check_absolute)] | None = None
    lease_s: Annotated[float, Field(ge=3, le=600)] = 15
    drain_s: Annotated[float, Field(ge=0, le=3600)] = 60
    address: str = ""


class ServeSection(Section):
    """`[serve]`: the address of the page that `rumi serve` serves (`web`), and how a process ends.

    A running tool call may continue for `drain_s` seconds after the signal. Then it is ended, and the turn
    goes on in the next process.
    """

    web: Annotated[str, _checked(_check_listen)] | None = None
    drain_s: Annotated[float, Field(ge=0, le=3600)] = 5


class PageSection(Section):
    """`[page]`: the page in a browser.

    `url` is the address of a proxy with TLS that passes requests on to the page, or of `tailscale serve`. The
    proxy must keep the `Host` header. The address that `serve.web` names works beside it.
    """

    url: Annotated[str, _checked(_check_page_url)] | None = None


class SkillsSection(Section):
    """`[skills]`: additional folders, disabled skills, and the maximum number of skills in a prompt."""

    dirs: tuple[Annotated[str, _checked(_check_path)], ...] = ()
    disabled: tuple[Annotated[str, _checked(_check_word)], ...] = ()
    max_in_prompt: Annotated[int, Field(ge=0, le=1000)] = 20


class TelegramBotSection(Section):
    """`[telegram.NAME]`: an additional bot with separate chats.

    The bot's token is in the variable `TELEGRAM_TOKEN_NAME`. `allowed_users` are the users who may talk to
    the bot, in addition to the admins and the people of `[people]`. The default is `allowed_users` of
    `[telegram]`.
    """

    allowed_users: tuple[UserId, ...] | None = None

    @staticmethod
    def variable(name: str) -> str:
        """Return the name of the variable that contains a bot's token. The first bot has an empty name."""
        return f"TELEGRAM_TOKEN_{name.upper()}" if name else "TELEGRAM_TOKEN"

    @staticmethod
    def section(name: str) -> str:
        """Return the name of a bot's configuration section. The first bot has an empty name."""
        return f"telegram.{name}" if name else "telegram"


class TelegramSection(Section):
    """`[telegram]`: the users of the bot, by numeric id, and the delivery of updates.

    An empty `allowed_users` allows nobody. Additional bots are subsections: `[telegram.work]`. `webhook` is
    the URL to which Telegram delivers updates; without it, Rumi polls for updates. `listen` is the local
    address at which Rumi receives updates and serves health checks and metrics.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, TelegramBotSection] = Field(init=False)

    allowed_users: tuple[UserId, ...] = ()
    admins: tuple[UserId, ...] = ()
    webhook: Annotated[str, _checked(_check_url)] | None = None
    listen: Annotated[str, _checked(_check_listen)] | None = None

    @property
    def bots(self) -> Mapping[str, TelegramBotSection]:
        """The additional bots, by name."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _named(self) -> "TelegramSection":
        for name in self.bots:
            if BOT_NAME.fullmatch(name) is None:
                raise ValueError("bots with names of up to 16 small letters and digits, a letter first")
        return self


class McpSection(Section):
    """`[mcp.NAME]`: an MCP server whose tools the assistant can use. The server is a program or a URL.

    `command` starts a process, in a sandbox unless `sandbox` is false; `url` is the URL of a remote
    server. Secrets in `env` and `headers` must be references: `$VAR` or `${VAR}`. `client_id` and
    `client_secret` are those of an OAuth client that was registered by hand, `redirect_uri` the address
    to which its logins return, and `scopes` the rights to ask for. `tools` are the tools to use; an empty
    list means all. Results from a `trusted` server do not taint a chat: they do not count as untrusted
    content. `open_world = false` declares that the server's tools access only the server's own data.
    `max_kb` limits the size of one message from the server, `max_folder_mb` the total size of the files
    in the server's folder. `hosts` are the hosts that a server in a sandbox may reach, each with its
    port; `network = true` allows all hosts, and this machine too.
    """

    command: Annotated[str, _checked(_check_command)] = ""
    args: tuple[Annotated[str, _checked(_check_argument)], ...] = ()
    env: dict[Annotated[str, _checked(_check_variable)], Annotated[str, _checked(_check_argument)]] = {}
    url: Annotated[str, _checked(_check_mcp_url)] = ""
    headers: dict[Annotated[str, _checked(_check_header)], Annotated[str, _checked(_check_argument)]] = {}
    client_id: Annotated[str, _checked(_check_argument)] = ""
    client_secret: Annotated[str, _checked(_check_reference)] = ""
    redirect_uri: Annotated[str, _checked(_check_redirect_uri)] = ""
    scopes: tuple[Annotated[str, _checked(_check_word)], ...] = ()
    trusted: bool = False
    open_world: bool = True
    tools: tuple[Annotated[str, _checked(_check_word)], ...] = ()
    sandbox: bool = True
    network: bool = False
    hosts: Annotated[tuple[Annotated[str, _checked(_check_host)], ...], Field(max_length=MOST_HOSTS)] = ()
    paths: tuple[Annotated[str, _checked(_check_path)], ...] = ()
    start_timeout_s: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = 30
    timeout_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 60
    max_kb: Annotated[int, Field(ge=16, le=100_000)] = 10_000
    max_folder_mb: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000

    @property
    def reaches_hosts(self) -> bool:
        """True if a server in a sandbox may reach other hosts."""
        return self.network or bool(self.hosts)

    @property
    def max_bytes(self) -> int:
        """The maximum size of a message from the server, in bytes."""
        return self.max_kb * 1000

    @property
    def max_folder_bytes(self) -> int:
        """The maximum disk usage of the server's own folder, in bytes."""
        return self.max_folder_mb * 1_000_000

    @model_validator(mode="after")
    def _one_way(self) -> "McpSection":
        if bool(self.command) == bool(self.url):
            raise ValueError("a server with a `command` or with a `url`, one of them")
        if self.command and (self.client_id or self.client_secret or self.redirect_uri or self.scopes):
            raise ValueError("a `url` for a login: a command gets its secrets in `env`")
        if self.client_secret and not self.client_id:
            raise ValueError("a `client_id` for the `client_secret`")
        for table, secret in ((self.env, SECRET_VARIABLE), (self.headers, SECRET_HEADER)):
            for name, value in table.items():
                if secret.search(name) and not references(value):
                    raise ValueError(f"a reference such as $MY_KEY for the secret {name}")
        return self


class PersonSection(Section):
    """`[people.NAME]`: a person's numeric Telegram ids, mail addresses and Matrix users, and their role."""

    telegram: tuple[UserId, ...] = ()
    mail: tuple[Annotated[str, _checked(_check_mail_address)], ...] = ()
    matrix: tuple[Annotated[str, _checked(_check_matrix_user)], ...] = ()
    role: Annotated[str, _checked(_check_server_name)] = "member"


class RoleSection(Section):
    """`[roles.NAME]`: the rights of people with this role. A missing key has the value of the role `guest`.

    `tools` are the allowed tools: names or patterns such as `time__*`. `models` are the allowed models.
    `schedules` and `bots` are the maximum numbers of schedules and of bots that a person may have at the same
    time. `bots = true` stands for no limit.
    """

    tools: tuple[Annotated[str, _checked(_check_word)], ...] | None = None
    models: tuple[ModelName, ...] | None = None
    usd_per_day: Money | None = None
    tokens_per_day: Tokens | None = None
    schedules: Annotated[int, Field(ge=0, le=10_000)] | None = None
    bots: bool | Annotated[int, Field(ge=0, le=10_000)] | None = None


class GroupSection(Section):
    """`[groups.ID]`: a Telegram group, by its number or its chat id; `ID_5` is the group's topic 5.

    `listen` says which messages are for Rumi: those that mention it (`mention`), also replies to its messages
    (`reply`), or all messages of people who may talk to it (`all`). Commands and buttons always are. `note`
    is part of the group's prompts. In the `quiet` hours, in the group's time zone, Rumi sends there nothing
    by itself: it keeps results of tasks and schedules until the end of these hours. It answers silently.
    """

    listen: Literal["mention", "reply", "all"] = "reply"
    note: Annotated[str, _checked(_check_note)] = ""
    quiet: Annotated[str, _checked(_check_quiet)] = ""


class CalendarSection(Section):
    """`[calendars.NAME]`: a calendar, at a private address of an ICS file or at a CalDAV server.

    With a `user`, `url` is the address of a CalDAV server or of one of its calendars; without one, that of
    a file, which can only be read. A private address is a secret: `url` can be a reference, such as `$VAR` or
    `!command`, as `password` must be. The calendar belongs to the `people`, of which `local` is the owner of
    the home, and to the `groups`; without both, to the owner of the home. With `write = false`, nothing is
    written to it. `calendar` is the name of the calendar at the server, if it has several.
    """

    url: Annotated[str, _checked(_check_calendar_url)]
    user: Annotated[str, _checked(_check_argument)] = ""
    password: KeyReference | None = None
    calendar: Annotated[str, _checked(_check_argument)] = ""
    write: bool = True
    people: tuple[Annotated[str, _checked(_check_server_name)], ...] = ()
    groups: tuple[Annotated[str, _checked(_check_group)], ...] = ()


class MatrixSection(Section):
    """`[matrix.NAME]`: an account at a Matrix homeserver, through which people talk to Rumi.

    `homeserver` is the server's address, `user` the account's id and `token` a reference to its access token.
    The `users` may talk to it, in addition to the people of `[people]` with a `matrix` id, and only they may
    invite it. It also follows invitations of others into these `rooms`. `listen` says which messages in rooms
    of several people are for Rumi: those that mention it, also replies to it, or all messages of people who
    may talk to it. Files of up to `max_mb` are taken.
    """

    homeserver: Annotated[str, _checked(_check_url)]
    user: Annotated[str, _checked(_check_matrix_user)]
    token: KeyReference | None = None
    users: tuple[Annotated[str, _checked(_check_matrix_user)], ...] = ()
    rooms: tuple[Annotated[str, _checked(_check_matrix_room)], ...] = ()
    listen: Literal["mention", "reply", "all"] = "reply"
    max_mb: Annotated[int, Field(ge=1, le=1000)] = 50

    @property
    def max_bytes(self) -> int:
        """The maximum size of a file, in bytes."""
        return self.max_mb * 1_000_000


class MailSection(Section):
    """`[mail.NAME]`: a mailbox, read by IMAP; its mails are sent by SMTP.

    `imap` and `smtp` are a host and its port: 993 and 465 begin with TLS, others switch to it (STARTTLS).
    `user` is the name at both servers; empty stands for `address`. `password` is a reference, such as `$VAR`
    or `!command`. The mailbox belongs to one person, whom `people` names; `local`, which may stand beside a
    name, is the owner of the home, as is an empty list. Without `smtp`, no mail is sent. `drafts` and `sent`
    are folders, which are found if they are empty; without `save_sent`, the server itself keeps what was
    sent. New mails are looked for every `poll_s` seconds where a trigger or the channel needs them. With
    `channel = true` it is Rumi's own mailbox: mails of people in `[people]` are messages to Rumi, and the
    answers are mails. Such a mail needs a DKIM signature of the domain of its sender's address, or of a
    domain in `signed_by` above that domain. At most `most_per_day` mails are sent within 24 hours.
    """

    address: Annotated[str, _checked(_check_mail_address)]
    name: Annotated[str, _checked(_check_argument)] = ""
    imap: Annotated[str, _checked(_check_host)]
    smtp: Annotated[str, _checked(_check_host)] | None = None
    user: Annotated[str, _checked(_check_argument)] = ""
    password: KeyReference | None = None
    people: tuple[Annotated[str, _checked(_check_server_name)], ...] = ()
    drafts: Annotated[str, _checked(_check_argument)] = ""
    sent: Annotated[str, _checked(_check_argument)] = ""
    save_sent: bool = True
    channel: bool = False
    signed_by: tuple[Annotated[str, _checked(_check_domain)], ...] = ()
    poll_s: Annotated[float, Field(ge=10, le=86_400)] = 60
    timeout_s: Annotated[float, Field(ge=1, le=600)] = 30
    max_mb: Annotated[int, Field(ge=1, le=1000)] = 25
    most_per_day: Annotated[int, Field(ge=0, le=10_000)] = 50

    @property
    def login(self) -> str:
        """The user's name at the servers."""
        return self.user or self.address

    @property
    def max_bytes(self) -> int:
        """The maximum size of one mail, in bytes."""
        return self.max_mb * 1_000_000

    @model_validator(mode="after")
    def _of_one(self) -> "MailSection":
        if self.channel and self.people:
            raise ValueError("no `people` for a mailbox with channel = true: it is Rumi's own")
        if len(set(self.people) - {LOCAL}) > 1:
            raise ValueError("at most one person in `people`, and local: a mailbox belongs to one person")
        return self


class TriggerSection(Section):
    """`[triggers.NAME]`: events of other programs, each of which begins a turn in `chat`.

    `prompt` says what to do with an event. The event itself is untrusted: what needs a yes waits for one.
    With a `secret`, a reference such as `$VAR`, the listener takes events at `/triggers/NAME`. `form` says
    how they prove that they know the secret: signed as GitHub or as Standard Webhooks do, or with the secret
    in a header (`plain`). Without a `secret`, only `rumi schedule trigger NAME` hands events in. More than
    `most_per_hour` events in an hour are refused.

    With `mail`, the name of a mailbox, each new mail in its folder `mail_folder` is an event too.
    `mail_from`, `mail_to` and `mail_subject` choose among the mails: each is a part of the field, in which
    `*` stands for any text.
    """

    chat: Annotated[str, _checked(_check_chat)] = DEFAULT_CHAT
    prompt: Annotated[str, _checked(_check_prompt)] = (
        "Tell me in a few lines what has happened, and what I should do about it, if anything."
    )
    secret: KeyReference | None = None
    form: Literal["github", "standard", "plain"] = "plain"
    most_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 60
    mail: Annotated[str, _checked(_check_server_name)] | None = None
    mail_folder: Annotated[str, _checked(_check_argument)] = "INBOX"
    mail_from: Annotated[str, _checked(_check_pattern)] = "*"
    mail_to: Annotated[str, _checked(_check_pattern)] = "*"
    mail_subject: Annotated[str, _checked(_check_pattern)] = "*"


class PluginSection(Section):
    """`[plugins.NAME]`: an installed distribution that extends Rumi; without `enabled`, it is not loaded.

    `settings` are the plugin's own, which only the plugin can check, and `secrets` its secrets, each a
    reference such as `$VAR` or `!command`. `role` is the role of the people on its channels.
    """

    enabled: bool = False
    role: Annotated[str, _checked(_check_server_name)] = "member"
    settings: dict[Annotated[str, _checked(_check_server_name)], Any] = {}
    secrets: dict[Annotated[str, _checked(_check_server_name)], KeyReference] = {}


class TerminalSection(Section):
    """`[terminal]`: how the chat in a terminal works.

    `workspace` says which files it works on: those of the folder that it was started in (`here`), or those of
    a folder of its own in the home (`own`). `ask` asks once. `apply` says whether changes to the folder wait
    for `/apply` (`ask`), or are applied at the end of each turn (`auto`). `keys` are the key bindings of the
    input line. `theme` is the background of the terminal; `auto` asks the terminal. `notify` says how to call
    a person who looks elsewhere, when a turn of more than `notify_s` seconds ends or a question waits.
    """

    workspace: Literal["ask", "here", "own"] = "ask"
    apply: Literal["ask", "auto"] = "ask"
    keys: Literal["emacs", "vi"] = "emacs"
    theme: Literal["auto", "light", "dark"] = "auto"
    notify: Literal["auto", "bell", "desktop", "off"] = "auto"
    notify_s: Annotated[float, Field(ge=0, le=3600)] = 10


class LogSection(Section):
    """`[log]`: the size at which a log is rotated, and the number of rotated logs to retain."""

    max_mb: Positive = 10
    keep: Annotated[int, Field(ge=0, le=1000)] = 5


class Settings(Section):
    """The whole configuration: all sections. Immutable."""

    # `model_construct` needs no validator, so a start builds only the one of `Settings`.

    language: LanguageSetting = "auto"
    model: ModelSection = ModelSection.model_construct()
    agent: AgentSection = AgentSection.model_construct()
    limits: LimitsSection = LimitsSection.model_construct()
    sandbox: SandboxSection = SandboxSection.model_construct()
    session: SessionSection = SessionSection.model_construct()
    chat: ChatSection = ChatSection.model_construct()
    fetch: FetchSection = FetchSection.model_construct()
    search: SearchSection = SearchSection.model_construct()
    voice: VoiceSection = VoiceSection.model_construct()
    images: ImagesSection = ImagesSection.model_construct()
    browser: BrowserSection = BrowserSection.model_construct()
    tasks: TasksSection = TasksSection.model_construct()
    research: ResearchSection = ResearchSection.model_construct()
    budget: BudgetSection = BudgetSection.model_construct()
    prices: dict[TrueModelName, PriceSection] = {}
    schedules: SchedulesSection = SchedulesSection.model_construct()
    bots: BotsSection = BotsSection.model_construct()
    memory: MemorySection = MemorySection.model_construct()
    undo: UndoSection = UndoSection.model_construct()
    store: StoreSection = StoreSection.model_construct()
    serve: ServeSection = ServeSection.model_construct()
    page: PageSection = PageSection.model_construct()
    record: RecordSection = RecordSection.model_construct()
    skills: SkillsSection = SkillsSection.model_construct()
    telegram: TelegramSection = TelegramSection.model_construct()
    mcp: dict[Annotated[str, _checked(_check_mcp_name)], McpSection] = {}
    people: dict[Annotated[str, _checked(_check_server_name)], PersonSection] = {}
    roles: dict[Annotated[str, _checked(_check_server_name)], RoleSection] = {}
    groups: dict[Annotated[str, _checked(_check_group)], GroupSection] = {}
    triggers: dict[Annotated[str, _checked(_check_trigger)], TriggerSection] = {}
    calendars: dict[Annotated[str, _checked(_check_server_name)], CalendarSection] = {}
    mail: dict[Annotated[str, _checked(_check_server_name)], MailSection] = {}
    plugins: dict[Annotated[str, _checked(_check_plugin)], PluginSection] = {}
    matrix: dict[Annotated[str, _checked(_check_bot_name)], MatrixSection] = {}
    terminal: TerminalSection = TerminalSection.model_construct()
    log: LogSection = LogSection.model_construct()
