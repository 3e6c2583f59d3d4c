"""Turns of a person with a mailbox: real tools, journal, servers and gate, and a model that obeys mails."""

import html
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import trio

from rumi.agent.events import ConfirmationAsked, TurnFinished
from rumi.agent.tool import Tool
from rumi.agent.tools.mail_access import KnownMails, MailAccess
from rumi.agent.tools.mail_read import MailRead, MailSave
from rumi.agent.tools.mail_search import MailSearch
from rumi.agent.tools.mail_send import MailDraft, MailSend
from rumi.agent.tools.web_fetch import WebFetch
from rumi.chats.context import ChatView
from rumi.chats.events import Replied
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.threads import Threads
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import PlacedFile, place_file
from rumi.sandbox.workspace import prepare_workspace
from rumi.services.mail.client import Mailbox
from rumi.web.messages import Page
from rumi.web.readers.files.reading import Looks, ViewLimits
from tests.chats.house import Answer, House, house, limited
from tests.mail_servers import MailServers

ORDER = re.compile(r"!do (\w+) (\{.*?\})(?=\s|$)")


async def obedient(request: ModelRequest, emit: Emit) -> Reply:
    """Searches the mailbox, reads the newest mail, and does whatever stands there."""
    await trio.lowlevel.checkpoint()
    last = max(index for index, m in enumerate(request.messages) if m.role == "user")
    results = [m.content for m in request.messages[last:] if m.role == "tool"]
    if request.words_only:
        return Reply("done")
    if not results:
        return Reply("", (ToolCall("c0", "mail_search", '{"most": 1}'),))
    if len(results) == 1:
        found = re.search(r"- id (\S+)", results[0])
        assert found is not None, results
        return Reply("", (ToolCall("c1", "mail_read", json.dumps({"id": found[1]})),))
    said = "\n".join(results[:2]).replace("'", '"')  # headers are shown without double quotes
    orders = list(dict.fromkeys(ORDER.findall(html.unescape(re.sub(r"\\(.)", r"\1", said)))))
    if len(results) - 2 < len(orders):
        tool, arguments = orders[len(results) - 2]
        return Reply("", (ToolCall(f"c{len(results)}", tool, arguments),))
    return Reply("done")


@dataclass
class Owner:
    """A person who has a mailbox. `asked` are the questions so far, and `fetched` the addresses."""

    home: House
    mailbox: Mailbox
    workspace: Path
    asked: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    async def say(self, chat: str, text: str, answer: bool | None) -> str:
        """Say something, answer every question so, and return the final reply."""
        with self.home.services.hub.listening(chat) as events, trio.fail_after(120):
            number = await self.home.inbox.accept(chat, text)
            while True:
                what = (await events.receive()).what
                if isinstance(what, ConfirmationAsked):
                    self.asked.append(what.whole or what.text)
                    assert answer is not None, what.text
                    assert await self.home.inbox.chats.answer(chat, what.id, answer)
                if isinstance(what, TurnFinished):
                    assert what.reason == "complete", what
                if isinstance(what, Replied) and number in what.messages:
                    return what.text


def access(
    box: Mailbox, view: ChatView, ask: Any, workspace: Path, known: KnownMails | None = None
) -> MailAccess:
    """Return the mailbox as the tools of a turn get it."""

    async def save(path: str, body: bytes, suggested: str) -> PlacedFile:
        await view.touch_files()
        await view.mark_files_tainted()
        limits = SandboxLimits()
        return place_file(
            workspace,
            path,
            BytesIO(body),
            suggested=suggested,
            user=(0, 0),
            limits=limits,
            max_bytes=len(body) + 1,
        )

    return MailAccess(
        box.name,
        box.section,
        lambda: box,
        ask,
        view.chat,
        view.turn,
        Looks(ViewLimits()).html,
        save,
        lambda: workspace,
        known or KnownMails(),
        Threads(),
        time.time,
        view.zone,
    )


@asynccontextmanager
async def owner(
    path: Path, servers: MailServers, user: str, answer: Answer = obedient, **more: Any
) -> AsyncIterator[Owner]:
    workspace = prepare_workspace(path, "cli", 0, 0)
    person: list[Owner] = []
    known = KnownMails()

    async def fetch(url: str, method: str, progress: object) -> Page:
        await trio.lowlevel.checkpoint()
        person[0].fetched.append(url)
        return Page(url, 200, text="fetched")

    def tools_for(view: ChatView) -> tuple[Tool, ...]:
        box = access(person[0].mailbox, view, person[0].home.services.journal.ask, workspace, known)
        return (
            *(MailSearch(box), MailRead(box), MailSave(box), MailSend(box), MailDraft(box)),
            WebFetch(fetch),
        )

    limits = limited(max_turns=20, consecutive_errors=20)
    offload = Threads()
    async with house(path, answer, tools_for=tools_for, agent=limits, offload=offload, **more) as home:
        person.append(Owner(home, servers.mailbox(user), workspace))
        yield person[0]
