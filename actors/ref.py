"""References to actors, through which messages are sent."""

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

    It is contravariant: an `ActorRef[Get | Put]` can be passed where an `ActorRef[Get]` is expected.
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
        """Return the node's path in the tree: "root/branch/leaf"."""
        return self._node.path

    async def tell(self, message: M_contra) -> None:
        """Queue a message; wait while the mailbox is full, unless overflow="reject". Always a checkpoint.

        If this is cancelled or raises, the mailbox did not accept the message.

        Raises:
            ActorStopped: The actor has stopped for good.
            MailboxFull: The mailbox is full, and overflow="reject".
        """
        await checkpoint_if_cancelled()
        mailbox = self._mailbox
        if not mailbox.closed and len(mailbox.queue) >= mailbox.capacity:
            await mailbox.wait_for_capacity(message)
        else:
            mailbox.put_nowait(message)
            # Shielded: a cancellation here would report an accepted message as not accepted.
            await cancel_shielded_checkpoint()

    def tell_nowait(self, message: M_contra) -> None:
        """Queue a message without waiting. Not a checkpoint.

        Raises:
            ActorStopped: The actor has stopped for good.
            MailboxFull: The mailbox is full, regardless of `overflow`.
        """
        self._mailbox.put_nowait(message)

    @trio.lowlevel.enable_ki_protection
    async def ask(self, message: Request[R]) -> R:
        """Send a request and return its reply: a structured call, without a timeout of its own.

        If cancelled while the request is queued, the request is removed and never handled. If cancelled while
        the actor handles it, the handler is cancelled, and this call ends only when the handler has ended, or
        after the actor's `shutdown` seconds; a late reply is dropped. A KeyboardInterrupt has the same
        effect.

        Raises:
            ActorCrashed: The actor crashed while it handled the request.
            ActorStopped: The actor stopped for good before it replied.
            MailboxFull: The mailbox is full, and overflow="reject".
            AskedItself: The actor's own handler or hook calls this; raised at once.
            Exception: The error with which the handler refused the request.
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
        except BaseException:  # Cancelled or KeyboardInterrupt; a reply or error has settled it
            if ask.stage is QUEUED:
                mailbox.remove(ask)
            elif ask.stage is HANDLED:
                ask.give_up()
                # Shielded, so that the handler's work does not outlive a cancelled asker's call; bounded,
                # because a handler may shield itself from cancellation.
                with trio.move_on_after(self._shutdown, shield=True):
                    await ask.ended()
            raise

    async def wait_stopped(self) -> StopReason:
        """Wait for the final stop of this node and return its reason; restarts do not end the wait.

        Raises:
            AskedItself: The actor's own handler or hook calls this; raised at once.
        """
        if self._node.runs_this_task():
            raise AskedItself(self.path)
        return await self._node.wait_stopped()

    def statistics(self) -> MailboxStatistics:
        """Return the current statistics of the mailbox."""
        return self._mailbox.statistics()
