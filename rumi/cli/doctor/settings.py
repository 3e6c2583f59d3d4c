"""Checks of the configuration and its keys. They call no server."""

import shlex
import time
from collections import Counter

from rumi.agent.mcp.bwrap import hidden_folders
from rumi.agent.mcp.launchers import started
from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.oauth.logins import ServerLogin, StoredLogins
from rumi.agent.mcp.paths import advice
from rumi.agent.mcp.pins import AcceptedTools
from rumi.app.settings import mcp_settings_of
from rumi.channels.built_in import LISTEN
from rumi.cli.doctor.check import Check
from rumi.cli.doctor.matrix import matrix_accounts
from rumi.errors import RumiError
from rumi.platform.chat_ids import TELEGRAM
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.people import channel_mailbox, listed
from rumi.platform.config.schema import TelegramBotSection
from rumi.platform.home import Home
from rumi.platform.printable import flat
from rumi.platform.timestamps import utc
from rumi.texts import Text

MOST_LEFT_OUT = 5


def settings(home: Home, loaded: Loaded) -> list[Check]:
    """Check `config.toml`, the environment and `.env`. `files` checks the permissions of `.env`."""
    file = shlex.quote(str(home.root / ".env"))
    model, has_key = _model(loaded, file)
    return [
        Check("configuration", "ok", Text("config.toml, environment and .env are valid")),
        model,
        _telegram(loaded, has_key, file),
        _people(loaded),
        *_triggers(loaded),
        *mail_channel(loaded),
        *matrix_accounts(loaded),
        _search(loaded, file),
        _reader(loaded, file),
        voice(loaded),
        prompts(home),
        *_plugins(loaded),
    ]


def _plugins(loaded: Loaded) -> list[Check]:
    """Load the enabled plugins, and report what is wrong with each; return nothing if none is enabled."""
    if not loaded.plugins.enabled:
        return []
    from rumi.app.plugin_rows import checked_rows

    checks = []
    for row in checked_rows(loaded.plugins):
        name = Text("plugin {name}", name=row.name)
        if row.enabled and row.problems:
            checks.append(Check(name, "failure", row.problems[0], Text("Look at it: rumi plugins")))
        elif row.enabled:
            checks.append(Check(name, "ok", Text("version {version} is on", version=row.version)))
    return checks


def prompts(home: Home) -> Check:
    """Check the home's files that replace built-in prompts."""
    from rumi.app.settings import built_in_prompts, prompts_of

    try:
        words = prompts_of(home).words
    except RumiError as error:
        return Check("prompts", "failure", error.message, error.advice)
    replaced = [name for name, own in built_in_prompts().items() if words[name] != own]
    found = Text("replaced in the home: {replaced}", replaced=", ".join(replaced))
    return Check("prompts", "ok", found if replaced else Text("built-in"))


def _model(loaded: Loaded, file: str) -> tuple[Check, bool]:
    """Return the finding about the model. The second value is False if the model's key is missing."""
    from rumi.models.build import build_models
    from rumi.models.settings import missing_key, model_settings_of
    from rumi.platform.config.providers import key_owner

    try:
        model_settings = model_settings_of(loaded, "en")
        if key_owner(model_settings.default) in model_settings.secrets.unread:
            return Check(
                "model", "ok", Text("{default}; a command prints its key", default=model_settings.default)
            ), True
        if variable := missing_key(model_settings):
            found = Text(
                "{default} needs {variable}; without it the offline model is used",
                default=model_settings.default,
                variable=variable,
            )
            fix = Text("Put {variable}=… into {file}, or the environment.", variable=variable, file=file)
            return Check("model", "warning", found, fix), False
        return Check("model", "ok", build_models(model_settings).name), True
    except RumiError as error:
        return Check("model", "failure", error.message, error.advice), True


