"""Starts all parts of a running Rumi, and ends them."""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial

import trio

from rumi.app.disk_check import free_space_advice
from rumi.app.engine import chat_files_of, close_engine, require_files, sandbox_limits
from rumi.app.plugin_rows import plugin_rows
from rumi.app.status import StatusSource
from rumi.app.tree import ActorTree
from rumi.channels.channel import Channel, Process
from rumi.channels.control.attach_server import AttachServer
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.chats.services import ChatServices
from rumi.errors import RumiError
from rumi.models.build import ModelSet, build_models
from rumi.models.media import build_media
from rumi.models.settings import lacks_key, model_settings_of
from rumi.platform import proxies
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import read_keys
from rumi.platform.disk_reserve import Reserve, largest
from rumi.platform.home import Home
from rumi.platform.logs.logs import program_log
from rumi.platform.redact import Redactor
from rumi.platform.texts.language import detect_language
from rumi.sandbox.engine import Engine
from rumi.store.cluster.building import Cluster
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.tasks import Tasks
from rumi.texts import gettext, translate
from rumi.web.tree import fetch_bytes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class App:
    """A running Rumi. `notes` are sentences for the user who started it."""

    home: Home
    services: ChatServices
    inbox: Inbox
    engine: Engine
    models: ModelSet
    status: StatusSource
    attach_server: AttachServer
    tasks: Tasks
    schedules: Schedules
    drain: Callable[[], Awaitable[None]]
    notes: tuple[str, ...] = ()

    def chat(self, chat_id: str, *, apart: bool = False) -> LocalChat:
        """Return a chat for a front end. If `apart` is True, each turn of the chat has its own history."""
        return LocalChat(chat_id, self.inbox, self.services.hub, self.services.journal, apart=apart)


@asynccontextmanager
async def open_app(
    home: Home,
    loaded: Loaded,
    engine: Engine,
    *,
    channels: Sequence[Channel] = (),
    full: bool = False,
    service: bool = False,
    cluster: Cluster | None = None,
) -> AsyncIterator[App]:
    """Start all parts of Rumi; end them and the engine when the block ends.

    The caller has locked the home and prepared the engine. Each of the `channels` gets its connections and
    its position in the tree; the caller introduces the channel and ends it (see `rumi.app.shutdown`). `full`
    is True if the disk is full and the reserve file was deleted. `service` is True if the process runs until
    a signal ends it, even without clients. `cluster` is given if several processes share a database; the
    engine was created with the leases of this cluster.

    Raises:
        RumiError: Something cannot be started. The error says what to do.
    """
    language = detect_language(loaded.settings.language, os.environ)
    notes = list(loaded.notes)
    home = home.with_files(loaded.settings.store.workspaces)
    try:
        await require_files(home, loaded, engine.user)
        loaded = await read_keys(loaded)
        redactor = Redactor(loaded.secrets.values())
        log = program_log(
            home.logs / "rumi.jsonl",
            max_mb=loaded.settings.log.max_mb,
            backup_count=loaded.settings.log.keep,
            redact=redactor,
        )
        model_settings = model_settings_of(loaded, language)
        if lacks_key(model_settings):
            model_settings = model_settings_of(loaded, language, default="offline")
        models = build_models(model_settings)
        media = build_media(loaded, partial(fetch_bytes, loaded.settings.fetch))
        notes.extend(f"degraded: {why}" for why in engine.degraded)
        if full:
            notes.append(
                gettext(
                    language,
                    "⚠️ The disk is full. This start has used the reserve; no message is taken until "
                    "there is room.",
                )
            )
            notes.append(free_space_advice(language, Reserve(home.reserve), largest(home.root)))
        with log:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(media.aclose)
                serves = (lambda chat: True) if cluster is None else cluster.ownership.serves
                part = (lambda: 1.0) if cluster is None else cluster.ownership.part
                limits = sandbox_limits(loaded)
                files = chat_files_of(home, engine, limits, alone=cluster is None)
                if files.folders is not None:
                    await trio.to_thread.run_sync(files.folders.start)
                    stack.callback(files.folders.close_all)
                process = Process(home, loaded, language, limits, engine.user, files, serves, part, media)
                if cluster is not None:
                    stack.callback(cluster.close)
                for channel in channels:
                    await stack.enter_async_context(channel.open(process))
                ids = BUILT_IN.including(channel.prefix for channel in channels)
                if proxy_trouble := proxies.trouble():
                    notes.append(translate(language, proxy_trouble))
                    logger.warning("%s", proxy_trouble)
                tree = ActorTree(
                    home,
                    loaded,
                    models,
                    media,
                    engine,
                    language,
                    files,
                    redactor,
                    channels,
                    ids,
                    tuple(notes),
                    full=full,
                    service=service,
                    cluster=cluster,
                )
                rows = plugin_rows(loaded.plugins) if loaded.plugins.enabled else []
                notes += [
                    gettext(language, "⚠️ Plugin {name}: {problem}", name=row.name, problem=problem)
                    for row in rows
                    if row.enabled
                    for problem in row.problems
                ]
                stack.enter_context(closing(tree.audit))
                await stack.enter_async_context(_unless_deleted(home))
                await stack.enter_async_context(tree.root.running())
                yield App(
                    home,
                    tree.services,
                    tree.inbox,
                    engine,
                    models,
                    tree.status,
                    tree.attach_server,
                    tree.tasks,
                    tree.schedules,
                    tree.drain,
                    tuple(notes),
                )
    finally:
        await close_engine(engine)


@asynccontextmanager
async def _unless_deleted(home: Home) -> AsyncIterator[None]:
    """Run the block; end it if the home is deleted, because then nothing can be stored.

    Raises:
        RumiError: The home was deleted or replaced.
    """
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await home.wait_until_gone()
            raise RumiError(
                "The home {root} was deleted or replaced while Rumi ran, so this process ends.",
                "Start Rumi again. To put a backup in place: rumi data restore",
                root=home.root,
            )

        nursery.start_soon(watch)
        yield
        nursery.cancel_scope.cancel()
