"""The files of all chats on this machine: in the chat's own folder, or in a folder that it is linked to.

Other packages get the place of a chat's files from here, and use them with `rumi.sandbox.workspace`. They
never join the path of a workspace themselves.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from rumi.sandbox.folders.linked import LinkedFolders
from rumi.sandbox.folders.links import FolderFault
from rumi.sandbox.workspace import WorkspaceError, prepare_workspace
from rumi.texts import os_error


@dataclass(frozen=True, slots=True)
class ChatFiles:
    """The files of all chats. Methods block, for a short time unless a folder has to be copied.

    `workspaces` has the folders of chats with own files. `user` is the uid and gid of commands. `folders`
    knows the linked chats; without it, there are none.
    """

    workspaces: Path
    user: tuple[int, int] = (os.getuid(), os.getgid())
    folders: LinkedFolders | None = None

    def has(self, chat: str) -> bool:
        """Return True if the chat has or had files."""
        return self.is_linked(chat) or (self.workspaces / chat).exists()

    def is_linked(self, chat: str) -> bool:
        """Return True if the chat works on a folder of a person."""
        return self.folders is not None and self.folders.linked(chat) is not None

    def chats(self) -> tuple[str, ...]:
        """Return the chats that work on a folder of a person."""
        return () if self.folders is None else self.folders.chats()

    def refresh(self, chat: str) -> None:
        """Show a linked chat what has changed in its folder. None of its commands may run."""
        if self.folders is not None:
            self.folders.refresh(chat)

    def shown(self, chat: str) -> Path:
        """Return the folder that shows the chat's files as its commands see them. It may not exist yet.

        Raises:
            WorkspaceError: The folder that the chat is linked to cannot be shown.
        """
        try:
            return self.workspaces / chat if self.folders is None else self.folders.shown(chat)
        except FolderFault as error:
            raise WorkspaceError(error.message, error.advice) from error

    def ready(self, chat: str) -> Path:
        """Return the folder that shows the chat's files, and may be written; create it if it is missing.

        Raises:
            WorkspaceError: The folder cannot be created, shown or copied.
        """
        if self.folders is None or not self.is_linked(chat):
            return prepare_workspace(self.workspaces, chat, *self.user, workspaces=self.workspaces)
        try:
            return self.folders.ready(chat)
        except FolderFault as error:
            raise WorkspaceError(error.message, error.advice) from error

    def stored(self, chat: str) -> Path:
        """Return the folder that holds what the chat has written, which counts to its limits."""
        return self.workspaces / chat if self.folders is None else self.folders.stored(chat)

    def drop_changes(self, chat: str) -> None:
        """Drop what a linked chat has changed. The chat must have no container.

        Raises:
            WorkspaceError: The changes cannot be deleted.
        """
        if self.folders is not None:
            try:
                self.folders.clear(chat)
            except OSError as error:
                raise WorkspaceError(
                    "The changes cannot be dropped: {reason}.", reason=os_error(error)
                ) from error

    def forget(self, chat: str) -> None:
        """Delete the chat's link, if it has one, and what belongs to it. The chat must have no container.

        Raises:
            WorkspaceError: Something cannot be deleted.
        """
        if self.folders is not None:
            self.folders.forget(chat)

    def close(self, chat: str) -> None:
        """Remove the mount of a linked chat's files, to replace them. The chat must have no container."""
        if self.folders is not None:
            self.folders.close(chat)