def _telegram(loaded: Loaded, has_key: bool, file: str) -> Check:
    bots = loaded.bots()
    lacking = [TelegramBotSection.variable(name) for name, token in bots.items() if name and token is None]
    if lacking:
        found = Text("a bot is configured, and its token {lacking} is not set", lacking=lacking[0])
        return Check(
            "telegram",
            "failure",
            found,
            Text("Put {lacking}=… into {file}, or the environment.", lacking=lacking[0], file=file),
        )
    if not any(bots.values()):
        return Check("telegram", "ok", Text("no token, so no bot; the terminal needs none"))
    if not has_key:
        found = Text("there is a token, and rumi serve does not start without the model's key")
        return Check("telegram", "failure", found, Text("Set the key, as the line about the model says."))
    people = len(listed(loaded.settings))
    if not people:
        found = Text("there is a token, and nobody may talk to the bot")
        fix = Text("Put their ids into config.toml: [telegram] allowed_users = [11111111]")
        return Check("telegram", "warning", found, fix)
    if len(bots) > 1:
        counts = "; ".join(f"{name or 'the first'}: {len(listed(loaded.settings, name))}" for name in bots)
        return Check(
            "telegram",
            "ok",
            Text("{count} bots; people who may talk to them: {counts}", count=len(bots), counts=counts),
        )
    return Check("telegram", "ok", Text("a token is set; {people} may talk to the bot", people=people))


def _people(loaded: Loaded) -> Check:
    """Check the configured people: report ids with two different roles, and people without an id."""
    loaded_settings, telegram = loaded.settings, loaded.settings.telegram
    roles = Counter(role for _, role in listed(loaded_settings).values())
    for name, person in loaded_settings.people.items():
        more = person.role != "admin" and set(person.telegram) & set(telegram.admins)
        if more:
            found = Text(
                "{name} has the role {role}, and an id of theirs is in telegram.admins too",
                name=name,
                role=person.role,
            )
            fix = Text("The section of the person counts. Remove the id from telegram.admins.")
            return Check("people", "warning", found, fix)
        if not person.telegram and not person.mail and not person.matrix:
            found = Text(
                "{name} has no Telegram id, no mail address and no Matrix user, so nobody is that person",
                name=name,
            )
            return Check(
                "people", "warning", found, Text("Set people.{name}.telegram in config.toml.", name=name)
            )
    counts = ", ".join(f"{role}: {many}" for role, many in sorted(roles.items()))
    return Check("people", "ok", counts or Text("only you"))


SHORT_SECRET = 16
"""A secret with fewer characters can be guessed."""


def _triggers(loaded: Loaded) -> list[Check]:
    """Check the triggers and their secrets; return nothing if there are none."""
    from rumi.channels.triggers.triggers import triggers_of

    triggers, bots = triggers_of(loaded), any(loaded.bots().values())
    for trigger in triggers.values():
        if trigger.flaw is not None:
            return [Check("triggers", "warning", trigger.flaw.message, trigger.flaw.advice)]
        if trigger.secret is not None and len(trigger.secret.reveal().strip()) < SHORT_SECRET:
            found = Text("the secret of the trigger {name} is short, and can be guessed", name=trigger.name)
            return [Check("triggers", "warning", found, Text("Make a longer one: openssl rand -hex 32"))]
        chat = trigger.section.chat
        if not bots and TELEGRAM.owns(chat):
            found = Text(
                "the trigger {name} answers in the chat {chat}, and there is no Telegram bot",
                name=trigger.name,
                chat=chat,
            )
            fix = Text("Put TELEGRAM_TOKEN=… into .env, or choose another chat, such as cli.")
            return [Check("triggers", "warning", found, fix)]
    where = loaded.settings.telegram.listen or LISTEN
    requests = [trigger.path for trigger in triggers.values() if trigger.section.secret is not None]
    mails = [name for name, trigger in triggers.items() if trigger.section.mail is not None]
    if mails:
        found = Text("new mails are events of: {names}", names=", ".join(mails))
    elif requests:
        found = Text("rumi serve takes events at {where}: {paths}", where=where, paths=", ".join(requests))
    else:
        found = Text("only rumi schedule trigger hands events in: {names}", names=", ".join(triggers))
    return [Check("triggers", "ok", found)] if triggers else []


