"""Files that come with messages: looked at, kept as references, stopped. Real processes, real time."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.threads import Threads
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file
from rumi.sandbox.workspace import prepare_workspace
from rumi.store.journal.inbox import load_chat
from rumi.store.journal.records import Attachment
from rumi.web.readers.files.reading import ViewLimits
from rumi.web.readers.files.viewer import Viewer
from tests.chats.house import House, house, reply_to
from tests.web.readers import files
from tests.web.readers.test_reading import children, rows_without_end

USER = (1234, 1234) if os.getuid() == 0 else (os.getuid(), os.getgid())


@dataclass
class Eyes:
    """A model that says how many bytes of pictures it gets."""

    takes_pictures: bool = True
    name: str = "groq:eyes"
    requests: list[ModelRequest] = field(default_factory=list)

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        sizes = [len(picture.data) for message in request.messages for picture in message.pictures]
        return Reply(f"I see {sizes}")


@asynccontextmanager
async def seeing(path: Path, model: Any) -> AsyncIterator[House]:
    prepare_workspace(path, "cli", *USER)
    viewer = Viewer(ChatFiles(path / "workspace", USER), USER, SandboxLimits(), ViewLimits(), Threads())

    async def bring(chat: str, attachment: Attachment) -> str:
        await trio.lowlevel.checkpoint()
        return about_file(attachment.reference, attachment.media_type, 1)

    more = {"bring": bring, "seen_of": viewer.sent, "view": viewer.file, "load": viewer.load}
    async with house(path, model, model_for=lambda *about: model, sighted=("custom:vision",), **more) as home:
        yield home


async def ask(home: House, text: str, name: str) -> str:
    with home.services.hub.listening("cli") as events:
        return await reply_to(events, await home.inbox.accept("cli", text, None, (sent(name),)))


def sent(name: str) -> Attachment:
    return Attachment("file", reference=name, name=name)


async def test_the_history_has_a_reference_and_a_later_process_reads_the_bytes(tmp_path: Path) -> None:
    model = Eyes()
    async with seeing(tmp_path, model) as home:
        (tmp_path / "workspace" / "cli" / "a.png").write_bytes(files.picture(30, 20))
        await ask(home, "what", "a.png")
        await ask(home, "what", "a.png")
        record = await home.services.journal.ask(load_chat("cli", 100))
        pictures = [picture for entry in record.history for picture in entry.message.pictures]
        assert [picture.data for picture in pictures] == [b"", b""]
        assert all(entry.tainted for entry in record.history if entry.message.pictures)
    async with seeing(tmp_path, model) as home:
        again = await home.ask("and now")
    assert again.count(",") == 1
    first, *_, last = model.requests
    shown = [message for message in first.messages if message.role != "system"]
    assert [message for message in last.messages if message.role != "system"][: len(shown)] == shown


async def test_a_model_without_pictures_is_told_of_and_gets_references_only(tmp_path: Path) -> None:
    model = Eyes(takes_pictures=False)
    async with seeing(tmp_path, model) as home:
        (tmp_path / "workspace" / "cli" / "a.png").write_bytes(files.picture(30, 20))
        said = await ask(home, "what", "a.png")
    assert said == (
        "I see [0]\n\n🖼 groq:eyes does not take pictures. Use /model custom:vision and send it again."
    )


async def test_a_stop_while_a_file_is_looked_at_leaves_no_process(tmp_path: Path) -> None:
    model = Eyes()
    async with seeing(tmp_path, model) as home:
        slow = files.changed(files.sheet(("a",)), {"xl/worksheets/sheet1.xml": rows_without_end})
        (tmp_path / "workspace" / "cli" / "a.xlsx").write_bytes(slow)
        with home.services.hub.listening("cli") as events:
            number = await home.inbox.accept("cli", "what", None, (sent("a.xlsx"),))
            with trio.fail_after(20):
                while not children():  # noqa: ASYNC110  # the kernel tells nobody of a process
                    await trio.sleep(0.05)
            begun = time.monotonic()
            await home.inbox.accept("cli", "/stop")
            assert await reply_to(events, number) == "⏹ Stopped."
        assert time.monotonic() - begun < 3
        assert not children()
    assert not model.requests
