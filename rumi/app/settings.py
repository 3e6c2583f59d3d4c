"""Converts the configuration into settings for the other packages, which do not read it themselves."""

from collections.abc import Mapping
from typing import Final, TypeGuard, get_args

from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.permissions.rights import BUILT_IN, GUEST, Rights
from rumi.agent.prompts.prompts import Prompts, built_in, words_in
from rumi.channels.attach.peers import LEAST_SECRET, key_of, peer_of
from rumi.channels.registration import ChannelPlugin
from rumi.chats.budgets.amounts import nano_of
from rumi.chats.budgets.meter import Rules
from rumi.chats.budgets.prices import Price
from rumi.chats.people.people import People, Principal
from rumi.errors import ConfigError
from rumi.models.metering import Limit, Scope, Unit
from rumi.models.settings import missing_key, model_settings_of
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.files import read_text
from rumi.platform.config.people import everybody, numbers_of
from rumi.platform.config.schema import LogSection, McpSection, RoleSection, filled
from rumi.platform.config.secrets import plain
from rumi.platform.home import Home
from rumi.platform.redact import Redactor
from rumi.store.cluster.building import Cluster, make_cluster
from rumi.tasks.bots.prompt import PROMPTS as BOT_PROMPTS
from rumi.tasks.research.kinds import PROMPTS


def mcp_settings_of(loaded: Loaded) -> tuple[ServerSettings, ...]:
    """Return the settings of the MCP servers, with their secrets.

    If a variable is not set, the server's `fault` names it.
    """
    known = {name: secret.reveal() for name, secret in loaded.secrets.referenced.items()}
    redact = Redactor(loaded.secrets.values())
    log = loaded.settings.log
    servers = loaded.settings.mcp.items()
    return tuple(_mcp_server(name, section, known, redact, log) for name, section in servers)


def _mcp_server(
    name: str, section: McpSection, known: Mapping[str, str], redact: Redactor, log: LogSection
) -> ServerSettings:
    tables: list[dict[str, str]] = []
    fault = None
    for table in (section.env, section.headers, {"client_secret": section.client_secret}):
        try:
            tables.append({key: filled(value, known) for key, value in table.items()})
        except KeyError as missing:
            tables.append({})
            fault = ConfigError(
                "mcp.{name} refers to ${variable}, which is not set.",
                "Set it in the environment or in .env.",
                name=name,
                variable=missing.args[0],
            )
    env, headers, login = tables
    return ServerSettings(
        name, section, env, headers, fault, log, redact, client_secret=login.get("client_secret", "")
    )


def budget_rules_of(loaded: Loaded) -> Rules:
    """Return the prices of model calls, and the limits on them."""
    settings = loaded.settings
    prices = {
        name: Price.per_million(price.input, price.output, price.cached)
        for name, price in settings.prices.items()
    }
    limits = []
    for scope in get_args(Scope):
        for unit in UNITS:
            for period in ("day", "month"):
                most = getattr(settings.budget, f"{scope}_{unit}_per_{period}")
                if most is not None:
                    limits.append(Limit(scope, unit, period, nano_of(most) if unit == "usd" else most))
    return Rules(prices, tuple(limits), settings.budget.reply_tokens)


def people_of(loaded: Loaded, ids: ChatIds) -> People:
    """Return the people who may talk to Rumi through a channel, and the rights of their roles."""
    settings, roles = loaded.settings, roles_of(loaded)
    persons: dict[int, Principal] = {}
    for id, (name, role) in everybody(settings).items():
        mine = numbers_of(settings.people[name]) if name else (id,)
        persons[id] = Principal(name or f"#{id}", roles[role], mine)
    named = {
        name: Principal(name, roles[person.role], numbers_of(person))
        for name, person in settings.people.items()
        if person.mail
    }
    via = {
        part.registration.prefix(part.name).text: roles[part.context.role]
        for part in loaded.plugins.of(ChannelPlugin)
    }
    return People(ids, persons, named, via)


def roles_of(loaded: Loaded) -> dict[str, Rights]:
    """Return the rights of each role by its name, the built-in roles first."""
    return {**BUILT_IN, **{name: _rights(name, role) for name, role in loaded.settings.roles.items()}}


