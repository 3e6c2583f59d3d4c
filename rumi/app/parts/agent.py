"""The agent part: the tools, prompts and context of chat turns, and the events about turns."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rumi.agent.mcp.servers import ForChat, McpServers
from rumi.agent.prompts.prompts import Prompts
from rumi.agent.skills.running import CodeRunner
from rumi.agent.tool import Tool
from rumi.agent.tools.make_image import MakeImage
from rumi.agent.tools.recall import facts_for
from rumi.app.parts.browser import BrowserPart, add_browser
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.models import ModelsPart
from rumi.app.parts.plugins import PluginsPart, add_plugins
from rumi.app.parts.sandbox import SandboxPart
from rumi.app.parts.services import ServicesPart, add_services
from rumi.app.parts.store import StorePart
from rumi.app.settings import mcp_settings_of, prompts_of
from rumi.app.toolbox import Toolbox
from rumi.channels.counters import Counts
from rumi.chats.context import ChatContext, ChatView
from rumi.chats.fact_extraction import FactExtraction, add_fact_extraction
from rumi.chats.hub import Hub
from rumi.chats.people.people import People
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.surroundings import Surroundings
from rumi.memory.extractor import extract
from rumi.models.metering import Account, Counted, Meter
from rumi.models.model import ModelError, Usage
from rumi.models.settings import model_settings_of, models_with_pictures
from rumi.platform.config.providers import OFFLINE
from rumi.platform.logs.audit import AuditLog
from rumi.platform.texts.folders import folder_name
from rumi.platform.threads import Threads
from rumi.tasks.kinds import TaskPlugin
from rumi.web.files_from_web import FilesFromWeb
from rumi.web.readers.files.viewer import Seen, Viewer


@dataclass(frozen=True, slots=True)
class AgentPart:
    """The context of turns, and the receivers of the turns' events.

    Every chat's prompt begins with `instructions`.
    """

    mcp: McpServers
    prompts: Prompts
    instructions: str
    context: ChatContext
    fact_extraction: FactExtraction
    hub: Hub
    pending: PendingMessages
    publisher: Publisher
    browser: BrowserPart
    services: ServicesPart
    plugins: PluginsPart


def add_agent(
    inputs: TreeInputs,
    store: StorePart,
    models: ModelsPart,
    sandbox: SandboxPart,
    *,
    audit: AuditLog,
    hub: Hub,
    counts: Counts,
) -> AgentPart:
    """Add the MCP servers and the extraction of facts."""
    home, settings, ports = inputs.home, inputs.loaded.settings, inputs.ports
    mcp = McpServers(
        inputs.root,
        home.root,
        mcp_settings_of(inputs.loaded),
        lambda **more: audit.write("mcp_server", chat_id="", **more),
    )
    viewer, threads = sandbox.viewer, Threads()
    from_web = FilesFromWeb(
        models.web,
        inputs.files,
        inputs.engine.user,
        inputs.limits,
        settings.session.file_mb,
        home.run,
        Threads(),
    )
    services = add_services(inputs, store, models.people, from_web)
    plugins = add_plugins(inputs, viewer)
    browser = add_browser(inputs, viewer, services.belongs_to)

    async def prepare(chat: str) -> Path:
        """Create a chat's folder, which otherwise its first command creates."""
        return await threads(partial(inputs.files.ready, chat))

    toolbox = Toolbox(
        web=models.web,
        files_from_web=from_web,
        ids=inputs.ids,
        journal=store.journal.ask,
        memory=store.memory,
        recall=store.recall,
        skills=models.skills,
        runner=CodeRunner(models.trusted, threads),
        workspaces=home.workspaces,
        prepare_workspace=prepare,
        model_for=models.bound.of_chat,
        tasks=ports.tasks,
        schedules=ports.schedules,
        bots=ports.bots,
        sources=(
            lambda view: inputs.channel_of(view.chat).tools_for(view.chat),
            lambda view: _image_tools(inputs, store.budgets, viewer, view),
            services.tools_for,
            browser.tools_for,
            lambda view: _mcp_tools(mcp, viewer, view, inputs.models.context_tokens, models.people),
        ),
        of_plugins=plugins.tools_for,
        kinds=inputs.loaded.plugins.of(TaskPlugin),
    )
    prompts = prompts_of(home)
    # Both policies allow the same programs, so the prompts of all chats begin alike.
    instructions = prompts.instructions(sandbox.strict.there, settings.sandbox.timeout_s)
    context = ChatContext(
        model_for=models.bound.of_chat,
        settings=settings,
        context_tokens=inputs.models.context_tokens,
        language=inputs.language,
        ids=inputs.ids,
        now=time.time,
        bring=lambda chat, attachment: inputs.channel_of(chat).bring(chat, attachment),
        seen_of=viewer.sent,
        view=viewer.file,
        can_view=viewer.can_view,
        load=viewer.load,
        show=lambda chat, paths: inputs.channel_of(chat).show(chat, paths),
        sighted=models_with_pictures(model_settings_of(inputs.loaded, inputs.language)),
        instructions=instructions,
        prompts=prompts,
        tools_for=toolbox.tools_for,
        tools_ready=mcp.ready,
        memory=store.memory,
        choose=facts_for,
        skills=models.skills,
        channel_of=lambda chat: inputs.channel_of(chat).name,
        group_of=inputs.group_of,
        surroundings=Surroundings(
            lambda chat: ports.schedules().zone_of(inputs.ids.owner_of(chat)),
            sandbox.workspaces.look,
            lambda chat: store.budgets.left(inputs.ids.owner_of(chat), chat),
            partial(_folder_of, inputs),
        ),
        thinks=inputs.models.name != OFFLINE,
        own_model=inputs.models.name,
        people=models.people,
        sender_model=models.bound.of_sender,
        aliases=settings.model.aliases,
    )
    pending = PendingMessages()
    fact_extraction = add_fact_extraction(
        inputs.root, store.journal, context, extract if settings.memory.extract else None
    )
    publisher = Publisher(
        hub, audit, pending, time.time, sandbox.sandboxes.container_id, counts.chat_happened
    )
    return AgentPart(
        *(mcp, prompts, instructions, context, fact_extraction, hub, pending, publisher, browser, services),
        plugins=plugins,
    )


