"""What only servers know: whether keys are taken, and what time it is. Asked where a person wants it."""

import time
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING

from rumi import http
from rumi.config import Loaded
from rumi.doctor.check import Check, Examination
from rumi.texts import Language
from rumi.texts import doctor as words
from rumi.texts import doctor_sandbox as server_words

if TYPE_CHECKING:
    from rumi.models import Room

CLOCK_OFF_S = 60.0
"""More than an answer may be on its way, less than what certificates forgive."""


async def online(examination: Examination, loaded: Loaded) -> None:
    """One short call of the model, the bot's own name, and a server's clock."""
    language = examination.language
    await examination.look("model online", partial(_model, loaded, language))
    if loaded.secrets.telegram_token is not None:
        await examination.look("telegram online", partial(_telegram, loaded, language))


async def _model(loaded: Loaded, language: Language) -> list[Check]:
    from rumi.models import Message, ModelRequest, build_models, lacks_key
    from rumi.settings import model_settings_of

    given = model_settings_of(loaded, language)
    if lacks_key(given):
        return [Check("model online", "ok", server_words.NOTHING_TO_TRY.said(language))]
    models = build_models(given)
    if not models.servers:
        return [Check("model online", "ok", server_words.OFFLINE.said(language))]
    try:
        began = time.monotonic()
        first = models.steps[0].model
        await first.reply(ModelRequest((Message("user", "Answer with one word: ready."),)), lambda _: None)
        took = f"{time.monotonic() - began:.1f}"
        answered = server_words.ANSWERED.said(language, model=models.name, seconds=took)
        return [
            Check("model online", "ok", answered),
            *_plan(models.steps[0].room, language),
            *await clock(models.servers[0].base_url, language),
        ]
    finally:
        await models.aclose()


def _plan(room: "Room", language: Language) -> list[Check]:
    """What the model's plan allows, where that is less than the model takes."""
    if not room.small_plan:
        return []
    return [Check("plan online", "ok", server_words.SMALL_PLAN.said(language, tokens=room.a_minute))]


async def clock(url: str, language: Language) -> list[Check]:
    """This machine's clock beside a server's. A server that does not say is no finding."""
    import httpx

    try:
        async with (
            await http.client(http.plain, http.Tls(), timeout=10) as client,
            client.stream("GET", url) as answer,  # for its headers alone
        ):
            theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (http.SetupError, httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError, TypeError):
        return []
    off = time.time() - theirs
    if abs(off) > CLOCK_OFF_S:
        way = (words.CLOCK_AHEAD if off > 0 else words.CLOCK_LATE).said(language)
        found = words.CLOCK_OFF.said(language, seconds=f"{abs(off):.0f}", way=way)
        return [Check("clock online", "failure", found, words.SET_CLOCK.said(language))]
    return [Check("clock online", "ok", words.CLOCK_SAME.said(language))]


async def _telegram(loaded: Loaded, language: Language) -> list[Check]:
    from rumi.telegram import bot_name

    token = loaded.secrets.telegram_token
    assert token is not None
    name = await bot_name(token.reveal(), loaded.secrets.telegram_base_url)
    return [Check("telegram online", "ok", server_words.KNOWN_BOT.said(language, name=name))]
