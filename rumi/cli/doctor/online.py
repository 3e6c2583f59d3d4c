"""Checks of the API keys and the clock that call servers. They run only with the option `--online`."""

import time
import wave
from email.utils import parsedate_to_datetime
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

from rumi.cli.doctor.check import Check, Examination
from rumi.cli.doctor.machine import SET_THE_CLOCK
from rumi.platform import http
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import read_keys
from rumi.platform.config.groups import Groups
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.models.token_budget import TokenBudget

CLOCK_OFF_S = 60.0
"""Maximum difference, in seconds, between this machine's clock and a server's.

It is longer than a response takes, and shorter than the tolerance of certificates.
"""


async def online(examination: Examination, loaded: Loaded) -> None:
    """Make one short model call, ask Telegram for the bot's name, and compare the clock with a server's.

    If servers of the user's own hear or speak, also send a second of silence, and have a word spoken. Log in
    at the servers of each mailbox and of each Matrix account.
    """
    await examination.look("model online", partial(_model, loaded))
    # Each has a look of its own: the fault of one server says nothing of the other.
    if loaded.settings.voice.server is not None:
        await examination.look("voice online", partial(_hears, loaded))
    if loaded.settings.voice.speech_server is not None:
        await examination.look("voice online", partial(_speaks, loaded))
    if any(loaded.bots().values()):
        await examination.look("telegram online", partial(_telegram, loaded))
    if loaded.settings.matrix:
        from rumi.cli.doctor.matrix import homeservers

        await homeservers(examination, loaded)
    if loaded.settings.mail:
        from rumi.cli.doctor.mail import mailboxes

        await mailboxes(examination, loaded)


async def _model(loaded: Loaded) -> list[Check]:
    from rumi.models.build import build_models
    from rumi.models.settings import lacks_key, model_settings_of
    from rumi.models.trying import try_out

    model_settings = model_settings_of(await read_keys(loaded), "en")
    if lacks_key(model_settings):
        return [Check("model online", "ok", Text("there is no key that could be tried"))]
    models = build_models(model_settings)
    if not models.servers:
        return [Check("model online", "ok", Text("the offline model is here"))]
    try:
        answered = Text(
            "{name} answered in {models} s", name=models.name, models=f"{await try_out(models):.1f}"
        )
        return [
            Check("model online", "ok", answered),
            *_plan(models.steps[0].budget),
            *await clock(next(iter(models.servers)).base_url),
        ]
    finally:
        await models.aclose()


def _plan(budget: "TokenBudget") -> list[Check]:
    """Report the account's limit on tokens per minute if it is smaller than the model's context."""
    if not budget.small_plan:
        return []
    found = Text(
        "the plan allows {a_minute} tokens a minute: long pages and results are cut to that",
        a_minute=budget.a_minute,
    )
    return [Check("plan online", "ok", found)]


async def clock(url: str) -> list[Check]:
    """Compare this machine's clock with a server's; no finding if the server sends no answer or no date."""
    import httpx

    try:
        async with (
            await http.client(http.plain, http.Tls(), timeout=10) as client,
            client.stream("GET", url) as answer,  # only for its headers
        ):
            theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (http.SetupError, httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError, TypeError):
        return []
    off = time.time() - theirs
    if abs(off) > CLOCK_OFF_S:
        seconds = f"{abs(off):.0f}"
        found = (
            Text("{seconds} s ahead of the model server's", seconds=seconds)
            if off > 0
            else Text("{seconds} s behind the model server's", seconds=seconds)
        )
        return [Check("clock online", "failure", found, SET_THE_CLOCK)]
    return [Check("clock online", "ok", Text("as the model server's, to the minute"))]


async def _hears(loaded: Loaded) -> list[Check]:
    from rumi.models.media import build_media

    media = build_media(await read_keys(loaded))
    try:
        if media.transcriber is None:
            return []
        await media.transcriber.transcribe("silence.wav", _silence())
        return [Check("voice online", "ok", Text("the server transcribes"))]
    finally:
        await media.aclose()


async def _speaks(loaded: Loaded) -> list[Check]:
    from rumi.models.media import build_media

    media = build_media(await read_keys(loaded))
    try:
        if media.speaker is None:
            return []
        speech = await media.speaker.speak("Rumi.")
        return [Check("voice online", "ok", Text("the server speaks, as {format}", format=speech.format))]
    finally:
        await media.aclose()


def _silence() -> bytes:
    """Return a WAV file with one second of silence, which every transcription server reads."""
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes(bytes(32_000))
    return file.getvalue()


async def _telegram(loaded: Loaded) -> list[Check]:
    from rumi.channels.telegram import ask_who
    from rumi.platform.texts import telegram as telegram_texts

    tokens = [token for token in loaded.bots().values() if token is not None]
    bots = [await ask_who(token.reveal(), loaded.secrets.telegram_base_url) for token in tokens]
    hears_all = Groups(loaded.settings.groups).any_hears_all
    return [
        Check("telegram online", "ok", Text("Telegram knows the bot as @{name}", name=bot.username))
        if bot.reads_groups or not hears_all
        else Check(
            "telegram online",
            "warning",
            telegram_texts.deaf_in_groups(bot.username),
            telegram_texts.HEAR_ALL,
        )
        for bot in bots
    ]
