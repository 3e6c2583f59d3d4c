"""Telegram's Bot API: opening the bot, the bot's identity, and descriptions of errors.

Every URL of the API contains the bot's token. So texts about a request, written by a server or a library, are
never passed on unchanged.
"""

import re
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import trio
from telegram import Bot
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from rumi.channels.telegram.api.guarded import NO_ANSWER, GuardedHTTP, one_line
from rumi.errors import ConfigError, RumiError
from rumi.platform import http
from rumi.platform.redact import Redactor
from rumi.texts import Text

OFFICIAL: Final = "https://api.telegram.org"

POLL_CONNECTIONS: Final = 4
"""Maximum connections for polling: one for the current poll, the others for abandoned polls that are still
open.
"""

CALL_CONNECTIONS: Final = 512
"""Maximum connections for calls: each chat with a running turn may have a preview, a typing action and an
upload in progress.
"""

CALL_WAIT_S: Final = 60.0
"""Maximum time that a call waits for a connection, in seconds. Telegram slows a busy bot down, so some calls
must wait.
"""

VARIABLE: Final = "TELEGRAM_TOKEN"
"""Name of the environment variable that contains the first bot's token."""

_TOKEN: Final = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_ADVICE: Final = (
    "Set {variable} to the token that @BotFather gave you; TELEGRAM_BASE_URL, if it is set, has to be"
    " the root of a Bot API server."
)
_KEYS_LEFT = Redactor([])


class TokenRefused(ConfigError):
    """Telegram does not know the token. `variable` names the environment variable that contains the token."""

    def __init__(self, variable: str = VARIABLE, message: str = "") -> None:
        refused = Text("the bot's token") if variable == VARIABLE else variable
        super().__init__(
            message or "Telegram does not accept {refused}.",
            _ADVICE,
            refused=refused,
            variable=variable,
        )


@dataclass(frozen=True, slots=True)
class Me:
    """The bot's identity. `username` has no @, and is empty if Telegram sent none.

    `reads_groups` is False if Telegram keeps from the bot the messages of groups that are not addressed to it
    (its "privacy mode"). A bot that is an admin of a group gets all messages there.
    """

    id: int
    username: str
    reads_groups: bool = False


@asynccontextmanager
async def open_bot(
    token: str, base_url: str | None = None, *, variable: str = VARIABLE
) -> AsyncIterator[Bot]:
    """Open a bot that can be used until the `with` block ends. Opening sends no request to Telegram.

    `base_url` is the root of a Bot API server, by default the official one. `variable` names the environment
    variable that contains the token. `rumi.platform.http` describes proxies and certificates. Closing the bot
    takes a limited time, even when cancelled.

    Raises:
        TokenRefused: The token is malformed.
        ConfigError: `base_url` is not the URL of a server.
        SetupError: The proxy or the certificates of the environment cannot be used.
    """
    if _TOKEN.fullmatch(token) is None:
        raise TokenRefused(variable, "{variable} is not a Telegram bot's token.")
    root = _root(base_url)
    trusted = await http.Tls().context()

    def settings(connections: int) -> dict[str, Any]:
        return http.settings(trusted, limits=httpx.Limits(max_connections=connections))

    # Two pools, so that calls that fill theirs never keep the poll from a connection.
    polls = GuardedHTTP(
        connection_pool_size=POLL_CONNECTIONS,
        pool_timeout=CALL_WAIT_S,
        connect_timeout=10.0,
        read_timeout=30.0,
        write_timeout=10.0,
        httpx_kwargs=settings(POLL_CONNECTIONS),
    )
    calls = GuardedHTTP(
        connection_pool_size=CALL_CONNECTIONS,
        pool_timeout=CALL_WAIT_S,
        connect_timeout=10.0,
        read_timeout=30.0,
        write_timeout=20.0,
        media_write_timeout=60.0,
        httpx_kwargs=settings(CALL_CONNECTIONS),
    )
    try:
        # Functions, because the library would replace {token} in a string.
        bot = Bot(
            token,
            base_url=lambda token: f"{root}/bot{token}",
            base_file_url=lambda token: f"{root}/file/bot{token}",
            request=calls,
            get_updates_request=polls,
        )
        with trio.fail_after(http.CLOSE_S):
            await polls.initialize()
            await calls.initialize()
        yield bot
    finally:
        with trio.move_on_after(http.CLOSE_S, shield=True):
            async with trio.open_nursery() as closing:
                closing.start_soon(polls.shutdown)
                closing.start_soon(calls.shutdown)


