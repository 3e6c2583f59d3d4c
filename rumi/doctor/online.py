"""What only servers know: whether keys are taken, and what time it is. Asked where a person wants it."""

import time
from email.utils import parsedate_to_datetime
from functools import partial

from rumi.config import Loaded
from rumi.doctor.check import Check, bounded
from rumi.doctor.machine import SET_CLOCK

CLOCK_OFF_S = 60.0
"""More than an answer may be on its way, less than what certificates forgive."""


async def online(loaded: Loaded) -> list[Check]:
    """One short call of the model, the bot's own name, and a server's clock."""
    checks = await bounded("model online", partial(_model, loaded))
    if loaded.secrets.telegram_token is not None:
        checks += await bounded("telegram online", partial(_telegram, loaded))
    return checks


async def _model(loaded: Loaded) -> list[Check]:
    from rumi.models import Message, ModelRequest, build_models, lacks_key
    from rumi.settings import model_settings_of

    given = model_settings_of(loaded, "en")
    if lacks_key(given):
        return [Check("model online", "ok", "there is no key that could be tried")]
    models = build_models(given)
    if not models.servers:
        return [Check("model online", "ok", "the offline model is here")]
    try:
        began = time.monotonic()
        first = models.steps[0].model
        await first.reply(ModelRequest((Message("user", "Answer with one word: ready."),)), lambda _: None)
        answered = Check("model online", "ok", f"{models.name} answered in {time.monotonic() - began:.1f} s")
        return [answered, *await clock(models.servers[0].base_url)]
    finally:
        await models.aclose()


async def clock(url: str) -> list[Check]:
    """This machine's clock beside a server's. A server that does not say is no finding."""
    import httpx

    local = ("all://localhost", "all://127.0.0.1", "all://[::1]")
    try:
        async with (
            httpx.AsyncClient(timeout=10, mounts=dict.fromkeys(local)) as client,
            client.stream("GET", url) as answer,  # for its headers alone
        ):
            theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError, TypeError):
        return []
    off = time.time() - theirs
    if abs(off) > CLOCK_OFF_S:
        way = "ahead of" if off > 0 else "behind"
        return [Check("clock online", "failure", f"{abs(off):.0f} s {way} the model server's", SET_CLOCK)]
    return [Check("clock online", "ok", "as the model server's, to the minute")]


async def _telegram(loaded: Loaded) -> list[Check]:
    from rumi.telegram import bot_name

    token = loaded.secrets.telegram_token
    assert token is not None
    name = await bot_name(token.reveal(), loaded.secrets.telegram_base_url)
    return [Check("telegram online", "ok", f"Telegram knows the bot as @{name}")]
