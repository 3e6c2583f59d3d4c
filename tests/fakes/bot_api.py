"""Telegram's Bot API as a state machine without sockets, tasks or a clock of its own.

`BotApi` outlives the bots that talk to it: a test may kill and restart its bot, while people go on writing.
`telegram_request` gives it to a `telegram.Bot` under virtual time, `telegram_server` over HTTP.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from tests.fakes.bot_api_account import Account
from tests.fakes.bot_api_faults import Faults
from tests.fakes.bot_api_messages import Messages
from tests.fakes.bot_api_params import Params
from tests.fakes.bot_api_people import People
from tests.fakes.bot_api_rates import Limits, Rates
from tests.fakes.bot_api_updates import Poll
from tests.fakes.bot_api_world import Json, Refused, Upload

TOKEN = "7000000001:AAtest-token_0123456789abcdefghijkl"
_WELL_FORMED = re.compile(r"[0-9]{3,}:[A-Za-z0-9_-]{35,}")


@dataclass(slots=True)
class Answer:
    """What comes back: a JSON body, or `raw` bytes of another media type."""

    status: int
    body: Json | None
    raw: bytes = b""
    media_type: str = "application/json"

    def bytes(self) -> bytes:
        return self.raw if self.body is None else json.dumps(self.body).encode()


@dataclass(slots=True)
class Call:
    """A call of the bot's. `status` is 0 as long as it has no answer."""

    time: float
    method: str
    chat: int | None
    params: Mapping[str, Any]
    status: int = 0
    error: str = ""


@dataclass(slots=True, order=True)
class Delayed:
    """A call that is done at its time, whoever still waits for it."""

    due: float
    number: int
    run: Callable[[], Answer | Poll] = field(compare=False)
    answer: Answer | Poll | None = field(default=None, compare=False)


class BotApi(People):
    """What a bot may call is `handle`; what people do and what a test reads is `People` and the attributes.

    `rates.refused` lists the 429s that the bot earned, `faults` what goes wrong on demand, `calls` all calls
    (with `keep_calls` so many of the last). `drafts=False`: there is no such method as sendMessageDraft;
    `empty_drafts`: a draft may be empty. `privacy`: in groups the bot sees only what is meant for it.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        token: str = TOKEN,
        seed: int = 0,
        first_update: int = 500_000_000,
        limits: Limits | None = None,
        drafts: bool = True,
        empty_drafts: bool = False,
        strict_nesting: bool = True,
        privacy: bool = False,
        keep_calls: int | None = None,
    ) -> None:
        super().__init__(now, seed=seed, first_update=first_update, privacy=privacy)
        self.token = token
        self.drafts = drafts
        self.rates = Rates(limits or Limits())
        self.faults = Faults(self.random, now)
        self.calls: deque[Call] = deque(maxlen=keep_calls)
        self.account = Account(self)
        self.messages = messages = Messages(
            self, self.rates, empty_drafts=empty_drafts, strict_nesting=strict_nesting
        )
        self._methods: dict[str, Callable[[Params], Any]] = {**messages.methods, **self.account.methods}
        self._names = {name.lower(): name for name in self._methods}
        self._delayed: list[Delayed] = []
        self._delays = count()
        self._waiting: dict[int, Call] = {}

    def wrong_token(self, token: str) -> Answer | None:
        """The answer for whoever calls with this token; None if it is the bot's."""
        if token == self.token:
            return None
        return _error(401, "Unauthorized") if _WELL_FORMED.fullmatch(token) else _error(404, "Not Found")

    def handle(
        self, method: str, params: Mapping[str, Any] | None = None, files: Mapping[str, Upload] | None = None
    ) -> Answer | Poll:
        """Do a call and answer it; a getUpdates with nothing to give is a `Poll`, ended by `finish`.

        `params` are texts as in a form, or JSON values.
        """
        if self._delayed:
            self.catch_up()
        params = params or {}
        call = Call(self.now(), method, _number(params.get("chat_id")), params)
        self.calls.append(call)
        work = self._methods.get(method)
        if work is None:
            method = self._names.get(method.lower(), "")
            work = self._methods.get(method)
        if work is None or (method == "sendMessageDraft" and not self.drafts):
            return self._refused(call, Refused(404, "Not Found"))
        try:
            result = work(Params(params, files or {}))
        except Refused as refused:
            return self._refused(call, refused)
        if isinstance(result, Poll):
            self._waiting[id(result)] = call
            self.changed()
            return result
        call.status = 200
        self.changed()
        return Answer(200, {"ok": True, "result": result})

    def finish(self, poll: Poll) -> Answer:
        """The answer to a long poll: what is there now."""
        call = self._waiting.pop(id(poll))
        try:
            result = poll.finish()
        except Refused as refused:
            return self._refused(call, refused)
        call.status = 200
        return Answer(200, {"ok": True, "result": result})

    def abandon(self, poll: Poll) -> None:
        """Whoever polled is gone."""
        poll.abandon()
        self._waiting.pop(id(poll), None)
        self.changed()

    def delay(self, seconds: float, run: Callable[[], Answer | Poll]) -> Delayed:
        """Do a call later, whatever becomes of the client: before the next one, or in `catch_up`."""
        delayed = Delayed(self.now() + seconds, next(self._delays), run)
        heappush(self._delayed, delayed)
        return delayed

    def catch_up(self) -> None:
        """Do the delayed calls whose time has come."""
        while self._delayed and self._delayed[0].due <= self.now():
            delayed = heappop(self._delayed)
            delayed.answer = delayed.run()

    def download(self, path: str) -> Answer:
        """A file's content, by the `file_path` of a getFile."""
        for file in self.files.values():
            if file.path == path:
                return Answer(200, None, file.content, "application/octet-stream")
        return _error(404, "Not Found")

    @property
    def confirmed(self) -> list[int]:
        """The numbers of the updates that the bot confirmed, in order."""
        return self.updates.confirmed

    @property
    def pending(self) -> list[int]:
        """The numbers of the updates that it has not."""
        return [update["update_id"] for _, update in self.updates.pending]

    def restart_ids(self, start: int | None = None) -> int:
        """The next update's number is another, lower one, as after a quiet week."""
        return self.updates.restart_ids(start)

    def _refused(self, call: Call, refused: Refused) -> Answer:
        call.status, call.error = refused.status, refused.description
        self.changed()
        return _error(refused.status, refused.description, refused.parameters)


def _error(status: int, description: str, parameters: Json | None = None) -> Answer:
    body: Json = {"ok": False, "error_code": status, "description": description}
    if parameters:
        body["parameters"] = parameters
    return Answer(status, body)


def _number(chat: Any) -> int | None:
    try:
        return int(chat)
    except (TypeError, ValueError):
        return None
