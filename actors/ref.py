"""How actors are spoken to."""

from typing import Generic, TypeVar

import trio
from trio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

from actors.errors import AskedItself
from actors.mailbox import Mailbox
from actors.node import Node
from actors.request import HANDLED, QUEUED, Ask, Request
from actors.status import MailboxStatistics, StopReason

M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")


class ActorRef(Generic[M_contra]):
    """The address of a child's node. It stays valid across restarts, until the final stop.

    `ActorRef[Get | Put]` can be given where an `ActorRef[Get]` is needed.
    """

    __slots__ = ("__weakref__", "_mailbox", "_node", "_shutdown")

    def __init__(self, node: Node, mailbox: Mailbox, shutdown: float) -> None:
        self._node = node
        self._mailbox = mailbox
        self._shutdown = shutdown

    def __repr__(self) -> str:
        return f"<ActorRef {self.path}>"

    @property
    def id(self) -> str:
        """Return the id of the child's spec."""
        return self._node.id

    @property
    def path(self) -> str:
        """Return where in the tree it is: "root/branch/leaf"."""
        return self._node.path

    async def tell(self, message: M_contra) -> None:
        """Queue a message; waits while the mailbox is full (unless overflow="reject").

        A checkpoint. Cancelled: the message was not taken. Raises ActorStopped, and MailboxFull with
        overflow="reject"; the message was not taken then either.
        """
        await checkpoint_if_cancelled()
        mailbox = self._mailbox
        if not mailbox.closed and len(mailbox.queue) >= mailbox.capacity:
            await mailbox.wait_for_capacity(message)
        else:
            mailbox.put_nowait(message)
            await cancel_shielded_checkpoint()

    def tell_nowait(self, message: M_contra) -> None:
        """Queue a message now, or raise MailboxFull or ActorStopped. No checkpoint."""
        self._mailbox.put_nowait(message)

    @trio.lowlevel.enable_ki_protection
    async def ask(self, message: Request[R]) -> R:
        """Send a request and wait for its reply: a structured call, with no timeout of its own.

        Cancelled while queued: it is taken back and never handled. Cancelled while the actor works on it:
        that work is cancelled, and this returns only when it has ended, or after the actor's `shutdown`
        seconds; a reply that comes nevertheless is dropped. A KeyboardInterrupt leaves in the same way.

        Raises the error that the handler refused with, ActorCrashed when the actor crashes over it,
        ActorStopped when the actor stops for good before the reply, MailboxFull with overflow="reject",
        AskedItself at once when called from the actor's own handler.
        """
        node, mailbox = self._node, self._mailbox
        if node.runs_this_task():
            raise AskedItself(node.path)
        await checkpoint_if_cancelled()
        ask = Ask(message)
        if not mailbox.closed and len(mailbox.queue) >= mailbox.capacity:
            await mailbox.wait_for_capacity(ask)
        else:
            mailbox.put_nowait(ask)
        try:
            return await ask.reply()
        except BaseException:  # Cancelled and KeyboardInterrupt: an answer, also an error, has settled it
            if ask.stage is QUEUED:
                mailbox.remove(ask)
            elif ask.stage is HANDLED:
                ask.give_up()
                with trio.move_on_after(self._shutdown, shield=True):
                    await ask.ended()
            raise

    async def wait_stopped(self) -> StopReason:
        """Wait for the final stop of this node (a restart is none) and return its reason.

        Raises AskedItself at once when called from the actor's own handler.
        """
        if self._node.runs_this_task():
            raise AskedItself(self.path)
        return await self._node.wait_stopped()

    def statistics(self) -> MailboxStatistics:
        """Return the mailbox's current numbers."""
        return self._mailbox.statistics()
