"""The supervision tree: the one place where actors are made and introduced to each other.

rumi             rest_for_one: what stands below depends on what stands above
├── journal      state.db
├── models       permits for model calls, shared between chats
├── intents      which boxes may exist
├── sandboxes    keyed: one child per chat
├── sender       replies to Telegram                (rumi telegram)
├── settler      replies in place of chats that cannot be brought back
├── chats        keyed: one child per chat
├── poller       messages from Telegram             (rumi telegram)
└── control      the control socket
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from actors import ChildSpec, Supervisor, TreeEvent
from rumi import texts
from rumi.agent import Limits as TurnLimits
from rumi.audit import AuditLog
from rumi.building import sandbox_limits
from rumi.chats import ChatLimits, Hub, Inbox, InHand, LocalChat, Means, add_chats, check_chat_id
from rumi.config import Loaded
from rumi.control import ControlServer, socket_path
from rumi.errors import ConfigError, UsageError
from rumi.home import Home
from rumi.journal import Journal, Threads
from rumi.logs import program_log
from rumi.models import CustomServer, ModelSet, ModelSettings, build_models, lacks_key
from rumi.redact import Redactor
from rumi.sandbox import Engine, add_sandboxes
from rumi.status import StatusSource, outline

if TYPE_CHECKING:
    from rumi.telegram import Telegram

logger = logging.getLogger(__name__)

JOURNAL_SHUTDOWN_S = 10.0


@dataclass(frozen=True, slots=True)
class App:
    """A running Rumi. `notes` are sentences for whoever started it."""

    home: Home
    means: Means
    inbox: Inbox
    engine: Engine
    models: ModelSet
    status: StatusSource
    notes: tuple[str, ...] = ()
    telegram: "Telegram | None" = None

    def chat(self, chat_id: str) -> LocalChat:
        """A chat as a front end sees it."""
        return LocalChat(chat_id, self.inbox, self.means)


@asynccontextmanager
async def open_app(
    home: Home, loaded: Loaded, engine: Engine, *, telegram: bool = False
) -> AsyncIterator[App]:
    """Start everything, and end everything when the block ends, the engine included.

    The caller holds the home, and has made the engine ready. With `telegram` the bot is served as well.

    Raises:
        RumiError: what cannot be started, and what to do about it.
    """
    language = texts.detect_language(loaded.settings.language, os.environ)
    notes = list(loaded.notes)
    redactor = Redactor(loaded.secrets.values())
    log = program_log(
        home.logs / "rumi.jsonl",
        max_mb=loaded.settings.log.max_mb,
        keep=loaded.settings.log.keep,
        redact=redactor,
    )
    try:
        model_settings = model_settings_of(loaded, language)
        if lacks_key(model_settings):
            notes.append(texts.no_key(language))
            model_settings = model_settings_of(loaded, language, default="offline")
        models = build_models(model_settings)
        notes.extend(f"degraded: {why}" for why in engine.degraded)
        with log:
            async with AsyncExitStack() as stack:
                room = None
                if telegram:
                    from rumi.telegram import open_telegram

                    room = await stack.enter_async_context(
                        open_telegram(home, loaded, sandbox_limits(loaded), language)
                    )
                tree = _Tree(home, loaded, models, engine, language, redactor, room)
                stack.enter_context(closing(tree.means.audit))
                await stack.enter_async_context(tree.root.running())
                yield App(home, tree.means, tree.inbox, engine, models, tree.status, tuple(notes), room)
    finally:
        with trio.move_on_after(5, shield=True):
            await engine.aclose()


def model_settings_of(
    loaded: Loaded, language: texts.Language, *, default: str | None = None
) -> ModelSettings:
    """The model's part of the configuration, its keys included."""
    given, secrets = loaded.settings.model, loaded.secrets
    custom = {}
    for name, server in given.custom.items():
        wanted = f"custom:{name}" in (default or given.default, *given.fallbacks)
        key = loaded.custom_key(name) if wanted else None
        custom[name] = CustomServer(server.base_url, server.model, key.reveal() if key else None)
    return ModelSettings(
        default=default or given.default,
        fallbacks=given.fallbacks,
        timeout_s=given.timeout_s,
        temperature=given.temperature,
        max_output_tokens=given.max_output_tokens,
        context_tokens=given.context_tokens,
        custom=custom,
        groq_api_key=secrets.groq_api_key.reveal() if secrets.groq_api_key else None,
        groq_base_url=secrets.groq_base_url,
        language=language,
    )


