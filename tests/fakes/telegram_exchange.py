"""One call of a bot's with all that may happen to it on its way, for every transport."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio

from tests.fakes.bot_api import Answer, BotApi
from tests.fakes.bot_api_faults import (
    Broken,
    Doubled,
    Error,
    Fault,
    Flood,
    Late,
    Redelivered,
    Reset,
    Shuffled,
    Silent,
    Slow,
    Truncated,
)
from tests.fakes.bot_api_updates import Poll
from tests.fakes.bot_api_world import Upload

_PHRASES = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    500: "Internal Server Error",
}


class ConnectionLost(Exception):
    """The connection is reset before there is an answer."""


async def exchange(
    api: BotApi, method: str, params: Mapping[str, Any], files: Mapping[str, Upload] | None = None
) -> Answer:
    """Do a call. Cancelled, a long poll is over; `ConnectionLost` where a fault says so."""
    chat = params.get("chat_id")
    fault = api.faults.choose(method, int(chat) if str(chat).lstrip("-").isdigit() else None)
    if fault is None:
        return await _done(api, api.handle(method, params, files))
    if isinstance(fault, Redelivered):
        api.updates.redeliver(fault.number)
        # The offset of this very request would confirm them again.
        params = {name: value for name, value in params.items() if name != "offset"}
    return await _faulty(api, fault, partial(api.handle, method, params, files))


async def download(api: BotApi, path: str) -> Answer:
    """Fetch a file. For faults its method is "download"."""
    fault = api.faults.choose("download", None)
    if fault is None:
        return api.download(path)
    return await _faulty(api, fault, partial(api.download, path))


async def _faulty(api: BotApi, fault: Fault, do: Callable[[], Answer | Poll]) -> Answer:
    match fault:
        case Flood(retry_after):
            text = f"Too Many Requests: retry after {retry_after}"
            body = {
                "ok": False,
                "error_code": 429,
                "description": text,
                "parameters": {"retry_after": retry_after},
            }
            return Answer(429, body)
        case Broken(status):
            page = f"<html>\r\n<head><title>{status}</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
            return Answer(status, None, page.encode(), "text/html")
        case Error(status, description):
            text = description or _PHRASES.get(status, "Error")
            return Answer(status, {"ok": False, "error_code": status, "description": text})
        case Reset(after=False):
            raise ConnectionLost
        case Silent(after=False):
            await trio.sleep_forever()
        case Late(seconds):
            delayed = api.delay(seconds, do)
            await trio.sleep(seconds)
            api.catch_up()
            assert delayed.answer is not None
            return await _done(api, delayed.answer)
    done = do()
    if isinstance(fault, Reset | Silent) and isinstance(done, Poll):
        api.abandon(done)
    if isinstance(fault, Reset):
        raise ConnectionLost
    if isinstance(fault, Silent):
        await trio.sleep_forever()
    answer = await _done(api, done)
    if isinstance(fault, Slow):
        await trio.sleep(fault.seconds)
    if isinstance(fault, Truncated):
        whole = answer.bytes()
        return Answer(answer.status, None, whole[: len(whole) // 2])
    if isinstance(fault, Shuffled | Doubled) and answer.body is not None and answer.status == 200:
        batch = list(answer.body["result"])
        if isinstance(fault, Shuffled):
            api.random.shuffle(batch)
        else:
            batch = batch[:1] + batch
        return Answer(200, {"ok": True, "result": batch})
    return answer


async def _done(api: BotApi, done: Answer | Poll) -> Answer:
    if isinstance(done, Answer):
        return done
    event = trio.Event()
    done.wake = event.set
    try:
        if not done.ready:
            with trio.move_on_after(done.timeout_s):
                await event.wait()
    except BaseException:
        api.abandon(done)
        raise
    return api.finish(done)


async def until(api: BotApi, condition: Callable[[], bool]) -> None:
    """Wait until something holds, looking again whenever anything happens on this Telegram, at most a day."""
    if condition():
        return
    event = trio.Event()

    def look() -> None:
        if condition():
            event.set()

    api.on_change.append(look)
    try:
        with trio.fail_after(86_400):  # in virtual time; otherwise a wrong word would be waited for forever
            await event.wait()
    finally:
        api.on_change.remove(look)
