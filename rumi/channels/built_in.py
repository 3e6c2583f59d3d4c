"""The registrations of Rumi's own channels. Each channel is imported only if it is wanted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rumi.channels.registration import ChannelPlugin, Serving
from rumi.texts import gettext, translate

if TYPE_CHECKING:
    from rumi.channels.channel import Channel
    from rumi.channels.page import PageChannel

API: Final = "1.0"

LISTEN: Final = "127.0.0.1:8443"
"""Default address of the listener if there is a webhook, or a trigger that takes requests."""


def _page_at(serving: Serving) -> str:
    return (serving.flags.web if serving.flags.web is not None else serving.loaded.settings.serve.web) or ""


def _page_wanted(serving: Serving) -> bool:
    return bool(_page_at(serving))


@contextmanager
def _page(serving: Serving) -> "Iterator[tuple[PageChannel, ...]]":
    from rumi.platform.extras import MissingExtra, require_extra

    require_extra("page")
    from rumi.channels.page import PageChannel, open_entrance
    from rumi.channels.page.address import public_origin

    where, loaded, language = _page_at(serving), serving.loaded, serving.language
    sessions = serving.home.run / "page-sessions.json"
    auto = loaded.settings.language == "auto"
    url = loaded.settings.page.url
    public = "" if url is None else public_origin(url)
    with open_entrance(where, language, serving.say, sessions, ask_browsers=auto, public=public) as entrance:
        endpoint = None
        try:
            endpoint = serving.endpoint()
        except MissingExtra as error:  # only for programs; people use the page without it
            serving.say(translate(language, error.text))
        if endpoint is not None:
            at = f"{entrance.address.url}{endpoint.path}"
            serving.say(gettext(language, "Programs may ask by MCP at {where}, with MCP_TOKEN.", where=at))
        yield (PageChannel(entrance, endpoint),)


def _telegram_wanted(serving: Serving) -> bool:
    if serving.flags.telegram is not None:
        return serving.flags.telegram
    telegram = serving.loaded.settings.telegram
    return any((*serving.loaded.bots().values(), telegram.bots, telegram.webhook))


@contextmanager
def _telegram(serving: Serving) -> "Iterator[Sequence[Channel]]":
    from rumi.channels.telegram import Telegram

    webhook = serving.loaded.settings.telegram.webhook
    yield tuple(Telegram(webhook, name) for name in serving.loaded.bots())


def _mail_wanted(serving: Serving) -> bool:
    from rumi.platform.config.people import channel_mailbox

    return serving.flags.others and channel_mailbox(serving.loaded.settings) is not None


@contextmanager
def _mail(serving: Serving) -> "Iterator[Sequence[Channel]]":
    from rumi.channels.mail.channel import MailChannel
    from rumi.platform.extras import require_extra

    require_extra("mail")
    yield (MailChannel(),)


def _matrix_wanted(serving: Serving) -> bool:
    return serving.flags.others and bool(serving.loaded.settings.matrix)


@contextmanager
def _matrix(serving: Serving) -> "Iterator[Sequence[Channel]]":
    from rumi.platform.extras import require_extra

    require_extra("matrix")
    from rumi.channels.matrix.channel import MatrixChannel

    yield tuple(MatrixChannel(name) for name in serving.loaded.settings.matrix)


def _listener_wanted(serving: Serving) -> bool:
    return serving.flags.others


@contextmanager
def _listener(serving: Serving) -> "Iterator[Sequence[Channel]]":
    """Open the listener for webhooks and health probes; yield nothing if no address is needed."""
    settings = serving.loaded.settings
    takers = [taker for channel in serving.opened for taker in channel.deliveries_taken()]
    events = any(trigger.secret is not None for trigger in settings.triggers.values())
    where = settings.telegram.listen or (LISTEN if takers or events else None)
    if where is None:
        yield ()
        return
    from rumi.platform.extras import require_extra

    require_extra("page")
    from rumi.channels.http.listener import open_listener

    with open_listener(where, serving.language, takers) as listener:
        yield (listener,)


BUILT_IN: Final[Mapping[str, ChannelPlugin]] = {
    "page": ChannelPlugin(api=API, open=_page, wanted=_page_wanted, writers="owner"),
    "telegram": ChannelPlugin(api=API, open=_telegram, wanted=_telegram_wanted),
    "mail": ChannelPlugin(api=API, open=_mail, wanted=_mail_wanted),
    "matrix": ChannelPlugin(api=API, open=_matrix, wanted=_matrix_wanted),
}
"""Rumi's own channels by name, in the order in which they are opened."""

LISTENER: Final = ChannelPlugin(api=API, open=_listener, wanted=_listener_wanted, writers="nobody")
"""The listener is opened after all other channels, because it takes their deliveries."""
