"""The sandbox part: the sandboxes of chats and tasks, their files, and the policies for commands."""

from dataclasses import dataclass, replace

from rumi.app.engine import selection_of
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.store import StorePart
from rumi.chats.services import ChatWorkspaces
from rumi.platform.threads import Threads
from rumi.sandbox.carrying import WorkspaceCarrier
from rumi.sandbox.packing import PackLimits
from rumi.sandbox.policy import CommandPolicy
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.store.cluster.files import CarriedFiles
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.piece_store import JournalPieces
from rumi.web.readers.files.reading import ViewLimits
from rumi.web.readers.files.viewer import Viewer
from rumi.web.readers.registration import PluginReaders, ReaderPlugin

CARRIED_AT_ONCE = 4
"""Maximum number of chats whose files are packed or unpacked at the same time."""


@dataclass(frozen=True, slots=True)
class SandboxPart:
    """Sandboxes and workspaces. `strict` is the command policy for groups, `chosen` the configured one."""

    sandboxes: Sandboxes
    workspaces: ChatWorkspaces
    viewer: Viewer
    strict: CommandPolicy
    chosen: CommandPolicy


def add_sandbox(inputs: TreeInputs, store: StorePart) -> SandboxPart:
    """Add the registry of containers and the sandboxes."""
    home, limits, settings = inputs.home, inputs.limits, inputs.loaded.settings
    sandboxes = add_sandboxes(
        inputs.root, inputs.engine, limits, home.root, folder=home.workspaces, files=inputs.files
    )
    selection, engine = selection_of(inputs.loaded), inputs.engine
    # A package may have a program of its name, such as pytest, and a prompt lists packages as programs.
    strict = CommandPolicy(
        (*selection.allowed, *selection.package_names),
        (*engine.missing_programs, *selection.lacking(engine.packages)),
    )
    session = settings.session
    view_limits = ViewLimits(session.picture_px, session.picture_kb * 1000, session.pictures)
    return SandboxPart(
        sandboxes,
        _workspaces(inputs, store.journal.ask),
        Viewer(
            inputs.files,
            inputs.engine.user,
            limits,
            view_limits,
            Threads(),
            None if inputs.media.transcriber is None else inputs.media.transcriber.transcribe,
            PluginReaders(inputs.loaded.plugins.of(ReaderPlugin)),
        ),
        strict,
        replace(strict, open=settings.sandbox.policy == "open"),
    )


def _workspaces(inputs: TreeInputs, ask: AskJournal) -> ChatWorkspaces:
    """Return the workspaces of the chats.

    Workers that do not share a folder for workspaces transfer the files through the database.
    """
    home, limits, ownership = inputs.home, inputs.limits, inputs.workers.ownership
    if ownership is None or inputs.loaded.settings.store.workspaces is not None:
        return ChatWorkspaces(inputs.files, Threads())
    pack_limits = PackLimits(limits.workspace_bytes, limits.workspace_files)
    threads = Threads(CARRIED_AT_ONCE)
    carrier = WorkspaceCarrier(home.workspaces, inputs.engine.user, JournalPieces(ask), threads, pack_limits)
    return ChatWorkspaces(inputs.files, Threads(), CarriedFiles(carrier, ownership))