def _rights(name: str, role: RoleSection) -> Rights:
    """Return the rights of a role.

    A right that is missing in the role's section is taken from the built-in role of the same name, or from
    the role `guest` if no built-in role has that name.
    """
    base = BUILT_IN.get(name, GUEST)
    most: list[Limit] = []
    if role.usd_per_day is not None:
        most.append(Limit("person", "usd", "day", nano_of(role.usd_per_day)))
    if role.tokens_per_day is not None:
        most.append(Limit("person", "tokens", "day", role.tokens_per_day))
    bots = {None: base.bots, True: None, False: 0}[role.bots] if _no_number(role.bots) else role.bots
    return Rights(
        name,
        tools=base.tools if role.tools is None else role.tools,
        models=base.models if role.models is None else role.models,
        limits=tuple(most) or base.limits,
        schedules=base.schedules if role.schedules is None else role.schedules,
        bots=bots,
    )


def _no_number(bots: bool | int | None) -> TypeGuard[bool | None]:
    return bots is None or isinstance(bots, bool)


UNITS: Final[tuple[Unit, ...]] = ("usd", "tokens")
"""The units in which `[budget]` limits usage."""

MOST_PROMPT_CHARS: Final = 20_000


def built_in_prompts() -> Mapping[str, str]:
    """Return the texts of all built-in prompts (for chats, research and bots), by file name without `.md`."""
    return {**built_in(), **words_in(PROMPTS), **words_in(BOT_PROMPTS)}


def prompts_of(home: Home) -> Prompts:
    """Return the texts of all prompts. A file in the home's folder `prompts` replaces a built-in text.

    Raises:
        ConfigError: A file in `prompts` cannot be read, is too long, or is not named like a prompt.
    """
    words = dict(built_in_prompts())
    folder = home.root / "prompts"
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.suffix != ".md" or file.stem not in words:
            names = ", ".join(f"{name}.md" for name in words)
            raise ConfigError(
                "{file} replaces no prompt.", "Remove it, or name it one of: {names}.", file=file, names=names
            )
        words[file.stem] = read_text(file).strip()
        if len(words[file.stem]) > MOST_PROMPT_CHARS:
            raise ConfigError(
                "{file} is longer than {most_prompt_chars} characters.",
                "Every model call begins with it. Shorten it.",
                file=file,
                most_prompt_chars=MOST_PROMPT_CHARS,
            )
    return Prompts(words)


def require_model(loaded: Loaded) -> None:
    """Check that a language model is configured, or that the user explicitly chose `offline`.

    Raises:
        ConfigError: The configured model has no key.
    """
    if variable := missing_key(model_settings_of(loaded, "en")):
        raise ConfigError(
            "{default} needs {variable}.",
            'Put it into .env in RUMI_HOME, or choose in config.toml: [model] default = "offline"',
            default=loaded.settings.model.default,
            variable=variable,
        )


def require_chosen_model(loaded: Loaded) -> None:
    """Check that the model chosen with `--model` or the environment has a key: `offline` must not replace it.

    Raises:
        ConfigError: The model has no key.
    """
    if not loaded.is_of_this_run("model.default"):
        return
    if variable := missing_key(model_settings_of(loaded, "en")):
        raise ConfigError(
            "The model {default} needs {variable}.",
            "Set it in the environment or in .env, or use --model offline.",
            default=f"{loaded.settings.model.default!r}",
            variable=variable,
        )


def cluster_of(loaded: Loaded) -> Cluster | None:
    """Return the database that this process shares with other workers; None if the home has its own files.

    Raises:
        UsageError: The configured URL is not the URL of a PostgreSQL database.
        ConfigError: The configured address cannot be used, or has no secret.
    """
    section = loaded.settings.store
    if not section.url:
        return None
    key = worker_key(loaded)
    if section.address:
        if key is None:
            raise ConfigError(
                "[store] address needs STORE_TOKEN, which is not set.",
                "Set it to one long random text for all workers, in the environment or in .env.",
            )
        peer_of(section.address, key)
    return make_cluster(section, key, plain(loaded.secrets.store_password))


def worker_key(loaded: Loaded) -> bytes | None:
    """Return the key with which workers authenticate to each other; None if no secret is suitable.

    The key is derived from STORE_TOKEN, or else from the database's password.

    Raises:
        ConfigError: The secret is too short.
    """
    token = loaded.secrets.store_token
    secret = plain(token or loaded.secrets.store_password)
    if not secret:
        return None
    if len(secret) < LEAST_SECRET:
        if token is None:  # a password may be short; it is no secret for a network then
            return None
        raise ConfigError(
            "STORE_TOKEN has less than {least_secret} characters.",
            "Make one: openssl rand -hex 32",
            least_secret=LEAST_SECRET,
        )
    return key_of(secret)
