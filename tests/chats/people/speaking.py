"""People who speak in a house: an owner's configuration, and messages with their senders."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import trio

from rumi.agent.tool import ToolResult
from rumi.app.settings import people_of
from rumi.chats.people.people import People
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.cascade import load_settings
from rumi.store.journal.inbox import count_messages
from rumi.store.journal.records import Attachment, Incoming, Update
from tests.chats.house import House, reply_to
from tests.fakes.tools import Unasked

ANN, BOB, GUS, CAT, OLD = 11, 12, 13, 14, 15
"""An admin, a member, a guest, somebody with a role of the owner's own, and one of `allowed_users`."""

GROUP = "tg-100"

CONFIG = """
[telegram]
allowed_users = [13, 15]

[people.ann]
telegram = [11]
role = "admin"

[people.bob]
telegram = [12]

[people.gus]
telegram = [13]
role = "guest"

[people.cat]
telegram = [14]
role = "reader"

[roles.reader]
tools = ["web_*", "time__*", "remember"]
tokens_per_day = 5000
schedules = 1
bots = true
"""

NAMES = ("web_search", "web_fetch", "remember", "forget", "research", "schedule", "remind", "start_bot")

_numbers = count(1)


def people(folder: Path, config: str = CONFIG) -> People:
    """The people of a home with that configuration."""
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config)
    return people_of(load_settings(folder, {}, {}), BUILT_IN)


@dataclass
class Named(Unasked):
    """A tool of that name; `calls` says which were called, and for whom."""

    name: str
    calls: list[str]
    spec: ToolSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = ToolSpec(self.name, "Does something.", {"type": "object", "properties": {}})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.lowlevel.checkpoint()
        self.calls.append(self.name)
        return ToolResult(True, f"{self.name} is done")


async def obeys(request: ModelRequest, emit: Emit) -> Reply:
    """Calls each tool that the last message names (`call bash`), and answers with what came of it."""
    await trio.lowlevel.checkpoint()
    last = max(index for index, message in enumerate(request.messages) if message.role == "user")
    words = request.messages[last].content.split("\n")[-1].split()
    if words[:1] == ["fail"]:
        raise RuntimeError("a fault")
    if words[:1] != ["call"]:
        return Reply(f"you said {' '.join(words)}")
    results = [message.content for message in request.messages[last:] if message.role == "tool"]
    if len(results) < len(words) - 1:
        name = words[1 + len(results)]
        return Reply("", (ToolCall(f"c{len(results)}", name, json.dumps({"command": f"echo {name}"})),))
    return Reply(" | ".join(results))


async def say(
    home: House,
    user: int,
    text: str,
    chat: str = GROUP,
    *attachments: Attachment,
    admin: bool = False,
    model: str = "",
    author: str = "",
) -> str:
    """Send a message of a person's, as their channel does, and return its final reply."""
    said = Incoming(
        Update("telegram", next(_numbers)), chat, text, user=user, admin=admin, attachments=attachments,
        model=model, author=author,
    )  # fmt: skip
    with home.services.hub.listening(chat) as events:
        assert await home.inbox.accept_all([said]) == [True]
        number = (await home.services.journal.ask(count_messages())).last_message
        return await reply_to(events, number)