def _search(loaded: Loaded, file: str) -> Check:
    secrets, wanted = loaded.secrets, loaded.settings.search.provider
    keys = {"tavily": secrets.tavily_api_key, "kagi": secrets.kagi_api_key or secrets.kagi_session_token}
    if wanted in keys and keys[wanted] is None:
        found = Text("search.provider is {wanted}, and its key is missing", wanted=wanted)
        fix = Text(
            "Put {provider}_API_KEY=… into {file}, or set search.provider to auto.",
            provider=wanted.upper(),
            file=file,
        )
        return Check("search", "failure", found, fix)
    asked = [name for name, key in keys.items() if key and wanted in ("auto", name)]
    return Check("search", "ok", ", ".join([*asked, "ddgs"]))


def _reader(loaded: Loaded, file: str) -> Check:
    if loaded.settings.fetch.reader == "own":
        return Check("pages", "ok", Text("Rumi reads the pages itself"))
    if loaded.secrets.tabstack_api_key is None:
        found = Text("fetch.reader is tabstack, and its key is missing.")
        fix = Text("Put TABSTACK_API_KEY=… into {file}, or set fetch.reader to own.", file=file)
        return Check("pages", "failure", found, fix)
    return Check("pages", "ok", Text("Tabstack reads the pages, and gets their addresses"))


def voice(loaded: Loaded) -> Check:
    """Check the servers for recordings, speech and images: their addresses and keys."""
    from rumi.models.media import build_media, images_at, speech_at, transcription_at

    addresses = (transcription_at(loaded), speech_at(loaded), images_at(loaded))
    try:
        for at in addresses:
            if at is not None and at.fault is not None:
                raise at.fault
        build_media(loaded)
    except RumiError as error:
        return Check("voice", "failure", error.message, error.advice)
    hears, speaks, draws = (Text("none") if at is None else at.host for at in addresses)
    return Check(
        "voice",
        "ok",
        Text(
            "recordings: {hears}; speech: {speaks}; images: {draws}", hears=hears, speaks=speaks, draws=draws
        ),
    )


async def browser(loaded: Loaded) -> list[Check]:
    """Check that the browser starts, and that its passwords are there."""
    from rumi.app.parts.browser import browser_settings_of
    from rumi.web.browser.trying import try_browser

    settings = browser_settings_of(loaded)
    try:
        for password in settings.passwords.values():
            if password.fault is not None:
                raise password.fault
        found = await try_browser(settings)
    except RumiError as error:
        return [Check("browser", "failure", error.message, error.advice)]
    return [Check("browser", "ok", Text("{browser} starts in its sandbox", browser=found))]


def mcp(home: Home, loaded: Loaded) -> list[Check]:
    """Check that each MCP server's command and variables exist; warn of unsafe settings. Blocking."""
    return [_checked(home, server) for server in mcp_settings_of(loaded)]


def _checked(home: Home, server: ServerSettings) -> Check:
    name, section = f"mcp {server.name}", server.section
    try:
        if server.fault is not None:
            raise server.fault
        hidden = hidden_folders(server, home.root)
        if section.command:
            started(section)
        login = StoredLogins(home.root).of(server)
    except RumiError as error:
        return Check(name, "failure", error.message, error.advice)
    if section.command and not section.sandbox:
        found = Text(
            "{name} runs without a sandbox and can read and change all that this user can", name=server.name
        )
        if section.hosts:
            found = Text("{name} runs without a sandbox, so its hosts limit nothing", name=server.name)
        return Check(
            name, "warning", found, Text("In config.toml: [mcp.{name}] sandbox = true", name=server.name)
        )
    if section.url.startswith("http://") and server.headers and "//127.0.0.1" not in section.url:
        found = Text("{name} gets its headers over http, which others may read on the way", name=server.name)
        return Check(name, "warning", found, Text("Use https."))
    about_login = None if login is None else _login(server.name, login)
    if about_login is not None and about_login.verdict != "ok":
        return about_login
    if hidden:
        found = Text(
            "{name} names {path}, which its sandbox does not have", name=server.name, path=hidden[0].path
        )
        return Check(name, "warning", found, advice(hidden[0], server.name))
    return _left_out(home, server) or about_login or Check(name, "ok", _reach(server))