def _image_tools(inputs: TreeInputs, meter: Meter, viewer: Viewer, view: ChatView) -> tuple[Tool, ...]:
    """Return the tool that makes images for a chat, if a server for images is configured."""
    server = inputs.media.images
    if server is None:
        return ()

    async def save(content: bytes, name: str) -> str:
        await view.touch_files()
        return await viewer.save_file(view.chat, content, name)

    async def count(used: Usage) -> None:
        account = Account(view.chat, inputs.ids.owner_of(view.chat))
        if used != Usage():
            hold = await meter.reserve(account, server.model, used.prompt_tokens, view.language())
            if not isinstance(hold, ModelError):
                await hold.settle(Counted(used, (MakeImage.spec.name,)))

    return (MakeImage(server, save, count),)


def _mcp_tools(
    mcp: McpServers, viewer: Viewer, view: ChatView, context_tokens: int, people: People
) -> tuple[Tool, ...]:
    """Return the MCP tools of the configured servers for a chat.

    Files that these tools return mark the chat's workspace as tainted: it contains untrusted content.
    """

    async def look(picture: bytes) -> Seen:
        await view.touch_files()
        await view.mark_files_tainted()
        return await viewer.picture(view.chat, picture)

    async def save_file(body: bytes, name: str) -> str:
        await view.touch_files()
        await view.mark_files_tainted()
        return await viewer.save_file(view.chat, body, name)

    may_accept = people.decides_for_all(view.chat, view.user())
    chat = ForChat(view.messages, look, save_file, view.tainted, may_accept)
    return mcp.tools_for(chat, context_tokens)


def _folder_of(inputs: TreeInputs, chat: str) -> str:
    """Return the path of the user's folder that a chat works on, for people; empty if it works on none."""
    folders = inputs.files.folders
    link = None if folders is None else folders.linked(chat)
    return "" if link is None else folder_name(link.path)