def require_model(loaded: Loaded) -> None:
    """A model that thinks, or one that was chosen in the knowledge that it does not.

    Raises:
        ConfigError: the configured model has no key.
    """
    if lacks_key(model_settings_of(loaded, "en")):
        raise ConfigError(
            f"{loaded.settings.model.default} needs GROQ_API_KEY.",
            'Put it into .env in RUMI_HOME, or choose in config.toml: [model] default = "offline"',
        )


class _Tree:
    """The actors and who knows whom."""

    inbox: Inbox

    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        models: ModelSet,
        engine: Engine,
        language: texts.Language,
        redactor: Redactor,
        telegram: "Telegram | None",
    ) -> None:
        settings = loaded.settings
        self.root = Supervisor("rumi", strategy="rest_for_one", observe=_log)
        offload = Threads()
        journal = self.root.add(
            ChildSpec(
                "journal",
                lambda: Journal(home.state_db, offload, time.time),
                capacity=1024,
                concurrency=Journal.CONCURRENCY,
                shutdown=JOURNAL_SHUTDOWN_S,
            )
        )
        permits = self.root.add(models.spec())
        sandboxes = add_sandboxes(self.root, engine, sandbox_limits(loaded), home.root)
        hub = Hub()
        if telegram is not None:
            telegram.add_sender(self.root, journal, hub, lambda chat: self.inbox.end(chat))
        self.means = Means(
            journal=journal,
            sandboxes=sandboxes,
            model_for=lambda chat, spoken: models.bind(chat, permits, language=spoken),
            hub=hub,
            audit=AuditLog(
                home.logs / "audit.jsonl",
                max_mb=settings.log.max_mb,
                keep=settings.log.keep,
                redact=redactor,
            ),
            in_hand=InHand(),
            limits=ChatLimits(
                turn=TurnLimits(
                    max_turns=settings.agent.max_turns,
                    repeated_call=settings.agent.repeated_call,
                    consecutive_errors=settings.agent.consecutive_errors,
                    timeout_s=settings.agent.turn_timeout_s,
                ),
                session_ttl_s=settings.session.ttl_s,
                history_messages=settings.session.history_messages,
                context_tokens=models.context_tokens,
                command_timeout_s=settings.sandbox.timeout_s,
            ),
            language=language,
            workspaces=home.workspaces,
            now=time.time,
            offload=Threads(),
            whole_status=lambda: f"```\n{outline(self.root.status())}\n```",
        )
        if telegram is not None:
            self.means = replace(self.means, tools_for=telegram.tools_for, bring=telegram.bring)
        self.inbox = add_chats(self.root, self.means)
        if telegram is not None:
            telegram.add_poller(self.root, self.inbox)
        self.status = StatusSource(
            self.root.status,
            {
                "home": str(home.root),
                "model": models.name,
                "sandbox": {"engine": engine.kind, "degraded": list(engine.degraded)},
            },
        )
        calls = {"status": self._status, "stop": self._stop, "reset": self._reset}
        path = socket_path(home.run, home.installation())
        self.root.add(ChildSpec("control", lambda: ControlServer(path, calls)))

    async def _status(self, request: Mapping[str, object]) -> object:
        await trio.lowlevel.checkpoint()
        return self.status.dump()

    async def _stop(self, request: Mapping[str, object]) -> object:
        return await self._command(request, "/stop")

    async def _reset(self, request: Mapping[str, object]) -> object:
        return await self._command(request, "/reset")

    async def _command(self, request: Mapping[str, object], text: str) -> str:
        chat = request.get("chat")
        if not isinstance(chat, str):
            raise UsageError("The request names no chat.")
        return await self.inbox.command(check_chat_id(chat), text)


def _log(event: TreeEvent) -> None:
    """What happens in the tree, for the program's log. An ordinary start or stop is not worth a line."""
    if event.error is not None:
        logger.warning(
            "%s %s (incarnation %d)", event.path, event.kind, event.incarnation, exc_info=event.error
        )
