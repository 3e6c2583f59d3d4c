"""A test kit for plugins: a whole Rumi in this process, with a model that says what the test tells it.

`running` starts Rumi with registrations in place of installed plugins, in a folder of its own that it
deletes. Everything is real except the model, and the sandbox, which refuses commands. The functions of
`actors.testing` that are repeated here run single actors in virtual time, and make them crash.

    async def test_weather() -> None:
        replies = [MakeCall("forecast", {"city": "Bonn"}), "Rain."]
        async with running({"weather": PLUGIN}, replies=replies) as rumi:
            assert await rumi.say("How is the weather in Bonn?") == "Rain."
            assert "rain" in rumi.results[0]
"""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from actors.testing import Tree, cancelled_at, crash, run
from rumi.agent.events import ConfirmationAsked
from rumi.agent.permissions.declare import DECLARE
from rumi.app.app import App, open_app
from rumi.channels.opening import open_channels, wanted_channels
from rumi.channels.registration import ServeFlags, Serving
from rumi.chats.events import Replied
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta, ToolCall
from rumi.models.plugin_models import ModelPlugin
from rumi.platform.config.cascade import load_settings
from rumi.platform.config.plugins import InstalledPlugin, PluginEntry, Plugins, Registration
from rumi.platform.config.schema import PluginSection
from rumi.platform.config.secrets import Secret, Secrets, plugin_key
from rumi.platform.home import Home
from rumi.sandbox.engine import Container, ContainerInfo, EngineKind, SandboxError

__all__ = ["MakeCall", "RunningRumi", "Tree", "cancelled_at", "crash", "run", "running"]

PLUGIN: Final = "plugin-under-test"
"""The name of the plugin to which the registrations belong."""

KIT: Final = "test-kit"

MODEL: Final = "plugin:testkit:script"
WAIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class MakeCall:
    """A tool call that the model makes: the tool's name, and the arguments."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class RunningRumi:
    """A running Rumi. `results` are the results of tool calls, as the model has read them, oldest first."""

    app: App
    plugins: Plugins
    results: list[str]
    questions: list[str] = field(default_factory=list)
    """The questions that turns have asked, oldest first."""

    async def say(self, text: str, chat: str = "cli", *, yes: bool = False, model: str = "") -> str:
        """Send a message as the owner of the home, and return the final reply.

        Questions of the turn are answered with yes, or with no. `model` is the model of the turn.

        Raises:
            RumiError: The model cannot be used.
            TooSlowError: There is no reply within `WAIT_S` seconds.
        """
        port = self.app.chat(chat)
        if model:
            await port.use_model(model)
        with trio.fail_after(WAIT_S), closing(port.subscribe()) as events:
            number = await port.send(text)
            while True:
                happened = (await events.receive()).what
                if isinstance(happened, ConfirmationAsked):
                    self.questions.append(happened.whole or happened.text)
                    port.shown(happened.id)
                    await port.send("yes" if yes else "no")
                elif isinstance(happened, Replied) and number in happened.messages:
                    await port.delivered(happened.delivery)
                    return happened.text

    def problems(self) -> tuple[str, ...]:
        """Return what went wrong in the plugin, as `rumi plugins` shows it."""
        return self.plugins.notes.of(PLUGIN)


@asynccontextmanager
async def running(
    registrations: Mapping[str, Registration],
    *,
    replies: Sequence[str | MakeCall] = (),
    settings: Mapping[str, object] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> AsyncIterator[RunningRumi]:
    """Run Rumi with these registrations, by the names of their entry points, until the block ends.

    The model gives the `replies` one after the other, and then repeats the user's words. `settings` and
    `secrets` are those of the plugin.
    """
    with TemporaryDirectory(prefix="rumi-") as folder:
        home = Home(Path(folder) / "home").make()
        loaded = load_settings(
            home.root, {}, {"model.default": MODEL, "memory.extract": "false", "chat.titles": "words"}
        )
        results: list[str] = []
        model = ModelPlugin(api="1.0", model=lambda name, context: _Script(replies, results))
        given = {PluginEntry(one.group, name, f"test:{name}"): one for name, one in registrations.items()}
        own = PluginEntry(model.group, "testkit", "test:model")
        keys = {plugin_key(PLUGIN, name): Secret(value) for name, value in (secrets or {}).items()}
        section = PluginSection(enabled=True, settings=dict(settings or {}))
        sections = {PLUGIN: section, KIT: PluginSection(enabled=True)}
        plugins = Plugins(sections, home.root, Secrets(keys=keys))
        plugins.use(InstalledPlugin(PLUGIN, "1.0", tuple(given)), given)
        plugins.use(InstalledPlugin(KIT, "1.0", (own,)), {own: model})
        loaded = replace(loaded, plugins=plugins, secrets=replace(loaded.secrets, keys=keys))
        serving = Serving(home, loaded, "en", lambda line: None, ServeFlags("", telegram=False), lambda: None)
        with home.lock("test"), open_channels(serving, wanted_channels(serving)) as channels:
            async with open_app(home, loaded, _NoSandbox(), channels=channels) as app:
                yield RunningRumi(app, plugins, results)
                for channel in channels:
                    await channel.stop_receiving()


class _Script:
    """A model that gives prepared replies, and then repeats the user's words."""

    name = MODEL

    def __init__(self, replies: Sequence[str | MakeCall], results: list[str]) -> None:
        self._left = list(replies)
        self._results = results

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        if [tool.name for tool in request.tools] == [DECLARE.name]:
            return Reply("Nothing.", model=self.name)  # what a message asks for; see `rumi.agent.permissions`
        tools = [message.content for message in request.messages if message.role == "tool"]
        self._results += tools[len(self._results) :]
        said = self._left.pop(0) if self._left else request.messages[-1].content
        if isinstance(said, MakeCall):
            calls = (ToolCall(f"call-{len(self._left)}", said.name, json.dumps(dict(said.arguments))),)
            return Reply("", calls, "tool_calls", model=self.name)
        emit(TextDelta(said))
        return Reply(said, model=self.name)


class _NoSandbox:
    """An engine without sandboxes."""

    kind: EngineKind = "bubblewrap"
    user = (os.getuid() or 65534, os.getgid() or 65534)
    degraded: tuple[str, ...] = ()
    missing_programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    async def create(self, chat_id: str, workspace: Path) -> Container:
        await trio.lowlevel.checkpoint()
        raise SandboxError("There is no sandbox in this test.")

    async def remove(self, chat_id: str) -> None:
        await trio.lowlevel.checkpoint()

    async def sweep(self) -> list[str]:
        await trio.lowlevel.checkpoint()
        return []

    async def containers(self) -> list[ContainerInfo]:
        await trio.lowlevel.checkpoint()
        return []

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
