"""Exceptions that the runtime raises on purpose."""
# Named after the event, without an "Error" suffix, because most of them don't report a bug.


class ActorError(Exception):
    """Base class of the runtime's errors. `path` is the path of the child's node: "root/branch/leaf"."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path


class MailboxFull(ActorError):
    """The mailbox is full and the sender does not wait. The mailbox did not accept the message."""

    def __init__(self, path: str, capacity: int) -> None:
        super().__init__(path, f"the mailbox is full ({capacity} messages)")
        self.capacity = capacity


class ActorStopped(ActorError):
    """The actor has stopped for good.

    If `tell` raises this, the mailbox never accepted the message. If `ask` raises it, the mailbox rejected
    the request, the request was still queued at the final stop, or the stop interrupted its handler.
    """

    def __init__(self, path: str, text: str = "the actor has stopped") -> None:
        super().__init__(path, text)


class ActorCrashed(ActorError):
    """The actor crashed while it handled this ask. `__cause__` is the exception that crashed it."""

    def __init__(self, path: str, cause: BaseException) -> None:
        super().__init__(path, f"the actor crashed: {type(cause).__name__}: {cause}")
        self.__cause__ = cause


class Refused(Exception):
    """An expected error, raised by a handler: `ask` raises `error` to the asker, and the actor continues.

    A refusal is not a crash. A refusal of a message sent with `tell` is dropped, because there is no asker.
    Raised anywhere else in an actor, `Refused` is a crash like any other exception.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


class RestartLimitExceeded(ActorError):
    """A supervisor would need more than `max_restarts` restarts within `within` seconds.

    `__cause__` is the last crash, if a crash caused the restart.
    """

    def __init__(self, path: str, max_restarts: int, within: float, cause: BaseException | None) -> None:
        reason = f", last {type(cause).__name__}: {cause}" if cause is not None else ""
        super().__init__(path, f"more than {max_restarts} restarts within {within:g} s{reason}")
        self.max_restarts = max_restarts
        self.within = within
        self.__cause__ = cause


class AskedItself(ActorError, RuntimeError):
    """An actor would wait for itself: its own handler or hook asked, stopped or started this actor."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the actor would wait for itself forever")


class TooManyChildren(ActorError):
    """The supervisor already has `max_children` keyed children; it did not start another one."""

    def __init__(self, path: str, max_children: int) -> None:
        super().__init__(path, f"there are {max_children} children already")
        self.max_children = max_children