def _root(base_url: str | None) -> str:
    """Return the URL of the server without a trailing slash."""
    root = (base_url or OFFICIAL).strip().rstrip("/")
    try:
        parts = urlsplit(root)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        usable = usable and not parts.query and not parts.fragment and parts.port != 0
        httpx.URL(root)
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise ConfigError(
            "TELEGRAM_BASE_URL is not the address of a server.", "It looks like: http://127.0.0.1:8081"
        )
    return root


async def introduce(bot: Bot, variable: str = VARIABLE) -> Me:
    """Ask Telegram for the bot's identity; `variable` names the environment variable with the token.

    Raises:
        TokenRefused: Telegram does not know the token, or there is no Bot API at that URL.
        TelegramError: Another error occurred; a new attempt may succeed.
    """
    try:
        user = await bot.get_me()
        if type(user.id) is not int:
            raise TypeError
    except InvalidToken:
        raise TokenRefused(variable) from None
    except (TypeError, AttributeError):  # the response was not a user
        raise NetworkError(NO_ANSWER) from None
    username = user.username if isinstance(user.username, str) else ""
    return Me(user.id, username, user.can_read_all_group_messages is True)


async def ask_who(token: str, base_url: str | None) -> Me:
    """Ask Telegram once for the bot's identity.

    Raises:
        ConfigError: Telegram does not know the token, or `base_url` is not the URL of a server.
        RumiError: Telegram does not answer. No error contains the token.
    """
    async with open_bot(token, base_url) as bot:
        try:
            return await introduce(bot)
        except TelegramError as error:
            words = in_words(error)
    raise RumiError(
        "{words}.", "Try again; if that does not help, check the network and its proxy.", words=words
    )


def wait_of(error: RetryAfter) -> float:
    """Return the number of seconds for which Telegram asks the bot to wait."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library announces that the type of this will change
        wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def in_words(error: BaseException) -> str:
    """Describe an error in one sentence, without the final full stop, for users and for `rumi status`.

    The description never contains the token. It contains no text from a server except Telegram's error
    description.
    """
    match error:
        case RetryAfter():
            return Text("Telegram asks the bot to wait for {error} s", error=f"{wait_of(error):.0f}")
        case TimedOut():
            return Text("Telegram did not answer in time")
        case InvalidToken():
            return Text("Telegram does not accept the bot's token")
        # A conflict has one of two causes, which need different advice: another poller, or a webhook.
        case Conflict() if not about_webhook(error):
            return Text("another program polls with this bot's token")
        case ChatMigrated():
            return Text("the group has become a supergroup")
        case Forbidden() | BadRequest() | Conflict():
            return Text("Telegram refuses: {message}", message=_cleaned(error.message))
        case NetworkError() if error.__cause__ is not None:
            return Text("Telegram cannot be reached ({name})", name=type(error.__cause__).__name__)
        case NetworkError():
            return Text("Telegram has a problem: {message}", message=_cleaned(error.message))
        case TelegramError():
            return _cleaned(error.message)
        case _:
            return type(error).__name__


def _cleaned(text: str) -> str:
    return _KEYS_LEFT.text(one_line(text)).rstrip(".")


def about_webhook(error: Conflict) -> bool:
    """Return True if a registered webhook caused the conflict; False if another program's polling did."""
    return "webhook" in error.message.lower()