def _login(server: str, login: ServerLogin) -> Check:
    """Return the finding about the login at a server."""
    name, advice = f"mcp {server}", Text("Log in with: rumi mcp login {name}", name=server)
    if login.ended:
        return Check(name, "warning", Text("the login at {name} has ended", name=server), advice)
    if login.refresh or login.expires is None:
        return Check(name, "ok", Text("logged in to {name}; Rumi renews the login by itself", name=server))
    if login.expires < time.time():
        return Check(name, "warning", Text("the login at {name} has ended", name=server), advice)
    return Check(name, "ok", Text("logged in to {name} until {until}", name=server, until=utc(login.expires)))


def _reach(server: ServerSettings) -> Text:
    """Return what a server may reach."""
    section = server.section
    if section.url or not section.sandbox:
        return Text("configured; rumi mcp test {name} tries it", name=server.name)
    if section.network:
        return Text("all of the network, this machine too; rumi mcp test {name} tries it", name=server.name)
    if not section.hosts:
        return Text("no network; rumi mcp test {name} tries it", name=server.name)
    hosts = ", ".join(section.hosts)
    return Text("reaches {hosts}; rumi mcp test {name} tries it", name=server.name, hosts=hosts)


def _left_out(home: Home, server: ServerSettings) -> Check | None:
    """Return a warning about the tools that models did not get when the server last ran."""
    name = f"mcp {server.name}"
    try:
        pin = AcceptedTools(home.root).of(server)
    except RumiError as error:
        return Check(name, "failure", error.message, error.advice)
    if pin is None or not pin.left_out:
        return None
    tools = "; ".join(f"{flat(tool)}: {flat(why)}" for tool, why in [*pin.left_out.items()][:MOST_LEFT_OUT])
    found = Text("tools withheld ({count}): {tools}", count=len(pin.left_out), tools=tools)
    return Check(name, "warning", found, Text("To see why: rumi mcp test {name}", name=server.name))


def mail_channel(loaded: Loaded) -> list[Check]:
    """Check that Rumi's own mailbox can answer, and that somebody may write to it; nothing without one."""
    found = channel_mailbox(loaded.settings)
    addresses = {address for person in loaded.settings.people.values() for address in person.mail}
    if found is None:
        if not addresses:
            return []
        said = Text("people have mail addresses, and no mailbox is Rumi's own")
        fix = Text("Run rumi setup, or set mail.NAME.channel = true for one.")
        return [Check("mail channel", "warning", said, fix)]
    name, box = found
    if box.smtp is None:
        said = Text("{address} cannot answer: it has no server for sending", address=box.address)
        return [Check("mail channel", "failure", said, Text("Set mail.{name}.smtp.", name=name))]
    if not addresses:
        said = Text("nobody may write to {address}", address=box.address)
        fix = Text('Put addresses into config.toml: [people.NAME] mail = ["…"]')
        return [Check("mail channel", "warning", said, fix)]
    if box.address.lower() in {address.lower() for address in addresses}:
        said = Text("{address} is Rumi's own: mails from there are never answered", address=box.address)
        return [Check("mail channel", "warning", said, Text("Remove it from [people]."))]
    said = Text(
        "{address} answers mails of {count} address",
        many="{address} answers mails of {count} addresses",
        count=len(addresses),
        address=box.address,
    )
    return [Check("mail channel", "ok", said)]
