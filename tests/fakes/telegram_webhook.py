"""How Telegram delivers updates to a webhook: those of one chat in order, each until it gets a 200."""

from typing import Any

import httpx
import trio

from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Json

AT_ONCE = 40
AGAIN_S = 0.3
"""How soon what was refused without a Retry-After is delivered again."""


async def deliver(api: BotApi) -> None:
    """Deliver until cancelled, whenever the bot has a webhook. `api.account.answers` lists the statuses."""
    busy: set[object] = set()
    woken = trio.Event()

    def wake() -> None:
        woken.set()

    async def one(line: object, update: Json) -> None:
        account, pause_s = api.account, 0.0
        headers = {"X-Telegram-Bot-Api-Secret-Token": account.secret} if account.secret else {}
        try:
            answer = await client.post(account.webhook, json=update, headers=headers)
        except httpx.HTTPError as error:
            account.answers.append(0)
            account.last_error, pause_s = f"Connection failed: {type(error).__name__}", AGAIN_S
        else:
            account.answers.append(answer.status_code)
            if answer.is_success:
                api.updates.delivered(update["update_id"])
            else:
                account.last_error = f"Wrong response from the webhook: {answer.status_code}"
                pause_s = float(answer.headers.get("retry-after", AGAIN_S))
        await trio.sleep(pause_s)
        busy.discard(line)
        wake()

    api.on_change.append(wake)
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client, trio.open_nursery() as nursery:
            while True:
                woken = trio.Event()
                for _, update in list(api.updates.pending) if api.account.webhook else ():
                    line = _line(update)
                    if line not in busy and len(busy) < AT_ONCE:
                        busy.add(line)
                        nursery.start_soon(one, line, update)
                await woken.wait()
    finally:
        api.on_change.remove(wake)


def _line(update: Json) -> object:
    """What an update waits behind: earlier messages of its chat, or presses of its person."""
    found: Any = update.get("message")
    return ("chat", found["chat"]["id"]) if found else ("user", update["callback_query"]["from"]["id"])
